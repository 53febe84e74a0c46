"""Building blocks of the sections: headings, cards per model, and containers for figures."""

from collections.abc import Callable, Sequence

from squad.report.markup import Markup, element, join
from squad.report.report_data import ModelReport

__all__ = ["EMPTY_CELL", "facts", "figure", "fold", "section", "side_by_side"]

#: Content of a table cell without a value.
EMPTY_CELL = "\u2013"


def section(name: str, title: str, lead: str | None, *children: object) -> Markup:
    """Render a section of the report.

    Args:
        name: Id of the section.
        title: Heading.
        lead: Introduction below the heading, if any.
        *children: Contents.
    """
    head = [element("h2", title, id=f"{name}-title")]
    if lead is not None:
        head.append(element("p", lead, class_="lead"))
    return element("section", *head, *children, id=name, aria_labelledby=f"{name}-title")


def side_by_side(
    models: Sequence[ModelReport], render: Callable[[int, ModelReport], Markup], wide: bool = False
) -> Markup:
    """Render one card per model, with the model's name if there are several.

    Args:
        models: Results of the models.
        render: Function that renders a card's contents, given the model's index and results.
        wide: Whether to stack the cards vertically.
    """
    several = len(models) > 1
    cards = []
    for index, model in enumerate(models):
        swatch = element("span", class_=f"swatch model{index % 6}", aria_hidden="true")
        name = element("h3", swatch, model.name, class_="model") if several else None
        cards.append(element("article", name, render(index, model), class_="card"))
    return element("div", *cards, class_="models one" if wide or not several else "models")


def figure(name: str, text: str, tall: bool = False) -> Markup:
    """Render the container of a figure with a text alternative, which is also shown below it.

    Args:
        name: Name of the figure in the page's data.
        text: What the figure shows, in a sentence.
        tall: Whether the figure is higher than usual.
    """
    container = element("div", id=f"plot-{name}", class_="plot tall" if tall else "plot", role="img", aria_label=text)
    return join(container, element("p", text, class_="remark"))


def fold(title: str, *children: object) -> Markup:
    """Render details that are collapsed until the reader opens them."""
    return element("details", element("summary", title), *children)


def facts(pairs: Sequence[tuple[str, str]]) -> Markup:
    """Render pairs of names and values as a list."""
    return element("dl", *(join(element("dt", name), element("dd", text)) for name, text in pairs), class_="facts")
