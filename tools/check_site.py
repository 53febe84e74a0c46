"""Check the links of a built site (``make site``), offline.

A link within the site must lead to a file, and to an anchor that it has; a link to elsewhere must be well-formed and
use https; and neither a page nor a style sheet may load anything (script, style, image, font, video) from elsewhere.
A page must be UTF-8 and must not set a base address, which would change all its links.
"""

import html.parser
import re
import sys
import urllib.parse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

#: Attributes that lead somewhere, and those by which a page loads something.
LEADING = {"a": ("href", "xlink:href"), "area": ("href",)}
LOADING = {
    **dict.fromkeys(("img", "source"), ("src", "srcset")),
    **dict.fromkeys(("iframe", "audio", "embed", "track", "input"), ("src",)),
    **dict.fromkeys(("image", "feimage", "use"), ("href", "xlink:href")),  # SVG
    "script": ("src", "href", "xlink:href"),
    "video": ("src", "poster"),
    "object": ("data",),
    "link": ("href",),
}
#: Kinds of <link> that load something; others, such as "canonical", only name an address.
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload"}
#: What a style loads from elsewhere.
REMOTE_STYLE = re.compile(r"@import[^;]*(?:https?:)?//[^;]*|url\(\s*['\"]?(?:https?:)?//[^)]*", re.IGNORECASE)


class Page(html.parser.HTMLParser):
    """Collects the anchors of a page, the links that it has and the files that it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.bases: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record what a tag names, links to or loads."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.links += [values[name] for name in LEADING.get(tag, ()) if name in values]
        if tag == "base" and "href" in values:
            self.bases.append(values["href"])
        loads = tag != "link" or set(values.get("rel", "").lower().split()) & LOADED_LINKS
        for name in LOADING.get(tag, ()):
            if values.get(name):
                # srcset has several addresses, each followed by a size.
                several = (
                    (one.split()[:1] for one in values[name].split(", ")) if name == "srcset" else ([values[name]],)
                )
                found = [address for one in several for address in one]
                (self.loads if loads else self.links).extend(found)


@cache
def parse(path: Path) -> Page:
    """Return a page of the site."""
    return Page(read(path))


def read(path: Path) -> str:
    """Return the text of a file, whose bytes that are not UTF-8 are replaced."""
    return path.read_text(encoding="utf-8", errors="replace")


def is_utf8(path: Path) -> bool:
    """Return whether a file is valid UTF-8."""
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def pages(site: Path) -> list[Path]:
    """Return the pages of a site, without the templates of its theme."""
    found = sorted(path for path in site.rglob("*.html") if path.is_file())
    return [path for path in found if "_static" not in path.relative_to(site).parts]


def elsewhere(address: urllib.parse.SplitResult) -> str | None:
    """Return what is wrong with a link that leaves the site, or None."""
    if address.scheme == "mailto":
        return None if "@" in address.path else "no address"
    if address.scheme != "https":
        return "not https"
    if not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?", address.netloc, re.IGNORECASE):
        return "no valid host"
    return "a space in it" if re.search(r"\s", address.geturl()) else None


def within(site: Path, page: Path, address: urllib.parse.SplitResult) -> str | None:
    """Return what is wrong with a link within the site, or None."""
    path = urllib.parse.unquote(address.path)
    try:
        target = (page.parent / path).resolve() if path else page
        if target.is_dir():
            target /= "index.html"
        if not target.is_relative_to(site):
            return "outside the site"
        if not target.is_file():
            return "no such file"
    except (OSError, ValueError):  # no file can have this name: a null byte, or too long
        return "no such file"
    anchor = urllib.parse.unquote(address.fragment)
    if anchor and target.suffix == ".html" and anchor not in parse(target).anchors:
        return "no such anchor"
    return None


def wrong_link(site: Path, page: Path, link: str, loaded: bool) -> str | None:
    """Return what is wrong with an address that a page links to or loads, or None."""
    try:
        address = urllib.parse.urlsplit(link)
    except ValueError:  # such as an unclosed bracket
        return "no valid address"
    if address.scheme == "data":
        return None
    if address.scheme or address.netloc:
        return "loaded from elsewhere" if loaded else elsewhere(address)
    return within(site, page, address)


def problems(site: Path) -> Iterator[str]:
    """Yield a line for everything that is wrong."""
    site = site.resolve()
    for page in pages(site):
        name, found = page.relative_to(site).as_posix(), parse(page)
        for base in found.bases:
            yield f"{name}: {base}: a base address"
        for loaded, links in ((False, found.links), (True, found.loads)):
            for link in sorted(set(links)):
                if wrong := wrong_link(site, page, link, loaded):
                    yield f"{name}: {link}: {wrong}"
    for file in sorted(path for path in site.rglob("*") if path.suffix in {".html", ".css"} and path.is_file()):
        name = file.relative_to(site).as_posix()
        if not is_utf8(file):
            yield f"{name}: not UTF-8"
        for sheet in REMOTE_STYLE.findall(read(file)):
            yield f"{name}: {sheet}: loaded from elsewhere"


def main(arguments: list[str]) -> int:
    """Check a site, print what is wrong and return the exit code."""
    if len(arguments) != 1:
        print("Usage: python tools/check_site.py FOLDER", file=sys.stderr)
        return 2
    site = Path(arguments[0])
    if not site.is_dir() or not pages(site):
        print(f"{site} has no pages. Build the site first: make site", file=sys.stderr)
        return 1
    wrong = list(problems(site))
    print("\n".join(wrong) or f"All links of {len(pages(site))} pages are good.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
