"""Texts are always escaped."""

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from squad.report.markup import Markup, element, join, plain_table


class Reader(HTMLParser):
    """Elements, text and attributes as a browser would read them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.text = ""
        self.attributes: dict[str, str | None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_texts_and_attributes_are_preserved(text: str) -> None:
    reader = Reader()
    reader.feed(element("p", text, title=text))
    reader.close()
    assert reader.seen == ["p"]
    assert reader.text == text
    assert reader.attributes == {"title": text}


def test_attributes() -> None:
    assert element("input", type="range", for_="x", data_field="y", open=True, hidden=False, style=None) == (
        '<input type="range" for="x" data-field="y" open>'
    )
    assert join("a<", Markup("<b>"), None, 3) == "a&lt;<b>3"


def test_a_table_has_row_and_column_headers() -> None:
    made = plain_table(["", "n"], [["<i>", 3]], "Counts")
    assert '<th scope="row">&lt;i&gt;</th><td>3</td>' in made
    assert '<th scope="col">n</th>' in made
    assert "<caption>Counts</caption>" in made
    assert 'tabindex="0"' in made
