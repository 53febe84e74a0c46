"""The populations have the risk that they state."""

import numpy as np
import pytest

from tests.selective.populations import MAKERS

COUNT = 400_000


@pytest.mark.parametrize("name", MAKERS)
def test_drawn_risk_and_coverage_are_those_of_the_formula(name: str) -> None:
    population = MAKERS[name](0.05)
    confidence, wrong = population.draw(np.random.default_rng(5), COUNT)
    for threshold in (-np.inf, 0.15, 0.3, 0.55, 0.6, 0.72, 0.8, 0.9, 0.95):
        above = confidence > threshold
        share, risk = float(population.coverage(threshold)), float(population.risk(threshold))
        assert abs(above.mean() - share) <= 4.5 * (share * (1 - share) / COUNT) ** 0.5
        if n := above.sum():
            assert abs(wrong[above].mean() - risk) <= 4.5 * (risk * (1 - risk) / n) ** 0.5


@pytest.mark.parametrize("name", MAKERS)
def test_growing_states_whether_the_risk_increases_with_coverage(name: str) -> None:
    population = MAKERS[name](0.05)
    risks = population.risk(np.linspace(0.999, -0.001, 1000))
    risks = risks[risks > 0]
    assert bool((np.diff(risks) >= -1e-12).all()) == population.growing


@pytest.mark.parametrize("name", MAKERS)
def test_the_risk_crosses_the_target_or_is_above_it(name: str) -> None:
    """Otherwise no certificate could be false."""
    for risk in (0.005, 0.01, 0.02, 0.05):
        assert float(MAKERS[name](risk).risk(-np.inf)) > risk


def test_the_oracle_knows_where_the_risk_crosses() -> None:
    assert MAKERS["well ranked"](0.05).oracle(0.05) == pytest.approx(0.5**0.2, abs=2e-6)
    assert MAKERS["well ranked, 1 decimal"](0.05).oracle(0.05) == pytest.approx(0.85)
    assert MAKERS["flat"](0.05).oracle(0.05) == 0
    assert MAKERS["discrete, 5 levels"](0.05).oracle(0.05) == pytest.approx(0.4)
