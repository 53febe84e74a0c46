"""Rows unlike the training rows are referred, with the reason; the certificate covers this."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import squad
from squad.data.tables import Table
from squad.fitting import fit_predictor
from squad.predictor import CertificationError, Predictor
from squad.predictor.certification import identity
from tests.predictor.examples import QUICK, frame, points


def cancer() -> tuple[Any, Any, Any, Any, Any, Any]:
    x, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    a, b, c = order[:250], order[250:420], order[420:]
    return x[a], y[a], x[b], y[b], x[c], y[c]


@pytest.fixture(scope="module")
def certified() -> Predictor:
    x, y, cal, truth, _, _ = cancer()
    classifier = squad.SquadClassifier(hidden=(16,), max_epochs=30, random_state=0).fit(x, y)
    return classifier.certify(cal, truth, risk=0.1, delta=0.1)


def test_a_unit_error_is_not_accepted(certified: Predictor) -> None:
    *_, new, truth = cancer()
    honest = certified.answer(new)
    assert (honest.decision == "accepted").mean() > 0.8
    assert honest.novel.mean() <= 0.01
    for column in (0, 3, 20):
        wrong = new.copy()
        wrong[:, column] *= 1000
        answer = certified.answer(wrong)
        assert set(answer.decision) == {"referred"}
        assert all(f"feature {column}" in reason for reason in answer.reason)
        assert np.isfinite(answer.confidence).all()  # a reviewer sees what the model would have predicted
    assert set(certified.answer(np.full((4, 30), -999.0)).decision) == {"referred"}
    assert (honest.label == truth).mean() > 0.85


def test_without_the_check_such_rows_are_accepted() -> None:
    """The same model, fitted without the check, accepts wrong predictions."""
    x, y, cal, truth, new, right = cancer()
    classifier = squad.SquadClassifier(hidden=(16,), max_epochs=30, random_state=0, refer_novel=False).fit(x, y)
    safe = classifier.certify(cal, truth, risk=0.1, delta=0.1)
    wrong = new.copy()
    wrong[:, 3] *= 1000
    answer = safe.answer(wrong)
    accepted = answer.decision == "accepted"
    assert accepted.mean() > 0.5
    assert (answer.label[accepted] != right[accepted]).mean() > 0.1
    assert safe.row_distance is None


def test_the_methods_of_scikit_learn_predict_them() -> None:
    x, y, *_ = cancer()
    classifier = squad.SquadClassifier(hidden=(8,), max_epochs=2, random_state=0).fit(x, y)
    assert np.isfinite(classifier.predict_proba(x * 100)).all()


def test_novel_rows_are_left_out_of_calibration(tmp_path: Path) -> None:
    predictor = fit_predictor(*points(600, 0), QUICK)
    x, y = points(1000, 1)
    clean = ~predictor.answer(x).novel
    expected = predictor.certify(x[clean][10:], y[clean][10:], 0.1).certificate
    x, y = x[clean], y[clean]
    x[:10] *= 1e4
    made = predictor.certify(x, y, 0.1)
    assert made.certificate is not None
    assert expected is not None
    assert made.certificate.rules == expected.rules
    assert "10 calibration rows" in str(made.certificate)
    x[:100] *= 1e4
    with pytest.warns(squad.SquadWarning, match=r"100 of [\d,]+ rows are unlike the training rows"):
        predictor.certify(x, y, 0.1)
    with pytest.raises(CertificationError, match="unlike the training rows"):
        predictor.certify(x * 1e4, y, 0.1)
    again = squad.load(made.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.answer(x).reason, made.answer(x).reason)


def test_the_certificate_is_bound_to_the_check() -> None:
    predictor = fit_predictor(*points(600, 0), QUICK)
    safe = predictor.certify(*points(1000, 1), risk=0.1)
    without: dict[str, Any] = {"sampling": safe.sampling, "num_samples": safe.num_samples, "record": safe.record}
    with pytest.raises(CertificationError, match="does not belong to this model"):
        Predictor(safe.network, safe.config, safe.transform, safe.classes, certificate=safe.certificate, **without)
    lax = fit_predictor(*points(600, 0), QUICK, refer_novel=False)
    assert identity(lax) != identity(predictor)


def test_models_of_tables() -> None:
    data = frame(600, 0)
    predictor = fit_predictor(Table.of(data), data["y"].to_numpy(), QUICK, target="y", drop=["who"])
    new = frame(50, 1)
    new.loc[3, "u"] = 900.0
    answer = predictor.answer(new)
    assert answer.novel[3]
    assert answer.decision[3] == "referred"
    assert "'u' is 900" in answer.reason[3]
