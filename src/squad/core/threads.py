"""How many threads torch computes with: one for small work, as many as the user has set for the rest.

Threads of one product wait for each other.  Where other processes want the cores too, one of them waits for a time
slice while the others spin, in every product: a small network then takes many times as long with two threads as with
one.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch

__all__ = ["WORTH", "threads_for"]

#: Multiplications of a training step, or of a block of prediction, from which on more than one thread is used: ten
#: milliseconds or so of one core.  Below, a second thread gains 1.5 times at the most on an idle machine, and loses ten
#: times as much on a busy one (``benchmarks/busy_neighbour.py``).
WORTH = 1 << 27

_lock = threading.Lock()


class _State:
    """What the process has set, and how many threads of Python are within :func:`threads_for`."""

    setting = 1
    inside = 0


class _Own(threading.local):
    """The same of one thread of Python; None while it is outside."""

    setting: int | None = None


_state, _own = _State(), _Own()


@contextlib.contextmanager
def threads_for(work: float, device: torch.device) -> Iterator[None]:
    """Inside, torch uses one thread if ``work`` is small, and what the user has set otherwise, never more.

    torch's switch is one for the process and another for each thread of Python that has computed before; a thread
    takes over what is set when it first computes.  Hence each thread sets back what it found, except one that began
    while others were within: it gets what they found.

    Args:
        work: multiplications between two points at which threads wait for each other, about.
        device: where they are made; on any other than a CPU nothing is changed.
    """
    if device.type != "cpu":
        yield
        return
    with _lock:
        before, outermost = torch.get_num_threads(), _own.setting is None
        if outermost:
            if not _state.inside:
                _state.setting = before
            _own.setting = before = _state.setting
            _state.inside += 1
        assert _own.setting is not None
        count = 1 if work < WORTH else _own.setting
        torch.set_num_threads(count)
    try:
        yield
    finally:
        with _lock:
            if torch.get_num_threads() == count:  # else somebody has set it meanwhile, and means it
                torch.set_num_threads(before)
            if outermost:
                _own.setting = None
                _state.inside -= 1
