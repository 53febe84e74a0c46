"""The file: whole or not at all, alone in the world, and safe from what is written in it."""

import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from squad.errors import ArgumentError
from squad.predictor import Predictor
from squad.report import ReportError, write_report
from squad.report.content import gather
from squad.report.html import to_script
from squad.report.page.operating_point import positions
from squad.report.slider import Choice
from squad.selective.certificate_text import rule_table
from tests.report.builders import certified, frame, images, labels_for, model

HOSTILE = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "</style>&amp; \u2028 '")


class Page(HTMLParser):
    """Elements, the text that is read, and what is inside scripts."""

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


def test_one_file_that_needs_no_other(good: Predictor, tmp_path: Path) -> None:
    page = report(tmp_path, {"it": good, "other": model("mlp")}, images(80, seed=3))
    assert [tag for tag, _ in page.elements].count("script") == 3
    assert sum(len(script) > 1_000_000 for script in page.scripts) == 1  # Plotly, once
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
    page = report(tmp_path, {HOSTILE[0]: hostile, HOSTILE[1]: hostile}, x, source=HOSTILE[2])
    assert [tag for tag, _ in page.elements].count("script") == 3
    assert [tag for tag, _ in page.elements].count("style") == 1
    assert not any(tag == "img" for tag, _ in page.elements)
    assert HOSTILE[0] in page.text
    assert HOSTILE[2].replace("\u2028", "") in page.text.replace("\u2028", "")
    assert page.data["models"][0]["cases"][0]["said"] in HOSTILE
    assert page.scripts[0].isascii()
    assert not set("<>&") & set(page.scripts[0])


def test_data_cannot_leave_its_script() -> None:
    text = to_script(["</script>", "<!--", "\u2028", "&"])
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == ["</script>", "<!--", "\u2028", "&"]


def test_what_the_slider_looks_up(good: Predictor, tmp_path: Path) -> None:
    page = report(tmp_path, {"it": good}, images(200, seed=3))
    data = page.data
    (one,) = data["models"]
    assert len(one["positions"]) == len(data["risks"]) == len(one["points"])
    assert data["risks"][0] == "0.1\u00a0%"
    refused, *_, last = one["positions"]
    assert refused["note"].startswith("Nothing can be promised at this risk with these 400\u00a0calibration cases")
    assert (refused["referred"], refused["wrong"], refused["squares"]) == ("all", "none", [0, 0, 1000])
    assert last["note"] == ""
    assert last["rate"] == "at most 10\u00a0%"
    assert re.fullmatch(r"at most \d+", last["wrong"])
    choices = gather({"it": good}, images(200, seed=3), labels_for(good, images(200, seed=3))).models[0].slider.choices
    for position, choice in zip(one["positions"], choices, strict=True):
        if choice.accepts != "none":
            assert position["wrong"] == f"at most {choice.most_wrong}"
    for position, point in zip(one["positions"], one["points"], strict=True):
        assert sum(position["squares"]) == 1000
        assert bool(point[0]) == (position["note"] == "")
    answered = 1000 - last["squares"][2]
    assert last["referred"] == f"about {1000 - answered}"
    assert int(last["wrong"].split()[-1]) >= 0.1 * answered - 1


def test_a_wrong_square_is_one_of_the_answered(good: Predictor) -> None:
    x = images(50, seed=3)
    one = gather({"it": good}, x, labels_for(good, x)).models[0]
    tiny = Choice(0.1, "above", 0.999, 0.0004, 1, 0, 0)
    changed = replace(one, slider=replace(one.slider, choices=[tiny]))
    assert positions(changed)[0]["squares"] == [0, 0, 1000]


def test_the_page_begins_with_the_numbers_of_the_first_position(good: Predictor, tmp_path: Path) -> None:
    page = report(tmp_path, {"it": good}, images(50, seed=3))
    start = next(int(a["value"] or 0) for tag, a in page.elements if tag == "input")
    assert page.data["risks"][start] == "10\u00a0%"
    for name in ("referred", "wrong", "coverage"):
        assert page.data["models"][0]["positions"][start][name] in page.text


def test_words_for_each_state(good: Predictor, tmp_path: Path) -> None:
    x = images(100, seed=3)
    text = report(tmp_path, {"it": good}, x).text
    assert good.certificate is not None
    shown = text.replace("\u00a0", " ")
    title, _, accepted = good.certificate.headline.partition(": ")
    assert title in shown
    assert accepted[1:] in shown
    for line in str(good.certificate).split("\n")[1:]:  # as a terminal shows it
        assert line.removeprefix(" - ") in shown
    assert "no guarantee" in text
    assert "95\u00a0% certainty the promised figures hold for every position" in text
    text = report(tmp_path, {"it": good.without_scores()}, x).text
    assert "there are no calibration scores with this model" in text
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
    assert "certificate's promise" not in text


def test_a_broken_promise_is_told_first(good: Predictor, tmp_path: Path) -> None:
    x = images(200, seed=3)
    page = Page(write_report(tmp_path / "a.html", {"it": good}, x, ["cat"] * 200).read_text(encoding="utf-8"))
    assert "More mistakes were observed on the test than the certificate allows" in page.text
    assert ("span", "badge bad") in [(tag, attributes.get("class")) for tag, attributes in page.elements]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_rows(count: int, tmp_path: Path) -> None:
    report(tmp_path, {"it": model()}, images(count, seed=3))


def test_a_file_is_replaced_or_kept(good: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(ReportError, match=r"is there already\. Name another file, or say overwrite=True"):
        write_report(path, {"it": good}, images(5), ["cat"] * 5, overwrite=False)
    assert path.read_text() == "mine"
    write_report(path, {"it": good}, images(5), ["cat"] * 5)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_places_that_will_not_do(good: Predictor, tmp_path: Path) -> None:
    for path, reason in [
        (tmp_path / "report.pdf", "must be a file that ends in .html"),
        (tmp_path, "must be a file that ends in .html"),
    ]:
        with pytest.raises(ReportError, match=reason):
            write_report(path, {"it": good}, images(5), ["cat"] * 5)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ReportError, match=r"is a folder\. Name a file in it"):
        write_report(tmp_path / "folder.html", {"it": good}, images(5), ["cat"] * 5)
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"cannot be written: .*Name another file"):
        write_report(tmp_path / "file" / "report.html", {"it": good}, images(5), ["cat"] * 5)
    write_report(tmp_path / "new" / "deep" / "report.html", {"it": good}, images(5), ["cat"] * 5)


def test_whole_or_not_at_all(good: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
