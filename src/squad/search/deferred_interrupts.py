"""Defer Ctrl-C and SIGTERM until a block of code has finished."""

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["pending", "uninterrupted"]

#: Number of signals that are deferred until the end of an uninterrupted block.
_deferred_count = 0


def pending() -> bool:
    """Return whether a signal to stop this process is being deferred by :func:`uninterrupted`."""
    return _deferred_count > 0


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C, and SIGTERM if it has a handler, until the end of the block.

    An interrupt in the middle of a query would print pages of SQLAlchemy's traceback; one inside a callback of Python
    itself, such as garbage collection, would be printed and then lost.
    """
    # Only the main thread receives signals, and a handler that was not installed from Python cannot be restored.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def defer(number: int, _frame: object) -> None:
        global _deferred_count
        received.append(number)
        _deferred_count += 1

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    replaced = [number for number, handler in before.items() if handler is not None and handler != signal.SIG_IGN]
    if before[signal.SIGTERM] == signal.SIG_DFL:  # the default ends the process at once: keep that
        replaced = [number for number in replaced if number != signal.SIGTERM]
    for number in replaced:
        signal.signal(number, defer)
    try:
        yield
    finally:
        _restore({number: before[number] for number in replaced}, received)


def _restore(handlers: "dict[signal.Signals, object]", received: list[int]) -> None:
    """Restore handlers and raise each deferred signal once; the first one that raises an exception wins."""
    global _deferred_count
    for own, handler in handlers.items():
        signal.signal(own, handler)  # type: ignore[arg-type]  # a value of getsignal
    _deferred_count -= len(received)
    for number in dict.fromkeys(received):
        signal.raise_signal(number)
