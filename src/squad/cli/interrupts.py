"""Handlers of Ctrl-C and SIGTERM from the first moment on: one line and an exit code, never a traceback.

Imports nothing that takes time: an interrupt during an import before the handlers are installed prints a traceback.
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

#: Sent by a terminal (Ctrl-C), and by Docker and Slurm to stop a process.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: A second signal within this many seconds counts as the first: a wrapper passes on what the terminal has sent already.
ECHO_SECONDS = 0.3
#: A signal that arrives during an import is sent again after this many seconds.
RESEND_SECONDS = 0.05
#: File name that begins the frames of Python's import system.
IMPORT_FRAMES = "<frozen importlib._bootstrap"


def exit_code(number: int) -> int:
    """Return the exit code of a process that a signal ended, as shells have it: 130 for SIGINT, 143 for SIGTERM.

    Examples:
        >>> exit_code(signal.SIGINT)
        130
    """
    return 128 + number


class Listener:
    """Handles signals while a command runs.

    While only imports are in progress, the process exits at once: an interrupt raised inside an import may be swallowed
    there, or surface as ImportError.  Otherwise ``KeyboardInterrupt`` is raised, after any import in progress, so that
    unfinished work is cleaned up; a second Ctrl-C ends the clean-up as well.

    Args:
        process: Whether the process belongs to the command; a process of somebody else is never ended at once.

    Attributes:
        received: The first signal that arrived, or None.
        exit_at_once: Whether nothing is in progress yet that needs to be cleaned up.
        finished: Whether the command is done, so that signals no longer matter.
    """

    def __init__(self, process: bool) -> None:
        self.process = process
        self.received: int | None = None
        self.exit_at_once, self.finished = True, False
        self.received_at = 0.0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; the arguments are those of ``signal.signal`` handlers.

        Args:
            number: Number of the signal.
            frame: Stack frame that was interrupted.
        """
        if self.finished:
            return
        if self.process and not self.exit_at_once and _is_importing(frame):
            # Raised inside an import it may be swallowed, or surface as another error, but the work in progress must be
            # cleaned up.  So the signal is sent again when the import may be done.
            resend = threading.Timer(RESEND_SECONDS, os.kill, (os.getpid(), number))
            resend.daemon = True
            resend.start()
            return
        if self.received is None:
            self.received, self.received_at = number, time.monotonic()
        elif time.monotonic() - self.received_at < ECHO_SECONDS or number != signal.SIGINT:
            return  # it is ending already
        elif self.process:
            leave(self.received)
        if self.process and self.exit_at_once:
            leave(number)
        raise KeyboardInterrupt


@contextlib.contextmanager
def listening(process: bool) -> Iterator[Listener]:
    """Install handlers for signals that have Python's default handlers.

    Args:
        process: Whether the process belongs to the command and ends afterwards: then later signals are ignored, which
            would print a traceback while the interpreter shuts down.

    Yields:
        The listener; earlier handlers are restored at the end of the block.
    """
    listener = Listener(process)
    replaced: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number, default in zip(SIGNALS, (signal.default_int_handler, signal.SIG_DFL), strict=True):
            # Signals that are ignored (in the background of a shell, or under nohup) or handled by others stay so.
            if signal.getsignal(number) is default:
                replaced[number] = signal.signal(number, listener.handle)
    try:
        yield listener
    finally:
        for replaced_number, handler in replaced.items():
            signal.signal(replaced_number, signal.SIG_IGN if process else handler)


def leave(number: int) -> None:
    """End the process at once, with a line that says so.

    Args:
        number: The signal.
    """
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        show_cursor = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar hides it
        os.write(2, show_cursor + b"squad: stopped.\n")
    os._exit(exit_code(number))


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether an import is in progress."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORT_FRAMES):
            return True
        frame = frame.f_back
    return False
