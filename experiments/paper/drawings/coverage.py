"""Figures of coverage: table 1 at three risks, and all three data sets at one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.paper.drawings.canvas import (
    COLOURS,
    GRAY,
    INK,
    SMALL,
    TEXT,
    make_panels,
    percent_ticks,
    row_grid,
)
from experiments.paper.jobs.measure import RISKS
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["overview", "table1"]

#: Rows of the figure of table 1.
TABLE1_ROWS = ("mlp", "relu-dropout", "maxout-dropout", "dlgm", "squad")
#: Rows of the overview.
OVERVIEW_ROWS = ("mlp", "maxout-dropout", "dlgm", "squad", "squad-factorized")
#: Panels of the overview: table, title, and the rows that it must have.
OVERVIEW_PANELS = {
    "table1": ("Fashion-MNIST", ("mlp", "maxout-dropout", "dlgm", "squad")),
    "table2": ("notMNIST", ("mlp", "maxout-dropout", "squad")),
    "table3": ("SVHN", ("mlp", "maxout-dropout", "squad", "squad-factorized")),
}
#: Risk of the overview.
OVERVIEW_RISK = 0.01


def table1(sources: Sources) -> "Figure | None":
    """Draw the coverage of every network of table 1 at three risks, of the ensembles, and of the paper."""
    variants = sources.variants("table1", TABLE1_ROWS)
    if variants is None:
        return None
    figure, panels = make_panels(11, 5.2, len(RISKS), sharey=True)
    for axes, risk in zip(panels, RISKS, strict=True):
        _prepare(axes, f"risk at most {100 * risk:g} %", len(variants))
        for row, (name, variant) in enumerate(zip(TABLE1_ROWS, variants, strict=True)):
            _draw_method(axes, row, variant, risk, COLOURS[name])
            if variant.row.paper is None and risk == RISKS[0]:
                _note(axes, row, "not in the paper's table")
        axes.set_xlim(-4, 84)
    _name_rows(panels[0], [variant.row.label for variant in variants])
    _mark_legend(figure, len(variants[0].networks))
    return figure


def overview(sources: Sources) -> "Figure | None":
    """Draw the coverage at one risk on all data sets: every network, the ensembles, and the paper."""
    if any(sources.variants(plan, names) is None for plan, (_, names) in OVERVIEW_PANELS.items()):
        return None
    figure, panels = make_panels(11, 5.2, len(OVERVIEW_PANELS), sharey=True)
    labels: dict[str, str] = {}
    count = 0
    for axes, (plan, (title, _)) in zip(panels, OVERVIEW_PANELS.items(), strict=True):
        _prepare(axes, title, len(OVERVIEW_ROWS))
        for row, name in enumerate(OVERVIEW_ROWS):
            variant = sources.variant(f"{plan}/{name}")
            if variant is None:
                _note(axes, row - 0.25, "not run on this data set")
                continue
            labels[name] = variant.row.label
            count = max(count, len(variant.networks))
            _draw_method(axes, row, variant, OVERVIEW_RISK, COLOURS[name])
            if variant.row.paper is None:
                _note(axes, row, "not in the paper's table")
        axes.set_xlim(-4, 104)
    _name_rows(panels[0], [labels[name] for name in OVERVIEW_ROWS])
    _mark_legend(figure, count)
    return figure


def _prepare(axes: "Axes", title: str, rows: int) -> None:
    axes.set_title(title, fontsize=TEXT, loc="left")
    row_grid(axes, [row - 0.5 for row in range(1, rows)])
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("coverage by SGR")
    percent_ticks(axes.xaxis)


def _name_rows(axes: "Axes", labels: Sequence[str]) -> None:
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), labels, fontsize=TEXT)


def _note(axes: "Axes", row: float, text: str) -> None:
    axes.text(2, row + 0.25, text, fontsize=SMALL, color=GRAY, va="center")


def _draw_method(axes: "Axes", row: int, variant: Variant, risk: float, colour: str) -> None:
    """Draw one row: our results above, the paper's below."""
    measure = f"coverage@{risk}"
    values = 100 * np.array(variant.values(measure))
    height = row - 0.16
    axes.plot(
        [values.min(), values.max()], [height, height], color=colour, linewidth=0.8, alpha=0.5, zorder=1.5,
        label="_range",
    )  # fmt: skip
    axes.plot(
        values, height + _jitter(len(values)), "o", color=colour, alpha=0.5, markersize=4.5, markeredgewidth=0,
        label="each",
    )  # fmt: skip
    axes.plot([values.mean()], [height], "|", color=INK, markersize=19, markeredgewidth=2, label="mean")
    axes.plot(
        [100 * variant.ensemble[measure]], [height], "D", color=colour, markersize=7.5, markeredgecolor=INK,
        label="ensemble",
    )  # fmt: skip
    none = int((values == 0).sum())
    if none:
        axes.text(3.5, height - 0.2, f"{none} of {len(values)}: 0 %", fontsize=SMALL - 1, color=GRAY, va="center")
    _draw_paper(axes, row, variant, RISKS.index(risk))


def _draw_paper(axes: "Axes", row: int, variant: Variant, column: int) -> None:
    """Draw the paper's results in the lower half of a row."""
    if variant.row.paper is not None:
        mean, *spread = variant.row.paper[column]
        axes.errorbar(
            [mean], [row + 0.25], xerr=[spread[0] if spread else 0.0], fmt="|", color=INK, markersize=9,
            markeredgewidth=1.6, elinewidth=1.1, capsize=0, label="paper",
        )  # fmt: skip
        if mean == 0:
            axes.text(3.5, row + 0.25, "paper: 0 %", fontsize=SMALL - 1, color=GRAY, va="center")
    if variant.row.paper_ensemble is not None:
        axes.plot(
            [variant.row.paper_ensemble[column][0]], [row + 0.25], "D", markerfacecolor="white", color=INK,
            markersize=6.5, label="paper's ensemble",
        )  # fmt: skip


def _jitter(count: int) -> NDArray[np.float64]:
    """Return small vertical offsets that make equal values distinguishable: even and deterministic."""
    return np.asarray(0.28 * ((np.arange(count) * 0.6180339887 + 0.5) % 1 - 0.5), dtype=np.float64)


def _mark_legend(figure: "Figure", count: int) -> None:
    """Draw the legend of the marks."""
    from matplotlib.lines import Line2D

    def mark(marker: str, label: str, **more: Any) -> Line2D:
        return Line2D([], [], marker=marker, linestyle="", label=label, **more)

    handles: Sequence[Line2D] = [
        mark("o", f"ours: each of {count} networks", color=GRAY, markersize=5),
        mark("|", "their mean", color=INK, markersize=13, markeredgewidth=2),
        mark("D", "their ensemble", color=GRAY, markeredgecolor=INK, markersize=7),
        Line2D([], [], color=INK, linewidth=1.1, marker="|", markersize=8, label="paper: mean and 2 std"),
        mark("D", "paper: ensemble", color=INK, markerfacecolor="white", markersize=6.5),
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=SMALL,
        columnspacing=1.5, handletextpad=0.5,
    )  # fmt: skip
