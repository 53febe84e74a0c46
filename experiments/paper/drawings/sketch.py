"""What diagrams are drawn with: boxes, arrows, fans of lines, small bars, on a canvas without axes."""

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

Point = tuple[float, float]

INK, GREY, FAINT, LINE, PALE = "#222222", "#6f6f6f", "#9a9a9a", "#d4d4d4", "#f3f5f1"
#: A distribution; the same, lighter; and what is drawn from it or fitted to it.
GREEN, LIGHT, ACCENT = "#0f7a3d", "#a8cfb4", "#b3362b"
TEXT, SMALL = 11.0, 9.5


def figure_class() -> "type[Figure]":
    """Matplotlib's figure itself: pyplot would change the state of a process that is not ours."""
    try:
        from matplotlib.figure import Figure
    except ImportError as cause:
        raise SquadError(
            "Matplotlib is not installed, which the diagrams need. Install it: pip install 'squad-torch[plots]'"
        ) from cause
    return Figure


def array(tensor: Tensor) -> npt.NDArray[np.float64]:
    """A tensor as a flat array of float64."""
    return np.asarray(tensor.detach().flatten().double().numpy())


def blank(width: float, height: float) -> "tuple[Figure, Axes]":
    """An empty figure, and axes that measure it in inches from its lower left corner."""
    figure = figure_class()(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), label="canvas")
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def write(axes: "Axes", at: Point, text: str, *, size: float = TEXT, colour: str = INK, **more: Any) -> None:
    """Text around a point."""
    axes.text(
        *at,
        text,
        **{"fontsize": size, "color": colour, "ha": "center", "va": "center", "math_fontfamily": "cm", **more},
    )


def arrow(axes: "Axes", start: Point, end: Point, colour: str = INK) -> None:
    """From one point to another."""
    from matplotlib.patches import FancyArrowPatch

    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=11, color=colour, linewidth=1.1, shrinkA=0, shrinkB=0
        )
    )


def elbow(axes: "Axes", corners: Sequence[Point]) -> None:
    """An arrow round corners."""
    axes.plot(*zip(*corners[:-1], strict=True), color=INK, linewidth=1.1, solid_capstyle="butt")
    arrow(axes, corners[-2], corners[-1])


def box(
    axes: "Axes", center: Point, width: float, height: float, face: str = PALE, edge: str = INK, order: float = 1.0
) -> None:
    """With round corners, around its center."""
    from matplotlib.patches import FancyBboxPatch

    corner = (center[0] - width / 2, center[1] - height / 2)
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(
        FancyBboxPatch(corner, width, height, style, facecolor=face, edgecolor=edge, linewidth=1.0, zorder=order)
    )


def circle(axes: "Axes", center: Point, radius: float, face: str = "white", edge: str = INK) -> None:
    """Around its center."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle(center, radius, facecolor=face, edgecolor=edge, linewidth=1.1, zorder=2))


def fan(axes: "Axes", starts: Sequence[Point], ends: Sequence[Point], colour: str = LINE) -> None:
    """A line from each to each: a matrix."""
    from matplotlib.collections import LineCollection

    axes.add_collection(
        LineCollection([(a, b) for a in starts for b in ends], colors=colour, linewidths=0.6, zorder=0.5),
        autolim=False,
    )


def cells(
    axes: "Axes", center: Point, numbers: Sequence[float], side: float = 0.21, across: bool = True
) -> list[Point]:
    """A vector as a row (or column) of squares, darker where it is larger; where their centres are."""
    from matplotlib.patches import Rectangle

    shades = np.asarray(numbers, float)
    shades = 0.95 - 0.65 * (shades - shades.min()) / max(float(np.ptp(shades)), 1e-9)
    offsets = (np.arange(len(shades)) - (len(shades) - 1) / 2) * side
    places = [(center[0] + o, center[1]) if across else (center[0], center[1] - o) for o in offsets]
    for (x, y), shade in zip(places, shades, strict=True):
        corner = (x - side / 2, y - side / 2)
        axes.add_patch(Rectangle(corner, side, side, facecolor=str(shade), edgecolor=INK, linewidth=0.8, zorder=2))
    return places


def inset(axes: "Axes", name: str, center: Point, width: float, height: float) -> "Axes":
    """Axes of their own on a canvas, without a frame."""
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
    """One bar a bin, above or below zero; where the bars stand on the canvas."""
    panel = inset(axes, name, center, width, height)
    heights = np.asarray(heights, float)
    panel.bar(np.arange(len(heights)), heights, 0.78, color=colour)
    panel.axhline(0, color=INK, linewidth=0.8)
    low, high = min(float(heights.min()), 0.0), max(float(heights.max()), 0.0)
    air = 0.04 * (high - low)
    panel.set(xlim=(-0.6, len(heights) - 0.4), ylim=(low - air, high + air))
    return [center[0] - width / 2 + width * (place + 0.6) / (len(heights) + 0.2) for place in range(len(heights))]
