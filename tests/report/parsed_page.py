"""A page of a report as a tree of elements, for tests of what stands where."""

from html.parser import HTMLParser
from xml.etree.ElementTree import Element, TreeBuilder

from squad.report.markup import VOID_ELEMENTS


class _Reader(HTMLParser):
    """Builds a tree of the elements."""

    def __init__(self) -> None:
        super().__init__()
        self.builder = TreeBuilder()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in VOID_ELEMENTS:
            self.builder.end(tag)

    def handle_endtag(self, tag: str) -> None:
        self.builder.end(tag)

    def handle_data(self, data: str) -> None:
        self.builder.data(data)


def parse(text: str) -> Element:
    """Return the root of an HTML file."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.builder.close()


def section(page: Element, name: str) -> Element:
    """Return the section with this id."""
    (found,) = page.iterfind(f".//section[@id='{name}']")
    return found


def with_class(parent: Element, *names: str) -> list[Element]:
    """Return the elements that have all these classes, in their order on the page."""
    return [one for one in parent.iter() if set(names) <= set(one.get("class", "").split())]


def text_of(one: Element) -> str:
    """Return the text of an element and of its descendants, with simple spaces and minus signs."""
    return " ".join("".join(one.itertext()).replace("\u2212", "-").split())


def cells(table: Element) -> list[list[str]]:
    """Return the texts of the cells in the body of a table, row by row."""
    return [[text_of(cell) for cell in row] for row in table.iterfind("tbody/tr")]


def style_of(one: Element) -> dict[str, str]:
    """Return the style of an element, by property."""
    return dict(part.split(":") for part in one.get("style", "").split(";") if part)
