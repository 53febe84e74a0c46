"""How the page's pictures look: colours, axes, lines with their quartiles, one legend below."""

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

IMAGES = Path(__file__).resolve().parents[1] / "images"

#: Colour and marker of a way to sample.
SAMPLINGS = {
    "stratified": ("#1b6ca8", "o"),
    "relaxed": ("#c0562f", "s"),
    "hard": ("#7a9a3a", "^"),
    "mean": ("#8a5fa8", "D"),
}
#: Colour of a backend, the same in every picture.
BACKENDS = {
    "eager": "#1b6ca8",
    "reference": "#c0562f",
    "eager in one piece": "#7a9a3a",
    "compile": "#8a5fa8",
    "triton": "#111111",
    "factorized": "#c9a227",
}
FLOOR: dict[str, Any] = {"color": "#555555", "linestyle": "--", "linewidth": 1.2}


def plain_numbers(axis: Any, subs: tuple[float, ...] = (1.0, 2.0, 5.0)) -> None:
    """A logarithmic axis with numbers as people write them."""
    axis.set_major_locator(LogLocator(10, subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_locator(NullLocator())


def tidy(axis: Axes) -> None:
    axis.grid(color="#e6e6e6", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)


def times(axis: Axes, x: list[float], seconds: list[Spread], unit: float, **look: Any) -> None:
    """Medians as a line, quartiles as bars."""
    (line,) = axis.plot(x, [unit * one["median"] for one in seconds], **{"markersize": 4.5, "linewidth": 1.4, **look})
    low, high = ([unit * one[name] for one in seconds] for name in ("q25", "q75"))
    axis.vlines(x, low, high, color=line.get_color(), alpha=0.5)


def finish(figure: Figure, name: str) -> None:
    """One legend below for all axes, as lines leave no room inside; then save."""
    labels: dict[str, Any] = {}
    for axis in figure.axes:
        labels |= {str(line.get_label()): line for line in axis.get_lines()}
    columns = 4 if len(labels) <= 4 else 3
    figure.legend(labels.values(), labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    figure.savefig(IMAGES / f"{name}.png", dpi=140)
    plt.close(figure)


def logarithmic(axis: Axes, ticks: Iterable[float]) -> None:
    axis.set(xscale="log", yscale="log")
    shown = list(ticks)
    axis.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axis.xaxis.set_minor_locator(NullLocator())
    plain_numbers(axis.yaxis)
    tidy(axis)
