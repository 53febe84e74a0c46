"""Clean shutdown on SIGTERM, which Docker, Slurm, systemd and Kubernetes send to stop a process."""

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["TERMINATED", "Terminated", "terminating"]

#: Exit code of a process ended by SIGTERM, by the shells' convention (128 + signal number).
TERMINATED = 128 + signal.SIGTERM


class Terminated(SystemExit):
    """Raised on SIGTERM; if not caught, cleanup handlers run and the process exits with code 143."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


@contextlib.contextmanager
def terminating() -> Iterator[None]:
    """Raise :class:`Terminated` in the main thread if SIGTERM arrives during the ``with`` block.

    Does nothing if the program already handles or ignores SIGTERM, or outside the main thread, where Python does not
    allow setting signal handlers.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def raise_terminated(*_: object) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
