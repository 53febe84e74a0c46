"""Risk–coverage curves compared with direct counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from squad.report.risk_coverage import curve_ranks, expected_risk, largest_coverage, rank_cases, thin

scores = st.lists(st.tuples(st.sampled_from([0.1, 0.4, 0.5, 0.8, 0.9, 0.99]), st.booleans()), min_size=1, max_size=40)


def arrays(pairs: list[tuple[float, bool]]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])


@given(scores, st.floats(0, 1))
def test_largest_coverage_at_a_risk(pairs: list[tuple[float, bool]], risk: float) -> None:
    confidence, wrong = arrays(pairs)
    found = rank_cases(confidence, wrong)
    feasible = [
        (int((confidence > t).sum()), t)
        for t in [*np.unique(confidence), -np.inf]
        if (confidence > t).any() and wrong[confidence > t].sum() <= risk * (confidence > t).sum() + 1e-9
    ]
    index = largest_coverage(found, risk)
    if not feasible:
        assert index is None
    else:
        assert index is not None
        assert found.n[index] == max(feasible)[0]
        assert (confidence > found.threshold[index]).sum() == found.n[index]


@given(scores)
def test_expected_risk_is_the_mean_over_orders_of_ties(pairs: list[tuple[float, bool]]) -> None:
    confidence, wrong = arrays(pairs)
    at = np.arange(1, len(pairs) + 1)
    rng = np.random.default_rng(0)
    orders = [np.lexsort((rng.random(len(pairs)), -confidence)) for _ in range(400)]
    mean = np.mean([np.cumsum(wrong[order]) / at for order in orders], axis=0)
    np.testing.assert_allclose(expected_risk(confidence, wrong, at), mean, atol=0.15)
    ends = rank_cases(confidence, wrong)
    np.testing.assert_allclose(expected_risk(confidence, wrong, ends.n), ends.errors["wrong"] / ends.n)


@pytest.mark.parametrize("count", [1, 2, 7, 5000, 100_000])
def test_thinning_keeps_both_ends(count: int) -> None:
    confidence = np.random.default_rng(count).random(count)
    found = rank_cases(confidence, confidence < 0.3)
    drawn = thin(found, 300)
    assert len(drawn) <= 300
    assert (drawn[0], drawn[-1]) == (0, len(found.n) - 1)
    assert curve_ranks(count, 300)[[0, -1]].tolist() == [1, count]
