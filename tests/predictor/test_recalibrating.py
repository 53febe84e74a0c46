"""Recalibrated predictors: better calibrated, same order, and not certifiable with the same rows."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import squad
from squad.data.seen_rows import LeakError
from squad.metrics import ece, nll
from squad.predictor import Predictor
from squad.predictor.input_rows import class_positions
from squad.selective.recalibration import Recalibration
from tests.predictor.examples import points


class TestRecalibration:
    @pytest.mark.parametrize("method", ["temperature", "isotonic"])
    def test_nll_and_ece_improve(self, fitted: Predictor, method: str, tmp_path: Path) -> None:
        # Made underconfident on purpose: a network of this size is well calibrated.
        x, y = points(3000, 6)
        positions = class_positions(fitted.classes, y)
        raw = copy.deepcopy(fitted)
        with torch.no_grad():
            for parameter in list(raw.network.parameters())[-2:]:  # the last layer
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
        if method == "temperature":  # confidences that differ on the grid stay different
            assert (steps[np.diff(before.confidence[order]) > 0] > 0).all()
        again = squad.load(better.save(tmp_path / "model"))
        assert (again.answer(x).probabilities == after.probabilities).all()

    def test_its_rows_cannot_certify(self, fitted: Predictor) -> None:
        better = fitted.recalibrate(*points(500, 7))
        with pytest.raises(LeakError):
            better.certify(*points(500, 7), risk=0.1)
        assert better.certify(*points(2000, 8), risk=0.1).certificate is not None

    def test_its_rows_count_for_repeats_by_chance(self, fitted: Predictor) -> None:
        before, after = fitted.record["repeats"], fitted.recalibrate(*points(500, 7)).record["repeats"]
        assert after["chance_rows"] == before["chance_rows"] + 500
        assert after["all_rows"] == before["all_rows"] + 500

    def test_a_certificate_is_lost(self, safe: Predictor) -> None:
        assert safe.recalibrate(*points(500, 7)).certificate is None

    def test_training_rows_are_refused(self, fitted: Predictor) -> None:
        with pytest.raises(LeakError):
            fitted.recalibrate(*points(600, 0))

    def test_a_second_time_starts_from_the_network(self, fitted: Predictor) -> None:
        once = fitted.recalibrate(*points(500, 7))
        twice = once.recalibrate(*points(500, 9))
        assert twice.recalibration == fitted.recalibrate(*points(500, 9)).recalibration

    def test_without_a_clear_gain_predictions_do_not_change(self, fitted: Predictor, tmp_path: Path) -> None:
        x, _ = points(500, 6)
        same = fitted._replace(recalibration=Recalibration("temperature", 3, 1.0, 12, folds=5))
        before, after = fitted.answer(x), squad.load(same.save(tmp_path / "model")).answer(x)
        assert (after.probabilities == before.probabilities).all()
        assert (after.confidence == before.confidence).all()
        assert same.recalibration is not None
        assert same.recalibration.unchanged
