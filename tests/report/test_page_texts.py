"""Texts of the page in cases that are rare: nothing to choose, few members, long names, rows that cannot be used."""

import re
from typing import Any

import numpy as np
import pytest

from squad.predictor import Predictor
from squad.report.content import compute_report
from squad.report.page.confidence import confidence
from squad.report.page.confusion import confusion_matrices, distinct_names
from squad.report.page.curve import curve
from squad.report.page.model_card import model_card
from squad.report.page.operating_point import operating_point
from squad.report.report_data import ReportData
from tests.report.builders import CLASSES, certified, features, images, labels_for, model


def report(predictor: Predictor, x: Any, labels: Any = None) -> ReportData:
    return compute_report({"it": predictor}, x, labels_for(predictor, x) if labels is None else labels)


def right(predictor: Predictor, x: Any) -> Any:
    return np.asarray(predictor.uncertified().answer(x).label)


def wrong(predictor: Predictor, x: Any) -> Any:
    names = np.array(CLASSES)
    return names[(np.array([CLASSES.index(label) for label in right(predictor, x)]) + 1) % len(names)]


def test_one_risk_that_can_be_guaranteed_is_not_called_none() -> None:
    """Without any error, 150 cases guarantee one risk, at which every case is accepted."""
    one, x = model(), images(150, seed=7)
    perfect = one.certify(x, right(one, x), 0.01, delta=0.05)
    assert perfect.certificate is not None
    assert not perfect.certificate.certified
    test = images(60, seed=3)
    text = operating_point(report(perfect, test, right(one, test)))
    assert "no risk up to" not in text
    risk = re.search(r"the only risk to choose is ([\d.]+)", text)
    assert risk is not None
    assert f"at most {risk[1]}" in text


def test_no_risk_that_can_be_guaranteed() -> None:
    one, x = model(), images(20, seed=7)
    text = operating_point(report(one.certify(x, right(one, x), 0.1, delta=0.05), images(60, seed=3)))
    assert re.search("no risk up to [0-9]+\u00a0% can be guaranteed with 20\u00a0calibration cases", text)


def test_without_a_certificate_only_a_perfect_model_makes_no_error() -> None:
    one, x = model(), images(40, seed=3)
    assert "there is no error on the test set" in operating_point(report(one, x, right(one, x)))
    text = operating_point(report(one, x, wrong(one, x)))
    assert "no error" not in text
    assert "no threshold has a selective risk between 0 and that of accepting every case" in text


def test_the_price_of_the_slider_is_computed() -> None:
    good = certified(model())
    found = report(good, images(150, seed=3))
    guarantee, slider = found.models[0].guarantee, found.models[0].slider
    assert guarantee is not None
    ((coverage, risk),) = guarantee.points
    (at_risk,) = (one.coverage for one in slider.positions if one.risk == risk)
    assert at_risk is not None
    assert at_risk < coverage
    text = operating_point(found)
    assert f"accepts {100 * coverage:.1f}\u00a0% of the calibration cases, and the slider {100 * at_risk:.1f}" in text


def test_marks_of_several_certificates_are_listed_below_the_slider() -> None:
    """Next to each other on the track, their labels would overlap."""
    x = images(150, seed=3)
    one = certified(model(), risk=0.08)
    both = {"a": one, "b": certified(model(), risk=0.1)}
    text = operating_point(compute_report(both, x, labels_for(one, x)))
    marks = re.search(r'<div class="marks">.*?</div>', text)
    assert marks is not None
    assert re.sub(r"<[^>]*>", "", marks[0]) == ""
    assert "certificate of a: 8\u00a0%</li>" in text
    assert "certificate of b: 10\u00a0%</li>" in text


def test_every_dot_of_the_reliability_diagram_is_at_its_accuracy() -> None:
    """Also that of a bin with few cases, all of them wrong."""
    one, x = model(members=1), images(60, seed=3)
    sure = one.answer(x).confidence
    labels = np.where(sure < np.quantile(sure, 0.03), wrong(one, x), right(one, x))
    text = confidence(report(one, x, labels))
    axis = re.search(r'<div class="y-axis"[^>]*>(.*?)</div>', text)
    assert axis is not None
    assert re.sub(r"<[^>]*>", " ", axis[1]).split()[0].startswith("0")
    found = re.findall(
        r'class="dot [^"]*" style="[^"]*bottom:([\d.]+)%[^"]*" title="[^"]*accuracy ([\d.]+)\u00a0%', text
    )
    bottoms, accuracies = np.array(found, dtype=float).T
    assert accuracies.min() == 0
    assert bottoms == pytest.approx(accuracies, abs=0.06)


@pytest.mark.parametrize(("members", "text"), [(2, "range of the 2 members"), (20, "90\u00a0% of the 20 members")])
def test_the_band_of_few_members_contains_all_of_them(members: int, text: str) -> None:
    one, x = model(members=members), images(60, seed=3)
    assert text in curve(report(one, x))


def test_rows_that_could_not_be_used_are_not_tested_on() -> None:
    one, x = model(kind="features"), features(20, seed=3)
    labels = labels_for(one, x)
    x[1:] = np.nan
    assert "Tested on 1\u00a0case of " in model_card(report(one, x, labels))
    assert "(20 rows, of which 19 could not be used)" in model_card(report(one, x, labels))


def test_long_names_stay_different() -> None:
    assert distinct_names(["cat", "dog"], 14) == ["cat", "dog"]
    assert distinct_names(["very-long-category-a", "very-long-category-b"], 14) == ["very-l…egory-a", "very-l…egory-b"]
    middle = ["very-long-a-category", "very-long-b-category"]
    assert distinct_names(middle, 9) == ["1: very…gory", "2: very…gory"]
    names = tuple(f"a-class-with-a-long-name-{index}" for index in range(3))
    one, x = model(classes=names), images(40, seed=3)
    text = confusion_matrices(0, report(one, x).models[0])
    for index, name in enumerate(names):
        assert re.search(rf'<th scope="col" title="{name}">[^<]*{index}</th>', text)
        assert f'<th scope="row">{name}</th>' in text
