"""The commands of ``squad``: a table from which each command is imported when it is needed."""

from typing import Annotated

import typer

import squad
from squad.cli.help_layout import STYLE, LazyGroup

__all__ = ["COMMANDS", "app"]

#: Heading in ``squad --help`` -> command -> its module and function, or its module and Typer application.
COMMANDS = {
    "Start here": {"demo": "squad.cli.demo:demo"},
    "Data": {"split": "squad.cli.data:split", "data": "squad.cli.data:app"},
    "Train": {
        "fit": "squad.cli.fit:fit",
        "search": "squad.cli.search:search",
        "search show": "squad.cli.search_show:show",
        "evaluate": "squad.cli.evaluate:evaluate",
    },
    "Certify": {
        "plan": "squad.cli.plan:plan",
        "recalibrate": "squad.cli.recalibrate:recalibrate",
        "certify": "squad.cli.certify:certify",
    },
    "Predict and explain": {
        "predict": "squad.cli.predict:predict",
        "report": "squad.cli.report:report",
        "inspect": "squad.cli.inspect:inspect",
        "info": "squad.cli.info:info",
    },
    "Share": {
        "strip": "squad.cli.strip:strip",
        "keygen": "squad.cli.sign:keygen",
        "sign": "squad.cli.sign:sign",
        "verify": "squad.cli.sign:verify",
    },
}


class Commands(LazyGroup):
    """The commands of the table."""

    sections = COMMANDS


app = typer.Typer(cls=Commands, **STYLE)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """Classifiers that know when to abstain (SQUAD, for PyTorch).

    \b
    First steps:
      squad demo
      squad split data.csv --target y
      squad fit train.csv --target y --out model
      squad certify model calibration.csv --risk .02
      squad predict model new.csv --out answers.csv
      squad report model test.csv --out report.html
    """
    if version:
        typer.echo(f"squad-torch {squad.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
