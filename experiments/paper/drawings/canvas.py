"""What the figures of the records share: colours, means with bands, names beside lines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t

from squad.analysis.drawing import FAINT, GRAY, INK, matplotlib_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS", "FAINT", "GRAY", "INK", "LEVEL", "SMALL", "TEXT", "Band", "Style", "across", "apart", "band", "canvas",
    "dots", "draw_band", "name_ends", "percents", "plain_numbers", "told",
]  # fmt: skip

TEXT, SMALL = 10.0, 9.0
#: What a band holds the mean with.
LEVEL = 0.9
#: Colours that differ for all kinds of sight, by what they stand for.
COLOURS = {
    "squad": "#0b62a8",
    "maxout-dropout": "#d1571a",
    "relu-dropout": "#a8741a",
    "dlgm": "#1a9a77",
    "mlp": "#6b6b6b",
    "hard": "#58aee0",
    "stratified": "#8a4f9e",
}


class Band(NamedTuple):
    """A mean over networks, and between what it lies."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class Style(NamedTuple):
    """How a line looks."""

    colour: str
    dash: Any = "-"
    marker: str = ""


def band(values: ArrayLike, level: float = LEVEL) -> Band:
    """(networks, ...) -> the mean, and Student's t interval of it; of one network there is no more than itself."""
    given = np.asarray(values, dtype=np.float64)
    mean = given.mean(axis=0)
    if len(given) < 2:
        return Band(mean, mean, mean)
    half = t.ppf((1 + level) / 2, len(given) - 1) * given.std(axis=0, ddof=1) / np.sqrt(len(given))
    return Band(mean, mean - half, mean + half)


def canvas(width: float, height: float, columns: int, **more: Any) -> "tuple[Figure, list[Axes]]":
    """A figure in inches with panels side by side."""
    figure = matplotlib_figure()(figsize=(width, height), layout="constrained", facecolor="white")
    panels = list(figure.subplots(1, columns, squeeze=False, **more)[0])
    for axes in panels:
        _tidy(axes)
    return figure, panels


def _tidy(axes: "Axes") -> None:
    """Two spines, faint lines across, text that can be read."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRAY)
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=SMALL, color=GRAY)
    axes.xaxis.label.set_fontsize(TEXT)
    axes.yaxis.label.set_fontsize(TEXT)


def across(axes: "Axes", places: Sequence[float]) -> None:
    """Faint lines up instead of across, for rows of things that are separated at these places."""
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=FAINT, linewidth=0.7)
    axes.tick_params(axis="y", length=0)
    for place in places:
        axes.axhline(place, color=FAINT, linewidth=0.9)


def told(count: int) -> str:
    """What a line with a band is."""
    return f"mean of {count} networks, with its 90 % band" if count > 1 else "one network"


def draw_band(axes: "Axes", x: ArrayLike, found: Band, style: Style, label: str, floor: float | None = None) -> None:
    """The mean as a line, and the band around it, which ends at ``floor`` where a logarithmic axis does."""
    low = found.low if floor is None else np.maximum(found.low, floor)
    high = found.high if floor is None else np.maximum(found.high, floor)
    axes.fill_between(np.asarray(x, dtype=np.float64), low, high, color=style.colour, alpha=0.16, linewidth=0)
    axes.plot(
        x,
        found.mean,
        color=style.colour,
        linestyle=style.dash,
        linewidth=1.8,
        marker=style.marker,
        markersize=5,
        label=label,
    )


def dots(axes: "Axes", x: ArrayLike, values: ArrayLike, colour: str) -> None:
    """Each network's own: values are (networks, points)."""
    for each in np.asarray(values, dtype=np.float64):
        axes.plot(x, each, "o", color=colour, alpha=0.5, markersize=3.5, markeredgewidth=0, zorder=1.5)


def name_ends(axes: "Axes", gap: float) -> None:
    """Write beside the last point of every line what it is, moved apart where two are closer than ``gap``.

    Args:
        axes: whose limits are set, and whose lines have labels.
        gap: of the height of the axes.
    """
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    ends = [np.asarray(line.get_xydata(), dtype=np.float64)[-1] for line in lines]
    places = [float(axes.transLimits.transform(axes.transScale.transform(end))[1]) for end in ends]
    for line, place in zip(lines, apart(places, gap), strict=True):
        axes.annotate(
            str(line.get_label()),
            (1.0, place),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            color=str(line.get_color()),
            fontsize=SMALL,
            va="center",
            annotation_clip=False,
        )


def apart(places: Sequence[float], gap: float) -> list[float]:
    """The same numbers, none closer to the next than ``gap``, and not far from where they were.

    >>> apart([0.5, 0.52, 0.9], 0.1)
    [0.46, 0.56, 0.9]
    """
    order = np.argsort(places, kind="stable")
    # Each cluster is as wide as its members need, around their mean; clusters that touch become one.
    clusters: list[list[float]] = []
    for place in np.asarray(places, dtype=np.float64)[order]:
        clusters.append([float(place)])
        while (
            len(clusters) > 1
            and _middle(clusters[-1]) - _middle(clusters[-2]) < gap * (len(clusters[-1]) + len(clusters[-2])) / 2
        ):
            last = clusters.pop()
            clusters[-1] += last
    moved = [
        _middle(cluster) + gap * (place - (len(cluster) - 1) / 2)
        for cluster in clusters
        for place in range(len(cluster))
    ]
    found = [0.0] * len(moved)
    for place, value in zip(order, moved, strict=True):
        found[int(place)] = round(value, 6)
    return found


def _middle(cluster: Sequence[float]) -> float:
    return sum(cluster) / len(cluster)


def percents(axis: "Axis") -> None:
    """Ticks as "5 %", of an axis that is in per cent."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axis.set_minor_formatter(NullFormatter())


def plain_numbers(axis: "Axis", ticks: Sequence[float]) -> None:
    """These ticks and no others, as plain numbers, on a logarithmic axis too."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
