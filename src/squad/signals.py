"""SIGTERM as a clean stop: how Docker, Slurm, systemd and Kubernetes ask a process to end."""

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["TERMINATED", "Terminated", "terminating"]

#: The exit code of a process that was ended by SIGTERM, by the convention of shells.
TERMINATED = 128 + signal.SIGTERM


class Terminated(SystemExit):
    """SIGTERM came: if nobody catches it, the process ends with exit code 143, and everything is cleaned up."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


@contextlib.contextmanager
def terminating() -> Iterator[None]:
    """Let SIGTERM raise :class:`Terminated` in the main thread, for the while.

    A program that handles SIGTERM itself, or ignores it, is left alone, and so are other threads: they can set no
    handlers.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def stop(*_: object) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
