"""Logarithm and exponential of arrays that are the same to the bit on every machine, and keep the order.

A library's log and exp may differ by the last bit between processors, and need not be monotone.  These use only
operations that IEEE 754 rounds correctly, and series with positive terms, in which rounding keeps the order.
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["exp_of_minus", "log_of"]

Array = NDArray[np.float64]

LN2 = 0.6931471805599453

#: Of -log(1 - x) / x for x up to 1/2, and of exp(x) for x up to log 2, the highest power first.
_LOG_TERMS = [1 / n for n in range(52, 0, -1)]
_EXP_TERMS = [1 / math.factorial(n) for n in range(19, -1, -1)]


def log_of(x: Array) -> Array:
    """log(x) for x >= 1; it never falls."""
    mantissa, exponent = np.frexp(x)  # from 1/2 to 1
    below = 1 - mantissa
    # Where one power of two ends and the next begins, rounding errors of the two do not agree.
    found: Array = np.maximum(exponent * LN2 - _series(below, _LOG_TERMS) * below, (exponent - 1) * LN2)
    return found


def exp_of_minus(x: Array) -> Array:
    """exp(-x) for x >= 0; it never rises."""
    halvings = np.floor(x / LN2)
    part = np.maximum(x - halvings * LN2, 0.0)
    inner = np.clip(1 / _series(part, _EXP_TERMS), 0.5, 1.0)
    found: Array = np.ldexp(inner, -np.nan_to_num(np.minimum(halvings, 2000)).astype(np.int32))
    return found


def _series(x: Array, terms: list[float]) -> Array:
    total = np.full_like(x, terms[0])
    for term in terms[1:]:
        total = total * x + term
    return total
