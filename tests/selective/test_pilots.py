"""Thresholds and testing orders from a pilot: what is chosen, and what is refused."""

import importlib
import json
from typing import Any

import numpy as np
import pytest

from squad.errors import ArgumentError
from squad.selective import Certificate, certify
from squad.selective.certify import check_scores
from squad.selective.pilots import pilot_of, thresholds_of
from squad.selective.scored_cases import Scores
from tests.selective.test_planted import found

module = importlib.import_module("squad.selective.methods")


def sample(m: int, seed: int) -> tuple[Any, Any]:
    """Errors among the least confident."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(m)
    return confidence, rng.random(m) >= 0.3 * (1 - confidence) ** 2


def overconfident(m: int, seed: int) -> tuple[Any, Any]:
    """Most errors are in the most confident tenth: risk 6 % there, below 2 % from 35 % coverage on, 1 % overall."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(m)
    return confidence, rng.random(m) >= np.where(confidence > 0.9, 0.06, 0.005)


def test_thresholds_at_every_percent() -> None:
    limits, shares = thresholds_of(np.arange(1000.0))
    assert shares == tuple(step / 100 for step in range(1, 101))
    assert limits[0] == 989
    assert limits[-1] == -np.inf


def test_equal_confidences_leave_fewer_thresholds() -> None:
    limits, shares = thresholds_of(np.array([0.5] * 30 + [0.9] * 70))
    assert limits.tolist() == [0.5, -np.inf]
    assert shares == (0.7, 1.0)


@pytest.mark.parametrize("method", ["preset", "pareto"])
def test_the_threshold_is_one_of_the_pilots(method: str) -> None:
    pilot = sample(800, 1)
    certificate = certify(*sample(2000, 2), 0.05, method=method, pilot=pilot)
    assert certificate.certified
    assert certificate.threshold in thresholds_of(pilot[0])[0]
    assert (sample(2000, 2)[0] > certificate.threshold).sum() == certificate.n


def test_confidences_alone_are_enough_for_preset() -> None:
    confidence, correct = sample(2000, 2)
    pilot = sample(800, 1)
    both = [certify(confidence, correct, 0.05, method="preset", pilot=one) for one in (pilot, pilot[0], list(pilot[0]))]
    assert both[0].rules == both[1].rules == both[2].rules


def test_pareto_starts_where_the_pilot_suggests() -> None:
    """Overconfident at the top: the default, which starts there, accepts nothing."""
    confidence, correct = overconfident(5000, 3)
    assert not certify(confidence, correct, 0.02, method="fixed_sequence").certified
    assert certify(confidence, correct, 0.02, method="pareto", pilot=overconfident(2000, 4)).coverage > 0.9


@pytest.mark.parametrize(
    ("method", "pilot", "message"),
    [
        ("pareto", None, "pareto needs a pilot"),
        ("preset", None, "preset needs a pilot"),
        ("fallback", sample(50, 1), "pilot.*fallback"),
        ("pareto", sample(50, 1)[0], "confidence, correct"),
        ("preset", [], "pilot.*got no cases"),
        ("pareto", sample(300, 2), "pilot.*got the calibration cases"),
    ],
)
def test_invalid_pilots_are_refused(method: str, pilot: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        certify(*sample(300, 2), 0.1, method=method, pilot=pilot)


def test_every_harm_must_be_known_of_the_pilot() -> None:
    confidence, correct = sample(300, 2)
    risks, harms = {"wrong": 0.1, "rare": 0.1}, {"rare": ~correct}
    with pytest.raises(ArgumentError, match=r"pilot.*'rare'"):
        certify(confidence, correct, risks, method="pareto", harms=harms, pilot=sample(100, 1))
    pilot = (*sample(100, 1), {"rare": ~sample(100, 1)[1]})
    assert certify(confidence, correct, risks, method="pareto", harms=harms, pilot=pilot).rules
    assert certify(confidence, correct, risks, method="preset", harms=harms, pilot=sample(100, 1)).rules


def test_a_pilot_is_checked_once() -> None:
    pilot = pilot_of(sample(10, 1))
    assert pilot_of(pilot) is pilot


# Planted faults: the comparison with the literal methods finds them.


def test_separate_chains_for_harms_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = module._preset

    def apart(ranked: Any, risks: Any, level: float, options: Any) -> Any:
        return np.logical_and.reduce([plain(ranked, {name: risk}, level, options) for name, risk in risks.items()])

    monkeypatch.setattr(module, "_preset", apart)
    assert found("preset", harms=3)


def test_starts_that_depend_on_the_sample_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_count(ranked: Any, risks: Any, level: float, options: Any) -> Any:
        (name, risk), *_ = risks.items()
        tally = ranked.tallies[name]
        return module.walk(tally, module.starts_of(tally, risk, level, module.FALLBACK), risk, level)

    monkeypatch.setattr(module, "_preset", by_count)
    assert found("preset")


def test_continuing_after_a_failure_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(ranked: Any, tally: Any, risk: float, level: float, options: Any) -> Any:
        shown = np.zeros(len(ranked.n), dtype=np.bool_)
        order = np.array(options.order)
        shown[order] = tally.passes(order, risk, level)
        return shown

    monkeypatch.setitem(module.METHODS, "pareto", all_of_them)
    assert found("pareto")


class TestHarmsOfAClass:
    """Starts of preset must not depend on how many calibration cases are of the class: labels determine that."""

    def test_starts_depend_on_the_pilot(self) -> None:
        shares = tuple(np.arange(1, 101) / 100)
        options = module.Options(shares=shares, counted=(("miss rate x", 0.2),))
        found = module.preset_weights(1000, [("miss rate x", 0.1, False)], 0.05, options)
        alone = module.preset_weights(200, [("miss rate x", 0.1, False)], 0.05, module.Options(shares=shares))
        assert found == alone
        assert found != module.preset_weights(1000, [("miss rate x", 0.1, False)], 0.05, module.Options(shares=shares))

    def test_the_certificate_stores_the_fraction(self) -> None:
        rng = np.random.default_rng(0)

        def drawn(m: int) -> tuple[Any, Any, dict[str, Any]]:
            confidence = rng.random(m)
            correct = rng.random(m) > 0.2 * (1 - confidence)
            return confidence, correct, {"miss rate x": np.where(rng.random(m) < 0.2, ~correct, np.nan)}

        confidence, correct, harms = drawn(4000)
        made = certify(
            confidence, correct, {"wrong": 0.2, "miss rate x": 0.2}, 0.1, "preset", harms=harms, pilot=drawn(2000)
        )
        assert made.certified
        assert made.options["counted"]["miss rate x"] == pytest.approx(0.2, abs=0.03)
        again = Certificate.from_json(json.loads(json.dumps(made.to_json())))
        assert again == made
        check_scores(again, Scores.of(confidence, correct, harms))


def test_rounded_confidences_of_the_calibration_cases_are_refused() -> None:
    confidence, correct = sample(1000, 0)
    for near in (confidence.round(3), confidence.astype(np.float32), confidence + 1e-9):
        with pytest.raises(ArgumentError, match="calibration"):
            certify(confidence, correct, 0.1, method="pareto", pilot=(near, correct))
    other, right = sample(1000, 1)
    assert certify(confidence, correct, 0.1, method="pareto", pilot=(other, right)).certified
    assert certify(np.sort(confidence), correct, 0.1, method="pareto", pilot=(np.sort(other), right)) is not None
