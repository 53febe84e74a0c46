"""Intervals of paired differences: their coverage by simulation, and what cancels in pairs."""

from functools import partial

import numpy as np
import pytest

from squad.errors import ArgumentError
from squad.metrics import aurc, coverage_at_risk, paired_difference, risk_at_coverage

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
    with pytest.raises(ArgumentError, match=r"function of squad\.metrics"):
        paired_difference(lambda c, k: 0.0, ([0.1], [1]), ([0.1], [1]))
