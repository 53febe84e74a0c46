"""Figures that compare the methods: risk-coverage curves, and the effect of more samples."""

from typing import TYPE_CHECKING

import numpy as np

from experiments.paper.drawings.canvas import (
    COLOURS,
    SMALL,
    TEXT,
    Style,
    band,
    describe_line,
    draw_band,
    label_line_ends,
    make_panels,
    percent_ticks,
    set_ticks,
)
from experiments.paper.jobs.measure import COVERAGES
from experiments.paper.sources import Sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["risk_coverage", "samples"]

#: The 2-layer models, with the styles of their lines.
METHODS = {
    "mlp": Style(COLOURS["mlp"], (0, (5, 1.5))),
    "maxout-dropout": Style(COLOURS["maxout-dropout"], (0, (7, 1.5, 1.2, 1.5))),
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
