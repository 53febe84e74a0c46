"""Every position of the slider keeps its promise: against the band itself, and in a simulation."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from squad.report.slider import BandSettings, make_slider, risks, smallest
from squad.selective import Scores, band_of


def population(count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    confidence = rng.random(count)
    return confidence, rng.random(count) < 0.25 * (1 - confidence) ** 2


def test_positions_are_those_of_the_band() -> None:
    confidence, wrong = population(2000, 0)
    test, test_wrong = population(500, 1)
    scores = Scores.of(confidence, ~wrong)
    at = risks(0.001, 0.1, [0.0123])
    found = make_slider(at, test, test_wrong, scores, BandSettings(0.05, 0.05, 0.1))
    band = band_of(confidence, ~wrong, 0.05, 0.1)
    assert [choice.risk for choice in found.choices] == at
    kinds = {choice.accepts for choice in found.choices}
    assert {"none", "above"} <= kinds
    for choice in found.choices:
        place = band.at(choice.risk)
        if place is None:
            assert (choice.accepts, choice.threshold, choice.accepted) == ("none", None, 0)
            continue
        assert band.bound[place] <= choice.risk
        assert choice.coverage is not None
        assert choice.coverage == band.n[place] / 2000
        assert choice.most_wrong is not None
        assert choice.most_wrong >= 1000 * choice.risk * choice.coverage - 1e-6
        limit = -np.inf if choice.threshold is None else choice.threshold
        assert limit == band.threshold[place]
        assert choice.accepted == (test > limit).sum()
        assert choice.wrong == (test_wrong & (test > limit)).sum()


def test_what_passes_at_most_is_kept_at_all_positions_at_once() -> None:
    """Of a large population, in at most delta of the calibrations any position lets more pass than it says."""
    everyone, all_wrong = population(200_000, 2)
    order = np.argsort(-everyone)
    passed = np.cumsum(all_wrong[order]) / len(everyone)
    at = risks(0.001, 0.1)
    broken = 0
    for seed in range(150):
        confidence, wrong = population(600, 100 + seed)
        found = make_slider(at, confidence, wrong, Scores.of(confidence, ~wrong), BandSettings(0.1, 0.1, 0.1))
        for choice in found.choices:
            if choice.accepts == "none":
                continue
            limit = -np.inf if choice.threshold is None else choice.threshold
            share = passed[(everyone > limit).sum() - 1]
            if 1000 * share > (choice.most_wrong or 0):
                broken += 1
                break
    assert broken <= 15 + 9  # two standard deviations above 10 %


def test_without_scores_the_test_alone_speaks() -> None:
    confidence, wrong = population(800, 3)
    found = make_slider(risks(0.001, 0.1), confidence, wrong, None, BandSettings(0.01, 0.01, 0.1))
    assert (found.promised, found.delta, found.calibration) == (False, None, 0)
    for choice in found.choices:
        assert choice.coverage is None
        assert choice.most_wrong is None
        assert choice.wrong <= choice.risk * choice.accepted + 1e-9


def test_risks_are_round_and_hold_what_was_asked() -> None:
    found = risks(0.001, 0.1, [0.0137, 0.7])
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (0.001, 0.1)
    assert 0.0137 in found
    assert 0.01 in found
    assert 0.7 not in found
    assert risks(0.001, 0.15)[-1] == 0.15
    assert max(b / a for a, b in pairwise(found)) < 1.2


@pytest.mark.parametrize(("count", "low"), [(300, 0.001), (200_000, 0.0001)])
def test_more_calibration_cases_reach_smaller_risks(count: int, low: float) -> None:
    scores = Scores.of(np.random.default_rng(0).random(count), np.ones(count, dtype=bool))
    assert smallest(scores, BandSettings(0.01, 0.01, 0.1)) == pytest.approx(low, rel=0.2)
    assert smallest(None, BandSettings(0.01, 0.01, 0.1)) == 0.001
