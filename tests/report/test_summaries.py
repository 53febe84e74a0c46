"""Counts of harms in a report."""

import numpy as np
import pytest

from squad.report import summaries
from squad.report.page.mistakes import _rate, harm_name
from squad.report.summaries import by_harm
from squad.selective import certify
from squad.selective.scored_cases import Scores


def test_a_harm_is_counted_on_the_cases_it_applies_to(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    m = 4000
    confidence = rng.random(m)
    truth = rng.integers(2, size=m)
    correct = rng.random(m) >= 0.3 * (1 - confidence) ** 2
    predicted = np.where(correct, truth, 1 - truth)
    missed = np.where(truth == 1, ~correct, np.nan).astype(np.float64)
    cost = np.where(correct, 0.0, 0.25)
    harms = {"miss rate ill": missed, "cost": cost}
    certificate = certify(confidence, correct, {"wrong": 0.1, "miss rate ill": 0.1, "cost": 0.05}, harms=harms)
    rule = certificate.rules[0]
    accepted = certificate.accepts(confidence)

    def harm_of(name: str, *_: object) -> object:
        return {"wrong": ~correct, **harms}[name]

    monkeypatch.setattr(summaries, "known_harm", harm_of)
    scores = Scores.of(confidence, correct, harms)
    wrong, miss, costs = by_harm(certificate, scores, ["well", "ill"], predicted, truth, [accepted])
    own = accepted & (truth == 1)
    assert (wrong.calibration, wrong.calibration_n) == (rule.errors["wrong"], rule.n)
    assert (miss.calibration, miss.calibration_n) == (rule.errors["miss rate ill"], own.sum())
    assert (miss.test, miss.test_n) == ((own & ~correct).sum(), own.sum())
    assert own.sum() < rule.n
    assert costs.costs
    assert not miss.costs
    assert costs.calibration == costs.test == 0.25 * (accepted & ~correct).sum()


def test_rates_and_names() -> None:
    assert _rate(4.0, 120) == "4 of 120 (3.3\u00a0%)"
    assert _rate(3.4, 1000, costs=True) == "mean 0.0034, of 1,000"
    assert _rate(None, 3) == "unknown"
    names = [
        harm_name(name) for name in ("wrong", "missed ill", "false ill", "miss rate ill", "cost", "missed", "late")
    ]
    assert len(set(names)) == 7
    assert all("“ill”" in name for name in names[1:4])
    assert names[5:] == ["missed", "late"]
