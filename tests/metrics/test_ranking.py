"""Ranking metrics, compared with brute force over all tie-breaks, and with plain sums on many cases."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from squad.errors import ArgumentError
from squad.metrics import augrc, aurc, coverage_at_risk, e_aurc, failure_auroc, risk_at_coverage
from tests.metrics.brute import CASES, Cases, area, generalized_area, mean_over_orders, population, split

METRICS: list[Callable[..., float]] = [
    aurc,
    e_aurc,
    augrc,
    partial(coverage_at_risk, risk=0.1),
    partial(risk_at_coverage, coverage=0.5),
]


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_areas_are_means_over_all_orders_of_ties(cases: Cases) -> None:
    assert aurc(*split(cases)) == pytest.approx(mean_over_orders(area, cases), abs=1e-15)
    assert augrc(*split(cases)) == pytest.approx(mean_over_orders(generalized_area, cases), abs=1e-15)


@settings(max_examples=30, deadline=None)
@given(CASES)
def test_the_excess_is_over_the_best_of_all_orders(cases: Cases) -> None:
    best = min(area([not right for _, right in order]) for order in permutations(cases))
    excess = mean_over_orders(area, cases) - float(best)
    assert e_aurc(*split(cases)) == pytest.approx(excess, abs=1e-15)
    assert e_aurc(*split(cases)) >= 0


@settings(max_examples=60, deadline=None)
@given(CASES, st.integers(1, 60))
def test_risk_at_a_coverage_is_the_mean_over_all_orders_of_ties(cases: Cases, sixtieths: int) -> None:
    # Sixtieths, so that the coverage is often a whole number of cases, where a rounding error would show.
    accepted = math.ceil(Fraction(sixtieths, 60) * len(cases))
    expected = mean_over_orders(lambda order: Fraction(sum(order[:accepted]), accepted), cases)
    assert risk_at_coverage(*split(cases), sixtieths / 60) == pytest.approx(expected, abs=1e-15)


@settings(deadline=None)
@given(CASES, st.integers(0, 60))
def test_coverage_is_that_of_the_best_threshold(cases: Cases, sixtieths: int) -> None:
    best = 0.0
    for threshold in {confidence for confidence, _ in cases}:
        accepted = [right for confidence, right in cases if confidence >= threshold]
        if Fraction(accepted.count(False), len(accepted)) <= Fraction(sixtieths, 60):
            best = max(best, len(accepted) / len(cases))
    assert coverage_at_risk(*split(cases), sixtieths / 60) == best


@settings(deadline=None)
@given(CASES, st.randoms(use_true_random=False))
def test_neither_the_order_of_rows_nor_the_scale_matters(cases: Cases, random: object) -> None:
    assert hasattr(random, "shuffle")
    moved = [(math.exp(confidence), right) for confidence, right in cases]
    random.shuffle(moved)
    for metric in METRICS:
        assert metric(*split(moved)) == metric(*split(cases))


def test_a_dip_in_risk_counts() -> None:
    # An error at the top, compensated by many correct predictions below.
    assert coverage_at_risk([0.9, 0.8, 0.7, 0.6], [0, 1, 1, 1], 0.25) == 1.0
    assert coverage_at_risk([0.9, 0.8, 0.7, 0.6], [0, 1, 1, 1], 0.2) == 0.0
    assert coverage_at_risk([0.5] * 10, [True] * 9 + [False], 0.1) == 1.0


def test_rounding_costs_no_case() -> None:
    # In floats 0.07 x 100 is above 7, and 0.29 x 100 below 29.
    assert risk_at_coverage(np.arange(100, 0, -1), np.arange(100) != 7, 0.07) == 0.0
    assert coverage_at_risk(np.arange(100, 0, -1), np.arange(100) >= 29, 0.29) == 1.0


@pytest.mark.parametrize(
    ("confidence", "correct", "areas"),
    [
        ([0.7], [True], (0.0, 0.0, 0.0)),
        ([0.7], [False], (1.0, 0.0, 0.5)),
        ([0.9, 0.8, 0.7], [True, True, True], (0.0, 0.0, 0.0)),
        ([0.9, 0.8, 0.7], [False, False, False], (1.0, 0.0, 0.5)),
        ([0.5] * 4, [True, False, True, False], (0.5, 0.5 - (1 / 3 + 2 / 4) / 4, 0.25)),
    ],
    ids=["one, right", "one, wrong", "no errors", "all errors", "all tied"],
)
def test_edges(confidence: list[float], correct: list[bool], areas: tuple[float, float, float]) -> None:
    found = [metric(confidence, correct) for metric in (aurc, e_aurc, augrc)]
    assert found == pytest.approx(areas, abs=1e-15)
    rate = 1 - np.mean(correct)
    assert risk_at_coverage(confidence, correct, 1.0) == pytest.approx(rate)
    assert risk_at_coverage(confidence, correct, 1e-300) == pytest.approx(rate)  # at least one case
    assert coverage_at_risk(confidence, correct, 0.49) == (1.0 if rate < 0.49 else 0.0)


@pytest.mark.parametrize("decimals", [None, 3, 1])
def test_many_cases_by_plain_sums(decimals: int | None) -> None:
    confidence, correct = population(100_000, decimals)
    levels, place, sizes = np.unique(-confidence, return_inverse=True, return_counts=True)
    wrong = np.bincount(place, ~correct, len(levels))
    # Expected number of errors at each rank; within a tie group it grows by the group's error rate.
    ends = np.cumsum(sizes)
    ranks = np.arange(1, len(confidence) + 1)
    expected = np.repeat(np.cumsum(wrong) - wrong, sizes) + (ranks - np.repeat(ends - sizes, sizes)) * np.repeat(
        wrong / sizes, sizes
    )
    assert aurc(confidence, correct) == pytest.approx(math.fsum(expected / ranks) / len(ranks), rel=1e-13)
    best = math.fsum(np.arange(1, wrong.sum() + 1) / ranks[len(ranks) - int(wrong.sum()) :]) / len(ranks)
    assert e_aurc(confidence, correct) == pytest.approx(aurc(confidence, correct) - best, rel=1e-12)
    trapezoids = (expected + np.append(0, expected[:-1])) / 2
    assert augrc(confidence, correct) == pytest.approx(math.fsum(trapezoids) / len(ranks) ** 2, rel=1e-12)
    assert risk_at_coverage(confidence, correct, 0.33333) == pytest.approx(expected[33332] / 33333, rel=1e-13)
    rate = np.mean(~correct)
    by_pairs = (1 - failure_auroc(confidence, correct)) * rate * (1 - rate) + rate**2 / 2
    assert augrc(confidence, correct) == pytest.approx(by_pairs, rel=1e-12)
    # The often quoted limit of the best area is close, but not equal.
    limit = rate + (1 - rate) * math.log(1 - rate)
    assert best == pytest.approx(limit, abs=1e-5)


def test_tensors_and_any_scale_are_accepted() -> None:
    confidence, correct = torch.tensor([-3.0, -1.0], requires_grad=True), torch.tensor([False, True])
    assert aurc(confidence, correct) == 0.25
    assert aurc(confidence.bfloat16(), correct.int()) == 0.25
    assert aurc(confidence.half(), correct.double()) == 0.25
    assert aurc(torch.tensor([1, 2]), [0, 1]) == 0.25
    for metric in METRICS:
        assert type(metric(confidence, correct)) is float


def test_arguments_are_not_modified() -> None:
    confidence, correct = population(50, 1)
    before = confidence.copy(), correct.copy()
    for metric in METRICS:
        metric(confidence, correct)
    assert (confidence == before[0]).all()
    assert (correct == before[1]).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([], [], r"confidence.*got shape \(0,\)"),
        ([0.5], [True, False], r"correct.*\(1,\).*got shape \(2,\)"),
        ([[0.5]], [[True]], r"confidence.*\(rows,\).*got shape \(1, 1\).*squad\.metrics\.scores"),
        (0.5, True, r"confidence.*\(rows,\).*got shape \(\)\.$"),
        ([0.1, float("nan")], [True, True], "confidence.*finite.*got nan in row 1"),
        ([float("inf")], [True], "confidence.*finite.*got inf in row 0"),
        ([0.5, 0.5], [1, 2], "correct.*got 2 in row 1"),
        ([0.5], [0.5], "correct.*got 0.5 in row 0"),
        ([0.5], [float("nan")], "correct.*got nan in row 0"),
        (["a"], [True], "confidence.*numbers.*got text"),
        ([None], [True], "confidence.*numbers.*got objects"),
        ([[0.5], [0.5, 0.5]], [True], "confidence.*numbers.*setting an array element"),
    ],
)
def test_invalid_arguments_are_refused(
    metric: Callable[..., float], confidence: list[float], correct: list[bool], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        metric(confidence, correct)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "a", None])
def test_risk_and_coverage_must_be_fractions(share: float) -> None:
    with pytest.raises(ArgumentError, match=rf"risk.*got .?{share}"):
        coverage_at_risk([0.5], [True], share)
    with pytest.raises(ArgumentError, match=rf"coverage.*got .?{share}"):
        risk_at_coverage([0.5], [True], share)
    with pytest.raises(ArgumentError, match=r"coverage.*got 0"):
        risk_at_coverage([0.5], [True], 0.0)
