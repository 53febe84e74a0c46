"""Ctrl-C at the right moment."""

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["uninterrupted"]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the end of what is inside.

    In the middle of a query it would leave pages about SQLAlchemy on the screen; and in what Python does on its own
    there, such as to collect garbage, it would be told and forgotten.
    """
    # Interrupts come to the main thread alone; and a handler that is not Python's could not be put back.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return
    came = False

    def note(*_: object) -> None:
        nonlocal came
        came = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
