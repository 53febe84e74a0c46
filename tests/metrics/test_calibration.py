"""Calibration error, by its definition, by scikit-learn's curve, and where the truth is known."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from squad.errors import ArgumentError
from squad.metrics import Bin, ece, reliability
from squad.metrics.calibration import Kind
from tests.metrics.brute import population, split

CASES = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.55, 0.9, 1.0]), st.booleans()), min_size=1)
KINDS: list[Kind] = ["width", "mass"]


def gaps(bins: dict[int, list[tuple[float, bool]]], rows: int) -> float:
    """ECE from the cases in each bin."""
    total = 0.0
    for cases in bins.values():
        accuracy = sum(right for _, right in cases) / len(cases)
        confidence = sum(confidence for confidence, _ in cases) / len(cases)
        total += len(cases) / rows * abs(accuracy - confidence)
    return total


@given(CASES, st.integers(1, 20))
def test_equal_width_by_definition(cases: list[tuple[float, bool]], count: int) -> None:
    bins: dict[int, list[tuple[float, bool]]] = {}
    for case in cases:
        bins.setdefault(min(math.floor(case[0] * count), count - 1), []).append(case)
    confidence, correct = split(cases)
    assert ece(confidence, correct, count) == pytest.approx(gaps(bins, len(cases)), abs=1e-12)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, unique_by=lambda case: case[0]))
def test_equal_mass_by_definition(cases: list[tuple[float, bool]]) -> None:
    bins: dict[int, list[tuple[float, bool]]] = {}
    for rank, case in enumerate(sorted(cases)):
        bins.setdefault(math.floor(rank * 4 / len(cases)), []).append(case)
    confidence, correct = split(cases)
    assert ece(confidence, correct, 4, "mass") == pytest.approx(gaps(bins, len(cases)), abs=1e-12)


@given(CASES, st.integers(1, 20), st.randoms(use_true_random=False))
def test_equal_mass_keeps_ties_together(cases: list[tuple[float, bool]], count: int, random: object) -> None:
    assert hasattr(random, "shuffle")
    moved = list(cases)
    random.shuffle(moved)
    found = reliability(*split(cases), count, "mass")
    again = reliability(*split(moved), count, "mass")
    assert [(bar.count, bar.start, bar.end) for bar in found] == [(bar.count, bar.start, bar.end) for bar in again]
    assert all(one.end < other.start for one, other in pairwise(found))
    assert ece(*split(cases), count, "mass") == pytest.approx(ece(*split(moved), count, "mass"), abs=1e-12)


def test_equal_mass_is_equal() -> None:
    confidence, correct = population(1000, None)
    assert [bar.count for bar in reliability(confidence, correct, 8, "mass")] == [125] * 8
    # Ties are binned by mean rank, from 0: with 5 cases and 2 bins, rank 2 is in the first bin and 2.5 in the second.
    assert [bar.count for bar in reliability([0.1, 0.2, 0.2, 0.2, 0.3], [True] * 5, 2, "mass")] == [4, 1]
    assert [bar.count for bar in reliability([0.1, 0.2, 0.2, 0.2, 0.2], [True] * 5, 2, "mass")] == [1, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_many_cases_by_another_implementation(kind: Kind) -> None:
    from sklearn.calibration import calibration_curve

    confidence, correct = population(20_000, None)
    bars = reliability(confidence, correct, 10, kind)
    strategy = {"width": "uniform", "mass": "quantile"}[kind]
    accuracy, mean = calibration_curve(correct, confidence, n_bins=10, strategy=strategy)
    assert [bar.accuracy for bar in bars] == pytest.approx(accuracy)
    assert [bar.confidence for bar in bars] == pytest.approx(mean)
    weights = np.array([bar.count for bar in bars]) / len(confidence)
    assert ece(confidence, correct, 10, kind) == pytest.approx(weights @ np.abs(accuracy - mean))


@pytest.mark.parametrize("kind", KINDS)
def test_debiased_is_near_zero_for_a_calibrated_model(kind: Kind) -> None:
    generator = np.random.default_rng(0)
    plain, debiased = [], []
    for _ in range(400):
        confidence = generator.uniform(0.42, 1, 200)
        correct = generator.random(200) < confidence
        plain.append(ece(confidence, correct, kind=kind))
        debiased.append(ece(confidence, correct, kind=kind, debiased=True))
    assert np.mean(plain) == pytest.approx({"width": 0.068, "mass": 0.0905}[kind], abs=0.002)
    assert abs(np.mean(debiased)) < 0.004  # its standard error here is 0.0013
    assert np.std(debiased) < 0.03


def test_debiased_keeps_a_true_gap() -> None:
    generator = np.random.default_rng(0)
    plain, debiased = [], []
    for _ in range(50):
        confidence = generator.uniform(0.4, 1, 5000)
        correct = generator.random(5000) < confidence - 0.2
        plain.append(ece(confidence, correct))
        debiased.append(ece(confidence, correct, debiased=True))
    assert np.mean(plain) == pytest.approx(0.2, abs=0.003)
    assert np.mean(debiased) == pytest.approx(0.2, abs=0.003)


@given(CASES, st.sampled_from(KINDS))
def test_debiased_is_the_mean_over_split_gaps(cases: list[tuple[float, bool]], kind: Kind) -> None:
    # By quadrature over Z: one half determines the sign, the other the size.
    confidence, correct = split(cases)
    noise = np.linspace(-8, 8, 160_001)
    density = np.exp(-(noise**2) / 2) / math.sqrt(2 * math.pi)
    expected = 0.0
    for bar in reliability(confidence, correct, 5, kind):
        inside = [c for c in confidence if bar.start <= c < bar.end or (c == bar.end and (kind == "mass" or c == 1))]
        error = math.sqrt(sum(c * (1 - c) for c in inside)) / bar.count
        gap = bar.accuracy - bar.confidence
        halves = np.sign(gap + error * noise) * (gap - error * noise)
        expected += bar.count / len(cases) * float(halves @ density) * (noise[1] - noise[0])
    assert ece(confidence, correct, 5, kind, debiased=True) == pytest.approx(expected, abs=1e-4)


def test_edges() -> None:
    for kind in KINDS:
        assert ece([0.75], [True], kind=kind) == 0.25
        assert ece([1.0, 1.0], [True, True], kind=kind) == 0.0
        assert ece([1.0, 1.0], [False, False], kind=kind) == 1.0
        assert ece([1.0, 0.0], [False, True], kind=kind, debiased=True) == 1.0  # certain and wrong: no noise
        assert ece([1.0, 0.0], [True, False], kind=kind, debiased=True) == 0.0
        assert ece([0.5] * 4, [True, True, False, False], kind=kind) == 0.0
    assert ece(torch.tensor([0.75], dtype=torch.bfloat16), torch.tensor([True])) == 0.25
    assert ece([1.0, 0.9], [False, True], 5) == pytest.approx(0.45)  # 1 is in the last bin, not in an extra one
    assert ece([1 + 1e-7, -1e-7], [True, False]) == 0.0  # float32 adds up to a little more than 1


def test_intervals_are_those_of_clopper_and_pearson() -> None:
    from scipy.stats import binomtest

    confidence, correct = population(300, None)
    for level in (0.95, 0.8):
        for bar in reliability(confidence, correct, 15, level=level):
            exact = binomtest(round(bar.accuracy * bar.count), bar.count).proportion_ci(level, method="exact")
            assert (bar.low, bar.high) == pytest.approx((exact.low, exact.high), abs=1e-9)
    (right,), (wrong,) = reliability([0.95], [True], 10), reliability([0.05], [False], 10)
    assert right == Bin(0.9, 1.0, 1, 0.95, 1.0, right.low, 1.0)
    assert wrong == Bin(0.0, 0.1, 1, 0.05, 0.0, 0.0, wrong.high)
    assert (right.low, wrong.high) == pytest.approx((0.025, 0.975))


@pytest.mark.parametrize("metric", [ece, reliability])
def test_invalid_arguments_are_refused(metric: Callable[..., object]) -> None:
    message = r"confidence.*between 0 and 1.*got 1\.5 in row 1.*softmax_response"
    with pytest.raises(ArgumentError, match=message):
        metric([0.5, 1.5], [True, True])
    with pytest.raises(ArgumentError, match=r"confidence.*between 0 and 1.*got -0\.1 in row 0"):
        metric([-0.1], [True])
    with pytest.raises(ArgumentError, match=r"bins.*got 0"):
        metric([0.5], [True], 0)
    with pytest.raises(ArgumentError, match=r"kind.*'width', 'mass'.*got 'size'"):
        metric([0.5], [True], 5, "size")
    with pytest.raises(ArgumentError, match=r"confidence.*finite.*got nan in row 0"):
        metric([float("nan")], [True])
    with pytest.raises(ArgumentError, match=r"correct.*\(1,\).*got shape \(2,\)"):
        metric([0.5], [True, True])


@pytest.mark.parametrize("level", [0, 1.1, float("nan")])
def test_level_must_be_a_fraction(level: float) -> None:
    with pytest.raises(ArgumentError, match=rf"level.*got {level}"):
        reliability([0.5], [True], level=level)
