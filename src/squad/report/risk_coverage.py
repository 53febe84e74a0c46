"""Risk against coverage: what would have happened at every threshold, in bounded size."""

import numpy as np
from numpy.typing import NDArray

from squad.selective.scored_cases import WRONG, Ranked, Scores, rank

__all__ = ["best", "expected_risk", "ranks", "steps", "thinned"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def steps(confidence: Floats, wrong: Bools) -> Ranked:
    """What each threshold accepts, the strictest first; equal confidences go together."""
    return rank(Scores(confidence, {WRONG: wrong}))


def best(found: Ranked, risk: float) -> int | None:
    """The step that accepts most with an observed share of errors of at most ``risk``."""
    good = np.flatnonzero(found.errors[WRONG] <= risk * found.n + 1e-9)
    return int(good[-1]) if len(good) else None


def ranks(count: int, points: int) -> NDArray[np.int64]:
    """At most ``points`` ranks from 1 to ``count``, half of them evenly apart, the others so on a log scale."""
    half = points // 2
    return np.unique(
        np.concatenate([np.geomspace(1, count, half), np.linspace(1, count, half)]).round().astype(np.int64)
    )


def thinned(found: Ranked, points: int) -> NDArray[np.int64]:
    """Which steps to draw: the first at or after each of :func:`ranks`, the last among them."""
    return np.unique(np.searchsorted(found.n, ranks(found.m, points)))


def expected_risk(confidence: Floats, wrong: Bools, at: NDArray[np.int64]) -> Floats:
    """The error rate among the first n, n of ``at``; equals are taken in random order, and the mean is returned."""
    _, place, sizes = np.unique(-confidence, return_inverse=True, return_counts=True)
    share = np.bincount(place, weights=wrong, minlength=len(sizes)) / sizes
    return np.asarray(np.cumsum(np.repeat(share, sizes))[at - 1] / at)
