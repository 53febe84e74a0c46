"""Check the links of a built site (``make site``), offline.

A link within the site must lead to a file, and to an anchor that it has; a link to elsewhere must be well-formed and
use https; and neither a page nor a style sheet may load anything (script, style, image, font, video) from elsewhere.
"""

import html.parser
import re
import sys
import urllib.parse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

#: Attributes that lead somewhere, and those by which a page loads something.
LEADING = {"a": ("href",)}
LOADING = {
    **dict.fromkeys(("img", "source"), ("src", "srcset")),
    **dict.fromkeys(("script", "iframe", "audio", "embed", "track"), ("src",)),
    "video": ("src", "poster"),
    "object": ("data",),
    "link": ("href",),
}
#: Kinds of <link> that load something; others, such as "canonical", only name an address.
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload"}
#: What a style loads from elsewhere.
REMOTE_STYLE = re.compile(r"@import[^;]*(?:https?:)?//[^;]*|url\(\s*['\"]?(?:https?:)?//[^)]*")


class Page(html.parser.HTMLParser):
    """Collects the anchors of a page, the links that it has and the files that it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record what a tag names, links to or loads."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.links += [values[name] for name in LEADING.get(tag, ()) if name in values]
        loads = tag != "link" or set(values.get("rel", "").split()) & LOADED_LINKS
        for name in LOADING.get(tag, ()):
            if values.get(name):
                # srcset has several addresses, each followed by a size.
                found = [one.split()[0] for one in values[name].split(", ")] if name == "srcset" else [values[name]]
                (self.loads if loads else self.links).extend(found)


@cache
def parse(path: Path) -> Page:
    """Return a page of the site."""
    return Page(path.read_text(encoding="utf-8"))


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
    target = (page.parent / path).resolve() if path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site):
        return "outside the site"
    if not target.is_file():
        return "no such file"
    anchor = urllib.parse.unquote(address.fragment)
    if anchor and target.suffix == ".html" and anchor not in parse(target).anchors:
        return "no such anchor"
    return None


def problems(site: Path) -> Iterator[str]:
    """Yield a line for every link that is wrong."""
    site = site.resolve()
    for page in sorted(site.rglob("*.html")):
        if "_static" in page.relative_to(site).parts:  # templates of the theme
            continue
        found = parse(page)
        for kind, links in (("link", found.links), ("load", found.loads)):
            for link in sorted(set(links)):
                address = urllib.parse.urlsplit(link)
                if address.scheme == "data":
                    continue
                wrong: str | None
                if address.scheme or address.netloc:
                    wrong = elsewhere(address) if kind == "link" else "loaded from elsewhere"
                else:
                    wrong = within(site, page, address)
                if wrong:
                    yield f"{page.relative_to(site).as_posix()}: {link}: {wrong}"
    for file in sorted(path for path in site.rglob("*") if path.suffix in {".html", ".css"}):
        for sheet in REMOTE_STYLE.findall(file.read_text(encoding="utf-8")):
            yield f"{file.relative_to(site).as_posix()}: {sheet}: loaded from elsewhere"


def main(arguments: list[str]) -> int:
    """Check a site, print what is wrong and return the exit code."""
    (folder,) = arguments
    pages = sum(1 for _ in Path(folder).rglob("*.html"))
    wrong = list(problems(Path(folder)))
    print("\n".join(wrong) or f"All links of {pages} pages are good.")
    return int(bool(wrong) or not pages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
