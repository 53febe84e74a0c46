"""Confidence interval of an AUROC without resampling (DeLong, DeLong and Clarke-Pearson, 1988)."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, stdtrit

from squad.metrics.detection import auroc
from squad.metrics.ties import Ties

__all__ = ["delong"]

Floats = NDArray[np.float64]


def placements(scores: Floats, others: Floats) -> Floats:
    """Return, for each score, the fraction of the others that are above it; ties count one half."""
    ranked = np.sort(others)
    below, upto = (np.searchsorted(ranked, scores, side) for side in ("left", "right"))
    return np.asarray(1 - (below + upto) / (2 * len(others)))


def delong(good: Floats, bad: Floats, level: float) -> tuple[float, float, float]:
    """Return the AUROC and its confidence interval; all NaN where there are no pairs.

    The interval is computed on the log-odds scale, which keeps it inside [0, 1], and with Student's t distribution
    (Welch-Satterthwaite degrees of freedom), because with few cases the variance is itself an estimate.  If all pairs
    are ranked correctly (or none), the estimated variance is 0; the interval is then the exact binomial one for as many
    independent pairs as there are disjoint pairs.

    Args:
        good: (N,), scores of the good cases.
        bad: (M,), scores of the bad cases, which should be lower.
        level: Confidence level.

    Returns:
        AUROC, lower and upper end of the interval.

    References:
        E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, Comparing the areas under two or more correlated receiver
        operating characteristic curves: a nonparametric approach, Biometrics 44, 1988.
    """
    value = auroc(Ties.of(good, bad))
    if math.isnan(value):
        return value, math.nan, math.nan
    fewer, miss = min(len(good), len(bad)), (1 - level) / 2
    if value in (0.0, 1.0):
        far = miss ** (1 / fewer)
        return (value, far, 1.0) if value else (value, 0.0, 1 - far)
    parts = [(placements(bad, good), len(bad)), (placements(good, bad), len(good))]
    variances = [one.var(ddof=1) / count if count > 1 else math.inf for one, count in parts]
    freedom = float(fewer - 1)
    variance = sum(variances)
    if math.isfinite(variance) and variance > 0:
        freedom = variance**2 / sum(one**2 / (count - 1) for one, (_, count) in zip(variances, parts, strict=True))
    else:  # the largest variance possible
        variance, freedom = value * (1 - value) / fewer, max(freedom, 1.0)
    t = float(stdtrit(freedom, 1 - miss)) if miss else math.inf
    half = t * math.sqrt(variance) / (value * (1 - value))
    middle = float(logit(value))
    return value, min(float(expit(middle - half)), value), max(float(expit(middle + half)), value)
