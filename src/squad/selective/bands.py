"""A bound on the risk that holds at every threshold at once, so that the target may be chosen after looking.

The risk at a threshold is P(wrong and accepted) / P(accepted).  The first is bounded from above for every number of
errors up to K, the second from below at some ranks, all of them together at ``delta``: nine tenths of it for the
errors, one tenth for the ranks.  Both are bounds of order statistics of uniform numbers, whose joint level is computed
(:mod:`squad.selective.boundary_crossing`; docs/selection.md has the proof).

Earlier certificates have other levels, delta divided by the number of bounds (``DIVIDED``).  They are still
checked by these.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from squad.core.checks import check_number
from squad.selective.boundary_crossing import joint_level, upper_bounds
from squad.selective.scored_cases import WRONG, Scores, rank

__all__ = ["BERK_JONES", "DIVIDED", "Band", "band_of", "risk_bounds"]

#: How levels are found: computed for all bounds together, or delta divided by their number.
BERK_JONES, DIVIDED = "berk-jones", "divided"
#: Ranks at which the share of accepted cases is bounded, where levels are divided.
RANKS = 120
#: With more cases than these, the levels of the ranks, or those of the counts too, are divided: to compute them takes
#: long, and would make little difference.
RANKS_COMPUTED, COUNTS_COMPUTED = 10_000, 1_000_000
#: Bounds stand apart by this part of a count's standard deviation; those between have the next one's.
APART = 0.2, 0.5
#: Plans compute the level of every m up to this.
ROUGH = 4096


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
    m: int,
    n: NDArray[np.int64],
    errors: NDArray[np.int64],
    delta: float,
    r_max: float,
    levels: str = BERK_JONES,
    rough: bool = False,
) -> NDArray[np.float64]:
    """An upper bound of the risk for each n accepted cases of m with so many errors; 1 where it says nothing.

    Args:
        m: cases.
        n: (rules,), accepted.
        errors: (rules,), among these.
        delta: the chance that any of the bounds is wrong.
        r_max: bounds above it say nothing.
        levels: how levels are found.
        rough: for plans: of many cases, take the level of the next power of two, which is a little lower.
    """
    if not len(n) or not m:
        return np.ones(len(n))
    if levels == DIVIDED:
        return _divided(m, n, errors, delta, r_max)
    counts, upper, ranks, lower = _bounds(m, delta, r_max, rough and m > ROUGH)
    place = np.searchsorted(counts, errors, side="left")  # the count itself, or the next one
    above = np.append(upper, 1.0)[place]
    below = np.searchsorted(ranks, n, side="right")
    share = np.append(0.0, lower)[below]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(share > 0, np.minimum(above / share, 1.0), 1.0)


@functools.lru_cache(maxsize=256)
def _bounds(
    m: int, delta: float, r_max: float, rough: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Counts of errors and upper bounds of P(wrong and accepted); ranks and lower bounds of P(accepted)."""
    # More than r_max m errors are bounded by more than r_max.  With k errors the bound is the (k + 1)-th of m numbers.
    places = _spaced(1, min(math.floor(r_max * m) + 1, m), m)
    for_counts, for_ranks = 0.9 * delta, 0.1 * delta
    if m > COUNTS_COMPUTED:
        level = for_counts / len(places)
    elif rough:
        more = 1 << (m - 1).bit_length()
        level = joint_level(more, _spaced(1, math.floor(r_max * more) + 1, more), for_counts)
    else:
        level = joint_level(m, places, for_counts)
    at = np.array(places, dtype=np.int64)
    upper = upper_bounds(m, at, level)
    # A rule that accepts fewer than this is bounded by more than r_max, even without errors.
    first = min(max(1, math.floor(m * float(upper[0]) / r_max)), m)
    # Lower bounds are upper ones of the numbers' distances from 1.
    mirrored = _spaced(1, m + 1 - first, m, both=True)
    computed = m <= RANKS_COMPUTED and not rough
    level = joint_level(m, mirrored, for_ranks) if computed else for_ranks / len(mirrored)
    from_one = np.array(mirrored, dtype=np.int64)
    ranks = (m + 1 - from_one)[::-1]
    return at - 1, upper, ranks, np.asarray(betaincinv(ranks.astype(np.float64), m + 1.0 - ranks, level))


def _spaced(first: int, last: int, m: int, both: bool = False) -> tuple[int, ...]:
    """Places from first to last, apart by a part of their standard deviation; ``both`` ends of the m are dense."""
    found = [first]
    while found[-1] < last:
        k = found[-1]
        apart = APART[1] * math.sqrt(k * (1 - k / (m + 1))) if both else APART[0] * math.sqrt(k)
        found.append(min(last, k + max(1, math.floor(apart))))
    return tuple(found)


def _divided(
    m: int, n: NDArray[np.int64], errors: NDArray[np.int64], delta: float, r_max: float
) -> NDArray[np.float64]:
    """The bounds of earlier versions."""
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
