"""The HTML file: written atomically, self-contained, and safe against hostile texts."""

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
from squad.report.content import compute_report
from squad.report.html import json_for_script
from squad.report.page.operating_point import position_texts
from squad.report.slider import SliderPosition
from squad.selective.certificate_text import rule_table
from tests.report.builders import certified, frame, images, labels_for, model

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
    assert HOSTILE[2].replace("\u2028", "\\u2028") in page.text
    assert page.data["models"][0]["cases"][0]["predicted"] in HOSTILE
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
    assert data["risks"][0] == "0.1\u00a0%"
    refused, *_, last = one["positions"]
    assert re.search("cannot be guaranteed.*400\u00a0calibration cases", refused["note"])
    assert (refused["referred"], refused["wrong"], refused["squares"]) == ("all", "none", [0, 0, 1000])
    assert last["note"] == ""
    assert last["rate"] == "at most 10\u00a0%"
    assert re.fullmatch(r"at most \d+", last["wrong"])
    x = images(200, seed=3)
    slider = compute_report({"it": good}, x, labels_for(good, x)).models[0].slider
    for texts, position in zip(one["positions"], slider.positions, strict=True):
        if position.accepts != "none":
            assert texts["wrong"] == f"at most {position.max_wrong}"
    for position, point in zip(one["positions"], one["points"], strict=True):
        assert sum(position["squares"]) == 1000
        assert bool(point[0]) == (position["note"] == "")
    accepted = 1000 - last["squares"][2]
    assert last["referred"] == f"about {1000 - accepted}"
    assert int(last["wrong"].split()[-1]) >= 0.1 * accepted - 1


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
