"""Pages of experiments/paper as pages of the site, and links to files of the repository that are not part of it.

In the repository, a page links to scripts, records and folders by relative paths.  On the site these links would lead
nowhere, so they become plain text; links between pages are translated.  An image must be part of the site.
"""

import os
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

logger = logging.getLogger(__name__)

DOCS = Path(__file__).resolve().parents[1]
PAPER = DOCS.parent / "experiments" / "paper"
#: Folder of the site with the copied pages.
COPIES = "auto_paper"
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.M | re.S)


def copy_pages(source: Path, target: Path) -> None:
    """Copy the pages of experiments/paper and the images that they show, each at its place.

    Args:
        source: Folder of the pages, with their images in ``figures`` and ``search``.
        target: Folder of the copies, which is made anew.
    """
    shutil.rmtree(target, ignore_errors=True)
    files = [*source.glob("*.md"), *(source / "figures").rglob("*.png"), *(source / "search").rglob("*.png")]
    for file in files:
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)


def copy_paper(app: Sphinx, config: Config) -> None:
    """Copy the pages and images of experiments/paper into the site's sources."""
    copy_pages(PAPER, DOCS / COPIES)


def place_in_site(path: Path) -> Path | None:
    """Return where a file of the repository is in the site's sources, or None if it is not part of the site."""
    if path.is_relative_to(PAPER):
        place = DOCS / COPIES / path.relative_to(PAPER)
        return place if place.is_file() else None
    return path if path.is_relative_to(DOCS) and path.is_file() else None


def translate(text: str, docname: str) -> str:
    """Return the text of a page with its links translated; an image outside the site is a warning."""
    name = Path(docname)
    source = PAPER if name.parts[0] == COPIES else DOCS / name.parent

    def translated(link: re.Match[str]) -> str:
        path, _, anchor = link["target"].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link[0]
        file = Path(os.path.normpath(source / path))
        if not file.exists():  # Sphinx reports it
            return link[0]
        place = place_in_site(file)
        if place is None:
            if link["image"]:
                logger.warning("The image %s is not part of the site. Copy it in %s.", path, __name__, location=docname)
            return link["text"]
        relative = os.path.relpath(place, DOCS / name.parent)
        return f"{link['image']}[{link['text']}]({relative}{'#' + anchor if anchor else ''})"

    parts = FENCED.split(text)
    return "".join(part if index % 2 else LINK.sub(translated, part) for index, part in enumerate(parts))


def read(app: Sphinx, docname: str, content: list[str]) -> None:
    """Translate the links of a Markdown page before it is parsed."""
    if (DOCS / f"{docname}.md").exists():
        content[0] = translate(content[0], docname)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both steps."""
    app.connect("config-inited", copy_paper)
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
