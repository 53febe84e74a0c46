"""The guarantee of every slider position, compared with the band and by simulation."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from squad.report.slider import BandSettings, Slider, distinct_risks, make_slider, slider_range, slider_risks
from squad.selective import Scores, band_of


def population(count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    confidence = rng.random(count)
    return confidence, rng.random(count) < 0.25 * (1 - confidence) ** 2


def test_positions_are_those_of_the_band() -> None:
    confidence, wrong = population(2000, 0)
    test, test_wrong = population(500, 1)
    scores = Scores.of(confidence, ~wrong)
    at = slider_risks(0.001, 0.1, [0.0123])
    found = make_slider(at, test, test_wrong, scores, BandSettings(0.05, 0.05, 0.1))
    band = band_of(confidence, ~wrong, 0.05, 0.1)
    assert [position.risk for position in found.positions] == at
    kinds = {position.accepts for position in found.positions}
    assert {"none", "above"} <= kinds
    for position in found.positions:
        index = band.at(position.risk)
        if index is None:
            assert (position.accepts, position.threshold, position.accepted) == ("none", None, 0)
            continue
        assert band.bound[index] <= position.risk
        assert position.coverage is not None
        assert position.coverage == band.n[index] / 2000
        assert position.max_wrong is not None
        assert position.max_wrong >= 1000 * position.risk * position.coverage - 1e-6
        limit = -np.inf if position.threshold is None else position.threshold
        assert limit == band.threshold[index]
        assert position.accepted == (test > limit).sum()
        assert position.wrong == (test_wrong & (test > limit)).sum()


def test_the_bounds_hold_for_all_positions_simultaneously() -> None:
    """In at most delta of the calibration sets, any position accepts more errors than its bound."""
    everyone, all_wrong = population(200_000, 2)
    order = np.argsort(-everyone)
    passed = np.cumsum(all_wrong[order]) / len(everyone)
    at = slider_risks(0.001, 0.1)
    violations = 0
    for seed in range(150):
        confidence, wrong = population(600, 100 + seed)
        found = make_slider(at, confidence, wrong, Scores.of(confidence, ~wrong), BandSettings(0.1, 0.1, 0.1))
        for position in found.positions:
            if position.accepts == "none":
                continue
            limit = -np.inf if position.threshold is None else position.threshold
            share = passed[(everyone > limit).sum() - 1]
            if 1000 * share > (position.max_wrong or 0):
                violations += 1
                break
    assert violations <= 15 + 9  # two standard deviations above 10 %


def test_without_scores_thresholds_come_from_the_test_set() -> None:
    confidence, wrong = population(800, 3)
    found = make_slider(slider_risks(0.001, 0.1), confidence, wrong, None, BandSettings(0.01, 0.01, 0.1))
    assert (found.guaranteed, found.delta, found.calibration_cases) == (False, None, 0)
    for position in found.positions:
        assert position.coverage is None
        assert position.max_wrong is None
        assert position.wrong <= position.risk * position.accepted + 1e-9


def test_risks_are_round_and_include_requested_ones() -> None:
    found = slider_risks(0.0013, 0.098, [0.0137, 0.0007, 0.2])
    assert found == sorted(set(found))
    assert (found[0], found[1], found[-1]) == (0.0007, 0.0013, 0.098)
    assert {0.0137, 0.01, 0.09} <= set(found)
    assert max(b / a for a, b in pairwise(found[1:])) < 1.2
    assert slider_risks(0.02, 0.02) == [0.02]


@pytest.mark.parametrize("scores", [True, False])
def test_every_position_has_another_threshold(scores: bool) -> None:
    """For some of the models; risks of certificates stay, and the guarantee of each position is the sharpest."""
    sliders = []
    for seed in (10, 20):
        confidence, wrong = population(300, seed)
        test, test_wrong = population(100, seed + 1)
        calibration = Scores.of(confidence, ~wrong) if scores else None
        candidates = slider_risks(0.01, 0.2, [0.0731])
        sliders.append(make_slider(candidates, test, test_wrong, calibration, BandSettings(0.1, 0.1, 0.2)))
    found = distinct_risks(sliders, [0.0731])
    assert 3 < len(found) < len(candidates)
    assert 0.0731 in found
    assert found[0] == candidates[0]
    kept = [[position for position in slider.positions if position.risk in found] for slider in sliders]
    thresholds = [[(position.accepts, position.threshold) for position in each] for each in zip(*kept, strict=True)]
    assert all(one != other for one, other in pairwise(thresholds))
    for place, risk in enumerate(candidates):  # what is left out has the threshold of a kept risk before it
        if risk not in found:
            dropped = [slider.positions[place].threshold for slider in sliders]
            before = max((other for other in found if other < risk), default=0.0731)
            assert dropped in (thresholds_at(sliders, before), thresholds_at(sliders, 0.0731))


def thresholds_at(sliders: list[Slider], risk: float) -> list[float | None]:
    """The threshold of each slider at a risk."""
    return [next(one.threshold for one in slider.positions if one.risk == risk) for slider in sliders]


@pytest.mark.parametrize("count", [400, 3000, 50_000])
def test_the_range_has_no_dead_positions(count: int) -> None:
    """It starts at the smallest risk that can be guaranteed, and ends where nothing is referred or at r_max."""
    confidence, wrong = population(count, 5)
    test, test_wrong = population(1000, 6)
    scores, settings = Scores.of(confidence, ~wrong), BandSettings(0.05, 0.05, 0.1)
    found = slider_range(test, test_wrong, scores, settings)
    assert found is not None
    low, high = found
    band = band_of(confidence, ~wrong, 0.05, 0.1)
    assert band.bound.min() <= low <= max(1.1 * band.bound.min(), 1e-4)
    assert high == 0.1 or test_wrong.mean() <= high <= 1.1 * max(test_wrong.mean(), band.bound[-1])
    slider = make_slider(slider_risks(low, high), test, test_wrong, scores, settings)
    assert all(position.accepts != "none" for position in slider.positions)
    if high < 0.1:
        assert slider.positions[-1].accepts == "all"


def test_no_range_where_nothing_can_be_guaranteed() -> None:
    confidence, wrong = population(20, 7)
    scores = Scores.of(confidence, ~wrong)
    assert slider_range(confidence, wrong, scores, BandSettings(0.01, 0.01, 0.1)) is None


def test_the_range_of_observed_risks() -> None:
    confidence = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    wrong = np.array([False, False, True, False, True])
    settings = BandSettings(0.01, 0.01, 0.1)
    # Accepting four cases has a risk of 1/4, all five 2/5; accepting three, with 1/3, is never worthwhile.
    assert slider_range(confidence, wrong, None, settings) == (0.25, 0.4)
    assert slider_range(confidence, np.zeros(5, dtype=bool), None, settings) is None
    low, high = slider_range(*population(800, 3), None, settings) or (1.0, 0.0)
    observed = make_slider(slider_risks(low, high), *population(800, 3), None, settings)
    assert 0 < observed.positions[0].accepted < observed.positions[-1].accepted == 800
