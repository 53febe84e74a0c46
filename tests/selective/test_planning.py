"""How many labels a promise takes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import squad
from squad.selective import plan
from squad.selective.bounds import fewest, fewest_with, most_errors, passes, tail


def brute(risk: float, delta: float, coverage: float, error: float, power: float, most: int) -> int | None:
    for m in range(1, most):
        n = math.floor(m * coverage + 1e-9)
        allowed = max((k for k in range(n + 1) if binom.cdf(k, n, risk) <= delta), default=-1)
        if allowed >= 0 and binom.cdf(allowed, n, error) >= power:
            return m
    return None


@given(
    risk=st.floats(0.05, 0.6),
    delta=st.floats(0.01, 0.4),
    coverage=st.floats(0.3, 1.0),
    ratio=st.floats(0.0, 0.6),
    power=st.floats(0.1, 0.97),
)
@settings(max_examples=25, deadline=None)
def test_the_smallest_number(risk: float, delta: float, coverage: float, ratio: float, power: float) -> None:
    expected = brute(risk, delta, coverage, ratio * risk, power, 150)
    found = plan(risk, delta, coverage, ratio * risk, power)
    assert found == expected if expected is not None else found >= 150


def test_it_keeps_its_word() -> None:
    m = plan(0.05, 0.05, 0.6, 0.02, 0.9)
    n = math.floor(0.6 * m)
    errors = np.random.default_rng(0).binomial(n, 0.02, 20_000)
    assert passes(errors, n, 0.05, 0.05).mean() == pytest.approx(0.9, abs=0.02)


def test_far_away() -> None:
    assert plan(0.02, 0.01, 0.7, 0.0195) > 10**6
    with pytest.raises(squad.ArgumentError, match="a billion labels will not do"):
        plan(0.02, 0.01, 1.0, 0.02 - 1e-9)


@pytest.mark.parametrize("error", [0.02, 0.5])
def test_errors_above_the_risk_are_refused(error: float) -> None:
    with pytest.raises(squad.ArgumentError, match=r"error must be below the risk of 0.02; got .* More labels will not"):
        plan(0.02, 0.01, 0.7, error)


@pytest.mark.parametrize("name", ["risk", "delta", "coverage", "power"])
@pytest.mark.parametrize("value", [0.0, 1.1, -1, math.nan, "x"])
def test_wrong_input(name: str, value: object) -> None:
    with pytest.raises(squad.ArgumentError, match=f"{name} must be"):
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
        n = fewest_with(k, risk, level)
        assert passes(k, n, risk, level)
        assert not passes(k, n - 1, risk, level)

    @given(risk=st.floats(0.001, 0.9), level=st.floats(1e-6, 0.9))
    def test_fewest_is_the_closed_form(self, risk: float, level: float) -> None:
        assert abs(fewest(risk, level) - math.log(level) / math.log1p(-risk)) <= 1

    def test_tails_against_scipy(self) -> None:
        n, k = np.meshgrid(np.arange(0, 60), np.arange(0, 60))
        assert np.allclose(tail(k, n, 0.07), binom.cdf(k, n, 0.07), atol=1e-13)
