"""Points of risk–coverage curves: selective risk and coverage at every threshold, thinned to a bounded size."""

import numpy as np
from numpy.typing import NDArray

from squad.selective.scored_cases import WRONG, Ranked, Scores, rank

__all__ = ["curve_ranks", "expected_risk", "largest_coverage", "rank_cases", "thin"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def rank_cases(confidence: Floats, wrong: Bools) -> Ranked:
    """Return what each threshold accepts, strictest first; cases of equal confidence are accepted together.

    Args:
        confidence: (N,), confidence of each prediction.
        wrong: (N,), whether each prediction is wrong.

    Returns:
        The thresholds, with the number of cases that each accepts and their errors.
    """
    return rank(Scores(confidence, {WRONG: wrong}))


def largest_coverage(ranked: Ranked, risk: float) -> int | None:
    """Return the index of the threshold with the largest coverage at an observed selective risk of at most ``risk``.

    Args:
        ranked: Thresholds, strictest first.
        risk: Selective risk.

    Returns:
        The index; None if the selective risk is higher at every threshold.
    """
    feasible = np.flatnonzero(ranked.errors[WRONG] <= risk * ranked.n + 1e-9)
    return int(feasible[-1]) if len(feasible) else None


def curve_ranks(total: int, points: int) -> NDArray[np.int64]:
    """Return at most ``points`` ranks from 1 to ``total``, half evenly spaced, half evenly spaced on a log scale.

    Args:
        total: Largest rank.
        points: Maximum number of ranks.

    Returns:
        Ranks, ascending and without repeats.
    """
    half = points // 2
    return np.unique(
        np.concatenate([np.geomspace(1, total, half), np.linspace(1, total, half)]).round().astype(np.int64)
    )


def thin(ranked: Ranked, points: int) -> NDArray[np.int64]:
    """Return the indices of the thresholds to draw: the first at or after each of :func:`curve_ranks`.

    Args:
        ranked: Thresholds, strictest first.
        points: Maximum number of thresholds to draw.

    Returns:
        Indices of thresholds, ascending.
    """
    return np.unique(np.searchsorted(ranked.n, curve_ranks(ranked.m, points)))


def expected_risk(confidence: Floats, wrong: Bools, ranks: NDArray[np.int64]) -> Floats:
    """Return the error rate among the n most confident cases for each n in ``ranks``.

    Cases of equal confidence are taken in random order; the result is the expectation over these orders.

    Args:
        confidence: (N,), confidence of each prediction.
        wrong: (N,), whether each prediction is wrong.
        ranks: Numbers of cases, from 1 to N.

    Returns:
        Error rates, one per rank.
    """
    _, group, sizes = np.unique(-confidence, return_inverse=True, return_counts=True)
    error_rate = np.bincount(group, weights=wrong, minlength=len(sizes)) / sizes
    return np.asarray(np.cumsum(np.repeat(error_rate, sizes))[ranks - 1] / ranks)
