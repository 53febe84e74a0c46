"""Number of modes of predicted distributions."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_number
from squad.errors import ArgumentError

__all__ = ["count_modes", "mode_shares"]

#: Default prominence of a mode, in probability.
PROMINENCE = 0.05
#: Number of distributions processed at once, so that temporary arrays fit into the cache of a core.
BLOCK = 4096


def count_modes(probs: ArrayLike, prominence: float = PROMINENCE) -> NDArray[np.int64]:
    """Count the modes of each distribution.

    A mode is a maximum that rises above the valley towards any higher maximum by at least ``prominence`` (its
    topographic prominence), so that ripples do not count.  The highest maximum always counts, so there is at least one
    mode.  Of equal maxima, the first is treated as the higher one: a plateau counts once, and two equal peaks count
    twice only if the valley between them is deep enough.

    Args:
        probs: (..., C), probabilities of the bins in the order of their values.
        prominence: Minimum prominence of a mode, in probability, above 0.

    Returns:
        (...,), number of modes.

    Examples:
        >>> count_modes([[0.5, 0.0, 0.5], [0.34, 0.32, 0.34]])
        array([2, 1])
    """
    check_number("prominence", prominence, 0.0, exclude=0.0)
    array = np.asarray(probs, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] == 0 or not np.isfinite(array).all():
        raise ArgumentError.of("probs", f"shape {array.shape}", "finite and of shape (..., C) with at least one bin")
    rows = array.reshape(-1, array.shape[-1])
    counts = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), BLOCK):
        # Bins first, so that each step below accesses contiguous memory.
        block = np.ascontiguousarray(rows[start : start + BLOCK].T)
        counts[start : start + BLOCK] = (block - _valleys(block) >= prominence).sum(axis=0)
    return counts.reshape(array.shape[:-1])


def _valleys(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each bin, the lowest point on the path to a higher bin, along the path that stays highest.

    It is -inf for the highest bin, and the bin's own height for a bin with a higher neighbour.

    Args:
        p: (C, rows), probabilities.

    Returns:
        (C, rows), heights of the valleys.
    """
    valley = np.full_like(p, -np.inf)
    for earlier in (True, False):
        lowest = p.copy()  # minimum between each bin and the one at this distance
        for distance in range(1, len(p)):
            here, there = (slice(distance, None), slice(None, -distance))[:: 1 if earlier else -1]
            np.minimum(lowest[here], p[there], out=lowest[here])
            higher = p[there] >= p[here] if earlier else p[there] > p[here]
            np.maximum(valley[here], lowest[here], out=valley[here], where=higher)
    return valley


def mode_shares(probs: ArrayLike, prominence: float = PROMINENCE) -> NDArray[np.float64]:
    """Compute the fraction of distributions with 1, 2, 3, ... modes.

    Args:
        probs: (..., C), probabilities of the bins in the order of their values.
        prominence: Minimum prominence of a mode, in probability, above 0.

    Returns:
        (M,), fractions, where M is the largest number of modes.

    Examples:
        >>> mode_shares([[0.5, 0.0, 0.5], [0.34, 0.32, 0.34]])
        array([0.5, 0.5])
    """
    counts = count_modes(probs, prominence).reshape(-1)
    if not len(counts):
        raise ArgumentError.of("probs", "none", "at least one distribution")
    shares: NDArray[np.float64] = np.bincount(counts)[1:] / len(counts)
    return shares
