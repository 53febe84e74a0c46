"""Limit torch's CPU threads: one thread for small workloads, the user's setting for large ones.

The threads of a matrix product wait for each other.  If other processes compete for the cores, one thread waits for a
time slice while the others spin, in every product: a small network then takes many times as long with two threads as
with one.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch

__all__ = ["MIN_PARALLEL_WORK", "limit_threads"]

#: Smallest number of multiplications, per training step or block of predictions, for which several threads are used:
#: about ten milliseconds on one core.  Below it, a second thread is at most 1.5 times faster on an idle machine and ten
#: times slower on a busy one (``benchmarks/busy_neighbour.py``).
MIN_PARALLEL_WORK = 1 << 27

_lock = threading.Lock()


class _Process:
    """The user's number of torch threads, and the number of Python threads inside :func:`limit_threads`."""

    user_setting = 1
    active = 0


class _PythonThread(threading.local):
    """The user's number of torch threads as seen by one Python thread; None outside :func:`limit_threads`."""

    user_setting: int | None = None


_process, _thread = _Process(), _PythonThread()


@contextlib.contextmanager
def limit_threads(work: float, device: torch.device) -> Iterator[None]:
    """Let torch use one thread inside the block if ``work`` is small, and the user's setting otherwise.

    torch has one setting for the process and another for each Python thread that has computed before; a thread adopts
    the current setting when it first computes.  Hence each thread restores the setting it found, except a thread that
    entered while others were inside: it restores the setting that those found.

    Args:
        work: Approximate number of multiplications between two synchronization points of torch's threads.
        device: Device that computes; on any device except a CPU nothing is changed.
    """
    if device.type != "cpu":
        yield
        return
    with _lock:
        before, outermost = torch.get_num_threads(), _thread.user_setting is None
        if outermost:
            if not _process.active:
                _process.user_setting = before
            _thread.user_setting = before = _process.user_setting
            _process.active += 1
        assert _thread.user_setting is not None
        count = 1 if work < MIN_PARALLEL_WORK else _thread.user_setting
        torch.set_num_threads(count)
    try:
        yield
    finally:
        with _lock:
            if torch.get_num_threads() == count:  # otherwise the block has changed it deliberately
                torch.set_num_threads(before)
            if outermost:
                _thread.user_setting = None
                _process.active -= 1
