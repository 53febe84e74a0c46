"""Power: the fast simulation compared with the methods themselves, and with every possible sample."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from squad.selective.bounds import passes
from squad.selective.methods import METHODS, Options
from squad.selective.pilots import Pilot, order_of, thresholds_of
from squad.selective.power import SIMULATED, LeastFavourable, Paths, PilotPopulation, succeeds, success_of_one_threshold
from squad.selective.power_piloted import Piloted
from squad.selective.scored_cases import WRONG, Scores, rank

OPTIONS = Options(ranks=7, r_max=0.4)


def accepted(wrong: "np.ndarray[tuple[int], np.dtype[np.bool_]]", method: str, risk: float, level: float) -> int:
    """Number of these cases, in the order of their confidence, that the method itself accepts."""
    ranked = rank(Scores(-np.arange(len(wrong), dtype=float), {WRONG: wrong}))
    shown = np.flatnonzero(METHODS[method](ranked, ranked.tallies[WRONG], risk, level, OPTIONS))
    return int(ranked.n[shown[-1]]) if len(shown) else 0


def path(wrong: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> Paths:
    """One sample as a path with a corner at every case."""
    return Paths(len(wrong), np.arange(1, len(wrong) + 1)[None], np.cumsum(wrong)[None].astype(np.int64))


@pytest.mark.parametrize("method", SIMULATED)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_sample_succeeds_as_the_method_does(method: str, data: st.DataObject) -> None:
    m = data.draw(st.integers(1, 400))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    risk, level = data.draw(st.floats(0.02, 0.35)), data.draw(st.sampled_from([0.3, 0.1, 0.02]))
    rate = data.draw(st.floats(0, 1.2)) * risk
    wrong = rng.random(m) < np.where(np.arange(m) < data.draw(st.floats(0, 1)) * m, rate, 0.9)
    n = accepted(wrong, method, risk, level)
    for least in {1, n, n + 1, m // 3, m}:
        if 1 <= least <= m:
            assert succeeds(path(wrong), least, method, risk, level, OPTIONS)[0] == (n >= least), (n, least)


@pytest.mark.parametrize(
    "coarse", [LeastFavourable(0.7, 0.04, 300), PilotPopulation(np.random.default_rng(0).random(80) < 0.1)]
)
def test_samples_are_paths(coarse: LeastFavourable | PilotPopulation) -> None:
    found = coarse.draw(300)
    assert (np.diff(found.n, axis=1) >= 0).all()
    assert (np.diff(found.errors, axis=1) >= 0).all()
    assert (np.diff(found.errors, axis=1) <= np.diff(found.n, axis=1)).all()
    assert (found.n[:, -1] == 300).all()


def test_the_least_favourable_population() -> None:
    found = LeastFavourable(0.7, 0.04, 1000).draw(1000)
    few = found.at(500)  # all within the accepted fraction
    assert few.mean() == pytest.approx(20, abs=0.15)
    assert few.var() == pytest.approx(500 * 0.04 * 0.96, rel=0.05)
    all_ = found.at(1000)
    assert all_.mean() == pytest.approx(300 + 28, abs=0.5)


def test_several_errors_merged_into_one_corner() -> None:
    one = LeastFavourable(1.0, 0.019, 400_000)
    assert one.step > 1
    errors = one.draw(300_000).at(200_000)
    assert errors.mean() == pytest.approx(3800, abs=15)
    assert errors.std() == pytest.approx(math.sqrt(3800 * 0.981), rel=0.1)


@pytest.mark.parametrize("method", SIMULATED)
def test_every_sample_of_a_few_cases(method: str) -> None:
    """All patterns of m cases, each with its probability, tested by the method itself."""
    m, coverage, error, risk, level, least = 11, 0.8, 0.05, 0.3, 0.25, 5
    chance = 0.0
    for good in range(m + 1):
        for pattern in itertools.product([False, True], repeat=good):
            wrong = np.array([*pattern, *[True] * (m - good)])
            if accepted(wrong, method, risk, level) >= least:
                errors = sum(pattern)
                chance += binom.pmf(good, m, coverage) * error**errors * (1 - error) ** (good - errors)
    found = succeeds(LeastFavourable(coverage, error, m).draw(m), least, method, risk, level, OPTIONS).mean()
    assert found == pytest.approx(chance, abs=0.012)
    if method in ("fallback", "fixed_sequence"):
        assert 0.2 < chance < 0.95


@pytest.mark.parametrize(("m", "coverage", "error"), [(30, 0.6, 0.1), (120, 1.0, 0.05), (1, 0.5, 0.0), (150, 0.3, 0.0)])
def test_one_rule(m: int, coverage: float, error: float) -> None:
    risk, level = 0.2, 0.1
    expected = sum(
        binom.pmf(n, m, coverage) * binom.pmf(k, n, error)
        for n in range(m + 1)
        for k in range(n + 1)
        if n and passes(k, n, risk, level)
    )
    assert success_of_one_threshold(m, coverage, error, risk, level) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("method", ["preset", "pareto"])
@pytest.mark.parametrize("m", [400])
def test_thresholds_of_a_pilot(method: str, m: int) -> None:
    """As often as the method itself, on cases drawn from the pilot that chose its thresholds."""
    risk, level, often, least = 0.1, 0.05, 1500, 1
    rng = np.random.default_rng(2)
    wrong = rng.random(500) < np.where(np.arange(500) < 300, 0.03 if method == "preset" else 0.07, 0.5)
    pilot = Scores(-np.arange(500, dtype=float), {WRONG: wrong})
    thresholds, shares = thresholds_of(pilot.confidence)
    order = order_of(Pilot(pilot, True), thresholds, {WRONG: risk}, m, level)
    found = 0
    for _ in range(often):
        taken = rng.integers(500, size=m)
        ranked = rank(Scores(pilot.confidence[taken], {WRONG: wrong[taken]}), thresholds)
        shown = np.flatnonzero(
            METHODS[method](ranked, ranked.tallies[WRONG], risk, level, Options(shares=shares, order=order))
        )
        found += bool(len(shown) and ranked.n[shown[-1]] >= least)
    stated = Piloted.of(wrong).succeeds(m, least, method, risk, level).mean()
    assert 0.05 < stated < 0.99
    assert abs(found / often - stated) < 3.5 * math.sqrt(0.25 / often)
