"""How likely the order statistics of a sample are to cross a boundary, and levels at which that is rare enough.

Of m independent uniform numbers, the (k+1)-th smallest is at most the 1 - g quantile of its Beta distribution with
probability 1 - g.  That all of these bounds hold *together* has a lower probability, which is computed here exactly but
for rounding; the level g is then chosen such that it is 1 - delta.  (One-sided Berk-Jones bounds.)

The number of points up to x is a Poisson process, given that there are m in all.  A path is followed from bound to
bound, as the distribution of the number of points so far; what falls below the boundary for the first time is added up.
Only sums of positive numbers occur, so the result has a small relative error.

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

#: A Poisson number is within so many standard deviations, and so many more, but for a chance of 1e-14.
DEVIATIONS, MORE = 8.0, 30.0
#: The computed probability may be off by so much, relatively and absolutely; levels leave room for it.
RELATIVE, ABSOLUTE = 1e-6, 1e-12
#: Below this probability the absolute error matters: levels are divided evenly instead.
RAREST = 1e-7
#: Levels have three significant digits, so that all machines find the same.
DIGITS = 900


def crossing_probability(m: int, counts: NDArray[np.int64], bounds: NDArray[np.float64]) -> float:
    """The probability that for some l fewer than ``counts[l]`` of m uniform numbers are at most ``bounds[l]``.

    Args:
        m: numbers.
        counts: (L,), ascending, from 1 to m.
        bounds: (L,), ascending, between 0 and 1.
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
        most = math.ceil(m * bound + DEVIATIONS * math.sqrt(m * bound) + MORE)
        path = path[: max(most - low, 0)]
        if not len(path):
            break
    return total


def _poisson(mean: float) -> tuple[NDArray[np.float64], int]:
    """The probabilities of a Poisson number that matter, and the first of these numbers."""
    apart = DEVIATIONS * math.sqrt(mean) + MORE
    first = max(0, math.floor(mean - apart))
    return np.exp(_log_poisson(np.arange(first, math.ceil(mean + apart) + 1, dtype=np.float64), mean)), first


def _log_poisson(numbers: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    return np.asarray(xlogy(numbers, mean) - mean - gammaln(numbers + 1))


def upper_bounds(m: int, counts: NDArray[np.int64], level: float) -> NDArray[np.float64]:
    """The 1 - ``level`` quantiles of the order statistics with these places (from 1) among m uniform numbers."""
    return np.asarray(1 - betaincinv(m + 1.0 - counts, counts.astype(np.float64), level))


@functools.lru_cache(maxsize=4096)
def joint_level(m: int, counts: tuple[int, ...], delta: float) -> float:
    """The level at which the :func:`upper_bounds` of all these order statistics hold together.

    It is the largest number with three significant digits at which one of them fails with probability ``delta`` at
    most.

    Args:
        m: uniform numbers.
        counts: places of order statistics, ascending.
        delta: the chance that any of the bounds fails.
    """
    good, bad = _place(delta / len(counts)), _place(delta) + 1  # divided evenly it holds, by the union bound
    if delta < RAREST:
        return _level(good)
    places = np.array(counts, dtype=np.int64)
    # The probability is nearly proportional to the level: a few steps find the largest that will do.
    guess, below, above = _place(3 * delta / (3 + math.sqrt(len(counts)))), 0.0, 0.0
    while bad - good > 1:
        guess = min(max(guess, good + 1), bad - 1)
        chance = crossing_probability(m, places, upper_bounds(m, places, _level(guess)))
        chance = chance * (1 + RELATIVE) + ABSOLUTE
        if chance <= delta:
            good, below = guess, chance
        else:
            bad, above = guess, chance
        if below and above:  # both sides are known: between them, as straight lines go
            part = math.log(delta / below) / math.log(above / below)
            guess = good + max(1, min(bad - good - 1, round(part * (bad - good))))
        else:
            guess = _place(_level(guess) * delta / chance) + (1 if chance <= delta else 0)
    return _level(good)


def _level(place: int) -> float:
    """The numbers with three digits, in their order."""
    return float(f"{100 + place % DIGITS}e{place // DIGITS - 302}")


def _place(level: float) -> int:
    """The last of them that is not above ``level``."""
    digits, power = f"{level:.17e}".split("e")
    place = (int(power) + 300) * DIGITS + math.floor(float(digits) * 100) - 100
    return place if _level(place) <= level else place - 1
