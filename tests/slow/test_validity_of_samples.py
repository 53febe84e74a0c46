"""Validity of certificates of miss rates, costs, weighted and stratified samples, and planted faults.

`benchmarks/certify_samples.py` writes the same cells into a record.
"""

import numpy as np
import pytest

from squad.selective import betting, resampling
from tests.slow.simulate_samples import ALARM, CELLS, DELTA, FAULTS, Setting, run


@pytest.mark.parametrize("setting", CELLS, ids=lambda one: f"{one.subject}, {one.population}")
def test_certificates_are_false_no_more_often_than_delta(setting: Setting) -> None:
    before, after = run(setting)
    assert after.p_value >= ALARM
    assert after.certified > 0 or setting.subject == "costs"
    if setting.subject in ("weights", "strata"):
        assert before.p_value < ALARM  # ignoring that the sample differs from new cases gives false certificates


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_weights_are_detected(fault: str) -> None:
    (outcome,) = run(FAULTS[fault], 500)
    assert outcome.p_value < ALARM


def boundary(subject: str, begins: str = "") -> Setting:
    return next(
        c for c in CELLS if (c.subject, "boundary" in c.population) == (subject, True) and begins in c.population
    )


def test_a_bound_on_weights_that_is_taken_twice_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform numbers that are too small keep light cases too often."""
    plain = resampling._uniform
    monkeypatch.setattr(resampling, "_uniform", lambda key, count: plain(key, count) ** 4)
    _, after = run(boundary("weights"), 500)
    assert after.p_value < ALARM


def test_shares_that_are_ignored_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = resampling._strata

    def even(*arguments: object) -> object:
        names, codes, shares = plain(*arguments)  # type: ignore[arg-type]
        return names, codes, np.full(len(shares), 1 / len(shares))

    monkeypatch.setattr(resampling, "_strata", even)
    _, after = run(boundary("strata"), 500)
    assert after.p_value < ALARM


def test_bets_that_may_ruin_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 1 / (1 - r) the wealth could become negative; stopping at 0 gives more than a fair game."""

    def unsafe(losses: np.ndarray, risk: float) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(1 + 8 / (1 - risk) * (risk - losses), 1e-2))
        return np.append(0.0, np.cumsum(logs))

    monkeypatch.setattr("squad.selective.tallies.log_wealth", unsafe)
    _, after = run(boundary("costs", "nearly 1"), 500)
    assert after.p_value < ALARM


def test_odds_that_are_too_good_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = betting.log_wealth
    monkeypatch.setattr("squad.selective.tallies.log_wealth", lambda losses, risk: plain(losses, 1.5 * risk))
    _, after = run(boundary("costs", ".2, at"), 500)
    assert after.p_value < ALARM


def test_misses_counted_on_all_cases_are_detected() -> None:
    """The harm "missed" bounds a fraction of all accepted cases, not the miss rate of the class."""
    setting = boundary("miss rate")

    def draw(rng: np.random.Generator) -> dict[str, dict[str, object]]:
        after = dict(setting.draw(rng)["after"])
        after["harms"] = {"miss rate ill": np.nan_to_num(after["harms"]["miss rate ill"])}
        return {"faulty": after}

    faulty = Setting(setting.subject, "faulty", setting.m, setting.limit, draw, setting.harm)
    (outcome,) = run(faulty, 300)
    assert outcome.p_value < ALARM
    assert DELTA < 0.5
