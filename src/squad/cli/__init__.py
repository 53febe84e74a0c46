"""The command ``squad``.

Exit codes: 0 it went well, 1 the reader of its output left (``| head``), 2 wrong input, 3 nothing could be certified,
130 interrupted (Ctrl-C), 143 terminated (SIGTERM).

The commands are in ``commands``, and ``running`` runs one of them.  This module imports only what must be there before
they, and torch, are imported: the handlers of Ctrl-C and SIGTERM.
"""

from collections.abc import Sequence

from squad.cli.interrupts import listening

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; wrong input is one line on stderr and exit code 2.

    Args:
        arguments: without the program's name; None is what it was called with.

    Returns:
        The exit code.
    """
    with listening(process=arguments is None) as listener:
        from squad.cli import commands, running

        running.import_torch(arguments)
        return running.run(commands.app, "squad", arguments, listener)
