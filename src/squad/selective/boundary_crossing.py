"""Probability that order statistics of a uniform sample cross a boundary, and levels at which that is rare enough.

The (k+1)-th smallest of m independent uniform numbers is at most the 1 - g quantile of its Beta distribution with
probability 1 - g.  The probability that all of these bounds hold *jointly* is lower; it is computed here, exactly
except for rounding, and the level g is chosen such that it is 1 - delta (one-sided Berk-Jones bounds).

The number of points up to x is a Poisson process conditioned on its total m.  The distribution of the number of points
is propagated from bound to bound, and the probability mass that falls below the boundary for the first time is
accumulated.  All terms of the sums are positive, so the relative error is small.

References:
    R. Berk and D. Jones, Goodness-of-fit test statistics that dominate the Kolmogorov statistics, 1979.

    A. Moscovich and B. Nadler, Fast calculation of boundary crossing probabilities for Poisson processes, 2017.
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammaln, xlogy

__all__ = ["crossing_probability", "joint_level", "upper_bounds"]

#: A Poisson number lies within DEVIATIONS standard deviations plus EXTRA of its mean, except with probability 1e-14.
DEVIATIONS, EXTRA = 8.0, 30.0
#: Upper limits on the numerical error of the computed probability; levels leave room for it.
RELATIVE_ERROR, ABSOLUTE_ERROR = 1e-6, 1e-12
#: Below this delta the absolute error matters, and levels are divided evenly instead.
MIN_EXACT_DELTA = 1e-7
#: Levels have three significant digits, so that all machines find the same one.
LEVELS_PER_DECADE = 900


def crossing_probability(m: int, counts: NDArray[np.int64], bounds: NDArray[np.float64]) -> float:
    """Return the probability that, for some l, fewer than ``counts[l]`` of m uniform numbers are at most ``bounds[l]``.

    Args:
        m: Number of uniform numbers.
        counts: (L,), ascending, from 1 to m.
        bounds: (L,), ascending, between 0 and 1.

    Returns:
        The probability.

    Examples:
        >>> round(crossing_probability(1, np.array([1]), np.array([0.9])), 6)
        0.1
    """
    path, low, at, total = np.ones(1), 0, 0.0, 0.0
    given = _log_poisson(np.array([float(m)]), float(m))[0]
    for count, bound in zip(counts.tolist(), bounds.tolist(), strict=True):
        mean = m * (bound - at)
        kernel, first = _poisson(mean)
        path, low, at = np.convolve(path, kernel)[: m + 1 - low - first], low + first, bound
        crossed = path[: max(count - low, 0)]
        if len(crossed):
            rest = m - (low + np.arange(len(crossed), dtype=np.float64))
            total += float(crossed @ np.exp(_log_poisson(rest, m * (1 - bound)) - given))
            path, low = path[len(crossed) :], count
        most = math.ceil(m * bound + DEVIATIONS * math.sqrt(m * bound) + EXTRA)
        path = path[: max(most - low, 0)]
        if not len(path):
            break
    return total


def _poisson(mean: float) -> tuple[NDArray[np.float64], int]:
    """Return the non-negligible probabilities of a Poisson distribution, and the first value they belong to."""
    width = DEVIATIONS * math.sqrt(mean) + EXTRA
    first = max(0, math.floor(mean - width))
    return np.exp(_log_poisson(np.arange(first, math.ceil(mean + width) + 1, dtype=np.float64), mean)), first


def _log_poisson(numbers: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    return np.asarray(xlogy(numbers, mean) - mean - gammaln(numbers + 1))


def upper_bounds(m: int, counts: NDArray[np.int64], level: float) -> NDArray[np.float64]:
    """Return the 1 - ``level`` quantiles of the order statistics with these ranks (from 1) of m uniform numbers.

    Args:
        m: Number of uniform numbers.
        counts: (L,), ranks of the order statistics, from 1 to m.
        level: Probability that a single bound fails.

    Returns:
        (L,), upper bounds between 0 and 1.

    Examples:
        >>> upper_bounds(1, np.array([1]), 0.1).round(6).tolist()
        [0.9]
    """
    return np.asarray(1 - betaincinv(m + 1.0 - counts, counts.astype(np.float64), level))


@functools.lru_cache(maxsize=4096)
def joint_level(m: int, counts: tuple[int, ...], delta: float) -> float:
    """Return the level at which the :func:`upper_bounds` of all these order statistics hold jointly.

    It is the largest number with three significant digits at which any of them fails with probability at most
    ``delta``.

    Args:
        m: Number of uniform numbers.
        counts: Ranks of the order statistics, ascending.
        delta: Probability that any of the bounds fails.

    Returns:
        The level of each bound.

    Examples:
        >>> joint_level(100, (10, 50, 90), 0.05)
        0.0178
    """
    good, bad = (
        _level_index(delta / len(counts)),
        _level_index(delta) + 1,
    )  # an even division is valid, by the union bound
    if delta < MIN_EXACT_DELTA:
        return _level(good)
    places = np.array(counts, dtype=np.int64)
    # The probability is nearly proportional to the level, so a few steps find the largest valid one.
    guess, below, above = _level_index(3 * delta / (3 + math.sqrt(len(counts)))), 0.0, 0.0
    while bad - good > 1:
        guess = min(max(guess, good + 1), bad - 1)
        probability = crossing_probability(m, places, upper_bounds(m, places, _level(guess)))
        probability = probability * (1 + RELATIVE_ERROR) + ABSOLUTE_ERROR
        if probability <= delta:
            good, below = guess, probability
        else:
            bad, above = guess, probability
        if below and above:  # both sides are known: interpolate
            part = math.log(delta / below) / math.log(above / below)
            guess = good + max(1, min(bad - good - 1, round(part * (bad - good))))
        else:
            guess = _level_index(_level(guess) * delta / probability) + (1 if probability <= delta else 0)
    return _level(good)


def _level(index: int) -> float:
    """Return the number with three significant digits that has this index in ascending order."""
    return float(f"{100 + index % LEVELS_PER_DECADE}e{index // LEVELS_PER_DECADE - 302}")


def _level_index(level: float) -> int:
    """Return the index of the largest such number that does not exceed ``level``."""
    digits, power = f"{level:.17e}".split("e")
    index = (int(power) + 300) * LEVELS_PER_DECADE + math.floor(float(digits) * 100) - 100
    return index if _level(index) <= level else index - 1
