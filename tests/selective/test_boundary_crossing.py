"""The joint level of bounds on order statistics, compared with exact fractions, another recursion and simulation."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from squad.selective import band_of
from squad.selective.bands import BERK_JONES, DIVIDED, risk_bounds
from squad.selective.boundary_crossing import crossing_probability, joint_level, upper_bounds
from tests.selective import brute


def holds(m: int, places: list[int], bounds: list[Fraction]) -> Fraction:
    """P(all bounds hold), from the definition: every way to put m numbers into the intervals between bounds."""
    edges = [Fraction(0), *bounds, Fraction(1)]
    widths = [high - low for low, high in pairwise(edges)]
    ways = {0: Fraction(1)}  # numbers so far, and the sum of their probabilities divided by factorials
    for index, width in enumerate(widths):
        new: dict[int, Fraction] = {}
        for before, weight in ways.items():
            term = weight
            for more in range(m - before + 1):
                if index >= len(places) or before + more >= places[index]:
                    new[before + more] = new.get(before + more, Fraction(0)) + term
                term = term * width / (more + 1)
        ways = new
    factorial = Fraction(1)
    for i in range(2, m + 1):
        factorial *= i
    return ways.get(m, Fraction(0)) * factorial


@pytest.mark.parametrize(
    ("m", "places", "tenths"),
    [
        (1, [1], [9]),
        (3, [1, 2, 3], [4, 7, 9]),
        (5, [1, 2, 4], [3, 5, 9]),
        (6, [2, 5], [6, 9]),
        (8, [1, 3, 4, 8], [2, 5, 6, 9]),
    ],
)
def test_small_samples_are_exact(m: int, places: list[int], tenths: list[int]) -> None:
    bounds = [Fraction(tenth, 10) for tenth in tenths]
    exact = 1 - holds(m, places, bounds)
    assert brute.crossing(m, places, bounds) == exact
    found = crossing_probability(m, np.array(places), np.array([float(bound) for bound in bounds]))
    assert found == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize(("m", "last", "level"), [(60, 20, 0.01), (200, 40, 1e-3), (200, 200, 1e-5)])
def test_larger_samples_are_those_of_another_recursion(m: int, last: int, level: float) -> None:
    places = np.arange(1, last + 1)
    bounds = upper_bounds(m, places, level)
    found = crossing_probability(m, places, bounds)
    assert found == pytest.approx(brute.crossing(m, places.tolist(), bounds.tolist()), rel=1e-6)


def test_the_bounds_hold_jointly_at_their_level() -> None:
    """Simulated uniform numbers: within four standard errors of the level."""
    m, last, delta, repetitions = 300, 31, 0.1, 20_000
    places = np.arange(1, last + 1)
    bounds = upper_bounds(m, places, joint_level(m, tuple(places.tolist()), delta))
    rng = np.random.default_rng(3)
    drawn: NDArray[np.float64] = np.sort(rng.random((repetitions, m)), axis=1)[:, :last]
    crossed = float((drawn > bounds).any(1).mean())
    assert abs(crossed - delta) < 4 * (delta * (1 - delta) / repetitions) ** 0.5 + 0.001


def test_a_level_has_three_digits_and_the_next_one_is_too_high() -> None:
    places = tuple(range(1, 52))
    level = joint_level(500, places, 0.009)
    assert float(f"{level:.2e}") == level
    at = np.array(places)
    assert crossing_probability(500, at, upper_bounds(500, at, level)) <= 0.009
    assert crossing_probability(500, at, upper_bounds(500, at, float(f"{level * 1.01:.2e}"))) > 0.009
    assert level > 4 * 0.009 / 51  # far above an even division


def test_rare_events_have_divided_levels() -> None:
    assert joint_level(500, tuple(range(1, 52)), 1e-9) <= 1e-9 / 51


def test_the_band_of_many_cases_is_fast() -> None:
    bound = risk_bounds(2_000_000, np.array([10**6]), np.array([100]), 0.01, 0.1)
    assert 1e-4 < bound[0] < 3e-4


def test_the_band_accepts_more_than_with_divided_levels() -> None:
    n, errors = np.array([200, 300, 400, 499]), np.array([0, 3, 8, 15])
    new, old = (risk_bounds(500, n, errors, 0.01, 0.1, levels) for levels in (BERK_JONES, DIVIDED))
    assert (new < 0.9 * old).all()


def test_planted_faults_of_the_band_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A level of the counts or of the ranks that is twice too high no longer gives the literal band."""
    from squad.selective import bands

    rng = np.random.default_rng(0)
    confidence, wrong = rng.random(90).tolist(), (rng.random(90) < 0.05).astype(int).tolist()
    sample = brute.Ranked.of(confidence, wrong)
    expected = np.minimum(brute.band_bounds(sample, 0.1, 0.3), 1.0)

    def found() -> NDArray[np.float64]:
        bands._bounds.cache_clear()
        return band_of(confidence, [not one for one in wrong], 0.1, 0.3).bound

    np.testing.assert_allclose(found(), expected, rtol=1e-9)
    plain = joint_level
    for which in (0.09, 0.01):
        monkeypatch.setattr(
            bands,
            "joint_level",
            lambda m, places, delta, which=which: plain(m, places, delta * (2 if abs(delta - which) < 1e-9 else 1)),
        )
        assert not np.allclose(found(), expected, rtol=1e-9)
    bands._bounds.cache_clear()
