"""Ranking metrics against brute force over all orders of ties."""

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from squad.errors import ArgumentError
from squad.metrics import aurc, coverage_at_risk

CASES = st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.7, 0.9]), st.booleans()), min_size=1, max_size=6)


def split(cases: list[tuple[float, bool]]) -> tuple[list[float], list[bool]]:
    return [case[0] for case in cases], [case[1] for case in cases]


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_aurc_is_the_mean_over_all_orders_of_ties(cases: list[tuple[float, bool]]) -> None:
    areas = []
    for order in permutations(cases):
        if all(one[0] >= other[0] for one, other in pairwise(order)):
            wrong = np.cumsum([not right for _, right in order])
            areas.append((wrong / np.arange(1, len(order) + 1)).mean())
    assert aurc(*split(cases)) == pytest.approx(np.mean(areas), abs=1e-12)


@given(CASES, st.floats(0, 1))
def test_coverage_is_that_of_the_best_threshold(cases: list[tuple[float, bool]], risk: float) -> None:
    best = 0.0
    for threshold in {confidence for confidence, _ in cases}:
        answered = [right for confidence, right in cases if confidence >= threshold]
        if answered.count(False) / len(answered) <= risk:
            best = max(best, len(answered) / len(cases))
    assert coverage_at_risk(*split(cases), risk) == best


def test_a_dip_in_risk_counts() -> None:
    # An error at the top, made up for by many right answers below.
    assert coverage_at_risk([0.9, 0.8, 0.7, 0.6], [0, 1, 1, 1], 0.25) == 1.0
    assert coverage_at_risk([0.9, 0.8, 0.7, 0.6], [0, 1, 1, 1], 0.2) == 0.0
    assert coverage_at_risk([0.5] * 10, [True] * 9 + [False], 0.1) == 1.0


def test_tensors_and_any_scale_will_do() -> None:
    confidence, correct = torch.tensor([-3.0, -1.0], requires_grad=True), torch.tensor([False, True])
    assert aurc(confidence, correct) == 0.25
    assert aurc(confidence.bfloat16(), correct.int()) == 0.25
    assert type(aurc(confidence, correct)) is float


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([], [], "at least one row"),
        ([0.5], [True, False], "of shape"),
        ([[0.5]], [[True]], "of shape"),
        ([float("nan")], [True], "confidence must be finite; got nan"),
        ([float("inf")], [True], "finite"),
        ([0.5], [2], "True or False"),
        ([0.5], [0.5], "True or False"),
        (["a"], [True], "an array of numbers"),
        ([[0.5], [0.5, 0.5]], [True], "an array of numbers"),
    ],
)
def test_nonsense_is_refused(confidence: list[float], correct: list[bool], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        aurc(confidence, correct)
    with pytest.raises(ArgumentError, match=message):
        coverage_at_risk(confidence, correct, 0.1)


@pytest.mark.parametrize("risk", [-0.1, 1.1, float("nan")])
def test_a_risk_is_a_share(risk: float) -> None:
    with pytest.raises(ArgumentError, match="risk must be between 0 and 1"):
        coverage_at_risk([0.5], [True], risk)
