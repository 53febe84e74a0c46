"""Charts drawn as HTML and SVG, without scripts: a frame with axes, and lines, bars and markers in it.

Positions are fractions of the plot area, so that a chart takes the width of its container while its text keeps the size
of the page's text.  Lines are in an SVG that is stretched to the area (strokes keep their width); whatever must not be
stretched, such as markers, is an HTML element placed by percentages.  Colours are classes that page.css defines.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from squad.report.markup import Markup, element, join
from squad.report.number_format import percent

__all__ = ["MODEL_COLOURS", "Axis", "bar", "chart", "lines", "marker", "model_class", "percent_axis", "shape"]

#: Number of model colours and line styles that page.css defines.
MODEL_COLOURS = 6
#: Size of the stretched SVG's coordinate system.
UNITS = 1000
#: Characters of all labels of a horizontal axis that have room next to each other on a narrow page.
LEVEL_LABELS = 26
#: Markers, as paths in a square from -10 to 10.
MARKERS = {
    "star": "M0-9.5 2.2-3 9-2.9 3.6 1.2 5.6 7.7 0 3.8-5.6 7.7-3.6 1.2-9-2.9-2.2-3z",
    "diamond": "M0-7.5 7.5 0 0 7.5-7.5 0z",
    "ring": "M-7.5 0a7.5 7.5 0 1 0 15 0a7.5 7.5 0 1 0-15 0z",
}


@dataclass(frozen=True)
class Axis:
    """A linear axis.

    Attributes:
        low: Number at its start.
        high: Number at its end.
        ticks: Labelled numbers with their labels.
        title: What it shows.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str

    def place(self, value: float) -> float:
        """Return the position of a number as a fraction of the axis; numbers beyond its ends are moved to them."""
        return min(1.0, max(0.0, self.fraction(value)))

    def fraction(self, value: float) -> float:
        """Return the position of a number as a fraction of the axis, below 0 or above 1 beyond its ends."""
        return (value - self.low) / (self.high - self.low)


def percent_axis(title: str, low: float, high: float, most: int = 6) -> Axis:
    r"""Return an axis of fractions, labelled in percent at round numbers.

    Args:
        title: What it shows.
        low: Number at its start.
        high: Number at its end.
        most: Maximum number of labels.

    Examples:
        >>> [label for _, label in percent_axis("coverage", 0, 1).ticks]
        ['0\xa0%', '20\xa0%', '40\xa0%', '60\xa0%', '80\xa0%', '100\xa0%']
    """
    ten = 10.0 ** math.floor(math.log10((high - low) / most))
    steps = (scale * ten for scale in (1, 2, 5, 10, 20))
    step = next(step for step in steps if (high - low) / step <= most - 1 + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    numbers = [round(index * step, 12) for index in range(first, last + 1)]
    return Axis(low, high, tuple((number, percent(number)) for number in numbers), title)


def model_class(index: int) -> str:
    """Return the class that gives an element the colour and line style of the model with this index."""
    return f"model{index % MODEL_COLOURS}"


def chart(
    x: Axis,
    y: Axis,
    text: str,
    drawn: Sequence[Markup],
    placed: Sequence[Markup] = (),
    keys: Sequence[tuple[Markup, str]] = (),
    name: str | None = None,
    tall: bool = False,
) -> Markup:
    """Draw a chart with its legend; ``text`` is its text alternative, and is also shown below it.

    Args:
        x: Horizontal axis.
        y: Vertical axis.
        text: What the chart shows, in a sentence or two.
        drawn: SVG elements, from :func:`lines` and :func:`shape`.
        placed: HTML elements, from :func:`marker` and :func:`bar`.
        keys: Entries of the legend: a symbol and its meaning.
        name: Id of the chart, if the page's script needs it.
        tall: Whether the chart is higher than usual.

    Returns:
        The markup.
    """
    grid = "".join(f"M0 {_units(1 - y.place(tick))}H{UNITS}" for tick, _ in y.ticks)
    svg = element(
        "svg",
        element("path", class_="grid", d=grid),
        *drawn,
        viewBox=f"0 0 {UNITS} {UNITS}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    legend = [element("li", symbol, " ", meaning) for symbol, meaning in keys]
    frame = element(
        "div",
        element("div", y.title, class_="y-title"),
        element(
            "div", *(element("span", label, style=_at("bottom", y.place(at))) for at, label in y.ticks), class_="y-axis"
        ),
        element("div", element("div", svg, *placed, class_="inset"), class_="area"),
        element(
            "div",
            *(element("span", label, style=_at("left", x.place(at))) for at, label in x.ticks),
            class_="x-axis" if sum(len(label) for _, label in x.ticks) <= LEVEL_LABELS else "x-axis long",
        ),
        element("div", x.title, class_="x-title"),
        class_="frame tall" if tall else "frame",
    )
    return join(
        element(
            "div",
            element("ul", *legend, class_="keys") if legend else None,
            frame,
            class_="plot",
            id=name,
            role="img",
            aria_label=text,
        ),
        element("p", text, class_="remark"),
    )


def lines(x: Axis, y: Axis, points: Sequence[tuple[float, float]], class_: str, steps: bool = False) -> Markup:
    """Draw a line through points; what lies beyond the axes is cut off.

    Args:
        x: Horizontal axis.
        y: Vertical axis.
        points: Numbers on both axes.
        class_: Class of the line.
        steps: Whether to connect points by a horizontal and then a vertical line.
    """
    places = [(_units(x.fraction(a)), _units(1 - y.fraction(b))) for a, b in points]
    return element("path", class_=class_, d=_steps(places) if steps else _polyline(places))


def shape(x: Axis, y: Axis, points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Draw a filled shape with these corners."""
    places = [(_units(x.fraction(a)), _units(1 - y.fraction(b))) for a, b in points]
    return element("path", class_=class_, d=_polyline(places) + "z")


def _polyline(places: Sequence[tuple[str, str]]) -> str:
    return "M" + "L".join(f"{a} {b}" for a, b in places) if places else ""


def _steps(places: Sequence[tuple[str, str]]) -> str:
    (first_x, first_y), *others = places
    return f"M{first_x} {first_y}" + "".join(f"H{a}V{b}" for a, b in others)


def marker(
    kind: str, class_: str, place: tuple[float, float] | None = None, title: str | None = None, **data: object
) -> Markup:
    """Draw a marker: a star, a diamond or a ring.

    Args:
        kind: Name of the marker.
        class_: Further class, for its colour.
        place: Fractions of both axes; None for a marker within text.
        title: Tooltip.
        **data: Further attributes.
    """
    style = None if place is None else f"{_at('left', place[0])};{_at('bottom', place[1])}"
    drawing = element("svg", element("path", d=MARKERS[kind]), viewBox="-10 -10 20 20", aria_hidden="true")
    return element("span", drawing, class_=f"marker {kind} {class_}", style=style, title=title, **data)


def bar(left: float, width: float, height: float, class_: str, title: str) -> Markup:
    """Draw a bar that stands on the horizontal axis; all numbers are fractions of the axes."""
    style = f"{_at('left', left)};{_at('width', width)};{_at('height', height)}"
    return element("span", class_=f"column {class_}", style=style, title=title)


def _units(fraction: float) -> str:
    return f"{UNITS * fraction:.1f}".removesuffix(".0")


def _at(side: str, fraction: float) -> str:
    return f"{side}:{100 * fraction:.2f}%"
