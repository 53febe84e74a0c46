"""The HTML file: written atomically, self-contained, and safe against hostile texts."""

import json
import os
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from squad import load
from squad.cli import main
from squad.data.array_transform import ArrayTransform
from squad.errors import ArgumentError
from squad.models import build, network_config
from squad.predictor import Predictor
from squad.report import ReportError, write_report
from squad.report.content import compute_report
from squad.report.html import json_for_script
from squad.report.number_format import percent
from squad.report.page.curve import curve_axes
from squad.report.page.operating_point import position_texts
from squad.report.slider import SliderPosition
from squad.selective.certificate_text import rule_table
from tests.report.builders import certified, features, frame, images, labels_for, model

HOSTILE = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "</style>&amp; \u2028 '")


class Page(HTMLParser):
    """Parsed page: its elements, its visible text, and the contents of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.text += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])


@pytest.fixture(scope="module")
def good() -> Predictor:
    return certified(model())


def report(path: Path, predictors: dict[str, Predictor], x: Any, **settings: Any) -> Page:
    labels = labels_for(next(iter(predictors.values())), x)
    written = write_report(path / "report.html", predictors, x, labels, **settings)
    assert written == path / "report.html"
    return Page(written.read_text(encoding="utf-8"))


def test_the_file_is_self_contained(good: Predictor, tmp_path: Path) -> None:
    page = report(tmp_path, {"it": good, "other": model("mlp")}, images(80, seed=3))
    assert [tag for tag, _ in page.elements].count("script") == 2
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "action", "data"):
            address = attributes.get(name) or ""
            assert not address or address.startswith(("data:", "#")), (tag, address)
        assert not [name for name in attributes if name.startswith("on")]
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    assert "unsafe-eval" not in policy
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {(a.get("href") or "")[1:] for tag, a in page.elements if tag == "a"}
    assert targets <= set(ids)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    hostile = model(kind="table", classes=HOSTILE)
    x = frame(30)
    page = report(
        tmp_path,
        {HOSTILE[0]: hostile, HOSTILE[1]: hostile},
        x,
        source=HOSTILE[2],
        title=HOSTILE[1],
        intended_use=HOSTILE[0],
    )
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert [tag for tag, _ in page.elements].count("style") == 1
    assert all((a["src"] or "").startswith("data:image/png") for tag, a in page.elements if tag == "img")
    assert HOSTILE[0] in page.text
    assert HOSTILE[2].replace("\u2028", "\\u2028") in page.text
    assert page.data["models"][0]["name"] == HOSTILE[0]
    assert page.scripts[0].isascii()
    assert not set("<>&") & set(page.scripts[0])


def test_data_cannot_leave_its_script() -> None:
    text = json_for_script(["</script>", "<!--", "\u2028", "&"])
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == ["</script>", "<!--", "\u2028", "&"]


def test_positions_of_the_slider(good: Predictor, tmp_path: Path) -> None:
    page = report(tmp_path, {"it": good}, images(200, seed=3))
    data = page.data
    (one,) = data["models"]
    assert len(one["positions"]) == len(data["risks"]) == len(one["points"])
    first, *_, last = one["positions"]
    assert (first["note"], last["note"]) == ("", "")
    rates = [float(re.sub(r"[^0-9.]", "", texts["rate"])) for texts in one["positions"]]
    assert rates == sorted(set(rates))
    assert rates[0] < 10 < rates[-1]
    assert 10 in rates  # the certificate's
    x = images(200, seed=3)
    found = compute_report({"it": good}, x, labels_for(good, x))
    slider, (across, up) = found.models[0].slider, curve_axes(found.models)
    for texts, position, point in zip(one["positions"], slider.positions, one["points"], strict=True):
        assert texts["wrong"] == f"at most {position.max_wrong}"
        assert sum(texts["squares"]) == 1000
        assert position.coverage is not None
        assert point == pytest.approx([across.place(position.coverage), up.place(position.risk)], abs=1e-5)
        assert max(point) <= 1
    accepted = 1000 - last["squares"][2]
    assert (last["referred"], accepted) == ("about 0", 1000)  # the model need not abstain there
    assert slider.positions[-1].wrong == found.models[0].wrong
    assert all(a.threshold != b.threshold for a, b in pairwise(slider.positions))
    assert page.text.count("certificate: 10\u00a0%") == 1  # marked on the track
    assert page.text.count("guarantees all its positions at once") == 1


@pytest.mark.parametrize(
    ("risk", "by", "said"),
    [
        ({"wrong": 0.1, "missed emu": 0.1}, None, "none of the other harms"),
        (0.1, "label", "does not guarantee the risk within each group"),
    ],
)
def test_the_slider_bounds_less_than_a_certificate_of_harms_or_groups(
    risk: Any, by: str | None, said: str, tmp_path: Path
) -> None:
    page = report(tmp_path, {"it": certified(model(), risk=risk, by=by, count=1500)}, images(200, seed=3))
    assert "certificate: 10\u00a0%" in page.text
    assert "The certificate bounds more, groups or other harms" in page.text
    assert "more cautious than a certificate" not in page.text
    assert said in page.text


def test_a_risk_that_only_the_certificate_guarantees(tmp_path: Path) -> None:
    page = report(tmp_path, {"it": certified(model("squad"), risk=0.03, delta=0.2)}, images(50))
    first = page.data["models"][0]["positions"][0]
    assert re.search("cannot be guaranteed.*400\u00a0calibration cases.*certificate does guarantee it", first["note"])
    assert (first["referred"], first["wrong"], first["squares"]) == ("all", "none", [0, 0, 1000])
    assert page.data["models"][0]["points"][0] is None


def test_there_is_no_slider_where_there_is_nothing_to_choose(tmp_path: Path) -> None:
    x = images(400, seed=7)
    guesses = ["cat", "dog", "emu"] * 133 + ["cat"]
    page = report(tmp_path, {"it": model().certify(x, guesses, 0.05, delta=0.05)}, images(50))
    assert not any(a.get("id") == "slider" for _, a in page.elements)
    assert re.search(r"no risk up to \d+\u00a0% can be guaranteed with 400\u00a0calibration cases", page.text)
    perfect, x = model("mlp", members=1), images(30)
    path = write_report(tmp_path / "b.html", {"it": perfect}, x, perfect.answer(x).label)
    page = Page(path.read_text(encoding="utf-8"))
    assert "there is no error on the test set" in page.text
    assert "Weakest class" not in page.text


def test_the_weakest_class_is_in_the_headline(good: Predictor, tmp_path: Path) -> None:
    """A tick would hide that a class is missed."""
    x = images(400, seed=3)
    answer = good.answer(x)
    labels = answer.label.copy()
    dogs = np.flatnonzero((labels == "dog") & answer.accepted)
    labels[dogs[:20]] = "emu"  # a third of the accepted emus is predicted as dogs, and 6 % of all are wrong
    page = Page(write_report(tmp_path / "a.html", {"it": good}, x, labels).read_text(encoding="utf-8"))
    emus = (answer.accepted & (labels == "emu")).sum()
    assert f"Weakest class: “emu” is missed in {percent(20 / emus)} of its accepted cases" in page.text
    more = ((labels == "emu") & ~answer.accepted).sum()
    assert f"(20 of {emus} in the test set; {more} more are referred)" in page.text
    assert "does not bound the miss rate of this class" in page.text
    assert "a bound of 30\u00a0% or less is unlikely, even with 64 times as many" in page.text
    assert "--risk" not in page.text
    assert any(a.get("class") == "badge mixed" for _, a in page.elements)
    assert not any(a.get("class") == "badge good" for _, a in page.elements)
    page = Page(write_report(tmp_path / "b.html", {"it": good}, x, answer.label).read_text(encoding="utf-8"))
    assert any(a.get("class") == "badge good" for _, a in page.elements)


def with_missed(predictor: Predictor, x: Any, name: str, predicted: str, share: float) -> Any:
    """The model's own predictions as labels, except that it misses this share of the accepted cases of a class."""
    answer = predictor.uncertified().answer(x)
    single = predictor.certificate is not None and len(predictor.certificate.targets) == 1
    accepted = predictor.answer(x).accepted if single else np.zeros(len(x), dtype=bool)
    accepted = accepted if accepted.any() else ~accepted
    labels, own = answer.label.copy(), (accepted & (answer.label == name)).sum()
    labels[np.flatnonzero(accepted & (labels == predicted))[: round(own * share / (1 - share))]] = name
    return labels


def section_text(predictor: Predictor, x: Any, labels: Any, tmp_path: Path) -> str:
    path = write_report(tmp_path / "weakest.html", {"it": predictor}, x, labels)
    text = Page(path.read_text(encoding="utf-8")).text.replace("\u00a0", " ")
    return text[text.index("Weakest class") : text.index("Observed on")]


def test_a_limit_for_the_weakest_class_is_suggested_with_what_it_takes(tmp_path: Path) -> None:
    x = images(2000, seed=3)
    predictor = certified(model(), count=1500)
    text = section_text(predictor, x, with_missed(predictor, x, "emu", "dog", 0.09), tmp_path)
    found = re.search(r"as many new calibration cases as before \(1,500\), none of them from this test set: ", text)
    assert found, text
    command = r"squad certify MODEL NEW_CASES --risk '0\.1,miss rate emu=0\.\d+' --delta 0\.05 --overwrite"
    assert re.search(rf"{command}\. \(Attempt 2 .* has 5 % of delta\.\)", text)
    assert "average over all classes" not in text
    assert "strictest" not in text
    predictor = certified(model(), count=200)
    text = section_text(predictor, x, with_missed(predictor, x, "emu", "dog", 0.15), tmp_path)
    assert re.search(r"probably too small to do so\. .* with about [\d,]+ to [\d,]+ new calibration cases, none", text)
    until = "Until it is bounded, do not rely on accepted predictions where missing this class does harm."
    assert until not in text  # the misses may be chance
    text = section_text(predictor, x, with_missed(predictor, x, "emu", "dog", 0.35), tmp_path)
    assert until in text
    grouped = certified(model(), risk=0.2, by="label", count=3000)
    text = section_text(grouped, x, with_missed(grouped, x, "emu", "dog", 0.09), tmp_path)
    assert "and without groups: squad certify" in text


def test_the_suggested_command_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With new cases and with the delta of the first certificate; in place of that certificate."""
    monkeypatch.chdir(tmp_path)
    predictor, x = certified(model(), count=1500), images(2000, seed=3)
    predictor.save("it")
    labels = with_missed(predictor, x, "emu", "dog", 0.09)
    text = section_text(predictor, x, labels, tmp_path)
    found = re.search(r"squad (certify MODEL NEW_CASES .*?)\. \(Attempt", text)
    assert found
    x = images(1500, seed=5)
    np.savez("new.npz", x=x, y=with_missed(predictor, x, "emu", "dog", 0.02))
    words = shlex.split(found[1].replace("MODEL", "it").replace("NEW_CASES", "new.npz"))
    assert main(words) == 0
    (rule,) = load("it").certificate.rules  # type: ignore[union-attr]
    assert rule.risks.keys() == {"wrong", "miss rate emu"}


def test_a_model_whose_certification_failed_says_so(tmp_path: Path) -> None:
    x = images(200, seed=3)
    failed = certified(model(), risk=0.01, count=1000)
    assert failed.certificate is not None
    assert not failed.certificate.certified
    path = write_report(tmp_path / "failed.html", {"it": failed.uncertified()}, x, failed.answer(x).label)
    text = Page(path.read_text(encoding="utf-8")).text.replace("\u00a0", " ")
    assert "The attempt to certify it failed (wrong prediction 1 %; 1,000 calibration cases)." in text
    assert "The next attempt has 5 % of delta." in text
    path = write_report(tmp_path / "never.html", {"it": model()}, x, failed.answer(x).label)
    assert "attempt" not in Page(path.read_text(encoding="utf-8")).text


def test_photographs_in_three_models_leave_the_page_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (120, 64, 64, 3)).astype(np.uint8)
    config = network_config("mlp", {"hidden": (4,)})
    transform = ArrayTransform.fit(x)
    models = {
        str(seed): Predictor(build(config, transform.features, 3, [seed]), config, transform, ("cat", "dog", "emu"))
        for seed in range(3)
    }
    path = write_report(tmp_path / "photos.html", models, x, rng.choice(["cat", "dog", "emu"], 120))
    page = Page(path.read_text(encoding="utf-8"))
    assert sum(tag == "img" for tag, _ in page.elements) > 100
    assert path.stat().st_size < 1_500_000


def test_a_guarantee_that_the_most_frequent_class_would_give_gets_no_tick(tmp_path: Path) -> None:
    """Where 5 % are emus, predicting anything else is right in 95 % of the cases."""
    predictor = certified(model(), risk=0.1)
    x = images(2000, seed=3)
    labels = predictor.answer(x).label
    rare = np.concatenate([np.flatnonzero(labels == "dog")[:380], np.flatnonzero(labels == "emu")[:20]])
    assert len(rare) == 400
    path = write_report(tmp_path / "rare.html", {"it": predictor}, x[rare], labels[rare])
    page = Page(path.read_text(encoding="utf-8"))
    text = page.text.replace("\u00a0", " ")
    assert "Predicting “dog” for every case would be wrong in 5 % of the test cases" in text
    assert "(“dog” for every case: 95 %)" in text
    assert any(a.get("class") == "badge mixed" for _, a in page.elements)
    assert "no case of the following classes, so their errors are unknown: “cat”." in text
    path = write_report(tmp_path / "even.html", {"it": predictor}, x[:300], labels[:300])
    page = Page(path.read_text(encoding="utf-8"))
    assert "for every case would be wrong" not in page.text
    assert "no case of" not in page.text
    assert any(a.get("class") == "badge good" for _, a in page.elements)


def test_a_class_that_is_never_predicted_is_named(tmp_path: Path) -> None:
    predictor, x = model(), images(400, seed=3)
    labels = predictor.answer(x).label.copy()
    kept = labels != "emu"
    labels[np.flatnonzero(kept)[:30]] = "emu"
    path = write_report(tmp_path / "never.html", {"it": predictor}, x[kept], labels[kept])
    text = Page(path.read_text(encoding="utf-8")).text
    assert "“emu” is missed in 100\u00a0% of its cases (30 of 30 in the test set). The model never predicts" in text
    path = write_report(tmp_path / "few.html", {"it": predictor}, x[kept][:7], labels[kept][:7])
    assert "The test set has only 7\u00a0cases" in Page(path.read_text(encoding="utf-8")).text


def test_a_failed_certificate_bounds_no_miss_rate(tmp_path: Path) -> None:
    x = images(200, seed=3)
    failed = certified(model(), risk={"wrong": 0.001, "miss rate emu": 0.001})
    assert failed.certificate is not None
    assert not failed.certificate.certified
    text = section_text(failed, x, with_missed(failed, x, "emu", "dog", 0.2), tmp_path)
    assert "“emu” is missed" in text
    assert "Nothing is certified, so the miss rate of this class is not bounded." in text
    assert "certificate bounds" not in text
    several = certified(model(), risk=[{"wrong": 0.001, "miss rate emu": 0.001}, 0.2])
    text = section_text(several, x, with_missed(several, x, "emu", "dog", 0.2), tmp_path)
    assert "Nothing is certified with the first target, so the miss rate of this class is not bounded." in text


def test_a_certificate_may_bound_the_miss_rate_of_this_class_or_another(tmp_path: Path) -> None:
    x = images(400, seed=3)
    predictor = certified(model(), risk={"wrong": 0.1, "miss rate cat": 0.3}, count=1500)
    text = section_text(predictor, x, with_missed(predictor, x, "cat", "dog", 0.2), tmp_path)
    assert "The certificate bounds the miss rate of this class at 30 %." in text
    text = section_text(predictor, x, with_missed(predictor, x, "emu", "dog", 0.2), tmp_path)
    assert "The certificate does not bound the miss rate of this class" in text
    assert "The certificate bounds" not in text


def test_the_model_card(good: Predictor, tmp_path: Path) -> None:
    page = report(tmp_path, {"it": good}, images(50), title="Animals", intended_use="Counting animals in a park.")
    for text in (
        "Animals",
        "Classification into 3 classes: cat, dog, emu.",
        "Counting animals in a park.",
        "400\u00a0calibration cases",
    ):
        assert text in page.text
    assert "Not stated" in report(tmp_path, {"it": good}, images(50)).text
    assert "Nothing is guaranteed" in report(tmp_path, {"it": model()}, images(50)).text


def test_six_cases_then_more(good: Predictor, tmp_path: Path) -> None:
    page = report(tmp_path, {"it": good}, images(200, seed=3))
    kinds = [a.get("class") for tag, a in page.elements if tag == "details"]
    folds = [index for index, kind in enumerate(kinds) if kind == "more"]
    assert folds
    before = [kind for kind in kinds[: folds[0]] if kind == "pick"]
    assert len(before) == 6
    shown = re.findall(r"Show (\d+) more", page.text)
    assert kinds.count("pick") == 6 * len(folds) + sum(map(int, shown))


@pytest.mark.parametrize("size", [2, 10, 26])
def test_confusion_matrices(size: int, tmp_path: Path) -> None:
    names = tuple(f"class {index}" for index in range(size))
    predictor = certified(model(kind="features", classes=names, members=1), "features", risk=0.4)
    x = features(300, seed=3)
    page = report(tmp_path, {"it": predictor}, x)
    captions = re.findall(r"Confusion matrix, (\w+) cases: true class by row", page.text)
    assert captions == ["all", "accepted", "referred"]
    cells = [a for tag, a in page.elements if tag == "td" and (a.get("class") or "") in ("correct", "wrong", "zero")]
    costs = 4  # the table of costs has cells of the class "wrong", too
    assert len(cells) == 3 * size**2 + costs
    assert (tmp_path / "report.html").stat().st_size < 1_500_000


def test_a_wrong_square_is_one_of_the_accepted(good: Predictor) -> None:
    x = images(50, seed=3)
    one = compute_report({"it": good}, x, labels_for(good, x)).models[0]
    tiny = SliderPosition(0.1, "above", 0.999, 0.0004, 1, 0, 0)
    changed = replace(one, slider=replace(one.slider, positions=[tiny]))
    assert position_texts(changed)[0]["squares"] == [0, 0, 1000]


def test_the_page_shows_the_initial_position_without_javascript(good: Predictor, tmp_path: Path) -> None:
    page = report(tmp_path, {"it": good}, images(50, seed=3))
    start = next(int(a["value"] or 0) for tag, a in page.elements if tag == "input")
    assert page.data["risks"][start] == "10\u00a0%"
    for name in ("referred", "wrong", "coverage"):
        assert page.data["models"][0]["positions"][start][name] in page.text


def test_texts_for_each_state(good: Predictor, tmp_path: Path) -> None:
    x = images(100, seed=3)
    text = report(tmp_path, {"it": good}, x).text
    assert good.certificate is not None
    shown = text.replace("\u00a0", " ")
    title, _, accepted = good.certificate.headline.partition(": ")
    assert title in shown
    assert accepted[1:] in shown
    for line in str(good.certificate).split("\n")[1:]:  # as in a terminal
        assert line.removeprefix(" - ") in shown
    assert "not guaranteed" in text
    assert "selective risk is the error rate among accepted cases" in text
    assert re.search("confidence level 95\u00a0%, .* all slider positions", text)
    text = report(tmp_path, {"it": good.without_scores()}, x).text
    assert "no calibration scores" in text
    text = report(tmp_path, {"it": model()}, x).text
    assert "has no certificate" in text
    several = certified(model(), risk=[{"wrong": 0.2, "missed cat": 0.1}, 0.001])
    assert several.certificate is not None
    table = rule_table(several.certificate)
    text = report(tmp_path, {"it": several}, x).text.replace("\u00a0", " ")
    assert table is not None
    for cell in (cell for row in (table[0], *table[1]) for cell in row):
        assert cell in text
    assert "not certified" in text


def test_a_violated_guarantee_is_reported_first(good: Predictor, tmp_path: Path) -> None:
    x = images(200, seed=3)
    page = Page(write_report(tmp_path / "a.html", {"it": good}, x, ["cat"] * 200).read_text(encoding="utf-8"))
    assert "more errors than the guarantee allows" in page.text
    assert ("span", "badge bad") in [(tag, attributes.get("class")) for tag, attributes in page.elements]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_rows(count: int, tmp_path: Path) -> None:
    report(tmp_path, {"it": model()}, images(count, seed=3))


def test_an_existing_file_is_replaced_only_if_allowed(good: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(ReportError, match=r"report\.html already exists.*overwrite=True"):
        write_report(path, {"it": good}, images(5), ["cat"] * 5, overwrite=False)
    assert path.read_text() == "mine"
    write_report(path, {"it": good}, images(5), ["cat"] * 5)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_paths_that_cannot_be_written(good: Predictor, tmp_path: Path) -> None:
    for path, reason in [
        (tmp_path / "report.pdf", r"\.html, got .*report\.pdf"),
        (tmp_path, r"\.html, got "),
    ]:
        with pytest.raises(ReportError, match=reason):
            write_report(path, {"it": good}, images(5), ["cat"] * 5)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ReportError, match=r"folder\.html is a folder.*report\.html"):
        write_report(tmp_path / "folder.html", {"it": good}, images(5), ["cat"] * 5)
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="cannot be written: "):
        write_report(tmp_path / "file" / "report.html", {"it": good}, images(5), ["cat"] * 5)
    write_report(tmp_path / "new" / "deep" / "report.html", {"it": good}, images(5), ["cat"] * 5)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("path", 123, "path must be a string or a path, got 123. Name a file that ends in .html."),
        ("path", None, "path must be a string or a path, got None. Name a file that ends in .html."),
        ("source", None, "source must be a string or a path, got None. Pass the name of the test set."),
        ("predictors", [], "predictors must be a mapping of names to models, got list. Pass {"),
        ("predictors", "model", "predictors must be a mapping of names to models, got str. Pass {"),
        ("predictors", None, "predictors must be a mapping of names to models, got NoneType. Pass {"),
        ("predictors", {"it": "model"}, "predictors['it'] must be a Predictor, got str. Pass a model from squad.load"),
        ("labels", None, "labels must be a sequence, got None. Pass one true label per row of x."),
        ("labels", "catcat", "labels must be a sequence, got 'catcat'. Pass one true label per row of x."),
        ("labels", np.array(5), "labels must be a sequence, got array(5). Pass one true label per row of x."),
        ("labels", {"cat": 1}, "labels must be a sequence, got {'cat': 1}. Pass one true label per row of x."),
        ("by", ["a", "b"], "by must be of shape (5,), one group per row, got shape (2,)."),
        ("by", np.zeros((5, 2)), "by must be of shape (5,), one group per row, got shape (5, 2)."),
    ],
)
def test_invalid_arguments(name: str, value: Any, message: str, good: Predictor, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"path": tmp_path / "a.html", "predictors": {"it": good}, "x": images(5)}
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}"):
        write_report(**{**arguments, "labels": ["cat"] * 5, name: value})
    assert list(tmp_path.iterdir()) == []


def test_a_predictor_is_not_a_mapping_and_names_must_differ(good: Predictor, tmp_path: Path) -> None:
    predictors: Any = good
    with pytest.raises(ArgumentError, match="a mapping of names to models, got Predictor"):
        write_report(tmp_path / "a.html", predictors, images(5), ["cat"] * 5)
    predictors = {1: good, "1": model("mlp")}
    with pytest.raises(ArgumentError, match="The names 1 and '1' in predictors look the same in the report"):
        write_report(tmp_path / "a.html", predictors, images(5), ["cat"] * 5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\0", "a" * 5000])
def test_names_that_no_file_can_have(name: str, good: Predictor, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"cannot be written: .*\. Choose another file\."):
        write_report(tmp_path / f"{name}.html", {"it": good}, images(5), ["cat"] * 5)


def test_a_source_may_be_a_path_and_labels_an_iterator(good: Predictor, tmp_path: Path) -> None:
    source: Any = tmp_path / "rows.csv"
    labels: Any = iter(["cat"] * 5)
    source.write_text("rows")
    path = write_report(tmp_path / "a.html", {"it": good}, images(5), labels, source=source, by=[1] * 5)
    assert "rows.csv" in path.read_text(encoding="utf-8")


def test_the_file_is_written_atomically(good: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ReportError, match="No space left on device"):
        write_report(path, {"it": good}, images(5), ["cat"] * 5)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"
    with pytest.raises(ArgumentError, match="among the classes"):
        write_report(tmp_path / "none.html", {"it": good}, images(5), ["cow"] * 5)
    assert not (tmp_path / "none.html").exists()
