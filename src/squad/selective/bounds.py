"""Exact binomial tests: how many errors among n accepted cases are few enough to show a risk below r.

For a fixed threshold, the number of errors S_n among n accepted cases is binomial with the selective risk R.  So ``p =
P(Bin(n, r) <= S_n)`` is a valid p-value for "R > r", and R <= r is shown at level a if p <= a (the test that belongs to
the upper confidence limit of Clopper and Pearson, 1934).

References:
    C. J. Clopper and E. S. Pearson, The use of confidence or fiducial limits illustrated in the case of the binomial,
    Biometrika 26, 1934.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

__all__ = ["min_cases_with", "min_cases_without_errors", "most_errors", "passes", "tail"]

#: Upper limit of searches for a number of cases: nobody can label more.
MAX_CASES = 1 << 30


def tail(errors: ArrayLike, n: ArrayLike, risk: float) -> NDArray[np.float64]:
    """Return ``P(Bin(n, risk) <= errors)``; 0 for negative ``errors``, 1 for n = 0.

    Args:
        errors: Number of errors, of any shape.
        n: Number of cases, of a shape that broadcasts with ``errors``.
        risk: Error probability under the hypothesis.

    Returns:
        Probabilities, of the broadcast shape: p-values of the hypothesis that the true risk is above ``risk``.

    Examples:
        >>> float(tail(0, 2, 0.5))
        0.25
    """
    k, size = np.asarray(errors, dtype=np.float64), np.asarray(n, dtype=np.int64)
    found = bdtr(np.clip(k, 0, size), size, risk)
    return np.where(k < 0, 0.0, np.where(k >= size, 1.0, found))


def passes(errors: ArrayLike, n: ArrayLike, risk: float, level: float) -> NDArray[np.bool_]:
    """Whether this number of errors among n shows that the risk is at most ``risk``, at significance ``level``.

    Args:
        errors: Number of errors, of any shape.
        n: Number of cases, of a shape that broadcasts with ``errors``.
        risk: Target.
        level: Significance level.

    Returns:
        Booleans, of the broadcast shape.

    Examples:
        >>> passes([0, 5], 300, 0.02, 0.01).tolist()
        [True, False]
    """
    return tail(errors, n, risk) <= level


def min_cases_without_errors(risk: float, level: float) -> int:
    """Return the smallest n that passes without any error: ``ceil(ln level / ln(1 - risk))``.

    Args:
        risk: Target.
        level: Significance level.

    Returns:
        Number of cases.

    Examples:
        >>> min_cases_without_errors(0.02, 0.01)
        228
    """
    return min_cases_with(0, risk, level)


def min_cases_with(errors: int, risk: float, level: float) -> int:
    """Return the smallest n that passes with this number of errors; ``MAX_CASES`` if it would be larger than that.

    Args:
        errors: Number of errors.
        risk: Target.
        level: Significance level.

    Returns:
        Number of cases.

    Examples:
        >>> min_cases_with(1, 0.02, 0.01)
        330
    """
    # The logarithms are exact up to rounding; bisection over integers decides by the test itself.
    high = max(errors + 1, math.ceil(min(math.log(level) / math.log1p(-risk), MAX_CASES)) + 1)
    while not passes(errors, high, risk, level):
        if high >= MAX_CASES:
            return MAX_CASES
        high = min(2 * high, MAX_CASES)
    low = errors  # n = errors: all wrong, which never passes
    while high - low > 1:
        middle = (low + high) // 2
        if passes(errors, middle, risk, level):
            high = middle
        else:
            low = middle
    return high


def most_errors(n: int, risk: float, level: float) -> int:
    """Return the largest number of errors among n that passes; -1 if not even 0 does.

    Args:
        n: Number of cases.
        risk: Target.
        level: Significance level.

    Returns:
        Number of errors, from -1 to n - 1.

    Examples:
        >>> most_errors(1000, 0.02, 0.01), most_errors(100, 0.02, 0.01)
        (9, -1)
    """
    low, high = -1, n  # n errors among n never pass
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle, n, risk, level):
            low = middle
        else:
            high = middle
    return low
