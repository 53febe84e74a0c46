"""Thresholds that minimize the expected cost of errors and referrals, for any two costs."""

from dataclasses import dataclass

import numpy as np

from squad.report.slider import accepted_range
from squad.selective.scored_cases import WRONG, Ranked

__all__ = ["CostPoint", "best_point", "cost_frontier"]


@dataclass(frozen=True)
class CostPoint:
    """A threshold that has the lowest expected cost for some cost of an error and some cost of a referral.

    Attributes:
        accepts: "above" a threshold, "all" or "none".
        threshold: Threshold that a confidence must exceed; None if all or no cases are accepted.
        accepted: Number of test cases accepted.
        wrong: Number of wrong predictions among them.
    """

    accepts: str
    threshold: float | None
    accepted: int
    wrong: int


def cost_frontier(ranked: Ranked) -> list[CostPoint]:
    """Return the thresholds among which the best one is found, whatever an error and a referral cost.

    An expected cost is linear in the numbers of accepted cases and of errors among them, so its minimum over all
    thresholds is at a vertex of the lower convex hull of these pairs.

    Args:
        ranked: Thresholds, strictest first.

    Returns:
        Vertices of the hull, from accepting no case to accepting all.

    Examples:
        >>> import numpy as np
        >>> from squad.report.risk_coverage import rank_cases
        >>> ranked = rank_cases(np.array([0.9, 0.8, 0.7, 0.6]), np.array([False, True, False, True]))
        >>> [(point.accepted, point.wrong) for point in cost_frontier(ranked)]
        [(0, 0), (1, 0), (3, 1), (4, 2)]
    """
    n = [0, *ranked.n.tolist()]
    wrong = [0, *(int(number) for number in ranked.errors[WRONG].tolist())]
    thresholds = [np.inf, *ranked.threshold.tolist()]
    hull: list[int] = []
    for index in range(len(n)):
        while len(hull) > 1 and _turns_down(n, wrong, hull[-2], hull[-1], index):
            hull.pop()
        hull.append(index)
    return [CostPoint(*accepted_range(thresholds[index]), n[index], wrong[index]) for index in hull]


def _turns_down(n: list[int], wrong: list[int], first: int, middle: int, last: int) -> bool:
    """Return whether the middle point lies on or above the line between its neighbours."""
    rise, run = wrong[last] - wrong[first], n[last] - n[first]
    return (wrong[middle] - wrong[first]) * run >= rise * (n[middle] - n[first])


def best_point(frontier: list[CostPoint], error_cost: float, referral_cost: float) -> CostPoint:
    """Return the point with the lowest expected cost; of equal ones, the one that accepts the fewest cases.

    Args:
        frontier: Points of :func:`cost_frontier`.
        error_cost: Cost of an accepted prediction that is wrong.
        referral_cost: Cost of a referred case.

    Examples:
        >>> points = [CostPoint("none", None, 0, 0), CostPoint("above", 0.9, 50, 1), CostPoint("all", None, 100, 20)]
        >>> best_point(points, 10, 1).accepted, best_point(points, 1, 1).accepted, best_point(points, 100, 1).accepted
        (50, 100, 0)
    """
    return min(frontier, key=lambda point: error_cost * point.wrong - referral_cost * point.accepted)
