"""The interval of an area under the ROC curve, without resampling (DeLong, DeLong and Clarke-Pearson, 1988)."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, stdtrit

from squad.metrics.detection import auroc
from squad.metrics.ties import Ties

__all__ = ["delong"]

Floats = NDArray[np.float64]


def placements(scores: Floats, others: Floats) -> Floats:
    """For each score the share of the others that are above it, equal ones counting one half."""
    ranked = np.sort(others)
    below, upto = (np.searchsorted(ranked, scores, side) for side in ("left", "right"))
    return np.asarray(1 - (below + upto) / (2 * len(others)))


def delong(good: Floats, bad: Floats, level: float) -> tuple[float, float, float]:
    """AUROC and its interval; NaN where there are no pairs.

    On the scale of log-odds, which keeps it inside of 0 and 1, and with Student's t, since the variance of few cases is
    an estimate too.  Where every pair is in order (or none), the variance seen is 0: then the interval is the exact one
    of as many independent pairs as there are disjoint ones.
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
    else:  # the most that it can be
        variance, freedom = value * (1 - value) / fewer, max(freedom, 1.0)
    t = float(stdtrit(freedom, 1 - miss)) if miss else math.inf
    half = t * math.sqrt(variance) / (value * (1 - value))
    middle = float(logit(value))
    return value, min(float(expit(middle - half)), value), max(float(expit(middle + half)), value)
