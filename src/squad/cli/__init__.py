"""The command ``squad``.

Exit codes: 0 it went well, 1 the reader of its output left (``| head``), 2 wrong input, 3 nothing could be certified,
130 interrupted, 143 terminated (SIGTERM).
"""

import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import squad
from squad.cli import (
    certify,
    data,
    demo,
    fit,
    info,
    inspect,
    keeping,
    predict,
    report,
    reproduce,
    search,
    search_show,
    sign,
)
from squad.cli.layout import STYLE, Command, Group
from squad.cli.screen import StoppedError, complain, show_warning
from squad.errors import SquadError, SquadWarning

__all__ = ["app", "main"]

#: What a wrong command line raises.  The class is click's, of which newer versions of typer carry a copy of their own.
UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(cls=Group, **STYLE)
COMMANDS = (
    demo.demo,
    data.split,
    search.search,
    fit.fit,
    predict.evaluate,
    certify.plan,
    keeping.recalibrate,
    certify.certify,
    predict.predict,
    report.report,
    inspect.inspect,
    info.info,
    keeping.strip,
    sign.keygen,
    sign.sign,
    sign.verify,
    reproduce.reproduce,
)
for command in COMMANDS:
    app.command(cls=Command)(command)
    if command is search.search:
        app.command("search show", cls=Command)(search_show.show)
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    """Classifiers that know when not to answer (SQUAD, for PyTorch).

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
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; wrong input is one line on stderr and exit code 2.

    Args:
        arguments: without the program's name; None is what it was called with.

    Returns:
        The exit code.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", SquadWarning)
            warnings.showwarning = show_warning
            code = app(args=arguments, prog_name="squad", standalone_mode=False)
    except UsageError as error:
        where = error.ctx.command_path if error.ctx else "squad"
        text = error.format_message()
        return complain(f"{text}{'' if text.endswith(('.', '?')) else '.'} See {where} --help.", 2)
    except StoppedError as error:
        return complain(str(error), error.code)
    except SquadError as error:
        return complain(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except (MemoryError, OSError, RuntimeError) as error:
        return complain(_outside(error), 2)
    return complain("stopped.", 130) if code == 130 else int(code or 0)


def _outside(error: Exception) -> str:
    """What went wrong around the command: a full disk, too little memory.  Anything else is a bug, and raised."""
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'} cannot be used: {error.strerror or error}."
    text = str(error)
    if isinstance(error, MemoryError) or "alloc" in text or "out of memory" in text:
        return "There is not enough memory for this. Take smaller layers, fewer members or less data."
    raise error
