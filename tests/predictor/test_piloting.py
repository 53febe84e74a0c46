"""Pilots: validation rows, or rows of the user, choose the thresholds that are tested."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import squad
from squad.artifact import ArtifactError
from squad.errors import ArgumentError
from squad.fitting import fit_predictor
from squad.predictor import CertificationError, Predictor
from squad.selective.pilots import thresholds_of
from tests.predictor.examples import QUICK, frame, points


def test_fit_stores_validation_scores(fitted: Predictor, of_table: Predictor) -> None:
    for predictor in (fitted, of_table):
        stored = predictor.validation_scores
        assert stored is not None
        assert len(stored) <= predictor.record["rows"]["validation"]
        assert (stored.sampling, stored.num_samples) == (predictor.sampling, predictor.num_samples)
        assert 0.6 < (stored.predicted == stored.right).mean() <= 1


@pytest.mark.parametrize("method", ["preset", "pareto"])
def test_validation_rows_choose_the_thresholds(fitted: Predictor, method: str, tmp_path: Path) -> None:
    safe = fitted.certify(*points(2000, 1), risk=0.2, delta=0.1, method=method)
    assert safe.certificate is not None
    assert safe.certificate.certified
    assert fitted.validation_scores is not None
    assert safe.certificate.threshold in thresholds_of(fitted.validation_scores.confidence)[0]
    again = squad.load(safe.save(tmp_path / "model"))
    assert again.certificate == safe.certificate
    assert again.validation_scores is not None
    assert (again.validation_scores.confidence == fitted.validation_scores.confidence).all()
    assert again.certify(*points(2000, 1), risk=0.1, delta=0.1, method=method).certificate is not None


def test_harms_that_follow_from_labels(fitted: Predictor) -> None:
    x, y = points(2000, 1)
    name = f"missed {fitted.classes[0]}"
    found = fitted.certify(x, y, risk={"wrong": 0.1, name: 0.1}, delta=0.1, method="pareto").certificate
    assert found is not None
    assert set(found.rules[0].errors) == {"wrong", name}
    with pytest.raises(ArgumentError, match="'own'"):
        fitted.certify(x, y, risk={"own": 0.1}, harms={"own": np.zeros(2000)}, method="pareto")
    assert fitted.certify(x, y, risk={"own": 0.1}, harms={"own": np.zeros(2000)}, method="preset").certificate


def test_the_pilot_of_a_recalibrated_model_is_recalibrated(fitted: Predictor) -> None:
    hot = fitted.recalibrate(*points(400, 5))
    found = hot.certify(*points(2000, 1), risk=0.1, delta=0.1, method="preset").certificate
    assert found is not None
    assert found.certified
    answer = hot.answer(points(400, 5)[0])
    assert min(answer.confidence) <= found.threshold <= max(answer.confidence)


def test_rows_of_the_user_choose_the_thresholds(fitted: Predictor) -> None:
    bare = fitted.without_scores()
    assert bare.validation_scores is None
    with pytest.raises(ArgumentError, match="pilot"):
        bare.certify(*points(2000, 1), risk=0.1, method="pareto")
    found = bare.certify(*points(2000, 1), risk=0.1, delta=0.1, method="pareto", pilot=points(500, 6)).certificate
    assert found is not None
    assert found.certified


def test_stored_scores_of_another_sampling_mode_are_refused(fitted: Predictor) -> None:
    other = fitted.with_sampling(num_samples=fitted.num_samples + 1)
    with pytest.raises(ArgumentError, match=f"{fitted.num_samples} {fitted.sampling}"):
        other.certify(*points(2000, 1), risk=0.1, method="pareto")


def test_the_pilot_must_not_be_in_the_calibration_set(fitted: Predictor) -> None:
    with pytest.raises(CertificationError, match="of the pilot"):
        fitted.certify(*points(2000, 1), risk=0.1, method="pareto", pilot=points(2000, 1))
    with pytest.raises(ArgumentError, match="fallback"):
        fitted.certify(*points(2000, 1), risk=0.1, pilot=points(500, 6))


def test_too_few_validation_rows_are_not_stored() -> None:
    assert fit_predictor(*points(60, 0), QUICK).validation_scores is None


def test_positions_of_unknown_classes_are_refused(fitted: Predictor, tmp_path: Path) -> None:
    stored = fitted.validation_scores
    assert stored is not None
    wrong = type(stored)(stored.confidence, stored.predicted + 9, stored.right, "mean", 1)
    broken = fitted._replace(validation_scores=wrong)
    with pytest.raises(ArtifactError, match="classes"):
        squad.load(broken.save(tmp_path / "model"))


def test_nor_may_near_copies(fitted: Predictor) -> None:
    x, y = points(2000, 1)
    for near in (x.astype(np.float32).astype(np.float64), x.round(4), x + 1e-7):
        with pytest.raises(CertificationError, match="of the pilot"):
            fitted.certify(x, y, risk=0.1, method="pareto", pilot=(near[:400], y[:400]))


def test_nor_may_rows_of_its_groups(of_table: Predictor) -> None:
    model = of_table
    new, pilot = frame(900, 1), frame(300, 2)
    new["who"], pilot["who"] = [f"n{i}" for i in range(900)], [f"p{i}" for i in range(300)]
    arguments: dict[str, Any] = {"risk": 0.3, "delta": 0.1, "method": "preset"}
    assert model.certify(new, new["y"].to_numpy(), pilot=(pilot, pilot["y"].to_numpy()), **arguments).certificate
    pilot.loc[0, "who"] = "n7"
    with pytest.raises(CertificationError, match="'n7'"):
        model.certify(new, new["y"].to_numpy(), pilot=(pilot, pilot["y"].to_numpy()), **arguments)


def test_a_pilot_without_usable_rows(fitted: Predictor) -> None:
    with pytest.raises(ArgumentError, match="3 rows of the pilot"):
        fitted.certify(*points(2000, 1), risk=0.1, method="pareto", pilot=(np.full((3, 2), 1e6), ["a", "b", "c"]))


def test_an_unknown_harm_is_named(fitted: Predictor) -> None:
    with pytest.raises(ArgumentError, match="'missed d'"):
        fitted.certify(*points(300, 1), risk={"missed d": 0.1}, method="pareto")
