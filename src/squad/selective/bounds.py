"""Exact binomial tests: how many errors among n accepted cases still speak for a risk below r.

Given a threshold, the errors S_n among n accepted cases are binomial with the selective risk R.  So
``p = P(Bin(n, r) <= S_n)`` is a valid p-value for "R > r", and R <= r is shown at level a where p <= a.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

__all__ = ["fewest", "fewest_with", "most_errors", "passes", "tail"]

#: Numbers of cases beyond this are not searched: nobody can label so many.
MOST = 1 << 30


def tail(errors: ArrayLike, n: ArrayLike, risk: float) -> NDArray[np.float64]:
    """``P(Bin(n, risk) <= errors)``; 0 below 0 errors, 1 for n = 0."""
    k, size = np.asarray(errors, dtype=np.float64), np.asarray(n, dtype=np.int64)
    found = bdtr(np.clip(k, 0, size), size, risk)
    return np.where(k < 0, 0.0, np.where(k >= size, 1.0, found))


def passes(errors: ArrayLike, n: ArrayLike, risk: float, level: float) -> NDArray[np.bool_]:
    """Whether so few errors among n show that the risk is at most ``risk``, at ``level``."""
    return tail(errors, n, risk) <= level


def fewest(risk: float, level: float) -> int:
    """The fewest cases that can pass at all, without any error: ``ceil(ln level / ln(1 - risk))``."""
    return fewest_with(0, risk, level)


def fewest_with(errors: int, risk: float, level: float) -> int:
    """The fewest cases that pass with so many errors; MOST if there would have to be more."""
    # The logarithms are right but for rounding: bisection over whole numbers decides by the test itself.
    high = max(errors + 1, math.ceil(min(math.log(level) / math.log1p(-risk), MOST)) + 1)
    while not passes(errors, high, risk, level):
        if high >= MOST:
            return MOST
        high = min(2 * high, MOST)
    low = errors  # all of them wrong: never passes
    while high - low > 1:
        middle = (low + high) // 2
        if passes(errors, middle, risk, level):
            high = middle
        else:
            low = middle
    return high


def most_errors(n: int, risk: float, level: float) -> int:
    """The most errors among n that still pass; -1 if not even 0 do."""
    low, high = -1, n  # n errors of n never pass
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle, n, risk, level):
            low = middle
        else:
            high = middle
    return low
