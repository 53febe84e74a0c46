"""Simultaneous bounds on the selective risk of all thresholds, so that the target may be chosen after seeing the data.

The risk of a threshold is P(wrong and accepted) / P(accepted).  The numerator is bounded from above for every number of
errors up to K, the denominator from below at some ranks, all of them jointly at ``delta``: nine tenths of it for the
errors, one tenth for the ranks.  Both are bounds on order statistics of uniform numbers, whose joint level is computed
(:mod:`squad.selective.boundary_crossing`; docs/explanation/guarantees.md has the proof).

Certificates of earlier versions divided delta by the number of bounds instead (``DIVIDED``), and are still checked that
way.
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

#: How levels are determined: computed jointly for all bounds, or delta divided by the number of bounds.
BERK_JONES, DIVIDED = "berk-jones", "divided"
#: Number of ranks at which coverage is bounded, where levels are divided.
DIVIDED_RANKS = 120
#: Above these numbers of cases, the levels of the ranks and of the error counts are divided: computing them would take
#: long and make little difference.
MAX_EXACT_RANK_CASES, MAX_EXACT_COUNT_CASES = 10_000, 1_000_000
#: Distance between neighbouring bounds, in standard deviations of a count; counts in between use the next bound.
COUNT_SPACING, RANK_SPACING = 0.2, 0.5
#: Up to this number of cases, plans compute the exact level for every m.
MAX_EXACT_PLAN_CASES = 4096


@dataclass(frozen=True, eq=False)
class Band:
    """Simultaneous upper bounds on the selective risk of all rules "accept above a threshold".

    Attributes:
        m: Number of calibration cases.
        delta: Probability that any of the bounds is wrong.
        r_max: Largest risk of interest; bounds above it carry no information.
        threshold: (rules,), thresholds, from the strictest to -inf, which accepts all cases.
        n: (rules,), number of accepted calibration cases.
        errors: (rules,), number of errors among these.
        bound: (rules,), upper bound on the risk.

    See Also:
        band_of: Computes a band.

    Examples:
        >>> import numpy as np
        >>> band = band_of(np.linspace(0, 1, 1000), np.ones(1000, dtype=bool))
        >>> band.at(0.05), round(float(band.bound[-1]), 4)
        (999, 0.0073)
    """

    m: int
    delta: float
    r_max: float
    threshold: NDArray[np.float64]
    n: NDArray[np.int64]
    errors: NDArray[np.int64]
    bound: NDArray[np.float64]

    def at(self, risk: float) -> int | None:
        """Return the index of the rule with the largest coverage whose risk is at most ``risk``; None if there is none.

        May be called for any number of risks, chosen in any way: all bounds hold at once.

        Args:
            risk: Target, at most ``r_max``.

        Returns:
            Index of the rule in the arrays of the band, or None.
        """
        risk = check_number("risk", risk, 0.0, self.r_max, exclude=0.0)
        good = np.flatnonzero(self.bound <= risk)
        return int(good[-1]) if len(good) else None


def band_of(
    confidence: ArrayLike | torch.Tensor,
    correct: ArrayLike | torch.Tensor,
    delta: float = 0.01,
    r_max: float = 0.1,
) -> Band:
    """Compute simultaneous bounds on the selective risk of all thresholds from a calibration set.

    Args:
        confidence: (m,), confidence scores on any scale; higher means more confident.
        correct: (m,), whether each prediction is correct.
        delta: Probability that any bound is wrong; the confidence level is 1 - delta.
        r_max: Largest risk that will be of interest, fixed before looking at the data.

    Returns:
        The bounds, one per distinct confidence.

    See Also:
        squad.certify: With ``method="band"``, certificates based on the same bounds.

    References:
        R. Berk and D. Jones, Goodness-of-fit test statistics that dominate the Kolmogorov statistics, Zeitschrift für
        Wahrscheinlichkeitstheorie und verwandte Gebiete 47, 1979.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> confidence = rng.random(2000)
        >>> correct = rng.random(2000) < 0.8 + 0.2 * confidence
        >>> band = band_of(confidence, correct, delta=0.05)
        >>> rule = band.at(0.09)
        >>> int(band.n[rule]), int(band.errors[rule])
        (1592, 107)
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
    """Return an upper bound on the risk of each rule; 1 where nothing can be said.

    Args:
        m: Number of cases.
        n: (rules,), number of accepted cases.
        errors: (rules,), number of errors among these.
        delta: Probability that any of the bounds is wrong.
        r_max: Largest risk of interest; bounds above it carry no information.
        levels: How levels are determined, ``BERK_JONES`` or ``DIVIDED``.
        rough: Whether to approximate the level for many cases by that of the next power of two, which is slightly
            lower; used for planning.

    Returns:
        (rules,), upper bounds.
    """
    if not len(n) or not m:
        return np.ones(len(n))
    if levels == DIVIDED:
        return _divided_bounds(m, n, errors, delta, r_max)
    counts, upper, ranks, lower = _bounds(m, delta, r_max, rough and m > MAX_EXACT_PLAN_CASES)
    wrong_and_accepted = np.append(upper, 1.0)[np.searchsorted(counts, errors, side="left")]  # this count or the next
    coverage = np.append(0.0, lower)[np.searchsorted(ranks, n, side="right")]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(coverage > 0, np.minimum(wrong_and_accepted / coverage, 1.0), 1.0)


@functools.lru_cache(maxsize=256)
def _bounds(
    m: int, delta: float, r_max: float, rough: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Return error counts with upper bounds of P(wrong and accepted), and ranks with lower bounds of P(accepted)."""
    # More than r_max m errors give a bound above r_max.  The bound for k errors is that of the (k + 1)-th of m numbers.
    places = _spaced_counts(1, min(math.floor(r_max * m) + 1, m), m)
    for_counts, for_ranks = 0.9 * delta, 0.1 * delta
    if m > MAX_EXACT_COUNT_CASES:
        level = for_counts / len(places)
    elif rough:
        more = 1 << (m - 1).bit_length()
        level = joint_level(more, _spaced_counts(1, math.floor(r_max * more) + 1, more), for_counts)
    else:
        level = joint_level(m, places, for_counts)
    at = np.array(places, dtype=np.int64)
    upper = upper_bounds(m, at, level)
    # Rules that accept fewer cases than this have a bound above r_max, even without errors.
    first = min(max(1, math.floor(m * float(upper[0]) / r_max)), m)
    # Lower bounds are upper bounds on one minus the numbers.
    mirrored = _spaced_counts(1, m + 1 - first, m, both=True)
    computed = m <= MAX_EXACT_RANK_CASES and not rough
    level = joint_level(m, mirrored, for_ranks) if computed else for_ranks / len(mirrored)
    from_one = np.array(mirrored, dtype=np.int64)
    ranks = (m + 1 - from_one)[::-1]
    return at - 1, upper, ranks, np.asarray(betaincinv(ranks.astype(np.float64), m + 1.0 - ranks, level))


def _spaced_counts(first: int, last: int, m: int, both: bool = False) -> tuple[int, ...]:
    """Return counts from first to last, spaced by their standard deviation; with ``both``, dense at both ends of m."""
    found = [first]
    while found[-1] < last:
        k = found[-1]
        spacing = RANK_SPACING * math.sqrt(k * (1 - k / (m + 1))) if both else COUNT_SPACING * math.sqrt(k)
        found.append(min(last, k + max(1, math.floor(spacing))))
    return tuple(found)


def _divided_bounds(
    m: int, n: NDArray[np.int64], errors: NDArray[np.int64], delta: float, r_max: float
) -> NDArray[np.float64]:
    """Return the bounds of earlier versions, with delta divided by the number of bounds."""
    most = math.ceil(1.3 * r_max * m) + 10  # number of error counts that are bounded
    counts, place = np.unique(errors, return_inverse=True)
    upper = np.ones(len(counts))
    bounded = (counts < most) & (counts < m)
    k = counts[bounded].astype(np.float64)
    upper[bounded] = betaincinv(k + 1, m - k, 1 - 0.9 * delta / most)
    ranks = np.unique(np.round(np.geomspace(1, max(m, 1), DIVIDED_RANKS)).astype(np.int64))
    lower = betaincinv(ranks.astype(np.float64), m + 1.0 - ranks, 0.1 * delta / DIVIDED_RANKS)
    below = np.searchsorted(ranks, n, side="right") - 1
    share = np.where(below >= 0, lower[np.maximum(below, 0)], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(share > 0, np.minimum(upper[place] / share, 1.0), 1.0)
