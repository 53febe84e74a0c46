"""Style of the figures: colours, axes, lines with quartiles, one legend below."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from docs.performance.records import Spread

#: Folder of the figures.
IMAGES = Path(__file__).resolve().parents[1] / "images"

#: Colour and marker of each sampling mode.
SAMPLINGS = {
    "stratified": ("#1b6ca8", "o"),
    "relaxed": ("#c0562f", "s"),
    "hard": ("#7a9a3a", "^"),
    "mean": ("#8a5fa8", "D"),
}
#: Colour of each backend, the same in every figure.
BACKENDS = {
    "eager": "#1b6ca8",
    "reference": "#c0562f",
    "eager in one piece": "#7a9a3a",
    "compile": "#8a5fa8",
    "triton": "#111111",
    "factorized": "#c9a227",
}
#: Style of lower bounds.
FLOOR: dict[str, Any] = {"color": "#555555", "linestyle": "--", "linewidth": 1.2}
#: Style of times that are computed from other times, not measured.
COMPUTED: dict[str, Any] = {"color": "#c0562f", "linestyle": ":", "linewidth": 1.6}


def plain_numbers(axis: Any, subs: tuple[float, ...] = (1.0, 2.0, 5.0)) -> None:
    """Label a logarithmic axis with plain numbers instead of powers of ten."""
    axis.set_major_locator(LogLocator(10, subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_locator(NullLocator())


def tidy(axis: Axes) -> None:
    """Add a light grid and remove the top and right spines."""
    axis.grid(color="#e6e6e6", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)


def times(axis: Axes, x: list[float], seconds: list[Spread], unit: float, **look: Any) -> None:
    """Plot medians as a line and quartiles as bars."""
    (line,) = axis.plot(x, [unit * one["median"] for one in seconds], **{"markersize": 4.5, "linewidth": 1.4, **look})
    low, high = ([unit * one[name] for one in seconds] for name in ("q25", "q75"))
    axis.vlines(x, low, high, color=line.get_color(), alpha=0.5)


def single_time(axis: Axes, x: float, seconds: Spread, unit: float, note: str, color: str, up: float = 0) -> None:
    """Plot a time that was measured for one x only, with a note beside it instead of an entry in the legend.

    Args:
        axis: Axes to plot into.
        x: Where it was measured.
        seconds: The time.
        unit: Units per second.
        note: The note, to the left of the point.
        color: Colour of both.
        up: Points by which the note is moved up, away from a neighbour's.
    """
    median = unit * seconds["median"]
    axis.plot([x], [median], color=color, marker="o", markersize=4.5, linestyle="none", label="_" + note)
    axis.vlines([x], unit * seconds["q25"], unit * seconds["q75"], color=color, alpha=0.5)
    axis.annotate(
        note, (x, median), (-7, up), textcoords="offset points", ha="right", va="center", fontsize=8, color=color
    )


def finish(figure: Figure, name: str, columns: int | None = None) -> None:
    """Add one legend for all axes below the figure, where it covers no lines, and save the figure.

    Args:
        figure: The figure; lines whose label begins with an underscore are not in the legend.
        name: Name of the file.
        columns: Columns of the legend; None for four, or three if there are more than four labels.
    """
    labels: dict[str, Any] = {}
    for axis in figure.axes:
        labels |= {str(line.get_label()): line for line in axis.get_lines()}
    labels = {label: line for label, line in labels.items() if not label.startswith("_")}
    columns = columns or (4 if len(labels) <= 4 else 3)
    figure.legend(labels.values(), labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    figure.savefig(IMAGES / f"{name}.png", dpi=140)
    plt.close(figure)


def logarithmic(axis: Axes, ticks: Iterable[float]) -> None:
    """Make both axes logarithmic, with the given ticks on the x axis."""
    axis.set(xscale="log", yscale="log")
    shown = list(ticks)
    axis.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axis.xaxis.set_minor_locator(NullLocator())
    plain_numbers(axis.yaxis)
    tidy(axis)
