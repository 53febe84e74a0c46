"""The report in a real browser: self-contained, interactive and accessible."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from squad.report import write_report
from tests.needs import need_command, need_package
from tests.report.builders import certified, frame, images, labels_for, model

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
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
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
    if (!text || !node.checkVisibility() || node.closest("script, style, noscript, .hoverlayer")) continue;
    const style = getComputedStyle(node);
    const ink = rgb(node.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(node))].sort((x, y) => y - x);
    const found = (a + 0.05) / (b + 0.05);
    size = Math.min(size, parseFloat(style.fontSize));
    if (found < contrast) { contrast = found; worst = text.slice(0, 40); }
  }
  return { size, contrast, worst };
}"""


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
        "several": (several, x, labels, HOSTILE),
        "table": ({HOSTILE: grouped}, test, truth, "ward.csv"),
        "plain": ({"plain": model("dlgm", members=1)}, x, labels, "images"),
    }
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
@pytest.mark.parametrize("name", ["one", "several", "table", "plain"])
def test_it_opens_without_errors_and_is_readable(
    browser: Any, reports: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    with Opened(browser, reports[name], width, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = page.evaluate(READABLE)
        assert found["size"] >= 11, found
        assert found["contrast"] >= 4.5, found
        plots = page.locator(".plot .main-svg")
        assert plots.count() >= 3
        for box in page.evaluate("[...document.querySelectorAll('.plot')].map((p) => p.getBoundingClientRect().right)"):
            assert box <= width
        # Every figure stays inside its container.
        assert page.evaluate(
            "[...document.querySelectorAll('.plot')].every((p) => p.querySelector('.main-svg').getBoundingClientRect()"
            ".width <= p.clientWidth + 1)"
        )


def numbers(page: Any, index: int = 0) -> dict[str, str]:
    fields: dict[str, str] = page.evaluate(
        "(index) => Object.fromEntries([...document.querySelectorAll(`[data-model='${index}'][data-field]`)]"
        ".map((node) => [node.dataset.field, node.textContent]))",
        index,
    )
    return {**fields, "risk": page.inner_text("#risk")}


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
        referred = [int(re.sub(r"\D", "", one["referred"])) for one in seen if one["referred"] != "all"]
        assert referred == sorted(referred)
        assert page.get_attribute("#slider", "aria-valuetext") == seen[-1]["risk"]
        page.keyboard.press("Home")
        last = numbers(page)
        assert last["risk"] == "0.1\u00a0%"
        assert re.search("cannot be guaranteed.*400\u00a0calibration cases", last["note"])
        assert page.is_visible(".slider-note")
        page.keyboard.press("End")
        assert not page.is_visible(".slider-note")
        marker = "document.getElementById('plot-curve').data.find((trace) => trace.meta === 'selected').x"
        before = page.evaluate(marker)
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate(marker) != before


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


def test_a_selected_case_shows_its_details(browser: Any, reports: dict[str, Path]) -> None:
    with Opened(browser, reports["one"]) as page:
        picks = page.locator(".pick")
        assert page.locator(".pick[aria-pressed='true']").count() >= 1
        first = page.inner_text("#case0")
        drawing = "JSON.stringify(document.getElementById('latents0').data[0].z)"
        before = page.evaluate(drawing)
        last = picks.nth(picks.count() - 1)
        last.focus()
        page.keyboard.press("Enter")
        assert last.get_attribute("aria-pressed") == "true"
        assert page.inner_text("#case0") != first
        assert page.evaluate(drawing) != before
        page.wait_for_timeout(900)
        box = page.locator("#case0").bounding_box()
        assert box["y"] < 900
        source = last.locator("img").get_attribute("src")
        assert page.get_attribute("#case0 img", "src") == source
    with Opened(browser, reports["plain"]) as page:
        assert page.locator("#latents0").count() == 0
    with Opened(browser, reports["table"], 390) as page:
        page.locator(".pick").nth(2).click()
        assert "age" in page.inner_text("#case0")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_colour_scheme_can_change_while_it_is_open(browser: Any, reports: dict[str, Path]) -> None:
    colours = (
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
        " getComputedStyle(document.querySelector('#plot-curve .xtick text')).fill]"
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
            assert page.locator("script").count() == 3
            for pick in page.locator(".pick").all()[:6]:
                pick.click()
            assert page.locator("img[src='x']").count() == 0
        # Leaving the context asserts that there was no dialog, error or request.


def test_it_prints(browser: Any, reports: dict[str, Path]) -> None:
    with Opened(browser, reports["one"], scheme="dark") as page:
        assert page.pdf(format="A4").startswith(b"%PDF")
        assert not page.evaluate("document.documentElement.classList.contains('printing')")


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
