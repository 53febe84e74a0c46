"""The class that a model misses most often, and the guarantee that would bound its miss rate."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from squad.metrics.calibration import clopper_pearson
from squad.report.summaries import ClassRow
from squad.selective.risk_text import MISS_RATE, WRONG

__all__ = ["WeakestClass", "certify_option", "find_weakest_class"]

#: Classes are compared by the lower ends of these intervals, so that one error in a handful of cases does not decide.
INTERVAL_MISS = 0.1
#: A miss rate is above a limit if the limit would give that many errors in fewer than 1 % of test sets.
SURPRISE_LEVEL = 0.01
#: Limits to suggest for a miss rate, strictest first.
SUGGESTED_LIMITS = (0.02, 0.05, 0.1, 0.2, 0.3)


@dataclass(frozen=True)
class WeakestClass:
    """The class with the highest miss rate, as far as the test set can tell.

    Attributes:
        name: Name of the class.
        n: Number of its cases, among accepted ones if there is a certificate that accepts any.
        missed: Number of these that were predicted as another class.
        exceeds: Whether its miss rate is above the guaranteed risk (without one, above the error rate), and more so
            than chance explains.
        limit: Bound on its miss rate that the certificate guarantees, if any.
        suggestion: Risks by harm that would bound its miss rate too; empty if it is bounded, if the calibration set is
            too small, or without a certificate.
    """

    name: str
    n: int
    missed: int
    exceeds: bool
    limit: float | None
    suggestion: dict[str, float]


def find_weakest_class(
    rows: Sequence[ClassRow], risks: Mapping[str, float], error_rate: float, delta: float, calibration_cases: int
) -> WeakestClass | None:
    """Find the class with the highest miss rate; None if no case is missed.

    Args:
        rows: Counts of every class.
        risks: Limits of the certificate's harms; empty without a certificate.
        error_rate: Error rate on the test set.
        delta: Probability with which a guarantee may fail.
        calibration_cases: Number of calibration cases; 0 without a certificate.

    Returns:
        The class, or None.

    Examples:
        >>> rows = [ClassRow("a", 90, 1, 92, 3, 5, "b"), ClassRow("b", 25, 9, 20, 1, 9, "a")]
        >>> found = find_weakest_class(rows, {"wrong": 0.1}, 0.08, 0.05, 400)
        >>> found.name, found.missed, found.exceeds, found.suggestion
        ('b', 9, True, {'wrong': 0.1, 'miss rate b': 0.1})
    """
    from scipy.special import bdtrc

    seen = [row for row in rows if row.missed]
    if not seen:
        return None
    missed, n = (np.array([getattr(row, name) for row in seen]) for name in ("missed", "n"))
    low, _ = clopper_pearson(missed, n, INTERVAL_MISS)
    weakest = seen[int(low.argmax())]
    reference = risks.get(WRONG, error_rate)
    # Any of the classes could have been the weakest.
    exceeds = bdtrc(weakest.missed - 1, weakest.n, reference) < SURPRISE_LEVEL / len(rows)
    limit = risks.get(f"{MISS_RATE} {weakest.name}")
    share = (weakest.n + (weakest.referred or 0)) / sum(row.n + (row.referred or 0) for row in rows)
    suggested = None if limit is not None else _feasible_limit(share * calibration_cases, delta)
    suggestion = {} if suggested is None else {**risks, f"{MISS_RATE} {weakest.name}": suggested}
    return WeakestClass(weakest.name, weakest.n, weakest.missed, bool(exceeds), limit, suggestion)


def _feasible_limit(cases: float, delta: float) -> float | None:
    """Return the strictest suggested limit that this number of cases can show if a few of them are missed.

    Twice the number of cases that suffice without any error leaves room for some.
    """
    for limit in SUGGESTED_LIMITS:
        if cases >= 2 * math.log(delta) / math.log1p(-limit):
            return limit
    return None


def certify_option(risks: Mapping[str, float]) -> str | None:
    """Return risks as the value of ``squad certify --risk``; None if the name of a class cannot be written there.

    Examples:
        >>> certify_option({"wrong": 0.02, "miss rate b": 0.1})
        "'0.02,miss rate b=0.1'"
    """
    if any(set(name) & set(",=") or not name.isprintable() for name in risks):
        return None
    return shlex.quote(",".join(f"{risk:g}" if name == WRONG else f"{name}={risk:g}" for name, risk in risks.items()))
