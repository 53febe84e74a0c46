"""docs/images/report.png: the top of the demo's report, as a browser shows it."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from squad.cli.demo import write_page

__all__ = ["draw_report"]

#: Size of the window in pixels.
WIDTH, HEIGHT = 1080, 1130
#: Chromium, and its options in a container: no sandbox, nothing in the background.
COMMAND, OPTIONS = "chromium", ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def draw_report(digits: Any, predictor: Any, path: Path) -> bool:
    """Write the report of the demo and take a screenshot of its first screen.

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
        window.screenshot(path=path)
        browser.close()
    return True
