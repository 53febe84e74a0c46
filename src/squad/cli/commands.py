"""The commands of ``squad``, and what is said when one of them fails."""

import io
import signal
import sys
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
    plan,
    predict,
    report,
    reproduce,
    search,
    search_show,
    sign,
)
from squad.cli.interrupts import Listener, exit_code
from squad.cli.layout import STYLE, Command, Group
from squad.cli.screen import StoppedError, complain, show_warning
from squad.errors import SquadError, SquadWarning

__all__ = ["app", "load", "run"]

#: What a wrong command line raises.  The class is click's, of which newer versions of typer carry a copy of their own.
UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(cls=Group, **STYLE)
COMMANDS = (
    demo.demo,
    data.split,
    search.search,
    fit.fit,
    predict.evaluate,
    plan.plan,
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
      squad split data.csv --target y --recalibration .1
      squad fit train.csv --target y --out model
      squad recalibrate model recalibration.csv
      squad certify model calibration.csv --risk .02
      squad predict model new.csv --out answers.csv
      squad report model test.csv --out report.html
    """
    if version:
        typer.echo(f"squad-torch {squad.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def load(arguments: Sequence[str] | None = None) -> None:
    """Import what takes seconds, unless only help is asked for; meanwhile Ctrl-C ends the process at once."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and not {"-h", "--help", "--version"} & set(given):
        import torch  # noqa: F401  # pandas and the like are imported where they are used


def run(arguments: Sequence[str] | None, listener: Listener) -> int:
    """Run the command, and say in one line what went wrong.

    Args:
        arguments: without the program's name; None is what it was called with.
        listener: to signals; from now on it raises KeyboardInterrupt.

    Returns:
        The exit code.
    """
    if listener.process and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is no reason to fail
    try:
        listener.at_once = False
        with warnings.catch_warnings():
            warnings.simplefilter("always", SquadWarning)
            warnings.showwarning = show_warning
            code = app(args=arguments, prog_name="squad", standalone_mode=False)
        listener.deaf = True  # it is done
    except BaseException as error:
        listener.deaf = True
        return _told(error, listener.came)
    return complain("stopped.", exit_code(listener.came or signal.SIGINT)) if code == 130 else int(code or 0)


def _told(error: BaseException, came: int | None) -> int:
    """Say what ended the command; returns the exit code.  ``came``: the signal that came before, if one did."""
    if isinstance(error, StoppedError):
        return complain(str(error), error.code if came is None else exit_code(came))
    # An interrupt inside of an extension may come out as another error.
    if came is not None or isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return complain("stopped.", exit_code(came or signal.SIGINT))
    if isinstance(error, UsageError):
        where = error.ctx.command_path if error.ctx else "squad"
        text = error.format_message()
        return complain(f"{text}{'' if text.endswith(('.', '?')) else '.'} See {where} --help.", 2)
    if isinstance(error, SquadError):
        return complain(str(error), 2)
    if isinstance(error, (MemoryError, OSError, RuntimeError)):
        return complain(_outside(error), 2)
    raise error


def _outside(error: Exception) -> str:
    """What went wrong around the command: a full disk, too little memory.  Anything else is a bug, and raised."""
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'} cannot be used: {error.strerror or error}."
    text = str(error)
    if isinstance(error, MemoryError) or any(word in text for word in ("alloc", "out of memory", "overflow")):
        return "There is not enough memory for this. Take smaller layers, fewer members or less data."
    raise error
