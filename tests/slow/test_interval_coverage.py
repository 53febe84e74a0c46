"""Whether intervals cover the truth as often as their level says: a short run of benchmarks/intervals.py."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import intervals
from squad.metrics import Interval

REPETITIONS = 300
#: Minimum number of hits: 2 points below the level, as in the benchmark, less a one-in-a-thousand deviation.
LEAST = int(binom.ppf(0.001, REPETITIONS, intervals.LEVEL - 0.02))


def hits(name: str, n: int, rate: float, which: str) -> int:
    """Count the intervals that cover the truth: those in use, or percentile intervals."""
    truth, found = intervals.truths(rate)[name], 0
    for repetition in range(REPETITIONS):
        metric, arrays, paired = intervals.sample(n, rate, repetition)[name]
        (low, high), used = intervals.both(metric, arrays, paired, repetition, intervals.REPEATS)
        if which == "used":
            assert not used.approximate or name != "augrc"
            low, high = used.low, used.high
        found += low <= truth <= high
    return found


@pytest.mark.parametrize("name", ["augrc", "failure_auroc"])
def test_intervals_reach_their_nominal_coverage(name: str) -> None:
    assert hits(name, 1000, 0.1, "used") >= LEAST


@pytest.mark.parametrize(("name", "rate"), [("aurc", 0.02), ("ece", 0.1)])
def test_percentile_intervals_fail_the_check(name: str, rate: float) -> None:
    """Planted fault: percentile intervals with few errors, or of a metric that noise biases upwards."""
    assert hits(name, 200, rate, "percentiles") < LEAST


def test_the_benchmark_counts_what_is_covered() -> None:
    covered = np.array([(True, True, False), (False, True, False), (False, False, True), (False, True, True)])
    found: dict[str, Any] = intervals.summary(covered)
    assert (found["before"], found["after"], found["flagged"], found["unflagged"]) == (0.25, 0.75, 0.5, 1.0)
    assert isinstance(intervals.both(*intervals.sample(100, 0.1, 0)["aurc"], 0, 20)[1], Interval)


def test_truths_agree_with_large_samples() -> None:
    for rate in intervals.RATES:
        truth = intervals.truths(rate)
        for name, (metric, arrays, _) in intervals.sample(400_000, rate, 0).items():
            assert metric(*arrays) == pytest.approx(truth[name], rel=0.06, abs=1e-3), name
            assert math.isfinite(truth[name])
