"""A predictor whose confidences were mapped: truer, in the same order, and bound to other rows."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import squad
from squad.data.seen_rows import LeakError
from squad.metrics import ece, nll
from squad.predictor import Predictor
from squad.predictor.class_labels import class_positions
from squad.selective.recalibration import Recalibration
from tests.predictor.examples import points


class TestRecalibration:
    @pytest.mark.parametrize("method", ["temperature", "isotonic"])
    def test_likelihood_and_calibration_are_better(self, fitted: Predictor, method: str, tmp_path: Path) -> None:
        # Made too modest, so that there is something to mend: a network of this size is calibrated already.
        x, y = points(3000, 6)
        positions = class_positions(fitted.classes, y)
        raw = copy.deepcopy(fitted)
        with torch.no_grad():
            for parameter in list(raw.network.parameters())[-2:]:  # of the last layer
                parameter.mul_(0.3)
        better = raw.recalibrate(*points(1500, 7), method=method)
        before, after = raw.answer(x), better.answer(x)
        assert nll(after.probabilities, positions) < nll(before.probabilities, positions) - 0.02
        correct = before.label == y
        assert ece(after.confidence, correct) < ece(before.confidence, correct) - 0.02
        assert (after.label == before.label).all()
        assert (after.entropy == before.entropy).all()
        order = np.argsort(before.probabilities.max(1), kind="stable")
        steps = np.diff(after.probabilities.max(1)[order])
        assert (steps >= 0).all()
        if method == "temperature":  # nothing that was apart on the grid falls together
            assert (steps[np.diff(before.confidence[order]) > 0] > 0).all()
        again = squad.load(better.save(tmp_path / "model"))
        assert (again.answer(x).probabilities == after.probabilities).all()

    def test_its_rows_cannot_certify(self, fitted: Predictor) -> None:
        better = fitted.recalibrate(*points(500, 7))
        with pytest.raises(LeakError):
            better.certify(*points(500, 7), risk=0.1)
        assert better.certify(*points(2000, 8), risk=0.1).certificate is not None

    def test_its_rows_tell_about_chance_as_well(self, fitted: Predictor) -> None:
        before, after = fitted.record["repeats"], fitted.recalibrate(*points(500, 7)).record["repeats"]
        assert after["chance_rows"] == before["chance_rows"] + 500
        assert after["all_rows"] == before["all_rows"] + 500

    def test_a_certificate_is_lost(self, safe: Predictor) -> None:
        assert safe.recalibrate(*points(500, 7)).certificate is None

    def test_rows_of_training_are_refused(self, fitted: Predictor) -> None:
        with pytest.raises(LeakError):
            fitted.recalibrate(*points(600, 0))

    def test_a_second_time_starts_from_the_network(self, fitted: Predictor) -> None:
        once = fitted.recalibrate(*points(500, 7))
        twice = once.recalibrate(*points(500, 9))
        assert twice.recalibration == fitted.recalibrate(*points(500, 9)).recalibration

    def test_without_a_clear_gain_answers_are_left_exactly_as_they_are(self, fitted: Predictor, tmp_path: Path) -> None:
        x, _ = points(500, 6)
        same = fitted._replace(recalibration=Recalibration("temperature", 3, 1.0, 12, folds=5))
        before, after = fitted.answer(x), squad.load(same.save(tmp_path / "model")).answer(x)
        assert (after.probabilities == before.probabilities).all()
        assert (after.confidence == before.confidence).all()
        assert "left as they are" in str(same.recalibration)
