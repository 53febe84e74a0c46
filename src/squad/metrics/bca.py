"""Bias-corrected and accelerated bootstrap intervals (Efron, 1987), from resampled and jackknife values."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

__all__ = ["acceleration", "bca"]

Floats = NDArray[np.float64]

#: Limit on the estimated bias correction, in standard deviations: with few resamples, all of them may fall on the same
#: side of the observed value.
MAX_BIAS = 2.0


def deviations(jackknife: Sequence[Floats]) -> Floats:
    """Return how much each row (or group of rows) moves the metric, from leave-one-out values; one array per sample."""
    found = [one[~np.isnan(one)] for one in jackknife]
    return np.concatenate([one.mean() - one if len(one) else one for one in found])


def acceleration(jackknife: Sequence[Floats]) -> float:
    """Return the acceleration constant of BCa: one sixth of the skewness of the rows' influence on the metric."""
    moved = deviations(jackknife)
    spread = float((moved**2).sum())
    # Compare the largest deviation with rounding error: squared rounding errors underflow, and would be divided by.
    if not len(moved) or spread <= 0 or float(np.abs(moved).max()) < 1e-13:
        return 0.0
    return float((moved**3).sum() / (6 * spread**1.5))


def bca(value: float, resampled: Floats, a: float, level: float) -> tuple[float, float]:
    """Return the bias-corrected and accelerated (BCa) interval, extended if necessary to contain ``value``.

    Args:
        value: Metric of the original rows.
        resampled: (repeats,), metric of each bootstrap resample, without NaN.
        a: Acceleration constant, see :func:`acceleration`.
        level: Confidence level.

    Returns:
        Lower and upper end of the interval; NaN without resamples.

    References:
        B. Efron, Better bootstrap confidence intervals, Journal of the American Statistical Association 82, 1987.
    """
    if not len(resampled):
        return math.nan, math.nan
    if level >= 1:
        quantiles = np.array([0.0, 1.0])
    else:
        # Ties with the observed value count one half: metrics that are ratios of counts have many.
        near = 1e-12 * max(abs(value), 1e-300)
        below = float((resampled < value - near).sum()) + float((np.abs(resampled - value) <= near).sum()) / 2
        bias = float(np.clip(ndtri(np.clip(below / len(resampled), 1e-12, 1 - 1e-12)), -MAX_BIAS, MAX_BIAS))
        moved = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
        scale = 1 - a * moved
        # Beyond the pole the correction is undefined: use the most extreme resample.
        quantiles = np.where(scale > 1e-9, ndtr(bias + moved / np.maximum(scale, 1e-9)), np.where(moved > 0, 1.0, 0.0))
    low, high = np.quantile(resampled, quantiles).tolist()
    return min(low, value), max(high, value)
