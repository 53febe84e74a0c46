"""How many labels a certificate needs."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import squad
from squad.selective import plan, success_probability
from squad.selective.bounds import min_cases_with, min_cases_without_errors, most_errors, passes, tail


def one_rule(m: int, risk: float, delta: float, coverage: float, error: float) -> float:
    """Probability that a rule fixed in advance passes: accepted cases and the errors among them are binomial."""
    total = 0.0
    for n in range(1, m + 1):
        allowed = np.flatnonzero(binom.cdf(np.arange(n + 1), n, risk) <= delta)
        if len(allowed):
            total += binom.pmf(n, m, coverage) * binom.cdf(allowed[-1], n, error)
    return float(total)


@given(
    risk=st.floats(0.1, 0.6),
    delta=st.floats(0.02, 0.4),
    coverage=st.floats(0.3, 1.0),
    ratio=st.floats(0.0, 0.5),
    power=st.floats(0.3, 0.97),
)
@settings(max_examples=25, deadline=None)
def test_the_power_for_one_rule_is_exact(
    risk: float, delta: float, coverage: float, ratio: float, power: float
) -> None:
    """Over the whole range where it can be computed by hand, and without slack."""
    m = plan(risk, delta, coverage, ratio * risk, power, method="grid")
    assume(m <= 250)
    chance = one_rule(m, risk, delta, coverage, ratio * risk)
    assert chance >= power - 1e-9
    assert success_probability(m, risk, delta, coverage, ratio * risk, method="grid") == pytest.approx(chance, abs=1e-9)
    assert m == 1 or one_rule(m - max(1, m // 100), risk, delta, coverage, ratio * risk) < power


def simulated(m: int, method: str, risk: float, delta: float, coverage: float, error: float, often: int) -> float:
    """Fraction of samples of the population that plan describes on which ``squad.certify`` succeeds."""
    hits = 0
    for repetition in range(often):
        rng = np.random.default_rng([7, repetition])
        confidence = rng.random(m)
        correct = (confidence > 1 - coverage) & (rng.random(m) >= error)
        hits += squad.certify(confidence, correct, risk, delta, method).coverage >= 0.9 * coverage
    return hits / often


@pytest.mark.parametrize("method", ["fallback", "sgr"])
def test_the_power_of_a_method_is_reached(method: str) -> None:
    """Compare with certificates of the method itself; more in benchmarks/plan_power.py."""
    m = plan(0.1, 0.05, 0.6, 0.04, 0.8, method=method)
    chance = success_probability(m, 0.1, 0.05, 0.6, 0.04, method=method)
    assert 0.8 <= chance < 0.85
    assert simulated(m, method, 0.1, 0.05, 0.6, 0.04, 400) == pytest.approx(chance, abs=0.09)


def test_the_default_takes_more_than_one_test() -> None:
    """With as many cases as one test needs for 90 %, the default succeeds in fewer than half of all samples."""
    one = plan(0.02, 0.01, 0.7, 0.01, method="grid")
    assert success_probability(one, 0.02, 0.01, 0.7, 0.01) < 0.5
    assert plan(0.02, 0.01, 0.7, 0.01) > 1.5 * one


def test_other_populations_are_easier() -> None:
    """The same risk at the same coverage, but fewer errors at the top, and not only errors beyond."""
    m, coverage = plan(0.1, 0.05, 0.6, 0.04, 0.8), 0.6
    hits = 0
    for repetition in range(300):
        rng = np.random.default_rng([8, repetition])
        q = rng.random(m)
        correct = rng.random(m) >= np.where(q < coverage, 0.04 * 3 * (q / coverage) ** 2, 0.5)
        hits += squad.certify(1 - q, correct, 0.1, 0.05).coverage >= 0.9 * coverage
    assert hits / 300 > 0.85


def test_attempts_need_more_labels() -> None:
    assert plan(0.02, 0.01, attempt=1) == plan(0.02, 0.009) > plan(0.02, 0.01)
    assert plan(0.02, 0.01, attempt=2) > plan(0.02, 0.01, attempt=1)


class TestPilot:
    def scores(self, count: int, seed: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        confidence = rng.random(count)
        return confidence, rng.random(count) >= 0.4 * (1 - confidence) ** 2

    def test_cases_drawn_from_the_pilot(self) -> None:
        confidence, correct = pilot = self.scores(400, 0)
        m = plan(0.05, 0.05, 0.5, pilot=pilot)
        chance = success_probability(m, 0.05, 0.05, 0.5, pilot=pilot)
        assert 0.9 <= chance < 0.94
        hits = []
        for seed in range(200):
            rng = np.random.default_rng([9, seed])
            rows = rng.integers(400, size=m)
            untied = confidence[rows] + 1e-9 * rng.random(m)  # copies of a case are accepted one by one
            hits.append(squad.certify(untied, correct[rows], 0.05, 0.05).coverage >= 0.45)
        assert np.mean(hits) == pytest.approx(chance, abs=0.08)
        assert plan(0.05, 0.05, pilot=pilot) < m  # any certificate

    def test_refusals(self) -> None:
        confidence, correct = self.scores(500, 0)
        with pytest.raises(squad.ArgumentError, match=r"either `error` or `pilot`"):
            plan(0.05, error=0.01, pilot=(confidence, correct))
        with pytest.raises(squad.ArgumentError, match=r"pilot .*below the risk of 0\.01 .*More labels will not help"):
            plan(0.01, coverage=0.95, pilot=(confidence, correct))
        with pytest.raises(squad.ArgumentError, match="grid needs `coverage`"):
            plan(0.05, method="grid", pilot=(confidence, correct))
        with pytest.raises(squad.ArgumentError, match=r"pilot.*got no cases"):
            plan(0.05, pilot=([], []))
        with pytest.raises(squad.ArgumentError, match=r"correct.*got shape \(1,\)"):
            plan(0.05, pilot=([0.5, 0.6], [1]))
        with pytest.raises(squad.ArgumentError, match=r"pilot is not below 0\.001 at any threshold"):
            plan(0.001, pilot=(confidence, np.zeros(500)))

    def test_one_threshold(self) -> None:
        confidence, correct = self.scores(2000, 0)
        best = np.argsort(-confidence)[:1000]
        error = 1 - correct[best].mean()
        assert plan(0.1, coverage=0.5, method="grid", pilot=(confidence, correct)) == plan(
            0.1, coverage=0.5, error=error, method="grid"
        )


def test_band_has_a_largest_risk() -> None:
    with pytest.raises(squad.ArgumentError, match="r_max"):
        plan(0.2, method="band")
    assert plan(0.2, method="band", r_max=0.3) > 0


def test_unknown_methods() -> None:
    with pytest.raises(squad.ArgumentError, match=r"method.*got 'magic'"):
        plan(0.1, method="magic")


def test_very_many_labels() -> None:
    assert plan(0.02, 0.01, 0.7, 0.0195, method="grid") > 10**6
    with pytest.raises(squad.ArgumentError, match="a billion labels"):
        plan(0.02, 0.01, 1.0, 0.02 - 1e-9)


@pytest.mark.parametrize("error", [0.02, 0.5])
def test_errors_above_the_risk_are_refused(error: float) -> None:
    with pytest.raises(squad.ArgumentError, match=rf"error .*0\.02, got {error}.*More labels will not help"):
        plan(0.02, 0.01, 0.7, error)


@pytest.mark.parametrize("name", ["risk", "delta", "coverage", "power"])
@pytest.mark.parametrize("value", [0.0, 1.1, -1, math.nan, "x"])
def test_invalid_arguments_are_refused(name: str, value: object) -> None:
    with pytest.raises(squad.ArgumentError, match=rf"^{name} .*got {value!r}"):
        plan(**{"risk": 0.1, "delta": 0.1, name: value})  # type: ignore[arg-type]


class TestBounds:
    @given(n=st.integers(0, 400), risk=st.floats(0.001, 0.9), level=st.floats(1e-6, 0.9))
    @settings(max_examples=80, deadline=None)
    def test_most_errors(self, n: int, risk: float, level: float) -> None:
        most = most_errors(n, risk, level)
        assert most == -1 or passes(most, n, risk, level)
        assert not passes(most + 1, n, risk, level)

    @given(k=st.integers(0, 50), risk=st.floats(0.001, 0.9), level=st.floats(1e-6, 0.9))
    @settings(max_examples=80, deadline=None)
    def test_fewest_with(self, k: int, risk: float, level: float) -> None:
        n = min_cases_with(k, risk, level)
        assert passes(k, n, risk, level)
        assert not passes(k, n - 1, risk, level)

    @given(risk=st.floats(0.001, 0.9), level=st.floats(1e-6, 0.9))
    def test_fewest_is_the_closed_form(self, risk: float, level: float) -> None:
        assert abs(min_cases_without_errors(risk, level) - math.log(level) / math.log1p(-risk)) <= 1

    def test_tails_against_scipy(self) -> None:
        n, k = np.meshgrid(np.arange(0, 60), np.arange(0, 60))
        assert np.allclose(tail(k, n, 0.07), binom.cdf(k, n, 0.07), atol=1e-13)


@pytest.mark.parametrize("method", ["fallback", "fixed_sequence"])
def test_a_coverage_below_the_first_start_is_refused(method: str) -> None:
    with pytest.raises(squad.ArgumentError, match="starts at a quarter"):
        squad.plan(0.05, 0.05, coverage=0.15, error=0.01, method=method)
    assert squad.plan(0.05, 0.05, coverage=0.15, error=0.01, method="sgr") < 10_000
