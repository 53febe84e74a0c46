"""Run an application of commands; every error becomes one line on stderr and an exit code."""

import io
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from squad.cli.interrupts import Listener, exit_code
from squad.cli.terminal import StoppedError, print_error, show_warning
from squad.errors import SquadError, SquadWarning

__all__ = ["import_torch", "run"]

#: Raised for a wrong command line.  The class is click's; newer versions of typer have a copy of it.
UsageError: Any = typer.BadParameter.__base__


def import_torch(arguments: Sequence[str] | None = None) -> None:
    """Import torch, which takes seconds, unless only help is needed; meanwhile Ctrl-C ends the process at once.

    Args:
        arguments: Command line without the program's name; None: ``sys.argv[1:]``.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if given and not {"-h", "--help", "--version"} & set(given):
        import torch  # noqa: F401  # pandas and the like are imported where they are used


def run(app: typer.Typer, name: str, arguments: Sequence[str] | None, listener: Listener) -> int:
    """Run a command, and say in one line what went wrong.

    Args:
        app: The application.
        name: Name of the program, as the user types it.
        arguments: Command line without that name; None: ``sys.argv[1:]``.
        listener: Handler of signals; from now on it raises KeyboardInterrupt.

    Returns:
        The exit code.
    """
    if listener.process and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a character that the terminal lacks must not be an error
    try:
        listener.exit_at_once = False
        with warnings.catch_warnings():
            warnings.simplefilter("always", SquadWarning)
            warnings.showwarning = show_warning
            code = app(args=arguments, prog_name=name, standalone_mode=False)
        listener.finished = True
    except BaseException as error:
        listener.finished = True
        return _report(error, listener.received, name)
    return print_error("stopped.", exit_code(listener.received or signal.SIGINT)) if code == 130 else int(code or 0)


def _report(error: BaseException, received: int | None, name: str) -> int:
    """Print what ended the command; returns the exit code.

    Args:
        error: The exception.
        received: The signal that arrived before, if any.
        name: Name of the program, as the user types it.
    """
    if isinstance(error, StoppedError):
        return print_error(str(error), error.code if received is None else exit_code(received))
    # An interrupt inside an extension module may surface as another error.
    if received is not None or isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return print_error("stopped.", exit_code(received or signal.SIGINT))
    if isinstance(error, UsageError):
        command = error.ctx.command_path if error.ctx else name
        text = error.format_message()
        text = re.sub(r"^Invalid value for '(.+?)': Input should be a valid integer.*", r"\1 must be an integer.", text)
        text = re.sub(r"^Invalid value for '(.+?)': Input should be a valid number.*", r"\1 must be a number.", text)
        return print_error(f"{text}{'' if text.endswith(('.', '?')) else '.'} See {command} --help.", 2)
    if isinstance(error, SquadError):
        return print_error(str(error), 2)
    if isinstance(error, (MemoryError, OSError, RuntimeError)):
        return print_error(_system_problem(error), 2)
    raise error


def _system_problem(error: Exception) -> str:
    """Return a sentence for a full disk, too little memory and the like; anything else is a bug, and raised."""
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'} cannot be used: {error.strerror or error}."
    text = str(error)
    if isinstance(error, MemoryError) or any(word in text for word in ("alloc", "out of memory", "overflow")):
        return "There is not enough memory for this. Use smaller layers, fewer members or less data."
    raise error
