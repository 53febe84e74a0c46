"""Save a run when it is interrupted by Ctrl-C or SIGTERM."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

__all__ = ["SaveOnInterrupt"]

#: Signals sent by a terminal (Ctrl-C), and by Docker and Slurm to stop a process.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Seconds within which a second signal is ignored: wrappers forward the signal that the terminal has already sent.
DUPLICATE_SECONDS = 0.3


class SaveOnInterrupt:
    """Context manager that saves a run when it is interrupted, and then lets the signal have its usual effect.

    The current computation is abandoned at once, because an epoch may take long: ``save`` must write the state after
    the last complete epoch.  A second Ctrl-C abandons the saving, too.  The previous signal handler is called
    afterwards; by default it raises ``KeyboardInterrupt`` for Ctrl-C, and ends the process for SIGTERM.

    Outside the main thread, which alone receives signals, only ``KeyboardInterrupt`` is handled; the same holds if a
    signal is ignored, or is not handled by Python.

    Args:
        save: Writes the state of the run; None if there is nothing to save, in which case nothing changes.
    """

    def __init__(self, save: Callable[[], None] | None) -> None:
        self.save = save
        self.received: int | None = None
        self.received_at = 0.0
        self.previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> "SaveOnInterrupt":
        if self.save is not None and threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    self.previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received, self.received_at = number, time.monotonic()
        elif time.monotonic() - self.received_at < DUPLICATE_SECONDS or number != signal.SIGINT:
            return  # the run is ending already
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt again if compilers or other libraries have swallowed it."""
        if self.received is not None:
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # For any exception: inside an extension module an interrupt may turn into another error.
            if self.save is not None and (self.received is not None or isinstance(error, KeyboardInterrupt)):
                self.save()
        finally:
            for number, handler in self.previous_handlers.items():
                signal.signal(number, handler)
        if self.received is not None:
            signal.raise_signal(self.received)
