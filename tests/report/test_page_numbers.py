"""Numbers on the page, in their places, for test cases that can be counted by hand.

The network passes its input on, so that a row of a data set is the logarithm of the probabilities to be predicted.
"""

import json
import math
import re
from functools import cache
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from squad.data.array_transform import ArrayTransform
from squad.models import build, network_config
from squad.predictor import Predictor
from squad.report.content import compute_report
from squad.report.html import render_page
from squad.report.weakest_class import Suggestion
from tests.report.parsed_page import cells, parse, section, style_of, text_of, with_class

CLASSES = ("cat", "dog", "emu", "fox", "gnu")

#: 250 test cases: confidence, prediction, true class, and how many. Above 75 %, 195 are accepted, 11 of them wrong; of
#: the 55 others, 21 are wrong.
CASES = (
    (0.98, "cat", "cat", 40),
    (0.97, "cat", "cat", 20),
    (0.97, "dog", "dog", 30),
    (0.97, "emu", "emu", 10),
    (0.97, "fox", "fox", 20),
    (0.97, "gnu", "gnu", 20),
    (0.97, "cat", "dog", 2),
    (0.92, "dog", "dog", 20),
    (0.92, "emu", "emu", 14),
    (0.92, "cat", "emu", 4),
    (0.85, "gnu", "gnu", 10),
    (0.85, "gnu", "fox", 5),
    (0.72, "cat", "cat", 14),
    (0.72, "dog", "emu", 6),
    (0.55, "emu", "emu", 20),
    (0.55, "dog", "cat", 12),
    (0.55, "cat", "dog", 3),
)
#: Another model's predictions of the same cases: only the last 15 are wrong.
OTHER_CASES = tuple((0.95, truth, truth, n) for *_, truth, n in CASES[:-2]) + tuple(
    (0.6, *case[1:]) for case in CASES[-2:]
)
#: 400 calibration cases: 4 of the 320 above 75 % are wrong; with the next 40, it would be 44 of 360.
CALIBRATION = (
    *((0.97, name, name, 64) for name in ("cat", "dog", "fox", "gnu")),
    (0.97, "emu", "emu", 60),
    (0.97, "cat", "emu", 4),
    (0.75, "dog", "cat", 40),
    (0.55, "fox", "fox", 40),
)
Case = tuple[float, str, str, int]


def rows(*models: tuple[Case, ...], first: int = 0) -> NDArray[np.float64]:
    """Logarithms of the probabilities that each model is to predict, side by side, and the numbers of the rows."""
    columns = []
    for cases in models:
        p = np.array([[c if name == predicted else (1 - c) / 4 for name in CLASSES] for c, predicted, _, _ in cases])
        columns.append(np.repeat(np.log(p), [n for *_, n in cases], 0) + 10)  # positive, as the network needs them
    return np.column_stack([*columns, first + np.arange(len(columns[0]))])


def labels(cases: tuple[Case, ...]) -> list[str]:
    return [truth for *_, truth, n in cases for _ in range(n)]


def passes_on(first: int = 0, inputs: int = 6) -> Predictor:
    """A network whose logits are five of its inputs."""
    config = network_config("mlp", {"hidden": (5,)})
    network = build(config, inputs, 5, [0])
    values = dict(network.named_parameters())
    with torch.no_grad():
        for value in values.values():
            value.zero_()
        values["stages.0.layer.weight"][0, first : first + 5] = torch.eye(5)
        values["stages.1.layer.weight"][0] = torch.eye(5)
    transform = ArrayTransform((inputs,), (0.0,) * inputs, (1.0,) * inputs)
    return Predictor(network, config, transform, CLASSES)


@cache
def certified(risk: Any = 0.1) -> Predictor:
    risks = dict(risk) if isinstance(risk, tuple) else risk
    return passes_on().certify(rows(CALIBRATION, first=1000), labels(CALIBRATION), risk=risks, delta=0.05)


def page_of(predictor: Predictor, cases: tuple[Case, ...] = CASES) -> Element:
    return parse(render_page(compute_report({"it": predictor}, rows(cases), labels(cases))))


@pytest.fixture(scope="module")
def page() -> Element:
    return page_of(certified())


@pytest.fixture(scope="module")
def uncertified() -> Element:
    return page_of(passes_on())


def data(page: Element) -> Any:
    """What the page's script looks up."""
    return json.loads(next(one for one in page.iter("script") if one.get("id") == "data").text or "")


def percents(text: str) -> list[str]:
    return re.findall(r"[\d.]+ %", text)


def test_the_cases_are_predicted_as_they_say() -> None:
    answer = certified().answer(rows(CASES))
    np.testing.assert_allclose(answer.confidence, [c for c, *_, n in CASES for _ in range(n)], rtol=1e-5)
    assert answer.label.tolist() == [predicted for _, predicted, _, n in CASES for _ in range(n)]
    certificate = certified().certificate
    assert certificate is not None
    assert certificate.threshold == pytest.approx(0.75, abs=1e-5)
    assert (len(answer), answer.accepted.sum()) == (250, 195)


def test_the_certificate_and_what_was_observed(page: Element) -> None:
    tiles = with_class(section(page, "guarantee"), "tiles")[0]
    assert [text_of(tile[0]) for tile in tiles] == ["87.2 %", "78 %", "5.6 %"]  # 218 of 250, 195 of 250, 11 of 195


# ---- the slider


def test_the_slider_at_the_certificates_risk(page: Element) -> None:
    fields = {one.get("data-field"): text_of(one) for one in page.iter() if one.get("data-field")}
    assert percents(fields["coverage"]) == ["80 %"]  # 320 of 400 calibration cases
    assert percents(fields["threshold"]) == ["75 %"]
    assert re.findall(r"\d+", fields["referred"]) == ["200"]
    assert re.findall(r"\d+", fields["wrong"]) == ["36"]  # the band bounds the risk of these 800 by 4.5 %
    assert percents(fields["observed_coverage"]) == ["78 %"]
    assert fields["observed_referred"] == "220"
    assert fields["observed_wrong"] == "44"  # 11 of 250
    assert percents(fields["observed_rate"]) == ["5.6 %"]  # 11 of 195
    squares = {
        one.get("class"): (one.get("d") or "").count("M") for one in page.iterfind(".//div[@id='squares0']/svg/path")
    }
    assert squares == {"wrong": 36, "accepted": 764, "referred": 200}


def test_the_slider_without_a_certificate(uncertified: Element) -> None:
    positions = data(uncertified)["models"][0]["positions"]
    last = positions[-1]  # where every case is accepted
    assert percents(last["observed_rate"].replace("\u00a0", " ")) == ["12.8 %"]
    assert (last["observed_referred"], last["observed_wrong"]) == ("0", "128")
    half = next(one for one in positions if one["observed_referred"] == "432")  # 142 of 250 are accepted, 2 are wrong
    assert percents(half["observed_rate"].replace("\u00a0", " ")) == ["1.4 %"]
    assert half["observed_wrong"] == "8"
    assert half["squares"] == [560, 8, 432]


# ---- costs


def test_costs(page: Element) -> None:
    (table,) = section(page, "costs").iter("table")
    found = cells(table)
    # An error costs 10, a referral 1; per 1,000 cases. With 142 accepted: 10 * 2 + 108 = 128 for 250 cases.
    assert [row[1] for row in found] == ["512", "1,280", "660", "1,000"]
    assert [row[2:] for row in found] == [
        ["142", "2", "108"],
        ["250", "32", "0"],
        ["195", "11", "55"],
        ["0", "0", "250"],
    ]


# ---- the curve


def test_the_risk_coverage_curve(page: Element) -> None:
    chart = page.find(".//div[@id='plot-curve']")
    assert chart is not None
    # On all cases, 32 of 250; on the most confident half, 2 of the 142 that are the fewest to make up a half.
    assert percents((chart.get("aria-label") or "").replace("\u00a0", " ")) == ["12.8 %", "1.4 %", "56.8 %"]
    area = with_class(chart, "area")[0]
    height = 1.1 * 0.17  # of the axis: the highest point, the slider's bound for all cases, and a tenth above it
    for kind, coverage, risk, shown in (
        ("star", 320 / 400, 0.1, ["10 %", "80 %"]),
        ("diamond", 195 / 250, 11 / 195, ["5.6 %", "78 %"]),
        ("ring", 320 / 400, 0.045, []),
    ):
        (marker,) = with_class(area, "marker", kind)
        assert percents((marker.get("title") or "").replace("\u00a0", " ")) == shown
        places = [float(style_of(marker)[side].rstrip("%")) for side in ("left", "bottom")]
        assert places == pytest.approx([100 * coverage, 100 * risk / height], abs=0.006), kind
    # Steps: coverage in thousandths, risk downwards from the top.
    steps = [(40, 0), (142, 2), (180, 6), (195, 11), (215, 17), (250, 32)]
    points = np.array([(n / 250, wrong / n / height) for n, wrong in steps])
    drawn = re.findall(r"H([\d.]+)V([\d.]+)", next(one.get("d") or "" for one in with_class(area, "line")))
    np.testing.assert_allclose(np.array(drawn, float) / 1000, points * [1, -1] + [0, 1], atol=0.0001)
    (table,) = section(page, "curve").iter("table")
    wanted = {
        "0.1 %": "16 %",
        "0.2 %": "16 %",
        "0.5 %": "16 %",
        "1 %": "16 %",
        "2 %": "56.8 %",
        "5 %": "72 %",
        "10 %": "86 %",
    }
    assert dict(cells(table)) == wanted


# ---- classes


def test_harms_and_classes(page: Element) -> None:
    tables = list(section(page, "classes").iter("table"))
    (harm,) = cells(tables[0])
    assert [re.findall(r"[\d.]+", cell) for cell in harm[1:]] == [["10"], ["4", "320", "1.2"], ["11", "195", "5.6"]]
    found = cells(tables[1])
    # Coverage; misses among the accepted cases of a class; errors among its accepted predictions.
    wanted = [
        (["69.8", "86"], ["0", "60"], ["6", "66", "9.1"]),
        (["94.5", "55"], ["2", "52", "3.8"], ["0", "50"]),
        (["51.9", "54"], ["4", "28", "14.3"], ["0", "24"]),
        (["100", "25"], ["5", "25", "20"], ["0", "20"]),
        (["100", "30"], ["0", "30"], ["5", "35", "14.3"]),
    ]
    assert len(found) == 5
    for name, row, (coverage, missed, false) in zip(CLASSES, found, wanted, strict=True):
        assert name in row[0]
        assert [re.findall(r"[\d.]+", row[column]) for column in (1, 2, 4)] == [coverage, missed, false]
    assert [re.findall("cat|gnu", row[3]) for row in found] == [[], ["cat"], ["cat"], ["gnu"], []]


def test_confusion_matrices(page: Element) -> None:
    """Rows are true classes; a cell is as dark as the root of its fraction of the row."""
    every, accepted, referred = with_class(section(page, "classes"), "confusion")
    numbers = [
        np.array([[int(cell.replace("·", "0")) for cell in row[1:]] for row in cells(one[0])])
        for one in (every, accepted, referred)
    ]
    assert numbers[0].tolist() == [
        [74, 12, 0, 0, 0],
        [5, 50, 0, 0, 0],
        [4, 6, 44, 0, 0],
        [0, 0, 0, 20, 5],
        [0, 0, 0, 0, 30],
    ]
    assert numbers[1].tolist() == [
        [60, 0, 0, 0, 0],
        [2, 50, 0, 0, 0],
        [4, 0, 24, 0, 0],
        [0, 0, 0, 20, 5],
        [0, 0, 0, 0, 30],
    ]
    assert (numbers[2] == numbers[0] - numbers[1]).all()
    for one, matrix in zip((every, accepted, referred), numbers, strict=True):
        for row, line in zip(one.iterfind("table/tbody/tr"), matrix, strict=True):
            for column, cell in enumerate(row.iterfind("td")):
                share = line[column] / max(1, line.sum())
                weight = style_of(cell).get("--weight", "0%")
                assert float(weight.rstrip("%")) == pytest.approx(100 * math.sqrt(share), abs=0.51)
                assert percents((cell.get("title") or "").replace("\u00a0", " ")) == (
                    [f"{100 * share:.1f}".removesuffix(".0") + " %"] if share else []
                )
    dark = [style_of(cell)["--weight"] for cell in with_class(every, "wrong")]
    assert dark == ["37%", "30%", "27%", "33%", "45%"]  # 12 of 86, 5 of 55, 4 and 6 of 54, 5 of 25


def test_the_most_frequent_confusions(page: Element) -> None:
    found = cells(list(section(page, "classes").iter("table"))[-1])
    named = [(*re.findall("|".join(CLASSES), row[0]), *row[1:]) for row in found]
    assert named[:2] == [("cat", "dog", "12", "0"), ("emu", "dog", "6", "0")]
    assert set(named[2:4]) == {("dog", "cat", "5", "2"), ("fox", "gnu", "5", "5")}
    assert named[4:] == [("emu", "cat", "4", "4")]


# ---- confidence


def verdict(page: Element) -> tuple[list[str], bool, bool]:
    """Mean confidence and accuracy, and whether the model is called overconfident or underconfident."""
    (chart,) = with_class(section(page, "reliability"), "plot")
    text = (chart.get("aria-label") or "").replace("\u00a0", " ")
    return percents(text), "overconfident" in text, "underconfident" in text


def test_calibration(page: Element) -> None:
    mean = sum(confidence * n for confidence, _, _, n in CASES) / 250
    assert f"{100 * mean:.1f}" == "87.8"
    # 218 of 250: chance explains .6 points; the interval of the accuracy goes from 82.4 to 91.1 %.
    assert verdict(page) == (["87.8 %", "87.2 %"], False, False)
    # 235 of 250, or a hundred times as many.
    assert verdict(page_of(passes_on(), OTHER_CASES)) == (["92.9 %", "94 %"], False, False)
    many, other = (tuple((*case[:3], 100 * case[3]) for case in cases) for cases in (CASES, OTHER_CASES))
    assert verdict(page_of(passes_on(), many)) == (["87.8 %", "87.2 %"], True, False)
    assert verdict(page_of(passes_on(), other)) == (["92.9 %", "94 %"], False, True)


def test_the_reliability_diagram(page: Element) -> None:
    area = with_class(section(page, "reliability"), "area")[0]
    titles = [(one.get("title") or "").replace("\u00a0", " ") for one in with_class(area, "dot")]
    assert [percents(title) for title in titles] == [
        ["55 %", "57.1 %"],
        ["72 %", "70 %"],
        ["85 %", "66.7 %"],
        ["96.2 %", "96.7 %"],
    ]
    assert [re.findall(r"(\d+) predictions", title) for title in titles] == [["35"], ["20"], ["15"], ["180"]]


def test_the_histogram_of_confidences(page: Element) -> None:
    """Of 218 correct and 32 wrong predictions, in bins from 50, 70, 80, 90 and 95 %; the highest bar is 70.2 %."""
    area = with_class(section(page, "confidences"), "area")[0]
    for kind, counts in (("correct", [20, 14, 10, 34, 140]), ("wrong", [15, 6, 5, 4, 2])):
        bars = with_class(area, "column", kind)
        titles = [(one.get("title") or "").replace("\u00a0", " ") for one in bars]
        found = [int(re.findall(r"\d+", title)[0]) for title in titles]
        assert found[:5] == counts
        assert not any(found[5:])
        shown = [float(share.rstrip(" %")) for title in titles for share in percents(title)]
        assert shown[:5] == pytest.approx([100 * n / sum(counts) for n in counts], abs=0.051)
        heights = [float(style_of(one)["height"].rstrip("%")) for one in bars]
        top = 1.05 * 140 / 218
        assert heights[:5] == pytest.approx([100 * n / sum(counts) / top for n in counts], abs=0.006)
    (chart,) = with_class(section(page, "confidences"), "plot")
    text = (chart.get("aria-label") or "").replace("\u00a0", " ")
    assert percents(text) == ["90 %", "79.8 %", "18.8 %"]  # above 90 %: 174 of 218, and 6 of 32


# ---- the model card


def limits(page: Element) -> list[str]:
    (card,) = with_class(page, "model-card")
    return [text_of(item) for item in card.iter("li")]


def test_only_certified_models_have_the_limits_of_a_guarantee(page: Element, uncertified: Element) -> None:
    nothing = passes_on().certify(rows(CALIBRATION, first=1000), labels(CALIBRATION), risk=0.001, delta=0.05)
    assert nothing.certificate is not None
    assert not nothing.certificate.certified
    assert limits(uncertified) == limits(page_of(nothing))
    assert "guaranteed" in limits(uncertified)[0]
    assert not set(limits(uncertified)) & set(limits(page))


# ---- the weakest class


def test_the_weakest_class(page: Element) -> None:
    (weakest,) = with_class(section(page, "guarantee"), "weakest")
    assert "fox" in text_of(weakest)
    assert re.findall(r"\d+", text_of(weakest)) == ["20", "5", "25"]
    # With 5 of 25 missed, the rate may be above 30 %, the highest limit worth suggesting, or far below.
    assert "too few test cases of this class to tell how many" in text_of(section(page, "guarantee"))
    assert "miss rate fox=0.3" in text_of(section(page, "guarantee"))


def test_the_suggested_limit_can_be_confirmed() -> None:
    """By so many new cases, a fifth of them of the class, even if 10 % are missed, but not by a tenth of them."""
    cases = (*((0.97, name, name, 95 if name == "fox" else 100) for name in CLASSES), (0.97, "gnu", "fox", 5))
    report = compute_report({"it": certified()}, rows(cases), labels(cases))
    weakest = report.models[0].weakest
    assert weakest is not None
    assert isinstance(weakest.suggestion, Suggestion)
    text = text_of(section(parse(render_page(report)), "guarantee"))
    limit = float(re.findall(r"miss rate fox=(0\.\d+)", text)[0])
    assert limit == weakest.suggestion.risks["miss rate fox"] > 5 / 100
    assert weakest.suggestion.attempt == 2
    assert weakest.suggestion.cases is not None
    own = weakest.suggestion.cases // 5
    level = 0.05 * 0.05  # a second attempt has a twentieth of delta
    assert binom.cdf(own * 10 // 100, own, limit) < level
    assert binom.cdf(own // 10 * 5 // 100, own // 10, limit) > level


def test_a_class_is_compared_with_the_error_rate_if_that_is_not_bounded() -> None:
    """A class of which 40 % are missed, where 4 % are wrong, deserves no tick."""
    cases = (*((0.97, name, name, 60 if name == "gnu" else 225) for name in CLASSES), (0.97, "cat", "gnu", 40))
    page = page_of(certified((("missed cat", 0.1),)), cases)
    (badge,) = with_class(section(page, "guarantee"), "badge")
    assert "mixed" in badge.get("class", "")
    weakest = compute_report({"it": passes_on()}, rows(cases), labels(cases)).models[0].weakest
    assert weakest is not None
    assert (weakest.name, weakest.missed, weakest.n, weakest.exceeds) == ("gnu", 40, 100, True)


# ---- several models


@cache
def compared(*names: str) -> list[list[str]]:
    """The table that compares the other models with the first."""
    models = {"one": passes_on(0, 11), "other": passes_on(5, 11)}
    report = compute_report(
        {f"{name} {place}": models[name] for place, name in enumerate(names, 1)},
        rows(CASES, OTHER_CASES),
        labels(CASES),
    )
    (table,) = section(parse(render_page(report)), "comparison").iter("table")
    return cells(table)


def test_a_better_model_is_better() -> None:
    """It makes 15 errors instead of 32, and accepts 235 of 250 cases without any."""
    found = compared("one", "other")
    assert [percents(row[0]) for row in found] == [[], ["1 %"], ["2 %"], ["5 %"]]
    assert [row[2:4] for row in found] == [["6 %", "12.8 %"], ["94 %", "16 %"], ["94 %", "56.8 %"], ["94 %", "72 %"]]
    assert [row[4].split(" ")[0] for row in found] == ["-6.8", "+78.0", "+37.2", "+22.0"]
    assert [row[5] for row in found] == ["better"] * 4
    ends = [[float(end) for end in re.findall(r"[+-][\d.]+", row[4])[1:]] for row in found]
    assert ends[0][0] < -6.8 < ends[0][1] < 0
    assert all(0 < low <= high for low, high in ends[1:])


def test_a_worse_model_is_worse() -> None:
    found = compared("other", "one")
    assert [row[2:4] for row in found] == [row[3:1:-1] for row in compared("one", "other")]
    assert [row[4].split(" ")[0] for row in found] == ["+6.8", "-78.0", "-37.2", "-22.0"]
    assert [row[5] for row in found] == ["worse"] * 4


def test_the_same_model_is_neither() -> None:
    found = compared("one", "one")
    assert [row[4] for row in found] == ["0", *["0 (0 to 0)"] * 3]
    assert {row[5] for row in found} == {"too few cases to tell", "within chance"}
