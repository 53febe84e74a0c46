"""Run an application of commands: one line on stderr and an exit code for whatever goes wrong."""

import io
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from squad.cli.interrupts import Listener, exit_code
from squad.cli.terminal import StoppedError, complain, show_warning
from squad.errors import SquadError, SquadWarning

__all__ = ["import_torch", "run"]

#: What a wrong command line raises.  The class is click's, of which newer versions of typer carry a copy of their own.
UsageError: Any = typer.BadParameter.__base__


def import_torch(arguments: Sequence[str] | None = None) -> None:
    """Import torch, which takes seconds, unless only help is wanted; meanwhile Ctrl-C ends the process at once."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and not {"-h", "--help", "--version"} & set(given):
        import torch  # noqa: F401  # pandas and the like are imported where they are used


def run(app: typer.Typer, name: str, arguments: Sequence[str] | None, listener: Listener) -> int:
    """Run a command, and say in one line what went wrong.

    Args:
        app: the application.
        name: what the user types to call it.
        arguments: without that name; None is what the process was called with.
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
            code = app(args=arguments, prog_name=name, standalone_mode=False)
        listener.deaf = True  # it is done
    except BaseException as error:
        listener.deaf = True
        return _report(error, listener.came, name)
    return complain("stopped.", exit_code(listener.came or signal.SIGINT)) if code == 130 else int(code or 0)


def _report(error: BaseException, came: int | None, name: str) -> int:
    """Say what ended the command; returns the exit code.

    Args:
        error: what was raised.
        came: the signal that came before, if one did.
        name: what the user types to call the application.
    """
    if isinstance(error, StoppedError):
        return complain(str(error), error.code if came is None else exit_code(came))
    # An interrupt inside of an extension may come out as another error.
    if came is not None or isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return complain("stopped.", exit_code(came or signal.SIGINT))
    if isinstance(error, UsageError):
        where = error.ctx.command_path if error.ctx else name
        text = error.format_message()
        return complain(f"{text}{'' if text.endswith(('.', '?')) else '.'} See {where} --help.", 2)
    if isinstance(error, SquadError):
        return complain(str(error), 2)
    if isinstance(error, (MemoryError, OSError, RuntimeError)):
        return complain(_environment(error), 2)
    raise error


def _environment(error: Exception) -> str:
    """What went wrong around the command: a full disk, too little memory.  Anything else is a bug, and raised."""
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'} cannot be used: {error.strerror or error}."
    text = str(error)
    if isinstance(error, MemoryError) or any(word in text for word in ("alloc", "out of memory", "overflow")):
        return "There is not enough memory for this. Take smaller layers, fewer members or less data."
    raise error
