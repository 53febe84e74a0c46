"""What the sections share: a heading with its question, models side by side, a place for a picture."""

from collections.abc import Callable, Sequence

from squad.report.markup import Markup, element, join
from squad.report.report_data import Model

__all__ = ["NOTHING", "facts", "fold", "plot", "section", "side_by_side"]

#: In a cell that has nothing to say.
NOTHING = "\u2013"


def section(name: str, title: str, lead: str | None, *children: object) -> Markup:
    """A part of the report under a question; ``lead`` explains in a few sentences what is to be seen."""
    head = [element("h2", title, id=f"{name}-title")]
    if lead is not None:
        head.append(element("p", lead, class_="lead"))
    return element("section", *head, *children, id=name, aria_labelledby=f"{name}-title")


def side_by_side(models: Sequence[Model], make: Callable[[int, Model], Markup], wide: bool = False) -> Markup:
    """A card a model, under its name where there are several; ``wide`` ones stand below each other."""
    several = len(models) > 1
    cards = []
    for place, model in enumerate(models):
        swatch = element("span", class_=f"swatch model{place % 6}", aria_hidden="true")
        name = element("h3", swatch, model.name, class_="model") if several else None
        cards.append(element("article", name, make(place, model), class_="card"))
    return element("div", *cards, class_="models one" if wide or not several else "models")


def plot(name: str, words: str, tall: bool = False) -> Markup:
    """A place for a figure, and what it shows in a sentence: for those who do not see it, and for everybody."""
    place = element("div", id=f"plot-{name}", class_="plot tall" if tall else "plot", role="img", aria_label=words)
    return join(place, element("p", words, class_="says"))


def fold(title: str, *children: object, unfolded: bool = False) -> Markup:
    """Something that is opened by those who want it."""
    return element("details", element("summary", title), *children, open=unfolded)


def facts(pairs: Sequence[tuple[str, str]]) -> Markup:
    """Names and values."""
    return element("dl", *(join(element("dt", name), element("dd", text)) for name, text in pairs), class_="facts")
