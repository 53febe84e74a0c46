"""Elements of diagrams: boxes, arrows, fans of lines and small bar charts on a canvas without axes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from squad.errors import SquadError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ACCENT", "FAINT", "GREEN", "GREY", "INK", "LIGHT", "LINE", "PALE", "SMALL", "TEXT", "Point", "array", "arrow",
    "bars", "blank", "box", "cells", "circle", "elbow", "fan", "figure_class", "inset", "write",
]  # fmt: skip

#: A point (x, y) on the canvas, in inches.
Point = tuple[float, float]

INK, GREY, FAINT, LINE, PALE = "#222222", "#6f6f6f", "#9a9a9a", "#d4d4d4", "#f3f5f1"
#: Colours of distributions, of distributions in lighter colour, and of samples and fits.
GREEN, LIGHT, ACCENT = "#0f7a3d", "#a8cfb4", "#b3362b"
#: Font sizes in points.
TEXT, SMALL = 11.0, 9.5


def figure_class() -> "type[Figure]":
    """Return matplotlib's Figure; pyplot is not used because it would change global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as cause:
        raise SquadError(
            "The diagrams need Matplotlib, which is not installed. Install it: pip install 'squad-torch[plots]'"
        ) from cause
    return Figure


def array(tensor: Tensor) -> npt.NDArray[np.float64]:
    """Return a tensor as a flat array of float64."""
    return np.asarray(tensor.detach().flatten().double().numpy())


def blank(width: float, height: float) -> "tuple[Figure, Axes]":
    """Make an empty figure, and axes whose coordinates are inches from its lower left corner."""
    figure = figure_class()(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), label="canvas")
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def write(axes: "Axes", at: Point, text: str, *, size: float = TEXT, colour: str = INK, **more: Any) -> None:
    """Write text centred at a point."""
    axes.text(
        *at,
        text,
        **{"fontsize": size, "color": colour, "ha": "center", "va": "center", "math_fontfamily": "cm", **more},
    )


def arrow(axes: "Axes", start: Point, end: Point, colour: str = INK) -> None:
    """Draw an arrow from one point to another."""
    from matplotlib.patches import FancyArrowPatch

    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=11, color=colour, linewidth=1.1, shrinkA=0, shrinkB=0
        )
    )


def elbow(axes: "Axes", corners: Sequence[Point]) -> None:
    """Draw an arrow along corners."""
    axes.plot(*zip(*corners[:-1], strict=True), color=INK, linewidth=1.1, solid_capstyle="butt")
    arrow(axes, corners[-2], corners[-1])


def box(
    axes: "Axes", center: Point, width: float, height: float, face: str = PALE, edge: str = INK, order: float = 1.0
) -> None:
    """Draw a box with round corners, given its center."""
    from matplotlib.patches import FancyBboxPatch

    corner = (center[0] - width / 2, center[1] - height / 2)
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(
        FancyBboxPatch(corner, width, height, style, facecolor=face, edgecolor=edge, linewidth=1.0, zorder=order)
    )


def circle(axes: "Axes", center: Point, radius: float, face: str = "white", edge: str = INK) -> None:
    """Draw a circle, given its center."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle(center, radius, facecolor=face, edgecolor=edge, linewidth=1.1, zorder=2))


def fan(axes: "Axes", starts: Sequence[Point], ends: Sequence[Point], colour: str = LINE) -> None:
    """Draw a line from every start to every end, as a symbol of a matrix."""
    from matplotlib.collections import LineCollection

    axes.add_collection(
        LineCollection([(a, b) for a in starts for b in ends], colors=colour, linewidths=0.6, zorder=0.5),
        autolim=False,
    )


def cells(
    axes: "Axes", center: Point, numbers: Sequence[float], side: float = 0.21, across: bool = True
) -> list[Point]:
    """Draw a vector as a row (or column) of squares, darker for larger values; return the centers of the squares."""
    from matplotlib.patches import Rectangle

    shades = np.asarray(numbers, float)
    shades = 0.95 - 0.65 * (shades - shades.min()) / max(float(np.ptp(shades)), 1e-9)
    offsets = (np.arange(len(shades)) - (len(shades) - 1) / 2) * side
    centers = [(center[0] + o, center[1]) if across else (center[0], center[1] - o) for o in offsets]
    for (x, y), shade in zip(centers, shades, strict=True):
        corner = (x - side / 2, y - side / 2)
        axes.add_patch(Rectangle(corner, side, side, facecolor=str(shade), edgecolor=INK, linewidth=0.8, zorder=2))
    return centers


def inset(axes: "Axes", name: str, center: Point, width: float, height: float) -> "Axes":
    """Make separate axes on a canvas, without a frame."""
    figure: Any = axes.figure
    across, up = figure.get_size_inches()
    (x, y) = center
    inset: Axes = figure.add_axes(
        ((x - width / 2) / across, (y - height / 2) / up, width / across, height / up), label=name
    )
    inset.set_axis_off()
    return inset


def bars(
    axes: "Axes",
    name: str,
    center: Point,
    heights: Sequence[float] | npt.NDArray[np.float64],
    width: float = 1.6,
    height: float = 0.62,
    colour: str | Sequence[str] = GREEN,
) -> list[float]:
    """Draw one bar per bin, above or below zero; return the x positions of the bars on the canvas."""
    panel = inset(axes, name, center, width, height)
    heights = np.asarray(heights, float)
    panel.bar(np.arange(len(heights)), heights, 0.78, color=colour)
    panel.axhline(0, color=INK, linewidth=0.8)
    low, high = min(float(heights.min()), 0.0), max(float(heights.max()), 0.0)
    margin = 0.04 * (high - low)
    panel.set(xlim=(-0.6, len(heights) - 0.4), ylim=(low - margin, high + margin))
    return [center[0] - width / 2 + width * (index + 0.6) / (len(heights) + 0.2) for index in range(len(heights))]
