"""A bound on the risk that holds at every threshold at once, so that the target may be chosen after looking.

The risk at a threshold is P(wrong and accepted) / P(accepted).  The first is bounded from above for every number of
errors up to K, the second from below at 120 ranks, all of them together at ``delta``: nine tenths of it for the errors,
one tenth for the ranks.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from squad.core.checks import check_number
from squad.selective.scores import WRONG, Scores, rank

__all__ = ["Band", "band_of", "risk_bounds"]

#: Ranks at which the share of accepted cases is bounded.
RANKS = 120


@dataclass(frozen=True, eq=False)
class Band:
    """Bounds on the risk of all rules "accept above a threshold".

    Attributes:
        m: calibration cases.
        delta: the chance that any of the bounds is wrong.
        r_max: bounds above it say nothing.
        threshold, n, errors: (rules,), from the strictest to the one that accepts all.
        bound: (rules,), the upper bound of the risk.
    """

    m: int
    delta: float
    r_max: float
    threshold: NDArray[np.float64]
    n: NDArray[np.int64]
    errors: NDArray[np.int64]
    bound: NDArray[np.float64]

    def at(self, risk: float) -> int | None:
        """The rule that accepts most with a risk of at most ``risk``; None if there is none.  Of any risk, any time."""
        risk = check_number("risk", risk, 0.0, self.r_max, exclude=0.0)
        good = np.flatnonzero(self.bound <= risk)
        return int(good[-1]) if len(good) else None


def band_of(
    confidence: ArrayLike | torch.Tensor,
    correct: ArrayLike | torch.Tensor,
    delta: float = 0.01,
    r_max: float = 0.1,
) -> Band:
    """The band of a calibration set.

    Args:
        confidence: (m,), the higher the surer.
        correct: (m,), whether each answer is right.
        delta: the chance that any bound is wrong.
        r_max: the largest risk that will be asked for, fixed before looking.
    """
    delta = check_number("delta", delta, 0.0, 1.0, exclude=0.0)
    r_max = check_number("r_max", r_max, 0.0, 1.0, exclude=0.0)
    ranked = rank(Scores.of(confidence, correct))
    errors = ranked.errors[WRONG]
    bound = risk_bounds(ranked.m, ranked.n, errors, delta, r_max)
    return Band(ranked.m, delta, r_max, ranked.threshold, ranked.n, errors, bound)


def risk_bounds(
    m: int, n: NDArray[np.int64], errors: NDArray[np.int64], delta: float, r_max: float
) -> NDArray[np.float64]:
    """An upper bound of the risk for each n accepted cases of m with so many errors; 1 where it says nothing."""
    if not len(n):
        return np.empty(0)
    most = math.ceil(1.3 * r_max * m) + 10  # counts of errors that are bounded
    counts, place = np.unique(errors, return_inverse=True)
    upper = np.ones(len(counts))
    bounded = (counts < most) & (counts < m)
    k = counts[bounded].astype(np.float64)
    upper[bounded] = betaincinv(k + 1, m - k, 1 - 0.9 * delta / most)
    ranks = np.unique(np.round(np.geomspace(1, max(m, 1), RANKS)).astype(np.int64))
    lower = betaincinv(ranks.astype(np.float64), m + 1.0 - ranks, 0.1 * delta / RANKS)
    below = np.searchsorted(ranks, n, side="right") - 1
    share = np.where(below >= 0, lower[np.maximum(below, 0)], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(share > 0, np.minimum(upper[place] / share, 1.0), 1.0)
