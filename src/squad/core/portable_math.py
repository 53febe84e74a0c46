"""Portable, monotone logarithm and exponential of arrays: identical to the bit on every machine.

Library versions of log and exp may differ in the last bit between processors and need not be monotone.  The functions
here use only operations that IEEE 754 rounds correctly, and series with positive terms, in which rounding preserves
the order.
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["exp_neg", "log"]

Array = NDArray[np.float64]

LN2 = 0.6931471805599453

#: Coefficients of -log(1 - x) / x for x up to 1/2, highest power first.
_LOG_COEFFICIENTS = [1 / n for n in range(52, 0, -1)]
#: Coefficients of exp(x) for x up to log 2, highest power first.
_EXP_COEFFICIENTS = [1 / math.factorial(n) for n in range(19, -1, -1)]


def log(x: Array) -> Array:
    """Compute the natural logarithm of x >= 1; the result never decreases as x grows."""
    mantissa, exponent = np.frexp(x)  # mantissa in [1/2, 1)
    below = 1 - mantissa
    # At powers of two the rounding errors of both sides differ: the maximum keeps the function monotone.
    result: Array = np.maximum(exponent * LN2 - _polynomial(below, _LOG_COEFFICIENTS) * below, (exponent - 1) * LN2)
    return result


def exp_neg(x: Array) -> Array:
    """Compute exp(-x) for x >= 0; the result never increases as x grows."""
    halvings = np.floor(x / LN2)
    remainder = np.maximum(x - halvings * LN2, 0.0)
    mantissa = np.clip(1 / _polynomial(remainder, _EXP_COEFFICIENTS), 0.5, 1.0)
    result: Array = np.ldexp(mantissa, -np.nan_to_num(np.minimum(halvings, 2000)).astype(np.int32))
    return result


def _polynomial(x: Array, coefficients: list[float]) -> Array:
    """Evaluate a polynomial by Horner's rule; coefficients from the highest power down."""
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total
