"""HTML construction with automatic escaping: every text is escaped unless it was built by this module."""

import html

from squad.printable import printable

__all__ = ["Markup", "element", "join", "plain_table"]

#: Elements without an end tag.
VOID_ELEMENTS = frozenset({"img", "input", "br", "meta"})


class Markup(str):
    """HTML that can be inserted into a page without escaping."""

    __slots__ = ()


def join(*children: object) -> Markup:
    """Concatenate children: markup unchanged, anything else as escaped text, None as nothing.

    Returns:
        The markup.

    Examples:
        >>> join("a < b", Markup("<br>"), None)
        'a &lt; b<br>'
    """
    return Markup(
        "".join(child if isinstance(child, Markup) else _escape(child) for child in children if child is not None)
    )


def _escape(value: object) -> str:
    """Return a value as text for HTML, without control characters and marks of writing direction."""
    return html.escape(printable(str(value)))


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """Build one element.

    Args:
        name: Tag name.
        *children: Contents, as in :func:`join`.
        **attributes: Attributes. Underscores in a name become hyphens, and a trailing underscore is removed
            (``class_``). A value of None or False omits the attribute; True writes it without a value.

    Returns:
        The element.

    Examples:
        >>> element("p", "a < b", class_="note")
        '<p class="note">a &lt; b</p>'
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escape(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID_ELEMENTS:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def plain_table(header: list[str], rows: list[list[object]], caption: str | None = None) -> Markup:
    """Build a table whose first column holds row headers; a table that is too wide scrolls horizontally.

    Args:
        header: Column headings.
        rows: Cells, row by row.
        caption: Title above the table.

    Returns:
        The markup.
    """
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in header)))
    lines = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    title = element("caption", caption) if caption else None
    table = element("table", title, head, element("tbody", *lines))
    # Labelled and focusable, so that it can be scrolled with the keyboard.
    return element(
        "div", table, class_="scroll", role="region", tabindex="0", aria_label=caption or header[0] or "table"
    )
