"""Ctrl-C and SIGTERM while a run can still be saved."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Saving"]

#: What a terminal (Ctrl-C), and Docker and Slurm (when they stop something), send.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Seconds within which a second signal is taken for the first: a wrapper hands on what the terminal sent already.
ECHO = 0.3


class Saving:
    """Save a run when it is interrupted, and only then let the signal do what it does.

    Whatever is being computed is given up at once, since an epoch may take long: ``save`` must write where the run last
    stood still.  A second Ctrl-C gives up the saving, too.  Whoever listened to the signal before is told of it
    afterwards; by default that is ``KeyboardInterrupt`` for Ctrl-C, and the end of the process for SIGTERM.

    Outside the main thread, which alone hears signals, only ``KeyboardInterrupt`` is taken care of; and so it is where
    a signal is ignored, or is not Python's to handle.

    Args:
        save: writes where the run stands; None: there is nothing to save, and nothing changes.
    """

    def __init__(self, save: Callable[[], None] | None) -> None:
        self.save = save
        self.came: int | None = None
        self.since = 0.0
        self.before: dict[int, Any] = {}

    def __enter__(self) -> "Saving":
        if self.save is not None and threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self.before[number] = signal.signal(number, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.came is None:
            self.came, self.since = number, time.monotonic()
        elif time.monotonic() - self.since < ECHO or number != signal.SIGINT:
            return  # it is ending already
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise what was swallowed: compilers and libraries in between may catch more than is theirs."""
        if self.came is not None:
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # Whatever it came out as: inside of an extension an interrupt may turn into another error.
            if self.save is not None and (self.came is not None or isinstance(error, KeyboardInterrupt)):
                self.save()
        finally:
            for number, handler in self.before.items():
                signal.signal(number, handler)
        if self.came is not None:
            signal.raise_signal(self.came)
