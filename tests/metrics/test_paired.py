"""Intervals of paired differences: their coverage by simulation, and what cancels in pairs."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from squad.errors import ArgumentError
from squad.metrics import Interval, aurc, coverage_at_risk, ece, ood_auroc, ood_fpr, paired_difference, risk_at_coverage

error_rate = partial(risk_at_coverage, coverage=1.0)


def test_the_value_is_the_difference() -> None:
    rng = np.random.default_rng(0)
    first, second = ((rng.random(200), rng.random(200) < p) for p in (0.8, 0.9))
    for metric in (error_rate, aurc, partial(coverage_at_risk, risk=0.1)):
        found = paired_difference(metric, first, second)
        assert found.value == pytest.approx(metric(*second) - metric(*first))
        assert found.low <= found.value <= found.high
        assert (found.method, found.approximate) == ("percentile", True)
        back = paired_difference(metric, second, first)
        assert (back.low, back.high) == pytest.approx((-found.high, -found.low))


def test_what_is_common_cancels() -> None:
    rng = np.random.default_rng(1)
    confidence, hard = rng.random(500), rng.random(500) < 0.3
    second = ~hard
    second[:5] = ~second[:5]
    paired = paired_difference(error_rate, (confidence, ~hard), (confidence, second))
    apart = paired_difference(error_rate, (confidence, ~hard), (confidence, rng.permutation(second)))
    assert paired.high - paired.low < 0.3 * (apart.high - apart.low)


def test_intervals_cover_the_true_difference() -> None:
    rng = np.random.default_rng(2)
    missed = 0
    for seed in range(200):
        hard = rng.random(400) < 0.3
        first, second = ~hard & (rng.random(400) < 0.9), ~hard & (rng.random(400) < 0.95)
        found = paired_difference(error_rate, (np.ones(400), first), (np.ones(400), second), repeats=300, seed=seed)
        missed += not found.low <= -0.7 * 0.05 <= found.high
    assert missed <= 22  # 10 expected; four standard deviations above


def test_it_depends_on_the_seed_alone() -> None:
    rng = np.random.default_rng(3)
    first, second = ((rng.random(100), rng.random(100) < 0.9) for _ in range(2))
    found = paired_difference(aurc, first, second)
    assert paired_difference(aurc, first, second) == found
    assert paired_difference(aurc, first, second, seed=1).low != found.low


def test_errors() -> None:
    with pytest.raises(ArgumentError, match=r"one entry per row.*\[2, 3\]"):
        paired_difference(aurc, ([0.1, 0.2], [1, 0]), ([0.1, 0.2, 0.3], [1, 0, 1]))
    rows = ([0.9, 0.8], [1, 0])
    for metric in (ood_auroc, partial(ood_fpr, tpr=0.9)):
        with pytest.raises(ArgumentError, match=r"ood_\w+ compares rows of two data sets.*paired=False"):
            paired_difference(metric, rows, rows)
    with pytest.raises(ArgumentError, match=r"coverage_at_risk .* 2 arrays: missing.*'risk'.*functools\.partial"):
        paired_difference(coverage_at_risk, rows, rows)
    with pytest.raises(ArgumentError, match=r"aurc .* 'risk'.*functools\.partial"):
        paired_difference(partial(aurc, risk=0.1), rows, rows)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match=r"array 3.*scalar 0\.1.*functools\.partial"):
        paired_difference(coverage_at_risk, (*rows, 0.1), (*rows, 0.1))
    with pytest.raises(ArgumentError, match=r"metric.*returns a number, got list"):
        paired_difference(lambda *_: [], rows, rows)  # type: ignore[arg-type]


def test_errors_of_the_metric_itself_are_its_own() -> None:
    def broken(*_: object) -> float:
        raise TypeError("of the metric itself")

    rows = ([0.9, 0.8], [1, 0])
    with pytest.raises(TypeError, match="of the metric itself"):
        paired_difference(broken, rows, rows)


@pytest.mark.parametrize(
    "metric",
    [
        partial(ece, bins=5),
        partial(risk_at_coverage, coverage=0.5),
        lambda confidence, correct: float((confidence * correct).mean()),
    ],
)
def test_any_function_of_the_arrays_is_a_metric(metric: Callable[..., float]) -> None:
    rng = np.random.default_rng(4)
    first, second = ((rng.random(60), rng.random(60) < p) for p in (0.5, 0.9))
    found = paired_difference(metric, first, second, repeats=200)
    assert found.value == metric(*second) - metric(*first)
    assert found.low < found.value < found.high


def test_functions_without_a_fast_version_have_the_same_intervals() -> None:
    rng = np.random.default_rng(5)
    first, second = ((rng.random(60), rng.random(60) < p) for p in (0.5, 0.9))
    fast = paired_difference(ece, first, second, repeats=100)
    slow = paired_difference(partial(ece, bins=15), first, second, repeats=100)
    assert (slow.value, slow.low, slow.high) == pytest.approx((fast.value, fast.low, fast.high))


def test_a_percentile_interval_may_exclude_the_difference() -> None:
    """As the docs of Interval say: a resample has fewer distinct rows than the data."""
    found = paired_difference(lambda x: len(np.unique(x)), (np.zeros(20),), (np.arange(20.0),))
    assert found.value == 19
    assert found.low < found.high < 19
    assert "percentile" in (Interval.__doc__ or "")
