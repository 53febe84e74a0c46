"""HTML that cannot be broken by what is put into it: every text is escaped unless it was made here."""

import html

__all__ = ["Markup", "element", "join", "plain_table"]

#: Elements without an end.
VOID = frozenset({"img", "input", "br", "meta"})


class Markup(str):
    """HTML that is safe to be put into a page as it is."""

    __slots__ = ()


def join(*children: object) -> Markup:
    """Several pieces: markup as it is, anything else as escaped text, None as nothing."""
    return Markup(
        "".join(
            child if isinstance(child, Markup) else html.escape(str(child)) for child in children if child is not None
        )
    )


def element(name: str, *children: object, **attributes: object) -> Markup:
    """One element.

    Underscores in names of attributes stand for hyphens, one at the end is left out (``class_``); an attribute of None
    or False is left out, one of True has no value.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def plain_table(header: list[str], rows: list[list[object]], caption: str | None = None, class_: str = "") -> Markup:
    """A table whose first column names its rows; it scrolls by itself where it is too wide."""
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in header)))
    lines = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    title = element("caption", caption) if caption else None
    made = element("table", title, head, element("tbody", *lines), class_=class_ or None)
    # With a name and in the order of the keyboard, so that those who do not use a mouse can scroll it.
    return element(
        "div", made, class_="scroll", role="region", tabindex="0", aria_label=caption or header[0] or "table"
    )
