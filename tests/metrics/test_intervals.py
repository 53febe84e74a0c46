"""Parts of intervals compared with literal definitions: fast resamples, jackknife, DeLong; and laws of intervals."""

import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, norm

from squad import metrics
from squad.metrics import Interval, bootstrap
from squad.metrics.bca import acceleration, bca
from squad.metrics.delong import delong
from squad.metrics.resampled import on_counts
from tests.metrics.brute import CASES, SCORES, Cases, split

module: Any = importlib.import_module("squad.metrics.bootstrap")  # hidden by the function of the same name

RANKED: list[Callable[..., float]] = [
    metrics.aurc,
    metrics.e_aurc,
    metrics.augrc,
    metrics.failure_ap,
    metrics.failure_auroc,
    partial(metrics.coverage_at_risk, risk=0.3),
    partial(metrics.risk_at_coverage, coverage=0.6),
]
seeds = st.integers(0, 2**32 - 1)


def cases(count: int, seed: int, decimals: int = 9) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    c = rng.random(count).round(decimals)
    return c, rng.random(count) < 0.5 + c / 2


def probabilities(count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), count), rng.integers(3, size=count)


def repeated(rows: list[NDArray[Any]], counts: NDArray[Any]) -> list[NDArray[Any]]:
    return [np.repeat(array, counts, 0) for array in rows]


# ---- resamples by counts


@given(CASES, seeds)
def test_ranking_metrics_of_counts_are_those_of_repeated_rows(some: Cases, seed: int) -> None:
    rows = [np.array(one) for one in split(some)]
    counts = np.random.default_rng(seed).integers(0, 4, size=(5, len(some)))
    counts = counts[counts.sum(1) > 0]
    if not len(counts):
        counts = np.ones((1, len(some)), dtype=np.int64)
    for metric in RANKED:
        fast = on_counts(metric, rows)
        assert fast is not None
        expected = [metric(*repeated(rows, one)) for one in counts]
        np.testing.assert_allclose(fast(counts), expected, rtol=1e-12, atol=1e-14)


@given(seeds)
def test_other_metrics_of_counts_are_those_of_repeated_rows(seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 4, size=(5, 20)) + 0
    counts[:, 0] += 1
    known: list[Callable[..., float]] = [metrics.ece, metrics.nll, metrics.brier, metrics.accuracy]
    for metric in known:
        rows = cases(20, seed) if metric is metrics.ece else probabilities(20, seed)
        fast = on_counts(metric, list(rows))
        assert fast is not None
        np.testing.assert_allclose(fast(counts), [metric(*repeated(list(rows), one)) for one in counts], rtol=1e-12)


@given(SCORES, SCORES, seeds)
def test_ood_metrics_of_counts_are_those_of_repeated_rows(inside: list[float], outside: list[float], seed: int) -> None:
    rows = [np.array(inside), np.array(outside)]
    counts = np.random.default_rng(seed).integers(0, 4, size=(5, len(inside) + len(outside)))
    counts[:, 0] += 1
    counts[:, -1] += 1
    parts = [np.split(one, [len(inside)]) for one in counts]
    for metric in (metrics.ood_ap, metrics.ood_auroc):
        fast = on_counts(metric, rows)
        assert fast is not None
        expected = [metric(np.repeat(rows[0], a), np.repeat(rows[1], b)) for a, b in parts]
        np.testing.assert_allclose(fast(counts), expected, rtol=1e-12, atol=1e-14)


def test_metrics_without_a_fast_version_use_the_slow_one() -> None:
    c, right = cases(40, 0)
    for metric in (partial(metrics.ece, bins=3), partial(metrics.ece, kind="mass"), lambda a, b: metrics.aurc(a, b)):
        assert on_counts(metric, [c, right]) is None
        assert bootstrap(metric, c, right, repeats=20).approximate
    one = bootstrap(metrics.aurc, c, right, repeats=50)
    other = bootstrap(lambda a, b: metrics.aurc(a, b), c, right, repeats=50)
    assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-12)


# ---- the jackknife


@given(CASES.filter(lambda some: len(some) > 1))
def test_the_jackknife_leaves_out_each_row(some: Cases) -> None:
    rows = [np.array(one) for one in split(some)]
    own: Callable[..., float] = lambda c, right: float((c * right).mean())  # noqa: E731
    for metric in [*RANKED, own]:
        measure = module._measure(metric, rows, [len(some)])
        (left,) = module._jackknife(measure, [len(some)], np.random.default_rng(0))
        expected = [metric(*(np.delete(array, i) for array in rows)) for i in range(len(some))]
        np.testing.assert_allclose(left, expected, rtol=1e-12, atol=1e-14)


def test_the_jackknife_of_independent_samples() -> None:
    rows = [np.array([0.9, 0.8, 0.4]), np.array([0.5, 0.1])]
    for metric in (metrics.ood_ap, metrics.ood_fpr):
        inside, outside = module._jackknife(module._measure(metric, rows, [3, 2]), [3, 2], np.random.default_rng(0))
        assert inside == pytest.approx([metric(np.delete(rows[0], i), rows[1]) for i in range(3)])
        assert outside == pytest.approx([metric(rows[0], np.delete(rows[1], i)) for i in range(2)])


def test_groups_of_rows_give_the_same_acceleration() -> None:
    x = np.random.default_rng(0).exponential(size=5000)
    measure = module._measure(lambda x: float(x.mean()), [x], [5000])
    (groups,) = module._jackknife(measure, [5000], np.random.default_rng(0))
    assert len(groups) == module.MAX_LEFT_OUT_SINGLY
    singly = (x.sum() - x) / 4999
    assert acceleration([groups]) == pytest.approx(acceleration([singly]), abs=0.002)
    assert acceleration([singly]) == pytest.approx(2 / 6 / math.sqrt(5000), rel=0.1)  # an exponential's skewness is 2


# ---- BCa


def test_bca_is_the_percentile_interval_without_bias_and_skew() -> None:
    values = norm.ppf((np.arange(2001) + 0.5) / 2001)
    assert bca(0.0, values, 0.0, 0.9) == pytest.approx(norm.ppf([0.05, 0.95]), abs=0.01)


def test_bca_follows_efrons_formula() -> None:
    """Compare with Efron's formula, term by term; ties count one half."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 30, size=4000) / 10
    value, a, z = 1.2, 0.08, norm.ppf(0.975)
    bias = norm.ppf((np.mean(values < 1.2) + np.mean(values <= 1.2)) / 2)
    shares = [norm.cdf(bias + (bias + one) / (1 - a * (bias + one))) for one in (-z, z)]
    assert bca(value, values, a, 0.95) == pytest.approx(np.quantile(values, shares))


def test_bca_matches_scipy() -> None:
    from scipy.stats import bootstrap as scipys

    x = np.random.default_rng(1).exponential(size=80)
    theirs = scipys((x,), np.mean, method="BCa", n_resamples=9999, rng=2).confidence_interval
    ours = bootstrap(lambda x: float(x.mean()), x, repeats=9999)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=0.02)
    percentile = np.quantile(x[np.random.default_rng(0).integers(80, size=(9999, 80))].mean(1), [0.025, 0.975])
    assert ours.high > percentile[1] * 1.01  # shifted towards the long tail


# ---- laws


@settings(max_examples=30)
@given(CASES.filter(lambda some: len(some) > 1), st.floats(0.5, 0.999), st.floats(0.5, 0.999), seeds)
def test_intervals_contain_the_value_and_grow_with_the_level(some: Cases, one: float, other: float, seed: int) -> None:
    rows = [np.array(part) for part in split(some)]
    for metric in RANKED:
        low, high = (bootstrap(metric, *rows, level=level, repeats=40) for level in sorted((one, other)))
        if math.isnan(low.value):
            assert math.isnan(low.low)
            assert math.isnan(high.high)
            continue
        assert high.low <= low.low <= low.value <= low.high <= high.high
        order = np.random.default_rng(seed).permutation(len(some))
        again = bootstrap(metric, *(part[order] for part in rows), level=min(one, other), repeats=40)
        assert (again.low, again.high, again.approximate) == (low.low, low.high, low.approximate)


@pytest.mark.parametrize("metric", [metrics.nll, metrics.brier, metrics.accuracy], ids=lambda one: one.__name__)
def test_the_order_of_rows_does_not_matter(metric: Callable[..., float]) -> None:
    p, y = probabilities(60, 3)
    order = np.random.default_rng(0).permutation(60)
    one, other = bootstrap(metric, p, y, repeats=100), bootstrap(metric, p[order], y[order], repeats=100)
    assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-12)


def test_level_1_spans_all_resamples() -> None:
    c, right = cases(30, 0)
    found = bootstrap(metrics.aurc, c, right, level=1, repeats=50)
    wide = bootstrap(metrics.aurc, c, right, level=0.9999, repeats=50)
    assert found.low <= wide.low <= wide.high <= found.high


# ---- AUROC


@given(SCORES, SCORES, st.sampled_from([0.5, 0.9, 0.99]))
def test_delong_by_all_pairs(good: list[float], bad: list[float], level: float) -> None:
    from scipy.stats import t

    pairs = np.array([[(a > b) + (a == b) / 2 for a in good] for b in bad])
    value, low, high = delong(np.array(good), np.array(bad), level)
    assert value == pytest.approx(pairs.mean())
    assert 0 <= low <= value <= high <= 1
    fewer, miss = min(pairs.shape), (1 - level) / 2
    if pairs.mean() in (0, 1):
        # Disjoint pairs are independent, and all of them are ranked correctly (or none).
        far = low if pairs.mean() else 1 - high
        assert far**fewer == pytest.approx(miss)
        return
    if fewer < 2:
        return
    parts = [pairs.mean(1).var(ddof=1) / len(bad), pairs.mean(0).var(ddof=1) / len(good)]
    if sum(parts) == 0:
        return
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(bad) - 1) + parts[1] ** 2 / (len(good) - 1))
    half = t.ppf(1 - miss, freedom) * math.sqrt(sum(parts)) / (value * (1 - value))
    expected = [1 / (1 + math.exp(-(math.log(value / (1 - value)) + sign * half))) for sign in (-1, 1)]
    assert (low, high) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_auroc_does_not_resample() -> None:
    c, right = cases(300, 0)
    found = bootstrap(metrics.failure_auroc, c, right)
    assert found == bootstrap(metrics.failure_auroc, c, right, seed=5, repeats=1)
    assert found.method == "delong"
    assert not found.approximate
    apart = bootstrap(metrics.ood_auroc, c[right], c[~right], paired=False)
    assert (apart.low, apart.high) == (found.low, found.high)
    assert bootstrap(metrics.failure_auroc, c[:12], right[:12]).approximate


# ---- no errors observed


def test_accuracy_has_the_exact_interval() -> None:
    p = np.array([[0.9, 0.1]] * 50)
    for wrong in (0, 3, 50):
        y = np.arange(50) < wrong
        found = bootstrap(metrics.accuracy, p, y.astype(int))
        assert found.method == "exact"
        right = 50 - wrong
        assert binom.sf(right - 1, 50, found.low) == pytest.approx(0.025 if right else 1)
        assert binom.cdf(right, 50, found.high) == pytest.approx(0.025 if wrong else 1)


@pytest.mark.parametrize("metric", [*RANKED[:3], RANKED[-1]])
def test_no_observed_errors_leave_a_positive_upper_bound(metric: Callable[..., float]) -> None:
    """The upper end is the worst case of the largest error rate compatible with 50 correct predictions."""
    found = bootstrap(metric, np.linspace(0.6, 0.9, 50), np.ones(50, dtype=bool))
    assert (found.value, found.low, found.method) == (0.0, 0.0, "bound")
    rate = 1 - 0.025 ** (1 / 50)
    errors = round(rate * 100_000)
    worst = metric(np.arange(100_000), np.arange(100_000) < 100_000 - errors)
    assert found.high >= worst - 1e-4
    assert found.high < worst + 0.01


def test_intervals_are_marked_as_approximate() -> None:
    c, right = cases(2000, 0)
    assert not bootstrap(metrics.augrc, c, right, repeats=50).approximate
    p, y = np.tile([0.9, 0.1], (2000, 1)), np.zeros(2000, dtype=np.int64)
    enough = module.MIN_EVENTS
    for wrong in (29, 30, 49, 50, 99, 100, 1971):
        right = np.arange(2000) >= wrong
        y[:] = ~right
        for metric in RANKED[:4]:
            assert bootstrap(metric, c, right, repeats=5).approximate == (min(wrong, 2000 - wrong) < enough[metric])
        for proper in (metrics.nll, metrics.brier):
            assert bootstrap(proper, p, y, repeats=5).approximate == (min(wrong, 2000 - wrong) < enough[proper])
    assert bootstrap(
        metrics.ood_ap, c, c[:500], repeats=5, paired=False
    ).approximate  # regardless of the number of cases
    # 100 of 2,000 rows are accepted, and 50 or 10 of these are wrong.
    for wrong in (50, 10):
        right = ~np.isin(np.arange(2000), np.argsort(-c)[:wrong])
        found = bootstrap(partial(metrics.risk_at_coverage, coverage=0.05), c, right, repeats=5)
        assert found.approximate == (wrong == 10)
    for metric in (metrics.ece, partial(metrics.coverage_at_risk, risk=0.1), lambda c, right: float(c.mean())):
        assert bootstrap(metric, c, right, repeats=20).approximate
    assert "approximate" in str(Interval(0.5, 0.4, 0.6, 0, True))
    assert str(Interval(0.5, 0.4, 0.61234)) == "0.5 (0.4 to 0.6123)"


def test_a_constant_metric_is_approximate() -> None:
    found = bootstrap(lambda x: 0.0, np.ones(20), repeats=20)
    assert (found.value, found.low, found.high, found.approximate) == (0.0, 0.0, 0.0, True)
