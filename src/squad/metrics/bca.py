"""Bias-corrected and accelerated bootstrap intervals (Efron, 1987), from resampled and jackknife values."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

__all__ = ["acceleration", "bca"]

Floats = NDArray[np.float64]

#: The bias is estimated from so many resamples that not one fell on the other side, and no more than this many
#: deviations are believed.
MOST_BIAS = 2.0


def deviations(jackknife: Sequence[Floats]) -> Floats:
    """How far each row (or group of rows) moves the metric, from the values without it; one array per sample."""
    found = [one[~np.isnan(one)] for one in jackknife]
    return np.concatenate([one.mean() - one if len(one) else one for one in found])


def acceleration(jackknife: Sequence[Floats]) -> float:
    """How fast the standard error changes with the metric: a sixth of the skewness of what rows contribute."""
    moved = deviations(jackknife)
    spread = float((moved**2).sum())
    # Against the largest: squares of what rounding leaves would be nothing, and divided by.
    if not len(moved) or spread <= 0 or float(np.abs(moved).max()) < 1e-13:
        return 0.0
    return float((moved**3).sum() / (6 * spread**1.5))


def bca(value: float, resampled: Floats, a: float, level: float) -> tuple[float, float]:
    """The interval, which always contains the value itself."""
    if not len(resampled):
        return math.nan, math.nan
    if level >= 1:
        shares = np.array([0.0, 1.0])
    else:
        # Values equal to that of the rows count one half: a metric of counts has many.
        near = 1e-12 * max(abs(value), 1e-300)
        below = float((resampled < value - near).sum()) + float((np.abs(resampled - value) <= near).sum()) / 2
        bias = float(np.clip(ndtri(np.clip(below / len(resampled), 1e-12, 1 - 1e-12)), -MOST_BIAS, MOST_BIAS))
        moved = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
        scale = 1 - a * moved
        # Beyond the pole there is no correction left to make: the extreme of what was seen.
        shares = np.where(scale > 1e-9, ndtr(bias + moved / np.maximum(scale, 1e-9)), np.where(moved > 0, 1.0, 0.0))
    low, high = np.quantile(resampled, shares).tolist()
    return min(low, value), max(high, value)
