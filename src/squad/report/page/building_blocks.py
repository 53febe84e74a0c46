"""Building blocks of the sections: headings, cards per model, folds and lists of facts."""

from collections.abc import Callable, Sequence

from squad.report.markup import Markup, element, join
from squad.report.plot_area import model_class
from squad.report.report_data import ModelReport

__all__ = ["EMPTY_CELL", "facts", "fold", "fraction_bar", "section", "side_by_side"]

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
        swatch = element("span", class_=f"swatch {model_class(index)}", aria_hidden="true")
        name = element("h3", swatch, model.name, class_="model") if several else None
        cards.append(element("article", name, render(index, model), class_="card"))
    return element("div", *cards, class_="models one" if wide or not several else "models")


def fraction_bar(fraction: float) -> Markup:
    """Render a horizontal bar that is filled up to a fraction; the number itself stands next to it."""
    filled = element("span", style=f"width:{100 * fraction:.1f}%")
    return element("span", filled, class_="fraction-bar", aria_hidden="true")


def fold(title: str, *children: object) -> Markup:
    """Render details that are collapsed until the reader opens them."""
    return element("details", element("summary", title), *children)


def facts(pairs: Sequence[tuple[str, str]]) -> Markup:
    """Render pairs of names and values as a list."""
    return element("dl", *(join(element("dt", name), element("dd", text)) for name, text in pairs), class_="facts")
