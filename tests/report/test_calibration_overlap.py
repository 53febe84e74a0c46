"""Calibration cases among the test cases are found in any order, and not where there are none."""

import numpy as np
import pytest

from squad.predictor.answer import on_grid
from squad.report.calibration_overlap import calibration_overlap
from squad.report.content import compute_report
from tests.report.builders import certified, features, images, labels_for, model


def confidences(rng: np.random.Generator, count: int) -> np.ndarray:
    return on_grid(1 / (1 + np.exp(-rng.gamma(3, 1.5, count))))


@pytest.mark.parametrize(("calibration", "test"), [(200, 200), (1000, 300), (20_000, 5000), (100_000, 20_000)])
def test_other_cases_are_not_taken_for_calibration_cases(calibration: int, test: int) -> None:
    """However many confidences agree by chance, because the grid is finite."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert calibration_overlap(confidences(rng, test), confidences(rng, calibration)) == 0


def test_few_different_rows_are_not_taken_for_calibration_cases() -> None:
    """In a table of a few categories, most rows of one set are in the other."""
    rng = np.random.default_rng(0)
    kinds, frequency = confidences(rng, 150), rng.dirichlet(np.ones(150))
    for _ in range(50):
        drawn = [rng.choice(kinds, count, p=frequency) for count in (500, 1000)]
        assert calibration_overlap(*drawn) == 0


@pytest.mark.parametrize("others", [0, 100, 500])
def test_calibration_cases_are_found_in_any_order(others: int) -> None:
    rng = np.random.default_rng(0)
    known = confidences(rng, 600)
    test = rng.permutation(np.concatenate([rng.permutation(known)[:450], confidences(rng, others)]))
    assert calibration_overlap(test, known) == pytest.approx(450, rel=0.03)


def test_the_report_warns() -> None:
    good, x = certified(model()), images(400, seed=7)
    labels = labels_for(good, x, seed=8)
    order = np.random.default_rng(0).permutation(400)
    (shuffled,) = compute_report({"it": good}, x[order], labels[order]).models
    assert not shuffled.is_calibration_set
    assert shuffled.calibration_overlap == pytest.approx(400, abs=8)
    (itself,) = compute_report({"it": good}, x, labels).models
    assert (itself.is_calibration_set, itself.calibration_overlap) == (True, 0)
    (other,) = compute_report({"it": good}, images(200, seed=3), labels_for(good, images(200, seed=3))).models
    assert other.calibration_overlap == 0
    one = certified(model(kind="features"), "features")
    assert compute_report({"it": one}, features(9), labels_for(one, features(9))).models[0].calibration_overlap == 0
