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

    Examples:
        >>> rank_cases(np.array([0.9, 0.8, 0.7]), np.array([False, False, True])).errors["wrong"].tolist()
        [0, 0, 1]
    """
    return rank(Scores(confidence, {WRONG: wrong}))


def largest_coverage(ranked: Ranked, risk: float) -> int | None:
    """Return the index of the threshold with the largest coverage at an observed selective risk of at most ``risk``.

    Args:
        ranked: Thresholds, strictest first.
        risk: Selective risk.

    Returns:
        The index; None if the selective risk is higher at every threshold.

    Examples:
        >>> ranked = rank_cases(np.array([0.9, 0.8, 0.7]), np.array([False, False, True]))
        >>> largest_coverage(ranked, 0.1)
        1
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

    Examples:
        >>> curve_ranks(100, 8).tolist()
        [1, 5, 22, 34, 67, 100]
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

    Examples:
        >>> ranked = rank_cases(np.linspace(1, 0, 100), np.zeros(100, dtype=bool))
        >>> len(thin(ranked, 8))
        6
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

    Examples:
        >>> confidence, wrong = np.array([0.9, 0.8, 0.8]), np.array([False, True, False])
        >>> expected_risk(confidence, wrong, np.array([1, 2, 3])).round(3).tolist()
        [0.0, 0.25, 0.333]
    """
    _, group, sizes = np.unique(-confidence, return_inverse=True, return_counts=True)
    error_rate = np.bincount(group, weights=wrong, minlength=len(sizes)) / sizes
    return np.asarray(np.cumsum(np.repeat(error_rate, sizes))[ranks - 1] / ranks)
