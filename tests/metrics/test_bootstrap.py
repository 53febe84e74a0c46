"""Bootstrap intervals where the distribution of the resampled metric is known."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from squad.errors import ArgumentError
from squad.metrics import Interval, accuracy, aurc, bootstrap, coverage_at_risk, failure_ap, failure_auroc, ood_auroc
from tests.metrics.brute import population


def mean(x: NDArray[Any]) -> float:
    return float(x.mean())


def test_the_interval_of_a_rate_has_binomial_quantiles() -> None:
    from scipy.stats import binom

    for level in (0.95, 0.8):
        found = bootstrap(mean, [1] * 70 + [0] * 30, level=level, repeats=2000)
        assert found.value == 0.7
        expected = binom.ppf([(1 - level) / 2, (1 + level) / 2], 100, 0.7) / 100
        assert (found.low, found.high) == pytest.approx(expected, abs=0.0101)


def test_coverage_reaches_the_nominal_level() -> None:
    truth = aurc(*population(1_000_000, None, seed=1))
    hits = 0
    for seed in range(60):
        found = bootstrap(aurc, *population(400, 2, seed=seed), level=0.9, repeats=100)
        hits += found.low <= truth <= found.high
    assert 45 <= hits <= 60  # 54 on average; below 45 once in a thousand


def test_paired_rows_are_drawn_together() -> None:
    x = np.arange(50)

    def together(one: NDArray[Any], other: NDArray[Any]) -> float:
        count = min(len(one), len(other))
        return float((one[:count] == other[:count]).mean())

    assert bootstrap(together, x, x, repeats=20) == Interval(1.0, 1.0, 1.0, approximate=True)
    assert bootstrap(together, x, x, repeats=20, paired=False).low < 0.5
    found = bootstrap(ood_auroc, [0.9, 0.8, 0.4], [0.5, 0.1], paired=False)
    assert found.value == 5 / 6
    assert found.low < found.value < found.high < 1.0


def test_whole_rows_are_drawn() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    found = bootstrap(accuracy, torch.tensor(p).bfloat16(), torch.tensor(p.argmax(axis=1)))
    assert found.low > 0.9


def test_the_seed_determines_the_resamples() -> None:
    cases = population(200, 2)
    one = bootstrap(aurc, *cases, repeats=50)
    assert one == bootstrap(aurc, *cases, repeats=50, seed=0)
    assert one != bootstrap(aurc, *cases, repeats=50, seed=1)
    assert one.value == aurc(*cases)
    assert all(type(number) is float for number in (one.value, one.low, one.high))
    assert bootstrap(partial(coverage_at_risk, risk=0.1), *cases, repeats=5).value == coverage_at_risk(*cases, 0.1)


def test_resamples_with_an_undefined_metric_are_left_out() -> None:
    # One error in three: it is missing from 8 of 27 resamples.
    found = bootstrap(failure_ap, [0.9, 0.8, 0.7], [True, True, False])
    assert found.undefined == pytest.approx(8000 / 27, abs=60)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert found.approximate
    for metric in (failure_ap, failure_auroc):
        nothing = bootstrap(metric, [0.9, 0.8], [True, True], repeats=10)
        assert all(math.isnan(number) for number in (nothing.value, nothing.low, nothing.high))
        assert nothing.approximate
    assert bootstrap(failure_ap, [0.9, 0.8], [True, True], repeats=10).undefined == 10


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"at least one array.*got none"):
        bootstrap(mean)
    with pytest.raises(ArgumentError, match=r"arrays.*equal length.*got 1, 2 rows.*paired=False"):
        bootstrap(ood_auroc, [0.5], [0.5, 0.6])
    with pytest.raises(ArgumentError, match=r"array 3.*got the scalar 0\.1.*functools\.partial"):
        bootstrap(coverage_at_risk, [0.5], [True], 0.1)
    with pytest.raises(ArgumentError, match=r"coverage_at_risk .* 2 arrays: missing.*'risk'.*functools\.partial"):
        bootstrap(coverage_at_risk, [0.5], [True])
    with pytest.raises(ArgumentError, match=r"array 1.*got shape \(0,\)"):
        bootstrap(mean, [])
    with pytest.raises(ArgumentError, match=r"level.*got 95"):
        bootstrap(mean, [1.0], level=95)
    with pytest.raises(ArgumentError, match=r"repeats.*got 0"):
        bootstrap(mean, [1.0], repeats=0)
    with pytest.raises(ArgumentError, match=r"seed.*got -1"):
        bootstrap(mean, [1.0], seed=-1)
    with pytest.raises(ArgumentError, match=r"metric.*number.*got ndarray"):
        bootstrap(lambda x: x, [1.0, 2.0])
