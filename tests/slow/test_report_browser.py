"""The report in a real browser: self-contained, interactive and accessible."""

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from squad.report import write_report
from tests.needs import need_command, need_package
from tests.report.builders import certified, features, frame, images, labels_for, model

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZES = (390, 1440)
SCHEMES = ("light", "dark")

# The smallest font size and the lowest contrast of all visible texts.
READABLE = """() => {
  const rgb = (text) => {  // "rgb(12, 34, 56)", or of a mixed colour "color(srgb 0.1 0.2 0.3)"
    const numbers = (text.match(/[\\d.]+/g) || []).map(Number);
    return text.startsWith("color") ? numbers.map((v, i) => (i < 3 ? 255 * v : v)) : numbers;
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const found = rgb(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  let size = 99, contrast = 99, worst = "";
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
    if (!text || !node.checkVisibility() || node.closest("script, style, noscript")) continue;
    const style = getComputedStyle(node);
    const ink = rgb(node.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(node))].sort((x, y) => y - x);
    const found = (a + 0.05) / (b + 0.05);
    size = Math.min(size, parseFloat(style.fontSize));
    if (found < contrast) { contrast = found; worst = text.slice(0, 40); }
  }
  return { size, contrast, worst };
}"""


# Pairs of axis labels that overlap; labels at an angle are compared by their anchors.
OVERLAPS = """() => {
  const found = [];
  for (const axis of document.querySelectorAll(".x-axis, .y-axis")) {
    const labels = [...axis.children].filter((one) => one.checkVisibility());
    labels.forEach((one, index) => {
      const other = labels[index + 1];
      if (!other) return;
      const [a, b] = [one.getBoundingClientRect(), other.getBoundingClientRect()];
      const tilted = getComputedStyle(one).transform.includes("0.70");
      const upright = tilted ? b.right - a.right >= 12 : b.left >= a.right - 1;
      const apart = axis.className === "y-axis" ? a.top >= b.bottom - 1 : upright;
      if (!apart) found.push(`${one.textContent} and ${other.textContent}`);
    });
  }
  return found;
}"""

# Markers, dots and bars that reach beyond the frame of their chart, by more than half a pixel.
OUTSIDE = """() => [...document.querySelectorAll(".area")].flatMap((area) => {
  const frame = area.getBoundingClientRect();
  const drawn = [...area.querySelectorAll(".marker, .dot, .column, .inset > svg")].filter((one) => !one.hidden);
  return drawn.filter((one) => {
    const box = one.getBoundingClientRect();
    const across = Math.max(frame.left - box.left, box.right - frame.right);
    return Math.max(across, frame.top - box.top, box.bottom - frame.bottom) > 0.5;
  }).map((one) => one.outerHTML.slice(0, 120));
})"""

# Captions of wide tables that do not wrap within their card, and names of rows that scroll away.
CLIPPED = """() => [...document.querySelectorAll(".scroll")].filter((one) => one.checkVisibility()).flatMap((one) => {
  one.scrollLeft = 9999;
  const frame = one.getBoundingClientRect(), found = [];
  const range = document.createRange();
  for (const caption of one.querySelectorAll("caption")) {
    range.selectNodeContents(caption);
    if (range.getBoundingClientRect().width > frame.width + 1) found.push(caption.textContent);
  }
  for (const name of one.querySelectorAll("th[scope=row]"))
    if (name.getBoundingClientRect().left < frame.left - 1) found.push(name.textContent);
  one.scrollLeft = 0;
  return found;
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    need_package("playwright")
    need_command("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A certified model, several models with hostile names, a table, and a model without a certificate."""
    folder = tmp_path_factory.mktemp("reports")
    good, x = certified(model(members=3)), images(150, seed=3)
    labels = labels_for(good, x)
    none = good.uncertified().certify(
        images(400, seed=5), np.array(good.classes)[np.random.default_rng(0).integers(3, size=400)], 0.05, delta=0.05
    )
    table = model(kind="table", classes=("</script>", "<b>dog</b>", HOSTILE))
    rows = frame(300, seed=7)
    grouped = table.certify(rows, labels_for(table, rows, seed=8), 0.2, delta=0.1, by="color")
    test = frame(120, seed=9).astype(object)
    truth = labels_for(table, test)
    test.loc[5, "age"] = "old"
    several = {"good": good, HOSTILE: model("mlp", members=1), "certifies nothing": none}
    made: dict[str, tuple[Any, Any, Any, str]] = {
        "one": ({"good": good}, x, labels, "images"),
        "several of one kind": ({"good": good, "other": certified(model("mlp"), risk=0.2)}, x, labels, "images"),
        "several": (several, x, labels, HOSTILE),
        "table": ({HOSTILE: grouped}, test, truth, "ward.csv"),
        "plain": ({"plain": model("dlgm", members=1)}, x, labels, "images"),
    }
    for size in (2, 10, 26, 30):
        names = tuple(f"{'disease number' if size == 30 else 'class'} {index}" for index in range(size))
        one = certified(model(kind="features", classes=names, members=1), "features", risk=0.4)
        rows = features(300, seed=3)
        made[f"{size} classes"] = ({"good": one}, rows, labels_for(one, rows), "rows.csv")
    return {
        name: write_report(folder / f"{name}.html", models, rows, truth, source=source)
        for name, (models, rows, truth, source) in made.items()
    }


class Opened:
    """An open page, with its console messages and network requests."""

    def __init__(self, browser: Any, path: Path, width: int = 1440, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.messages.append(f"error: {error}"))
        self.page.on("dialog", self.dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html.ready", state="attached")
        self.path = path

    def dismiss(self, dialog: Any) -> None:
        self.messages.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *failure: object) -> None:
        self.page.wait_for_timeout(200)
        self.context.close()
        if failure[0] is None:
            assert self.messages == []
            assert [url for url in self.requests if not url.startswith("data:")] == [self.path.as_uri()]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize(
    "name", ["one", "several", "table", "plain", "2 classes", "10 classes", "26 classes", "30 classes"]
)
def test_it_opens_without_errors_and_is_readable(
    browser: Any, reports: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    with Opened(browser, reports[name], width, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = page.evaluate(READABLE)
        assert found["size"] >= 11, found
        assert found["contrast"] >= 4.5, found
        assert page.locator(".plot .area").count() >= 3
        # Labels of an axis do not overlap, and everything in a chart, the ring too, stays inside its frame.
        assert page.evaluate(OVERLAPS) == []
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(CLIPPED) == []


def numbers(page: Any, index: int = 0) -> dict[str, str]:
    fields: dict[str, str] = page.evaluate(
        "(index) => Object.fromEntries([...document.querySelectorAll(`[data-model='${index}'][data-field]`)]"
        ".map((node) => [node.dataset.field, node.textContent]))",
        index,
    )
    return {**fields, "risk": page.inner_text("#risk")}


RING = "(() => { const r = document.querySelector('[data-ring]'); return [r.hidden, r.style.left, r.style.bottom]; })()"
SQUARES = "[...document.querySelectorAll('#squares0 path')].map((p) => p.getAttribute('d'))"


def test_the_slider_works_with_the_keyboard(browser: Any, reports: dict[str, Path]) -> None:
    with Opened(browser, reports["one"]) as page:
        assert numbers(page)["risk"] == "10\u00a0%"  # the certificate's
        page.focus("#slider")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        seen = [numbers(page)]
        squares = [page.get_attribute("#squares0", "aria-label")]
        for _ in range(6):
            page.keyboard.press("ArrowLeft")
            seen.append(numbers(page))
            squares.append(page.get_attribute("#squares0", "aria-label"))
        for name in ("risk", "threshold", "coverage", "referred", "wrong", "observed_coverage", "observed_referred"):
            assert len({one[name] for one in seen}) > 1, name
        assert len(set(squares)) > 1
        referred = [int(re.sub(r"\D", "", one["referred"])) for one in seen]
        assert referred == sorted(referred)
        assert page.get_attribute("#slider", "aria-valuetext") == seen[-1]["risk"]
        last = int(page.get_attribute("#slider", "max"))
        page.keyboard.press("Home")
        for position in range(last + 1):  # no position is dead, and the ring is always inside the chart
            assert not page.is_visible(".slider-note")
            assert page.evaluate(OUTSIDE) == []
            before = page.evaluate(RING)
            page.keyboard.press("ArrowRight")
            assert (page.evaluate(RING) == before) == (position == last)


def test_the_certificate_is_marked_where_the_thumb_stops(browser: Any, reports: dict[str, Path]) -> None:
    """The middle of the star is over the middle of the thumb; a click there selects the certificate's risk."""
    for width in SIZES:
        with Opened(browser, reports["several of one kind"], width) as page:
            page.focus("#slider")
            page.keyboard.press("Home")
            page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
            page.locator("#slider").scroll_into_view_if_needed()
            assert page.locator(".marks > span").count() == 2
            for mark in page.locator(".marks > span").all():
                text = mark.locator(".marker").get_attribute("title")
                star, track = mark.locator(".marker").bounding_box(), page.locator("#slider").bounding_box()
                page.mouse.click(star["x"] + star["width"] / 2, track["y"] + track["height"] / 2)
                assert text.endswith(numbers(page)["risk"])


def test_the_script_draws_what_the_file_contains(browser: Any, reports: dict[str, Path]) -> None:
    """Squares, ring and costs are computed twice: in Python, for readers without scripts, and in the page."""
    contents = "[document.querySelector('#operating-point').innerHTML, document.querySelector('#costs').innerHTML]"
    context = browser.new_context(java_script_enabled=False)
    for name in ("one", "table", "10 classes"):
        page = context.new_page()
        page.goto(reports[name].as_uri())
        static = page.inner_html("#operating-point"), page.inner_html("#costs")
        page.close()
        with Opened(browser, reports[name]) as page:
            drawn = page.evaluate(contents)
        for before, after in zip(static, drawn, strict=True):
            assert _without_styles(after) == _without_styles(before)
    context.close()


def _without_styles(html: str) -> str:
    html = re.sub(r"<noscript>.*?</noscript>", "", html, flags=re.DOTALL)
    return re.sub(r'style="width: ?[\d.]+%;?"', "", html)  # the browser writes more digits


def test_costs(browser: Any, reports: dict[str, Path]) -> None:
    with Opened(browser, reports["one"]) as page:
        data = json.loads(page.inner_text("#data") or page.evaluate("document.getElementById('data').textContent"))
        (one,) = data["models"]
        rows = page.locator("[data-costs='0'] tbody tr")
        for error, referral in ((100, 1), (0.5, 2), (3, 0.1), (0, 1)):
            page.fill("#error-cost", str(error))
            page.fill("#referral-cost", str(referral))
            cheapest = min(error * wrong + referral * (one["used"] - n) for n, wrong, _ in one["frontier"])
            shown = float(rows.nth(0).locator(".cost").inner_text().replace(",", ""))
            assert shown == pytest.approx(1000 * cheapest / one["used"], rel=0.01, abs=0.01)
            every = [float(row.locator(".cost").inner_text().replace(",", "")) for row in rows.all()]
            assert shown == min(every)
        assert "accept every case" in page.inner_text("[data-best='0']")  # errors cost nothing
        before = page.inner_text("#costs")
        for bad in ("", "-3", "text", "1e10", "1,2,3"):
            page.fill("#error-cost", bad)
            assert page.inner_text("#cost-problem").startswith("Fill in two numbers")
            assert page.inner_text("#costs").replace(page.inner_text("#cost-problem"), "").split() == before.split()
        page.fill("#error-cost", "2,5")
        with_comma = page.inner_text("#costs")
        page.fill("#error-cost", "2.5")
        assert page.inner_text("#costs") == with_comma != before
        assert not page.is_visible("#cost-problem")


def test_the_curve_is_read_off_at_the_pointer(browser: Any, reports: dict[str, Path]) -> None:
    with Opened(browser, reports["several"]) as page:
        page.locator("#plot-curve .area").scroll_into_view_if_needed()
        box = page.locator("#plot-curve .inset").bounding_box()
        hint = page.inner_text("#readout")
        page.mouse.move(box["x"] + box["width"], box["y"] + 20)
        text = page.inner_text("#readout")
        assert "good: coverage 100\u00a0%" in text
        assert text.count("coverage") == 3
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
        assert page.inner_text("#readout") != text
        page.mouse.move(0, 0)
        assert page.inner_text("#readout") == hint


@pytest.mark.parametrize("name", ["one", "table", "26 classes"])
def test_it_works_without_scripts(browser: Any, reports: dict[str, Path], name: str) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(reports[name].as_uri())
    assert page.locator(".plot .area path.line").count() >= 1
    page.locator(".pick > summary").first.click()
    assert page.locator(".pick .case").first.is_visible()
    panels = page.locator(".panels").first.locator("> div")
    assert [panel.is_visible() for panel in panels.all()] == [True, False, False]
    page.locator(".tabs").first.locator("label").nth(1).click()
    assert [panel.is_visible() for panel in panels.all()] == [False, True, False]
    context.close()


def test_the_slider_updates_all_models(browser: Any, reports: dict[str, Path]) -> None:
    with Opened(browser, reports["several"]) as page:
        page.focus("#slider")
        page.keyboard.press("End")
        before = [numbers(page, index) for index in range(3)]
        for _ in range(10):
            page.keyboard.press("ArrowLeft")
        after = [numbers(page, index) for index in range(3)]
        assert before[0] != after[0]
        assert before[1] != after[1]
        assert "coverage" not in before[1]  # no guarantee without calibration scores


def test_a_case_opens_to_show_its_details(browser: Any, reports: dict[str, Path]) -> None:
    with Opened(browser, reports["one"]) as page:
        picks = page.locator(".pick")
        first, second = picks.nth(0), picks.nth(1)
        first.locator("> summary").focus()
        page.keyboard.press("Enter")
        assert first.locator(".case").is_visible()
        assert "Predicted probabilities" in first.inner_text()
        assert first.locator("img.map").is_visible()
        second.locator("> summary").click()
        assert second.locator(".case").is_visible()
        assert not first.locator(".case").is_visible()  # one at a time
    with Opened(browser, reports["plain"]) as page:
        assert page.locator("img.map").count() == 0
    with Opened(browser, reports["table"], 390) as page:
        page.locator(".pick > summary").nth(2).click()
        assert "age" in page.locator(".pick .case").nth(2).inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_colour_scheme_can_change_while_it_is_open(browser: Any, reports: dict[str, Path]) -> None:
    colours = (
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
        " getComputedStyle(document.querySelector('#plot-curve path.line')).stroke]"
    )
    with Opened(browser, reports["one"]) as page:
        light = page.evaluate(colours)
        page.emulate_media(color_scheme="dark")
        page.wait_for_timeout(300)
        dark = page.evaluate(colours)
        assert all(one != other for one, other in zip(light, dark, strict=True))
        page.emulate_media(color_scheme="light")
        page.wait_for_timeout(300)
        assert page.evaluate(colours) == light


def test_figures_resize_with_the_window(browser: Any, reports: dict[str, Path]) -> None:
    with Opened(browser, reports["one"]) as page:
        page.set_viewport_size({"width": 390, "height": 900})
        page.wait_for_timeout(600)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_hostile_texts_are_harmless(browser: Any, reports: dict[str, Path]) -> None:
    for name in ("several", "table"):
        with Opened(browser, reports[name]) as page:
            assert HOSTILE in page.inner_text("main")
            assert page.locator("script").count() == 2
            for pick in page.locator(".pick > summary").all()[:6]:
                pick.click()
            assert page.locator("img[src='x']").count() == 0
        # Leaving the context asserts that there was no dialog, error or request.


@pytest.mark.parametrize("scripts", [True, False])
def test_it_prints_completely(browser: Any, reports: dict[str, Path], scripts: bool, tmp_path: Path) -> None:
    """All that is folded away on the screen is on paper: matrices, numbers, cases, provenance."""
    need_command("pdftotext")
    for name in ("one", "26 classes"):
        context = browser.new_context(java_script_enabled=scripts, color_scheme="dark")
        page = context.new_page()
        page.goto(reports[name].as_uri())
        page.pdf(path=tmp_path / "report.pdf", format="A4", print_background=True)
        context.close()
        subprocess.run(["pdftotext", tmp_path / "report.pdf", tmp_path / "report.txt"], check=True)
        text = (tmp_path / "report.txt").read_text(encoding="utf-8")
        for wanted in (
            *("Confusion matrix, all cases", "Confusion matrix, accepted cases", "Confusion matrix, referred cases"),
            *("Largest coverage at each selective risk", "hold for all slider positions", "network.hidden"),
            "if the calibration cases were drawn again and again",
        ):
            assert wanted in " ".join(text.split()), wanted
        cases = reports[name].read_text(encoding="utf-8").count('class="pick"')
        assert len(re.findall(r"confidence\s+[\d.]+\s+%,\s+(?:accepted|referred)", text)) == cases


# Width of an A4 page between margins of 1 cm, in CSS pixels.
PAPER_WIDTH = 718
BEYOND = """() => [...document.querySelectorAll("th, td, figure, .tiles li, p")].filter((one) => one.checkVisibility())
  .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
  .map((one) => one.textContent.slice(0, 40))"""


@pytest.mark.parametrize("name", ["several", "several of one kind", "26 classes", "30 classes", "table"])
def test_nothing_is_printed_beyond_the_edge_of_the_paper(browser: Any, reports: dict[str, Path], name: str) -> None:
    with Opened(browser, reports[name], PAPER_WIDTH) as page:
        page.emulate_media(media="print")
        assert page.evaluate(BEYOND) == []


def test_headings_and_labels_for_screen_readers(browser: Any, reports: dict[str, Path]) -> None:
    with Opened(browser, reports["several"]) as page:
        levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map((h) => Number(h.tagName[1]))")
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        unnamed = page.evaluate(
            "[...document.querySelectorAll('[role=img], input, button, nav, section, .scroll')].filter((n) =>"
            " !n.getAttribute('aria-label') && !n.getAttribute('aria-labelledby') && !(n.labels && n.labels.length))"
            ".map((n) => n.outerHTML.slice(0, 80))"
        )
        assert unnamed == []
        assert page.evaluate("document.documentElement.lang") == "en"
