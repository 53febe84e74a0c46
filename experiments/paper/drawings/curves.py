"""How good the methods are: risk over coverage, what more samples are worth, and table 1 as a picture."""

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
    across,
    band,
    canvas,
    draw_band,
    name_ends,
    percents,
    plain_numbers,
    told,
)
from experiments.paper.jobs.measure import COVERAGES, RISKS
from experiments.paper.pages.result_tables import Variant
from experiments.paper.sources import Sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["coverage_table1", "risk_coverage", "samples"]

#: The 2-layer models, and how their lines look.
METHODS = {
    "mlp": Style(COLOURS["mlp"], (0, (5, 1.5))),
    "maxout-dropout": Style(COLOURS["maxout-dropout"]),
    "dlgm": Style(COLOURS["dlgm"], (0, (1.2, 1.2))),
    "squad": Style(COLOURS["squad"]),
}
#: In per cent: where the axes of risk over coverage begin.  Fewer rows than these hold hardly an error, and one more or
#: less of these is all that would be seen.
FIRST, FLOOR = 10.0, 0.02

#: Ways of sampling, by the row and the way.
SAMPLINGS = {
    ("samples-squad", "relaxed"): ("SQUAD, relaxed", Style(COLOURS["squad"], "-", "o")),
    ("samples-squad", "hard"): ("SQUAD, hard", Style(COLOURS["hard"], (0, (4, 1.5)), "v")),
    ("samples-squad", "stratified"): ("SQUAD, stratified", Style(COLOURS["stratified"], "-", "^")),
    ("samples-maxout-dropout", "sample"): ("Maxout MC dropout", Style(COLOURS["maxout-dropout"], "-", "s")),
}
#: What is shown of them, by its name in a record: heading, unit, and what it is multiplied by.
PANELS = {
    "coverage@0.02": ("coverage at 2 % risk, higher is better", 100.0),
    "nll": ("NLL, lower is better", 1.0),
    "aurc": ("AURC x 1000, lower is better", 1000.0),
}

#: Rows of the overview of table 1.
TABLE1 = ("mlp", "relu-dropout", "maxout-dropout", "dlgm", "squad")


def risk_coverage(sources: Sources) -> "Figure | None":
    """Risk over coverage on notMNIST, as the paper's figure has it: single networks, and ensembles."""
    variants = sources.variants("table2", tuple(METHODS))
    if variants is None:
        return None
    figure, panels = canvas(11, 5, 2, sharex=True, sharey=True)
    shown = 100 * COVERAGES >= FIRST - 1e-9
    coverage = 100 * COVERAGES[shown]
    count = len(variants[0].each)
    for variant, style in zip(variants, METHODS.values(), strict=True):
        curves = 100 * np.asarray(variant.content["curves"])[:, shown]
        draw_band(panels[0], coverage, band(curves[:-1]), style, variant.row.label, floor=FLOOR / 2)
        panels[1].plot(
            coverage, curves[-1], color=style.colour, linestyle=style.dash, linewidth=1.8, label=variant.row.label
        )
    panels[0].set(xscale="log", yscale="log", xlim=(FIRST, 100), ylim=(FLOOR, 20))
    plain_numbers(panels[0].xaxis, [10, 20, 30, 50, 70, 100])
    plain_numbers(panels[0].yaxis, [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20])
    titles = (told(count), f"the ensemble of these {count}")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        axes.set_xlabel("coverage: rows that are answered, the surest first")
        percents(axes.xaxis)
        percents(axes.yaxis)
        name_ends(axes, 0.055)
    panels[0].set_ylabel("risk: wrong among the answered")
    return figure


def samples(sources: Sources) -> "Figure | None":
    """What more samples are worth: three measures over T."""
    records = {row: sources.variants("figures", (row,)) for row, _ in SAMPLINGS}
    if any(found is None for found in records.values()):
        return None
    measured = {one.row.name.partition("/")[2]: one for one in sources.measured("figures")}
    figure, panels = canvas(11, 4.6, len(PANELS))
    count = 0
    for (row, sampling), (label, style) in SAMPLINGS.items():
        ways = [variant for variant in measured[row].variants() if variant.way.sampling == sampling]
        numbers = [variant.way.samples for variant in ways]
        count = len(ways[0].each)
        for axes, (measure, (_, scale)) in zip(panels, PANELS.items(), strict=True):
            found = band(scale * np.array([variant.values(measure) for variant in ways]).T)
            draw_band(axes, numbers, found, style, label)
    for axes, (measure, (title, _)) in zip(panels, PANELS.items(), strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        axes.set_xscale("log", base=2)
        plain_numbers(axes.xaxis, numbers)
        axes.set_xlabel("samples T")
        if measure.startswith("coverage"):
            percents(axes.yaxis)
    _legend(figure, panels[0], f"{told(count)}:")
    return figure


def _legend(figure: "Figure", axes: "Axes", title: str) -> None:
    """One line above all panels, for lines that end too close to each other to be named there."""
    from matplotlib.lines import Line2D

    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    head = Line2D([], [], linestyle="", label=title)
    figure.legend(
        handles=[head, *lines], loc="outside upper left", ncols=1 + len(lines), frameon=False, fontsize=SMALL,
        columnspacing=1.4, handletextpad=0.5,
    )  # fmt: skip


def coverage_table1(sources: Sources) -> "Figure | None":
    """Coverage of every network of table 1 at three risks, the ensembles, and the paper's."""
    variants = sources.variants("table1", TABLE1)
    if variants is None:
        return None
    figure, panels = canvas(11, 5.2, len(RISKS), sharey=True)
    for axes, risk in zip(panels, RISKS, strict=True):
        axes.set_title(f"risk at most {100 * risk:g} %", fontsize=TEXT, loc="left")
        across(axes, [place - 0.5 for place in range(1, len(TABLE1))])
        for place, (name, variant) in enumerate(zip(TABLE1, variants, strict=True)):
            _method(axes, place, variant, risk, COLOURS[name])
        axes.set_xlim(-4, 84)
        axes.set_xticks(range(0, 81, 20))
        axes.set_xlabel("coverage by SGR")
        percents(axes.xaxis)
    panels[0].set_ylim(len(TABLE1) - 0.5, -0.5)
    panels[0].set_yticks(range(len(TABLE1)), [variant.row.label for variant in variants], fontsize=TEXT)
    _marks(figure, len(variants[0].each))
    return figure


def _method(axes: "Axes", place: int, variant: Variant, risk: float, colour: str) -> None:
    """Ours above, the paper's below."""
    measure = f"coverage@{risk}"
    values = 100 * np.array(variant.values(measure))
    axes.plot(
        values, place - 0.16 + _beside(len(values)), "o", color=colour, alpha=0.5, markersize=4.5, markeredgewidth=0,
        label="each",
    )  # fmt: skip
    axes.plot([values.mean()], [place - 0.16], "|", color=INK, markersize=19, markeredgewidth=2, label="mean")
    axes.plot(
        [100 * variant.ensemble[measure]], [place - 0.16], "D", color=colour, markersize=7.5, markeredgecolor=INK,
        label="ensemble",
    )  # fmt: skip
    column = RISKS.index(risk)
    if variant.row.paper is not None:
        mean, *spread = variant.row.paper[column]
        axes.errorbar(
            [mean], [place + 0.25], xerr=[spread[0] if spread else 0.0], fmt="|", color=INK, markersize=9,
            markeredgewidth=1.6, elinewidth=1.1, capsize=0, label="paper",
        )  # fmt: skip
    elif column == 0:
        axes.text(2, place + 0.25, "not in the paper's table", fontsize=SMALL, color=GRAY, va="center")
    if variant.row.paper_ensemble is not None:
        axes.plot(
            [variant.row.paper_ensemble[column][0]], [place + 0.25], "D", markerfacecolor="white", color=INK,
            markersize=6.5, label="paper's ensemble",
        )  # fmt: skip


def _beside(count: int) -> NDArray[np.float64]:
    """Up and down a little, so that equal ones can be told apart: even, and the same every time."""
    return np.asarray(0.28 * ((np.arange(count) * 0.6180339887 + 0.5) % 1 - 0.5), dtype=np.float64)


def _marks(figure: "Figure", count: int) -> None:
    """What the marks mean."""
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
