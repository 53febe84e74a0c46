"""Do intervals cover the truth as often as they say?  A short run of benchmarks/intervals.py, which has all metrics."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import intervals
from squad.metrics import Interval

REPETITIONS = 300
#: As the benchmark allows it, 2 points; and a chance of one in a thousand to see less.
LEAST = int(binom.ppf(0.001, REPETITIONS, intervals.LEVEL - 0.02))


def hits(name: str, n: int, rate: float, which: str) -> int:
    """How many of the intervals cover the truth: those that are used, or percentiles."""
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
def test_intervals_cover_what_they_say(name: str) -> None:
    assert hits(name, 1000, 0.1, "used") >= LEAST


@pytest.mark.parametrize(("name", "rate"), [("aurc", 0.02), ("ece", 0.1)])
def test_the_check_finds_intervals_that_do_not(name: str, rate: float) -> None:
    """The planted fault: percentiles, on few errors, and of a metric that noise lifts."""
    assert hits(name, 200, rate, "percentiles") < LEAST


def test_the_benchmark_counts_what_is_covered() -> None:
    covered = np.array([(True, True, False), (False, True, False), (False, False, True), (False, True, True)])
    found: dict[str, Any] = intervals.summary(covered)
    assert (found["before"], found["after"], found["flagged"], found["unflagged"]) == (0.25, 0.75, 0.5, 1.0)
    assert isinstance(intervals.both(*intervals.sample(100, 0.1, 0)["aurc"], 0, 20)[1], Interval)


def test_truths_are_those_of_many_cases() -> None:
    for rate in intervals.RATES:
        truth = intervals.truths(rate)
        for name, (metric, arrays, _) in intervals.sample(400_000, rate, 0).items():
            assert metric(*arrays) == pytest.approx(truth[name], rel=0.06, abs=1e-3), name
            assert math.isfinite(truth[name])
