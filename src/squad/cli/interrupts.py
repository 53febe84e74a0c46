"""Ctrl-C and SIGTERM, from the first moment on: one line and an exit code, never a traceback.

Imports nothing that takes time: whatever is imported before somebody listens can be interrupted with a traceback.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = ["Listener", "exit_code", "listening"]

#: What a terminal (Ctrl-C), and Docker and Slurm (when they stop something), send.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Seconds within which a second signal is taken for the first: a wrapper hands on what the terminal sent already.
ECHO = 0.3
#: Seconds after which a signal that came during an import comes again.
AGAIN = 0.05
#: Python's own import system, as its frames are called.
IMPORTING = "<frozen importlib._bootstrap"


def exit_code(number: int) -> int:
    """What a shell calls the end by a signal: 130 of SIGINT, 143 of SIGTERM."""
    return 128 + number


class Listener:
    """Hears signals while a command runs.

    Where nothing but imports is under way, the process ends at once: an interrupt that is raised inside an import may
    be swallowed there, or come out as ImportError.  Otherwise ``KeyboardInterrupt`` is raised, after an import that is
    under way, so that what was begun is cleaned up; a second Ctrl-C ends that, too.

    Args:
        process: the process is the command's own; one that is somebody else's is never ended at once.

    Attributes:
        came: the first signal that came, or None.
        at_once: nothing is under way yet, so leave without cleaning up.
        deaf: the command is done, and a signal changes nothing any more.
    """

    def __init__(self, process: bool) -> None:
        self.process = process
        self.came: int | None = None
        self.at_once, self.deaf = True, False
        self.since = 0.0

    def hear(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        if self.deaf:
            return
        if self.process and not self.at_once and _imports(frame):
            # Raised inside an import it may be swallowed, or come out as another error; what is under way must be
            # cleaned up.  So it comes again when the import may be done.
            again = threading.Timer(AGAIN, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        if self.came is None:
            self.came, self.since = number, time.monotonic()
        elif time.monotonic() - self.since < ECHO or number != signal.SIGINT:
            return  # it is ending already
        elif self.process:
            leave(self.came)
        if self.process and self.at_once:
            leave(number)
        raise KeyboardInterrupt


@contextlib.contextmanager
def listening(process: bool) -> Iterator[Listener]:
    """Listen to signals that nobody has taken care of.

    Args:
        process: it is the command's own, and ends afterwards: then a signal that comes late is not heard any more,
            instead of one that prints a traceback from within the interpreter's last moments.
    """
    listener = Listener(process)
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number, usual in zip(SIGNALS, (signal.default_int_handler, signal.SIG_DFL), strict=True):
            # What is ignored (in the background of a shell, or under nohup), or somebody else's, stays so.
            if signal.getsignal(number) is usual:
                before[number] = signal.signal(number, listener.hear)
    try:
        yield listener
    finally:
        for taken, handler in before.items():
            signal.signal(taken, signal.SIG_IGN if process else handler)


def leave(number: int) -> None:
    """End the process, with a line that says so."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        cursor = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar hides it
        os.write(2, cursor + b"squad: stopped.\n")
    os._exit(exit_code(number))


def _imports(frame: FrameType | None) -> bool:
    """Whether something is being imported."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORTING):
            return True
        frame = frame.f_back
    return False
