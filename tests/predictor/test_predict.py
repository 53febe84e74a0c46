"""Predictor.predict, predict_proba and Answer.accepted; HTML for notebooks; one pass over rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import squad
from squad.data.array_transform import ArrayTransform
from squad.fitting import fit_predictor
from squad.models import Sampler
from squad.predictor import Predictor
from tests.predictor.examples import QUICK, points

#: A class name that would run a script in a notebook if it were not escaped.
HOSTILE = "<script>alert('x')</script>&"


@pytest.fixture(scope="module")
def numbered() -> Predictor:
    """A certified predictor whose classes are integers."""
    x, y = (np.concatenate(parts) for parts in zip(points(600, 0), points(2000, 1), strict=True))
    codes = np.searchsorted(["a", "b", "c"], y)
    return fit_predictor(x[:600], codes[:600], QUICK).certify(x[600:], codes[600:], risk=0.05, delta=0.05)


class TestPredict:
    def test_labels_and_probabilities_are_those_of_answer(self, fitted: Predictor, safe: Predictor) -> None:
        x, _ = points(300, 2)
        answer = safe.answer(x)
        for predictor in (fitted, safe):  # a certificate does not change what is most likely
            np.testing.assert_array_equal(predictor.predict(x), answer.label)
            np.testing.assert_array_equal(predictor.predict_proba(x), answer.probabilities)
        assert safe.predict(x).dtype == np.array(["a"]).dtype
        np.testing.assert_array_equal(np.array(safe.classes)[safe.predict_proba(x).argmax(1)], safe.predict(x))

    def test_abstain_label_of_the_same_type(self, safe: Predictor, numbered: Predictor) -> None:
        x, _ = points(300, 2)
        for predictor, abstain_label in ((safe, "refer"), (numbered, -1)):
            answer = predictor.answer(x)
            assert 0 < answer.accepted.sum() < 300
            found = predictor.predict(x, abstain_label=abstain_label)
            assert found.dtype.kind == ("U" if isinstance(abstain_label, str) else "i")
            np.testing.assert_array_equal(found[answer.accepted], answer.label[answer.accepted])
            assert set(found[~answer.accepted].tolist()) == {abstain_label}

    def test_abstain_label_of_another_type(self, safe: Predictor, numbered: Predictor) -> None:
        x, _ = points(300, 2)
        for predictor, abstain_label in ((safe, -1), (numbered, "refer"), (safe, np.nan)):
            answer = predictor.answer(x)
            found = predictor.predict(x, abstain_label=abstain_label)
            assert found.dtype == object
            assert {type(label) for label in found[answer.accepted].tolist()} == {type(predictor.classes[0])}
            assert found[answer.accepted].tolist() == answer.label[answer.accepted].tolist()
            assert all(label is abstain_label for label in found[~answer.accepted])

    @pytest.mark.parametrize(
        ("abstain_label", "found"),
        [("a", "'a'"), ((1, 2), r"\(1, 2\)"), (["refer"], "refer"), (np.str_("b"), "'b'"), ({}, "{}")],
    )
    def test_labels_that_cannot_mean_abstention(self, safe: Predictor, abstain_label: Any, found: str) -> None:
        """A class would make abstentions look like predictions."""
        with pytest.raises(squad.ArgumentError, match=f"abstain_label.*{found}"):
            safe.predict(points(3, 2)[0], abstain_label=abstain_label)

    def test_equal_values_of_other_types_are_classes_too(self, numbered: Predictor) -> None:
        for label in (1, True, 1.0, np.int64(1)):
            with pytest.raises(squad.ArgumentError, match="differ from the classes"):
                numbered.predict(points(3, 2)[0], abstain_label=label)
        assert numbered.predict(points(3, 2)[0], abstain_label=np.int64(-1)).dtype.kind == "i"
        assert numbered.predict(points(3, 2)[0][:0], abstain_label=-1).dtype.kind == "i"

    def test_a_target_is_chosen_by_risk(self, fitted: Predictor) -> None:
        x, y = points(2000, 1)
        both = fitted.certify(x, y, risk=[0.05, 0.2], delta=0.05)
        new, _ = points(300, 2)
        with pytest.raises(squad.ArgumentError, match="several targets"):
            both.predict(new, abstain_label="refer")
        for risk in (0.05, 0.2):
            expected = both.answer(new, risk=risk).accepted
            assert ((both.predict(new, abstain_label="refer", risk=risk) != "refer") == expected).all()

    def test_groups_and_risk_need_an_abstain_label(self, fitted: Predictor, safe: Predictor) -> None:
        x, _ = points(3, 2)
        for predictor in (fitted, safe):
            for options in ({"by": ["u"] * 3}, {"risk": 0.05}):
                with pytest.raises(squad.ArgumentError, match="abstain_label"):
                    predictor.predict(x, **options)

    def test_abstaining_needs_a_certificate(self, fitted: Predictor) -> None:
        with pytest.raises(squad.ArgumentError, match="abstain_label"):
            fitted.predict(points(3, 2)[0], abstain_label="refer")

    def test_groups_given_as_an_array(self, fitted: Predictor) -> None:
        x, y = points(3000, 1)
        by = np.where(np.arange(3000) % 2, "odd", "even")
        safe = fitted.certify(x, y, 0.1, by=by)
        accepted = safe.answer(x, by=by).accepted
        np.testing.assert_array_equal(safe.predict(x, abstain_label="refer", by=by) != "refer", accepted)

    def test_unreadable_rows(self, safe: Predictor) -> None:
        x, _ = points(5, 2)
        x[3] = np.nan
        for call in (safe.predict, safe.predict_proba):
            with pytest.raises(squad.ArgumentError, match=r"Row 3 .*NaN"):
                call(x)
        assert safe.predict(x, abstain_label="refer")[3] == "refer"


def test_accepted(fitted: Predictor, safe: Predictor) -> None:
    x, _ = points(300, 2)
    answer = safe.answer(x)
    assert answer.accepted.dtype == np.bool_
    assert answer.accepted.tolist() == [decision == "accepted" for decision in answer.decision]
    assert not fitted.answer(x).accepted.any()
    assert safe.answer(x[:0]).accepted.shape == (0,)


class TestHtml:
    def test_the_predictor_lists_what_it_is(self, fitted: Predictor, safe: Predictor) -> None:
        assert "none: no prediction is guaranteed" in fitted._repr_html_()
        page = safe._repr_html_()
        assert safe.certificate is not None
        for text in ("2 - 8 - 3", "8 stratified samples", "a, b, c", "540", safe.certificate.headline):
            assert text in page
        assert page.count("<table") == page.count("</table>") == 2  # its own, and that of the certificate

    def test_hostile_class_names_are_escaped(self) -> None:
        x, y = points(60, 0)
        predictor = fit_predictor(x, np.where(y == "a", HOSTILE, "b"), QUICK)
        for page in (predictor._repr_html_(), predictor.answer(x)._repr_html_()):
            assert "<script" not in page
            assert "&lt;script&gt;" in page

    def test_many_classes_are_counted(self) -> None:
        x, _ = points(60, 0)
        page = fit_predictor(x, np.arange(60) % 20, QUICK)._repr_html_()
        assert "0, 1, 2, 3, 4, 5, 6, 7 and 12 more" in page

    def test_answers_are_a_table(self, safe: Predictor) -> None:
        answer = safe.answer(points(300, 2)[0])
        page = answer._repr_html_()
        assert "<table" in page
        assert "mutual_information" in page
        # Reasons come from data as well.
        reason = replace(answer, reason=np.full(300, HOSTILE, dtype=object))._repr_html_()
        assert "<script" not in reason


class Spy:
    """Counts the rows that a method was called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, count: Callable[[Any], int]) -> None:
        self.rows: list[int] = []
        method = getattr(owner, name)

        def call(instance: Any, x: Any, *more: Any, **named: Any) -> Any:
            if count(x):
                self.rows.append(count(x))
            return method(instance, x, *more, **named)

        monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize("risk", [0.05, [0.05, 0.1, {"wrong": 0.2, "missed a": 0.1}]], ids=["one", "three"])
def test_certify_encodes_and_predicts_every_row_once(
    fitted: Predictor, monkeypatch: pytest.MonkeyPatch, risk: Any
) -> None:
    encoded = Spy(monkeypatch, ArrayTransform, "apply", len)
    predicted = Spy(monkeypatch, Sampler, "__call__", len)
    fitted.certify(*points(2000, 1), risk=risk)
    assert sum(encoded.rows) == 2000
    assert sum(predicted.rows) == 2000


def test_recalibrate_encodes_and_predicts_every_row_once(fitted: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = Spy(monkeypatch, ArrayTransform, "apply", len)
    predicted = Spy(monkeypatch, Sampler, "__call__", len)
    fitted.recalibrate(*points(500, 7))
    assert sum(encoded.rows) == sum(predicted.rows) == 500


def test_a_pickle_of_another_version_is_refused(fitted: Predictor) -> None:
    state = fitted.__getstate__()
    state["_memory"] = state.pop("_seen_rows")  # as version 0.1.0 called it
    with pytest.raises(squad.SquadError, match=r"another version.*squad\.load"):
        Predictor.__new__(Predictor).__setstate__(state)


def test_the_assumptions_of_a_certificate_word_by_word(safe: Predictor) -> None:
    """They are what an auditor judges: a word that is lost here changes the guarantee."""
    assert safe.certificate is not None
    text = str(safe.certificate)
    for clause in (
        "calibration cases come from the same source, drawn independently",
        "no calibration case was used to train, select or recalibrate the model, or for a certificate that is not"
        " recorded with the model",
        "selective risk does not decrease as coverage grows",
    ):
        assert clause in text
