"""The command ``squad``.

Exit codes: 0 success, 1 the reader of its output closed the pipe (``| head``), 2 wrong input, 3 nothing could be
certified, 130 interrupted (Ctrl-C), 143 terminated (SIGTERM).

``commands`` lists the commands, and ``running`` runs one of them.  This module imports only what is needed before they
and torch are imported: the handlers of Ctrl-C and SIGTERM.
"""

from collections.abc import Sequence

from squad.cli.interrupts import listening

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; wrong input prints one line on stderr and returns exit code 2.

    Args:
        arguments: Command line without the program's name; None: ``sys.argv[1:]``.

    Returns:
        The exit code.
    """
    with listening(process=arguments is None) as listener:
        from squad.cli import commands, running

        running.import_torch(arguments)
        return running.run(commands.app, "squad", arguments, listener)
