"""docs/images/report.png: the top of the demo's report, as a browser shows it."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from squad.cli.demo import write_page

__all__ = ["draw_report"]

#: Width of the window, and the largest height of the picture, in pixels.
WIDTH, HEIGHT = 1080, 1600
#: Chromium, and its options in a container: no sandbox, nothing in the background.
COMMAND, OPTIONS = "chromium", ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
#: Where to crop: in the widest gap between blocks in the lower half of a height, 32 pixels below a block at most.
#: A block is whatever is visible (text, an image, a border or a background of its own), so that the picture cuts
#: nothing, and ends below a card or a section.  The body's background is everywhere, and no block.
WIDEST_GAP = """(height) => {
  const blocks = [];
  for (const node of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    if (!box.width || !box.height || !node.checkVisibility({ visibilityProperty: true })) continue;
    const text = [...node.childNodes].some((one) => one.nodeType === Node.TEXT_NODE && one.textContent.trim());
    const image = ["img", "svg", "canvas", "input", "table"].includes(node.localName);
    const border = ["Top", "Bottom"].some((side) => parseFloat(style[`border${side}Width`]) > 0);
    const clear = ["transparent", "rgba(0, 0, 0, 0)"].includes(style.backgroundColor);
    if (text || image || border || !clear) blocks.push([box.top, box.bottom]);
  }
  blocks.sort((one, other) => one[0] - other[0]);
  let end = 0, widest = 0, found = 0;
  for (const [top, bottom] of blocks) {
    if (end > height / 2 && end < height && top - end > widest) [widest, found] = [top - end, end];
    end = Math.max(end, bottom);
  }
  return Math.round(found + Math.min(widest / 2, 32));
}"""


def draw_report(digits: Any, predictor: Any, path: Path) -> bool:
    """Write the report of the demo and take a screenshot of its top, down to a gap between blocks.

    Args:
        digits: The data set.
        predictor: The certified predictor of the demo.
        path: PNG file to write.

    Returns:
        Whether there is a Chromium that could do it; if not, the file is left as it is.
    """
    executable = shutil.which(COMMAND)
    if executable is None:
        return False
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "report.html"
        write_page(digits, predictor, page, "digits")
        browser = driver.chromium.launch(executable_path=executable, args=OPTIONS)
        window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        window.goto(page.as_uri())
        height = window.evaluate(WIDEST_GAP, HEIGHT)
        assert height > 0, f"no gap between blocks in the lower half of {HEIGHT} pixels of the report"
        window.screenshot(path=path, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        browser.close()
    return True
