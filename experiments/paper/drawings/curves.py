"""Figures that compare the methods: risk-coverage curves, the effect of more samples, and table 1 as a figure."""

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
    Style,
    band,
    describe_line,
    draw_band,
    label_line_ends,
    make_panels,
    percent_ticks,
    row_grid,
    set_ticks,
)
from experiments.paper.jobs.measure import COVERAGES, RISKS
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["coverage_table1", "risk_coverage", "samples"]

#: The 2-layer models, with the styles of their lines.
METHODS = {
    "mlp": Style(COLOURS["mlp"], (0, (5, 1.5))),
    "maxout-dropout": Style(COLOURS["maxout-dropout"]),
    "dlgm": Style(COLOURS["dlgm"], (0, (1.2, 1.2))),
    "squad": Style(COLOURS["squad"]),
}
#: Lower ends of the axes of the risk-coverage curves, in percent. Fewer rows contain hardly any errors, and the curves
#: would only show whether there is one more or less.
MIN_COVERAGE, MIN_RISK = 10.0, 0.02

#: Label and style of each line of the figure of samples, by row and sampling mode.
SAMPLING_LINES = {
    ("samples-squad", "relaxed"): ("SQUAD, relaxed", Style(COLOURS["squad"], "-", "o")),
    ("samples-squad", "hard"): ("SQUAD, hard", Style(COLOURS["hard"], (0, (4, 1.5)), "v")),
    ("samples-squad", "stratified"): ("SQUAD, stratified", Style(COLOURS["stratified"], "-", "^")),
    ("samples-maxout-dropout", "sample"): ("Maxout MC dropout", Style(COLOURS["maxout-dropout"], "-", "s")),
}
#: Panels of the figure of samples: measure in a record, title, factor.
PANELS = {
    "coverage@0.02": ("coverage at 2 % risk, higher is better", 100.0),
    "nll": ("NLL, lower is better", 1.0),
    "aurc": ("AURC x 1000, lower is better", 1000.0),
}

#: Rows of the figure of table 1.
TABLE1_ROWS = ("mlp", "relu-dropout", "maxout-dropout", "dlgm", "squad")


def risk_coverage(sources: Sources) -> "Figure | None":
    """Draw the risk-coverage curves on notMNIST, as in the paper's figure: single networks, and ensembles."""
    variants = sources.variants("table2", tuple(METHODS))
    if variants is None:
        return None
    figure, panels = make_panels(11, 5, 2, sharex=True, sharey=True)
    shown = 100 * COVERAGES >= MIN_COVERAGE - 1e-9
    coverage = 100 * COVERAGES[shown]
    count = len(variants[0].networks)
    for variant, style in zip(variants, METHODS.values(), strict=True):
        curves = 100 * np.asarray(variant.content["curves"])[:, shown]
        draw_band(panels[0], coverage, band(curves[:-1]), style, variant.row.label, floor=MIN_RISK / 2)
        panels[1].plot(
            coverage, curves[-1], color=style.colour, linestyle=style.dash, linewidth=1.8, label=variant.row.label
        )
    panels[0].set(xscale="log", yscale="log", xlim=(MIN_COVERAGE, 100), ylim=(MIN_RISK, 20))
    set_ticks(panels[0].xaxis, [10, 20, 30, 50, 70, 100])
    set_ticks(panels[0].yaxis, [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20])
    titles = (describe_line(count), f"ensemble of these {count} networks")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        axes.set_xlabel("coverage: accepted rows, the most confident first")
        percent_ticks(axes.xaxis)
        percent_ticks(axes.yaxis)
        label_line_ends(axes, 0.055)
    panels[0].set_ylabel("selective risk: errors among accepted rows")
    return figure


def samples(sources: Sources) -> "Figure | None":
    """Draw three measures over the number of samples T."""
    records = {row: sources.variants("figures", (row,)) for row, _ in SAMPLING_LINES}
    if any(variants is None for variants in records.values()):
        return None
    results = {result.row.name.partition("/")[2]: result for result in sources.row_results("figures")}
    figure, panels = make_panels(11, 4.6, len(PANELS))
    count = 0
    for (row, sampling), (label, style) in SAMPLING_LINES.items():
        variants = [variant for variant in results[row].variants() if variant.mode.sampling == sampling]
        numbers = [variant.mode.samples for variant in variants]
        count = len(variants[0].networks)
        for axes, (measure, (_, scale)) in zip(panels, PANELS.items(), strict=True):
            values = scale * np.array([variant.values(measure) for variant in variants]).T
            draw_band(axes, numbers, band(values), style, label)
    for axes, (measure, (title, _)) in zip(panels, PANELS.items(), strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        axes.set_xscale("log", base=2)
        set_ticks(axes.xaxis, numbers)
        axes.set_xlabel("samples T")
        if measure.startswith("coverage"):
            percent_ticks(axes.yaxis)
    _legend(figure, panels[0], f"{describe_line(count)}:")
    return figure


def _legend(figure: "Figure", axes: "Axes", title: str) -> None:
    """Draw a legend in one row above all panels, for lines that end too close to each other for labels."""
    from matplotlib.lines import Line2D

    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    head = Line2D([], [], linestyle="", label=title)
    figure.legend(
        handles=[head, *lines], loc="outside upper left", ncols=1 + len(lines), frameon=False, fontsize=SMALL,
        columnspacing=1.4, handletextpad=0.5,
    )  # fmt: skip


def coverage_table1(sources: Sources) -> "Figure | None":
    """Draw the coverage of every network of table 1 at three risks, of the ensembles, and of the paper."""
    variants = sources.variants("table1", TABLE1_ROWS)
    if variants is None:
        return None
    figure, panels = make_panels(11, 5.2, len(RISKS), sharey=True)
    for axes, risk in zip(panels, RISKS, strict=True):
        axes.set_title(f"risk at most {100 * risk:g} %", fontsize=TEXT, loc="left")
        row_grid(axes, [row - 0.5 for row in range(1, len(TABLE1_ROWS))])
        for row, (name, variant) in enumerate(zip(TABLE1_ROWS, variants, strict=True)):
            _draw_method(axes, row, variant, risk, COLOURS[name])
        axes.set_xlim(-4, 84)
        axes.set_xticks(range(0, 81, 20))
        axes.set_xlabel("coverage by SGR")
        percent_ticks(axes.xaxis)
    panels[0].set_ylim(len(TABLE1_ROWS) - 0.5, -0.5)
    panels[0].set_yticks(range(len(TABLE1_ROWS)), [variant.row.label for variant in variants], fontsize=TEXT)
    _mark_legend(figure, len(variants[0].networks))
    return figure


def _draw_method(axes: "Axes", row: int, variant: Variant, risk: float, colour: str) -> None:
    """Draw one row: our results above, the paper's below."""
    measure = f"coverage@{risk}"
    values = 100 * np.array(variant.values(measure))
    axes.plot(
        values, row - 0.16 + _jitter(len(values)), "o", color=colour, alpha=0.5, markersize=4.5, markeredgewidth=0,
        label="each",
    )  # fmt: skip
    axes.plot([values.mean()], [row - 0.16], "|", color=INK, markersize=19, markeredgewidth=2, label="mean")
    axes.plot(
        [100 * variant.ensemble[measure]], [row - 0.16], "D", color=colour, markersize=7.5, markeredgecolor=INK,
        label="ensemble",
    )  # fmt: skip
    column = RISKS.index(risk)
    if variant.row.paper is not None:
        mean, *spread = variant.row.paper[column]
        axes.errorbar(
            [mean], [row + 0.25], xerr=[spread[0] if spread else 0.0], fmt="|", color=INK, markersize=9,
            markeredgewidth=1.6, elinewidth=1.1, capsize=0, label="paper",
        )  # fmt: skip
    elif column == 0:
        axes.text(2, row + 0.25, "not in the paper's table", fontsize=SMALL, color=GRAY, va="center")
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
