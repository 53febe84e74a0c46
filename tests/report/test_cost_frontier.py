"""The cheapest threshold, compared with trying every threshold."""

import numpy as np
import pytest

from squad.report.cost_frontier import best_point, cost_frontier
from squad.report.page.costs import cost_text
from squad.report.risk_coverage import rank_cases


@pytest.mark.parametrize("seed", range(8))
def test_no_threshold_is_cheaper(seed: int) -> None:
    rng = np.random.default_rng(seed)
    confidence = rng.integers(0, 30, 120) / 30  # with ties
    wrong = rng.random(120) > confidence
    ranked = rank_cases(confidence, wrong)
    frontier = cost_frontier(ranked)
    assert (frontier[0].accepts, frontier[0].accepted, frontier[-1].accepted) == ("none", 0, 120)
    for error, referral in rng.exponential(size=(50, 2)) * [10, 1]:
        every = [
            error * (wrong & (confidence > threshold)).sum() + referral * (confidence <= threshold).sum()
            for threshold in [np.inf, -np.inf, *np.unique(confidence)]
        ]
        best = best_point(frontier, error, referral)
        threshold = {"all": -np.inf, "none": np.inf}.get(best.accepts, best.threshold or 0.0)
        assert best.accepted == (confidence > threshold).sum()
        assert best.wrong == (wrong & (confidence > threshold)).sum()
        assert error * best.wrong + referral * (120 - best.accepted) == pytest.approx(min(every))


def test_extreme_costs() -> None:
    frontier = cost_frontier(rank_cases(np.array([0.9, 0.8, 0.7]), np.array([False, True, False])))
    assert best_point(frontier, 0, 1).accepts == "all"
    assert best_point(frontier, 1, 0).accepted == 0
    assert best_point(frontier, 1e9, 1).accepted == 1


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (0, "0"),
        (0.004, "0"),
        (1.005, "1"),  # in binary just below
        (0.125, "0.13"),  # exact: halves are rounded up
        (0.375, "0.38"),
        (1.375, "1.38"),
        (9.995, "10"),
        (9.994, "9.99"),
        (9.996, "10"),
        (31.25, "31.3"),
        (31.75, "31.8"),
        (31.35, "31.4"),
        (99.94, "99.9"),
        (99.96, "100"),
        (100.5, "101"),
        (12345.5, "12,346"),
    ],
)
def test_texts_of_costs(cost: float, text: str) -> None:
    """As costText in page.js formats them; tests/slow/test_report_browser.py compares both."""
    assert cost_text(cost) == text
