"""Certified predictors: their decisions, and the model that a certificate is bound to."""

import copy
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import squad
from squad.artifact import ArtifactError
from squad.data.seen_rows import LeakError
from squad.data.tables import Table
from squad.fitting import fit_predictor
from squad.predictor import CertificationError, Predictor
from squad.predictor.answer import on_grid
from squad.predictor.certification import identity
from squad.predictor.harms import harm_of
from squad.selective.scored_cases import Scores
from tests.predictor.examples import QUICK, frame, points


class TestDecisions:
    def test_rows_are_accepted_or_referred(self, fitted: Predictor, safe: Predictor) -> None:
        x, y = points(4000, 2)
        answer = safe.answer(x)
        certificate = safe.certificate
        assert certificate is not None
        assert certificate.certified
        assert set(answer.decision) == {"accepted", "referred"}
        good = answer.decision == "accepted"
        assert (good == ((answer.confidence > certificate.threshold) & ~answer.novel)).all()
        assert answer.novel.mean() < 0.005
        assert (answer.label[good] != y[good]).mean() <= 0.05
        assert (answer.label != y).mean() > 0.05  # the guarantee does not hold for all predictions
        assert abs(good.mean() - certificate.coverage) < 0.05
        plain = fitted.answer(x)
        assert set(plain.decision[~plain.novel]) == {"uncertified"}
        assert (plain.probabilities == answer.probabilities).all()

    def test_certifying_rows_equals_certifying_their_scores(self, fitted: Predictor, safe: Predictor) -> None:
        x, y = points(2000, 1)
        answer = fitted.answer(x)
        certificate = squad.certify(answer.confidence, answer.label == y, 0.05, 0.05, attempt=1)
        assert safe.certificate is not None
        assert certificate.rules == safe.certificate.rules

    def test_rows_without_a_prediction_are_referred(self, safe: Predictor) -> None:
        x, _ = points(5, 3)
        x[2] = np.nan
        answer = safe.answer(x)
        assert answer.decision[2] == "referred"
        assert "NaN" in answer.reason[2]
        assert answer.label[2] is None

    def test_unreadable_calibration_rows_are_left_out_and_counted(self, fitted: Predictor) -> None:
        x, y = points(2000, 1)
        x[:7, 0] = np.inf
        certificate = fitted.certify(x, y, 0.05, 0.05).certificate
        assert certificate is not None
        assert certificate.m == 1993
        assert certificate.details["calibration"]["used"] == 1993
        assert "7 calibration rows were left out" in str(certificate)

    def test_nothing_is_accepted_if_nothing_was_certified(self, fitted: Predictor) -> None:
        x, y = points(500, 1)
        nothing = fitted.certify(x, np.roll(y, 1), 0.05)
        assert nothing.certificate is not None
        assert not nothing.certificate.certified
        assert set(nothing.answer(x).decision) == {"referred"}
        assert "certifies nothing" in repr(nothing)

    def test_one_of_several_targets_must_be_chosen(self, fitted: Predictor) -> None:
        x, y = points(2000, 1)
        both = fitted.certify(x, y, [0.05, 0.1])
        with pytest.raises(squad.ArgumentError, match=r"0\.05.*0\.1"):
            both.answer(x)
        strict, lax = (both.answer(x, risk=risk).decision == "accepted" for risk in (0.05, 0.1))
        assert 0 < strict.sum() < lax.sum()
        with pytest.raises(squad.ArgumentError, match=r"`risk`.*certified"):
            fitted.answer(x, risk=0.05)

    def test_every_group_has_its_own_threshold(self, of_table: Predictor) -> None:
        data = frame(4000, 1)
        safe = of_table.certify(data, data["y"].to_numpy(), 0.1, by="site")
        assert safe.certificate is not None
        limits = {rule.group: rule.threshold for rule in safe.certificate.rules}
        assert set(limits) == {"Oslo", "Bern"}
        new = frame(300, 2)
        new.loc[0, "site"] = "Rome"
        new.loc[1, "site"] = None
        answer = safe.answer(new)
        expected = answer.confidence > new["site"].map(limits).fillna(math.inf).to_numpy()
        assert ((answer.decision == "accepted") == expected).all()
        assert answer.decision[0] == "referred"

    def test_groups_given_as_an_array(self, fitted: Predictor) -> None:
        x, y = points(3000, 1)
        by = np.where(np.arange(3000) % 2, "odd", "even")
        safe = fitted.certify(x, y, 0.1, by=by)
        answer = safe.answer(x[:3], by=["odd", "even", "none"])
        assert answer.decision[2] == "referred"
        assert answer.reason.tolist()[:2] == ["", ""]
        assert answer.reason[2] == "nothing was certified where group is none"
        with pytest.raises(squad.ArgumentError, match=r"threshold per group.*by=groups"):
            safe.answer(x)
        with pytest.raises(squad.ArgumentError, match=r"by .*\(3000,\), .*got shape \(1,\)"):
            safe.answer(x, by=["odd"])

    def test_groups_must_be_those_of_the_certificate(self, fitted: Predictor, of_table: Predictor) -> None:
        x, y = points(4000, 1)
        safe = fitted.certify(x, y, 0.1, by="label")
        with pytest.raises(squad.ArgumentError, match=r"`by` .*label"):
            safe.answer(x, by=["a"] * 4000)
        data = frame(4000, 1).rename(columns={"site": "group"})
        table = fit_predictor(Table.of(data), data["y"].to_numpy(), QUICK, target="y", drop=["who", "group"])
        new = frame(4000, 2).rename(columns={"site": "group"})
        by_column = table.certify(new, new["y"].to_numpy(), 0.1, by="group")  # a column of that name, not an array
        assert (by_column.answer(new).decision == "accepted").any()
        with pytest.raises(squad.ArgumentError, match=r"`by` .*column"):
            by_column.answer(new, by=new["group"].to_numpy())
        with pytest.raises(squad.ArgumentError, match="by='y'"):
            table.certify(new, new["y"].to_numpy(), 0.1, by="y")
        new.loc[7, "group"] = None
        with pytest.raises(CertificationError, match=r"'group' is empty in 1 "):
            table.certify(new, new["y"].to_numpy(), 0.1, by="group")

    def test_unreadable_rows_do_not_shift_harms_and_groups(self, fitted: Predictor) -> None:
        x, y = points(4000, 1)
        random = np.random.default_rng(5)
        harm, by = random.random(4000) < 0.02, np.where(random.random(4000) < 0.3, "p", "q")
        broken = x.copy()
        broken[::7] = np.nan
        kept = np.arange(4000) % 7 > 0
        risk = {"wrong": 0.1, "mine": 0.1}
        one = fitted.certify(broken, y, risk, by=by, harms={"mine": harm})
        other = fitted.certify(x[kept], y[kept], risk, by=by[kept], harms={"mine": harm[kept]})
        assert one.certificate is not None
        assert other.certificate is not None
        assert one.certificate.rules == other.certificate.rules
        better = fitted.recalibrate(broken[:700], y[:700]).recalibration
        again = fitted.recalibrate(x[:700][kept[:700]], y[:700][kept[:700]]).recalibration
        assert better is not None
        assert again is not None
        assert better.rows == again.rows
        for name in ("temperature", "nll", "ece"):  # computed from probabilities, which are equal to 1e-6
            assert getattr(better, name) == pytest.approx(getattr(again, name), abs=1e-5), name

    def test_confidences_are_on_the_grid(self, fitted: Predictor) -> None:
        confidence = fitted.answer(points(500, 1)[0]).confidence
        assert (on_grid(confidence) == confidence).all()

    def test_a_threshold_per_predicted_label(self, fitted: Predictor, tmp_path: Path) -> None:
        x, y = points(4000, 1)
        safe = fitted.certify(x, y, 0.1, by="label")
        answer = safe.answer(x)
        assert safe.certificate is not None
        for rule in safe.certificate.rules:
            mine = (answer.label == rule.group) & ~answer.novel
            assert ((answer.confidence[mine] > rule.threshold) == (answer.decision[mine] == "accepted")).all()
        again = squad.load(safe.save(tmp_path / "model"))
        assert (again.answer(x).decision == answer.decision).all()

    def test_harms(self, fitted: Predictor) -> None:
        x, y = points(4000, 1)
        safe = fitted.certify(
            x, y, {"wrong": 0.1, "missed a": 0.03, "false b": 0.05, "mine": 0.5}, harms={"mine": y == "c"}
        )
        answer = safe.answer(x)
        good = answer.decision == "accepted"
        wrong = answer.label != y
        assert safe.certificate is not None
        assert safe.certificate.rules[0].errors == {
            "wrong": (wrong & good).sum(),
            "missed a": (wrong & good & (y == "a")).sum(),
            "false b": (wrong & good & (answer.label == "b")).sum(),
            "mine": (good & (y == "c")).sum(),
        }
        assert safe.calibration is not None
        assert list(safe.calibration.harms) == ["wrong", "mine", "missed a", "false b"]
        with pytest.raises(squad.ArgumentError, match="'missed d'"):
            fitted.certify(x, y, {"missed d": 0.1})
        with pytest.raises(squad.ArgumentError, match=r"harms\['mine'\].*\(1,\)"):
            fitted.certify(x, y, {"mine": 0.1}, harms={"mine": [1]})
        assert harm_of("wrong", "ab", np.array([0, 1]), np.array([0, 0])).tolist() == [False, True]


class TestBelonging:
    def test_the_identity_depends_on_everything_that_confidences_depend_on(self, fitted: Predictor) -> None:
        seen = {
            identity(fitted),
            identity(fitted.with_sampling(num_samples=4)),
            identity(fitted.with_sampling("relaxed")),
        }
        seen.add(identity(fitted.recalibrate(*points(300, 4))))
        for name in ("weight", "seed"):
            other = copy.deepcopy(fitted)
            with torch.no_grad():
                next(tensor for key, tensor in other.network.state_dict().items() if key.endswith(name)).add_(1)
            seen.add(identity(other))
        assert len(seen) == 6
        assert identity(copy.deepcopy(fitted)) == identity(fitted)

    def test_another_sampling_mode_is_an_error(self, safe: Predictor) -> None:
        with pytest.raises(CertificationError, match=r"8 stratified.*4 stratified"):
            safe.with_sampling(num_samples=4)
        with pytest.raises(CertificationError, match=r"8 stratified.*8 relaxed"):
            safe.with_sampling("relaxed")
        assert safe.with_sampling("stratified", 8).certificate == safe.certificate
        assert safe.uncertified().with_sampling("relaxed").certificate is None

    def test_a_changed_model_is_noticed(self, fitted: Predictor, safe: Predictor) -> None:
        x, _ = points(50, 2)
        other = copy.deepcopy(safe)
        other.answer(x)
        with torch.no_grad():
            next(other.network.parameters()).mul_(3)
        with pytest.raises(CertificationError, match="does not belong to this model"):
            other.answer(x)
        for name in ("certificate", "recalibration", "calibration", "seen_rows"):
            with pytest.raises(AttributeError):
                setattr(safe, name, None)
        loose = squad.certify([0.5] * 500, [True] * 500, 0.05)
        with pytest.raises(CertificationError, match="does not belong to this model"):
            fitted._replace(certificate=loose)

    def test_classes_and_transform_are_part_of_the_identity(self, fitted: Predictor) -> None:
        renamed = Predictor(fitted.network, fitted.config, fitted.transform, ("x", "y", "z"))
        assert identity(renamed) != identity(fitted.uncertified())
        other = fit_predictor(points(600, 9)[0] * 2, points(600, 9)[1], QUICK).transform
        assert identity(Predictor(fitted.network, fitted.config, other, fitted.classes)) != identity(fitted)

    def test_a_certificate_cannot_move_to_another_model(self, fitted: Predictor, safe: Predictor) -> None:
        other = fitted.with_sampling(num_samples=4)
        with pytest.raises(CertificationError, match="does not belong to this model"):
            other._replace(certificate=safe.certificate)

    def test_a_changed_model_is_not_saved(self, safe: Predictor, tmp_path: Path) -> None:
        other = copy.deepcopy(safe)
        with torch.no_grad():
            next(other.network.parameters()).add_(1)
        with pytest.raises(CertificationError, match="does not belong to this model"):
            other.save(tmp_path / "model")
        assert not (tmp_path / "model").exists()

    def test_save_and_load(self, safe: Predictor, tmp_path: Path) -> None:
        x, _ = points(500, 5)
        again = squad.load(safe.save(tmp_path / "model"))
        assert again.certificate == safe.certificate
        assert again.calibration is not None
        assert safe.calibration is not None
        assert (again.calibration.confidence == safe.calibration.confidence).all()
        assert (again.calibration.harms["wrong"] == safe.calibration.harms["wrong"]).all()
        assert again.seen_rows is not None
        assert safe.seen_rows is not None
        assert (again.seen_rows.rows == safe.seen_rows.rows).all()
        assert (again.answer(x).decision == safe.answer(x).decision).all()
        assert (pickle.loads(pickle.dumps(safe)).answer(x).decision == safe.answer(x).decision).all()
        assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
            "calibration.safetensors",
            "config.json",
            "model.safetensors",
            "novelty.safetensors",
            "rows.safetensors",
            "validation.safetensors",
        ]

    def test_removed_parts_are_not_saved(self, safe: Predictor, tmp_path: Path) -> None:
        bare = safe.without_row_hashes().without_scores()
        again = squad.load(bare.save(tmp_path / "model"))
        assert again.seen_rows is None
        assert again.calibration is None
        assert again.certificate == safe.certificate
        assert not list((tmp_path / "model").glob("rows*")) + list((tmp_path / "model").glob("calibration*"))

    def test_an_edited_certificate_does_not_load(self, safe: Predictor, tmp_path: Path) -> None:
        path = safe.save(tmp_path / "model") / "config.json"
        config = json.loads(path.read_text())
        config["certificate"]["rules"][0]["threshold"] = 0.0
        path.write_text(json.dumps(config))
        with pytest.raises(ArtifactError, match=r"config.json.*changed"):
            squad.load(tmp_path / "model")

    def test_details_name_the_model(self, safe: Predictor) -> None:
        assert safe.certificate is not None
        details = safe.certificate.details
        assert (details["sampling"], details["num_samples"]) == ("stratified", 8)
        assert details["model"] == identity(safe)
        seeds = [value.item() for name, value in safe.network.state_dict().items() if name.endswith(".seed")]
        assert list(details["seeds"].values()) == [[seed] for seed in seeds]
        assert seeds
        assert details["calibration"]["rows"] == 2000
        assert len(details["calibration"]["sha256"]) == 64
        assert details["versions"]["torch"]


class TestGrid:
    def test_confidences_move_by_less_than_a_step(self) -> None:
        c = np.r_[np.linspace(0.001, 0.999, 5001), 1 - np.logspace(-15, -1, 200), 0.0, 1.0, 0.5]
        found = on_grid(c)
        assert np.abs(found - c).max() < 4e-6
        assert np.abs((1 - found) / np.maximum(1 - c, 1e-300) - 1)[:-3][:5001].max() < 2e-5
        assert (np.diff(found[np.argsort(c)]) >= 0).all()
        assert found[-3:].tolist() == [0.0, 1.0, 0.5]
        assert np.isnan(on_grid(np.array([np.nan]))).all()

    def test_equal_rows_are_equal_despite_rounding(self) -> None:
        random = np.random.default_rng(0)
        c = random.random(5000)
        moved = c + random.normal(0, 1e-8, 5000)
        assert (on_grid(c) == on_grid(np.clip(moved, 0, 1))).mean() > 0.99


def test_scores_of_groups_are_saved(fitted: Predictor, tmp_path: Path) -> None:
    x, y = points(3000, 1)
    safe = fitted.certify(x, y, {"wrong": 0.1, "missed a": 0.1}, by=np.arange(3000) % 2)
    again = squad.load(safe.save(tmp_path / "model"))
    one, other = again.calibration, safe.calibration
    assert isinstance(one, Scores)
    assert isinstance(other, Scores)
    assert list(one.harms) == ["wrong", "missed a"]
    assert all((one.harms[name] == other.harms[name]).all() for name in one.harms)
    assert one.by is not None
    assert one.by.tolist() == (np.arange(3000) % 2)[~fitted.answer(x).novel].tolist()
    assert (again.answer(x, by=np.arange(3000) % 2).decision == safe.answer(x, by=np.arange(3000) % 2).decision).all()


def test_the_estimator_certifies() -> None:
    x, y = points(400, 0)
    classifier = squad.SquadClassifier(hidden=(8,), max_epochs=5, random_state=0).fit(x, y)
    safe = classifier.certify(*points(1500, 1), risk=0.1, by="label")
    assert safe.certificate is not None
    assert set(safe.answer(points(100, 2)[0]).decision) <= {"accepted", "referred"}
    assert classifier.predictor_.certificate is None
    with pytest.raises(LeakError):
        classifier.certify(x, y, 0.1)
    with pytest.raises(ValueError, match=r"2\).*\(5, 3\)"):
        classifier.certify(np.zeros((5, 3)), ["a"] * 5, 0.1)
