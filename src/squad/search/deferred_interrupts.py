"""Ctrl-C and SIGTERM at the right moment."""

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["pending", "uninterrupted"]

#: How many signals wait for the end of an uninterrupted block.
_waiting = 0


def pending() -> bool:
    """Whether somebody wants this process to stop, and waits for the end of an uninterrupted block."""
    return _waiting > 0


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C, and SIGTERM where it is handled, wait until the end of what is inside.

    In the middle of a query it would leave pages about SQLAlchemy on the screen; and in what Python does on its own
    there, such as to collect garbage, it would be told and forgotten.
    """
    # Signals come to the main thread alone; and a handler that is not Python's could not be put back.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: object) -> None:
        global _waiting
        came.append(number)
        _waiting += 1

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    held = [number for number, handler in before.items() if handler is not None and handler != signal.SIG_IGN]
    if before[signal.SIGTERM] == signal.SIG_DFL:  # which ends the process, whatever it is doing
        held = [number for number in held if number != signal.SIGTERM]
    for number in held:
        signal.signal(number, note)
    try:
        yield
    finally:
        _restore({number: before[number] for number in held}, came)


def _restore(handlers: "dict[signal.Signals, object]", came: list[int]) -> None:
    """Put handlers back, and let those signals come that waited; the first of them is what is raised."""
    global _waiting
    for own, handler in handlers.items():
        signal.signal(own, handler)  # type: ignore[arg-type]  # what getsignal gave
    _waiting -= len(came)
    for number in dict.fromkeys(came):
        signal.raise_signal(number)
