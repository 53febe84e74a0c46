"""How many modes a predicted distribution has."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_number
from squad.errors import ArgumentError

__all__ = ["count_modes", "mode_shares"]

#: A mode stands out by so much probability.
PROMINENCE = 0.05
#: Distributions that are looked at together: what is made of them stays in a core's cache.
BLOCK = 4096


def count_modes(probs: ArrayLike, prominence: float = PROMINENCE) -> NDArray[np.int64]:
    """The number of modes of each distribution: (..., C) -> (...,).

    A mode is a maximum that rises above the valley towards any higher one by ``prominence`` at least (its topographic
    prominence), so that ripples do not count.  The highest always counts, so there is one at least.  Of equal maxima
    the first is taken as the higher one: a plateau counts once, and two equal peaks count twice only if the valley
    between them is deep enough.

    Args:
        probs: the bins last, in the order of their values.
        prominence: in probability, above 0.
    """
    check_number("prominence", prominence, 0.0, exclude=0.0)
    given = np.asarray(probs, dtype=np.float64)
    if given.ndim == 0 or given.shape[-1] == 0 or not np.isfinite(given).all():
        raise ArgumentError.of("probs", f"shape {given.shape}", "finite and of shape (..., C) with at least one bin")
    rows = given.reshape(-1, given.shape[-1])
    counts = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), BLOCK):
        # Bins first: each step below is then along memory.
        block = np.ascontiguousarray(rows[start : start + BLOCK].T)
        counts[start : start + BLOCK] = (block - _valleys(block) >= prominence).sum(axis=0)
    return counts.reshape(given.shape[:-1])


def _valleys(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every bin the lowest point on the way to a higher one, (C, rows): the way that stays highest.

    It is -inf for the highest bin, and the bin's own height for one that has a higher neighbour.
    """
    valley = np.full_like(p, -np.inf)
    for earlier in (True, False):
        lowest = p.copy()  # on the way from each bin to the one at this distance; it only falls
        for distance in range(1, len(p)):
            here, there = (slice(distance, None), slice(None, -distance))[:: 1 if earlier else -1]
            np.minimum(lowest[here], p[there], out=lowest[here])
            higher = p[there] >= p[here] if earlier else p[there] > p[here]
            np.maximum(valley[here], lowest[here], out=valley[here], where=higher)
    return valley


def mode_shares(probs: ArrayLike, prominence: float = PROMINENCE) -> NDArray[np.float64]:
    """The share of distributions (..., C) with 1, 2, 3, ... modes: as many numbers as the most modes one has."""
    counts = count_modes(probs, prominence).reshape(-1)
    if not len(counts):
        raise ArgumentError.of("probs", "none", "at least one distribution")
    shares: NDArray[np.float64] = np.bincount(counts)[1:] / len(counts)
    return shares
