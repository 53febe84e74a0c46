"""The command ``squad``."""

from typing import Annotated

import typer

import squad
from squad.cli import data
from squad.cli.demo import demo
from squad.cli.fit import fit
from squad.cli.info import info
from squad.cli.predict import evaluate, predict
from squad.errors import SquadError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Classifiers that know when not to answer: quantized latent variables (SQUAD) for PyTorch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, fit, predict, evaluate, info, data.split):
    app.command()(command)
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    """Classifiers that know when not to answer: quantized latent variables (SQUAD) for PyTorch."""
    if version:
        typer.echo(f"squad-torch {squad.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; wrong input is one line on stderr and exit code 2."""
    try:
        app()
    except SquadError as error:
        typer.echo(f"squad: {error}", err=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        typer.echo("squad: stopped", err=True)
        raise SystemExit(130) from None
