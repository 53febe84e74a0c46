"""Shared parts of the figures: colours, means with interval bands, labels at the ends of lines."""

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
    "COLOURS", "FAINT", "GRAY", "INK", "LEVEL", "SMALL", "TEXT", "Band", "Style", "band", "describe_line", "draw_band",
    "draw_dots", "label_line_ends", "make_panels", "percent_ticks", "row_grid", "set_ticks", "spread_out",
]  # fmt: skip

#: Font sizes in points.
TEXT, SMALL = 10.0, 9.0
#: Confidence level of the bands.
LEVEL = 0.9
#: Colours by method or sampling mode, distinguishable with colour blindness.
COLOURS = {
    "squad": "#0b62a8",
    "squad-factorized": "#0f8f9c",
    "maxout-dropout": "#d1571a",
    "relu-dropout": "#a8741a",
    "dlgm": "#1a9a77",
    "mlp": "#6b6b6b",
    "hard": "#58aee0",
    "stratified": "#8a4f9e",
}


class Band(NamedTuple):
    """A mean over networks with the bounds of its interval."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class Style(NamedTuple):
    """Style of a line."""

    colour: str
    dash: Any = "-"
    marker: str = ""


def band(values: ArrayLike, level: float = LEVEL) -> Band:
    """Return the mean of values (networks, ...) over the networks, with its Student's t interval.

    With one network the interval is the value itself.
    """
    array = np.asarray(values, dtype=np.float64)
    mean = array.mean(axis=0)
    if len(array) < 2:
        return Band(mean, mean, mean)
    half = t.ppf((1 + level) / 2, len(array) - 1) * array.std(axis=0, ddof=1) / np.sqrt(len(array))
    return Band(mean, mean - half, mean + half)


def make_panels(width: float, height: float, columns: int, **more: Any) -> "tuple[Figure, list[Axes]]":
    """Make a figure of a size in inches with panels side by side."""
    figure = matplotlib_figure()(figsize=(width, height), layout="constrained", facecolor="white")
    panels = list(figure.subplots(1, columns, squeeze=False, **more)[0])
    for axes in panels:
        _tidy(axes)
    return figure, panels


def _tidy(axes: "Axes") -> None:
    """Keep two spines, draw a faint horizontal grid, and set readable font sizes."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRAY)
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=SMALL, color=GRAY)
    axes.xaxis.label.set_fontsize(TEXT)
    axes.yaxis.label.set_fontsize(TEXT)


def row_grid(axes: "Axes", separators: Sequence[float]) -> None:
    """Draw a vertical grid instead, and separate rows by horizontal lines at these heights."""
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=FAINT, linewidth=0.7)
    axes.tick_params(axis="y", length=0)
    for height in separators:
        axes.axhline(height, color=FAINT, linewidth=0.9)


def describe_line(count: int) -> str:
    """Return the description of a line with a band."""
    return f"mean of {count} networks with 90 % interval" if count > 1 else "one network"


def draw_band(
    axes: "Axes", x: ArrayLike, mean_band: Band, style: Style, label: str, floor: float | None = None
) -> None:
    """Draw the mean as a line, with its band, which is cut off at ``floor`` (for logarithmic axes)."""
    low = mean_band.low if floor is None else np.maximum(mean_band.low, floor)
    high = mean_band.high if floor is None else np.maximum(mean_band.high, floor)
    axes.fill_between(np.asarray(x, dtype=np.float64), low, high, color=style.colour, alpha=0.16, linewidth=0)
    axes.plot(
        x,
        mean_band.mean,
        color=style.colour,
        linestyle=style.dash,
        linewidth=1.8,
        marker=style.marker,
        markersize=5,
        label=label,
    )


def draw_dots(axes: "Axes", x: ArrayLike, values: ArrayLike, colour: str) -> None:
    """Draw values (networks, points) as one dot per network and point; a thin line joins those of each point."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) > 1:
        for place, low, high in zip(np.asarray(x), array.min(axis=0), array.max(axis=0), strict=True):
            axes.plot([place, place], [low, high], color=colour, linewidth=0.8, alpha=0.5, zorder=1.4)
    for network in array:
        axes.plot(x, network, "o", color=colour, alpha=0.5, markersize=3.5, markeredgewidth=0, zorder=1.5)


def label_line_ends(axes: "Axes", gap: float) -> None:
    """Write the label of every line next to its last point, without overlaps.

    Args:
        axes: Axes with their final limits; only lines with a label are named.
        gap: Minimum distance of labels, as a fraction of the height of the axes.
    """
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    ends = [np.asarray(line.get_xydata(), dtype=np.float64)[-1] for line in lines]
    heights = [float(axes.transLimits.transform(axes.transScale.transform(end))[1]) for end in ends]
    for line, height in zip(lines, spread_out(heights, gap), strict=True):
        axes.annotate(
            str(line.get_label()),
            (1.0, height),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            color=str(line.get_color()),
            fontsize=SMALL,
            va="center",
            annotation_clip=False,
        )


def spread_out(positions: Sequence[float], gap: float) -> list[float]:
    """Move positions as little as needed for a distance of at least ``gap`` between neighbours; keep their order.

    >>> spread_out([0.5, 0.52, 0.9], 0.1)
    [0.46, 0.56, 0.9]
    """
    order = np.argsort(positions, kind="stable")
    # Each cluster is as wide as its members need, around their mean; clusters that touch are merged.
    clusters: list[list[float]] = []
    for position in np.asarray(positions, dtype=np.float64)[order]:
        clusters.append([float(position)])
        while (
            len(clusters) > 1
            and _middle(clusters[-1]) - _middle(clusters[-2]) < gap * (len(clusters[-1]) + len(clusters[-2])) / 2
        ):
            last = clusters.pop()
            clusters[-1] += last
    moved = [
        _middle(cluster) + gap * (index - (len(cluster) - 1) / 2)
        for cluster in clusters
        for index in range(len(cluster))
    ]
    result = [0.0] * len(moved)
    for index, value in zip(order, moved, strict=True):
        result[int(index)] = round(value, 6)
    return result


def _middle(cluster: Sequence[float]) -> float:
    return sum(cluster) / len(cluster)


def percent_ticks(axis: "Axis") -> None:
    """Format the ticks of an axis in percent as "5 %"."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axis.set_minor_formatter(NullFormatter())


def set_ticks(axis: "Axis", ticks: Sequence[float]) -> None:
    """Show only these ticks, as plain numbers, on linear and logarithmic axes."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
