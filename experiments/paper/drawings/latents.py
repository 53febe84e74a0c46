"""What is inside: latents of one network, as :mod:`squad.analysis` draws them, and the settings of a study."""

import dataclasses
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.paper.sources import Sources
from squad.analysis.activations import Activation
from squad.analysis.drawing import BLUE, FAINT, RED, matplotlib_figure, percent
from squad.analysis.latent_figures import draw_activation, draw_stereotypes, draw_weights
from squad.analysis.shapes import Found, Nearest
from squad.analysis.unit_weights import BinWeights
from squad.search.pairwise import KEY
from squad.search.pairwise import pairwise as draw_pairwise
from squad.search.search_record import Search

if TYPE_CHECKING:
    from matplotlib.figure import Figure, FigureBase

__all__ = ["activation", "filtered", "pairwise", "stereotypes", "weights"]

#: The study that is shown, and settings of which only the best trial's are: those of bin values and prior.
STUDY = "fashion-mnist/squad"
FILTERS = ("network.spacing", "network.learn_values", "network.prior")
#: Small pictures of the other units, side by side.
COLUMNS = 8


def stereotypes(sources: Sources, layer: int) -> "Figure | None":
    """Shapes of the distributions that a layer predicts."""
    record = sources.record("figures/latents")
    if record is None:
        return None
    found = next(one for one in record.results["probes"]["stereotypes"] if one["layer"] == layer)
    near = [Nearest.of(one) for one in found["nearest"]]
    several = percent(sum(found["modes"][1:]))
    return draw_stereotypes(
        near, f"Layer {layer}: {several} of the {near[0].total:,} predicted distributions have two modes or more"
    )


def activation(sources: Sources) -> "Figure | None":
    """What a unit puts out along its one input, and what all others do."""
    record = sources.record("figures/activation")
    if record is None:
        return None
    found = record.results["probes"]["activation"]
    unit, others = Activation.of(found["unit"]), found["others"]
    rows = -(-len(others) // COLUMNS)
    heights = [5.4, 0.75 + 0.95 * rows]
    figure = matplotlib_figure()(figsize=(11, sum(heights)), layout="constrained", facecolor="white")
    parts = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    draw_activation(unit, parts[0])
    _others(parts[1], others, unit)
    return figure


def _others(part: "FigureBase", others: Any, unit: Activation) -> None:
    """The expectation of every unit along its own input, all to one height."""
    rows = -(-len(others) // COLUMNS)
    part.suptitle(
        f"Expected value of each of the {len(others)} units of the layer, over its own input (the central 99.8 % of "
        "the rows)",
        x=0.008, ha="left", fontsize=10,
    )  # fmt: skip
    air = 0.08 * float(np.ptp(unit.values)) or 1.0
    for place, axes in enumerate(part.subplots(rows, COLUMNS, squeeze=False, sharey=True).flat):
        if place >= len(others):
            axes.set_axis_off()
            continue
        this = place + 1 == unit.unit
        axes.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
        axes.plot(others[place]["position"], others[place]["mean"], color=RED if this else BLUE, linewidth=1.7)
        axes.set_ylim(unit.values.min() - air, unit.values.max() + air)
        axes.set_xticks([])
        axes.tick_params(labelsize=8, length=2)
        axes.spines[["top", "right"]].set_visible(False)
        axes.text(
            0.04, 0.96, str(place + 1), transform=axes.transAxes, fontsize=9, va="top", color=RED if this else "k"
        )


def weights(sources: Sources) -> "Figure | None":
    """What makes each value of a unit likely, and rows for which it predicts something typical."""
    record = sources.record("figures/latents")
    if record is None:
        return None
    found = record.results["probes"]["weights"]
    cases = [Found.of(case) for case in found["cases"]]
    figure = draw_weights(
        BinWeights.of(found["weights"]), cases, shape=found["shape"], pictures=np.array(found["pictures"])
    )
    # Their pictures come first in the part below.
    for axes, name in zip(figure.subfigs[-1].axes, found["classes"], strict=False):
        axes.set_xlabel(name, fontsize=9)
    return figure


def filtered(search: Search) -> Search:
    """Only trials with the best one's bin values and prior; settings that no longer vary are not searched any more.

    With Gaussian spacing that is true of ``limit``, too, which is that of linear spacing.
    """
    best = search.best()
    assert best is not None
    fixed = [*FILTERS, *(["network.limit"] if best.settings["network.spacing"] == "gaussian" else [])]
    trials = tuple(
        trial for trial in search.trials if all(trial.settings.get(name) == best.settings[name] for name in FILTERS)
    )
    space = {
        table: dict(content) if isinstance(content, dict) else content
        for table, content in search.record.settings["space"].items()
    }
    for name in fixed:
        table, _, key = name.partition(".")
        space[table][key] = best.settings[name]
    record = dataclasses.replace(search.record, settings={**search.record.settings, "space": space})
    return Search(record, trials)


def pairwise(sources: Sources) -> "Figure | None":
    """Each pair of settings of the study, among trials with the best bin values and prior."""
    search = sources.search(STUDY)
    if search is None or search.best() is None:
        return None
    best, kept = search.best(), filtered(search)
    assert best is not None
    figure = draw_pairwise(kept)
    words = [f"{name.partition('.')[2]} = {best.settings[name]}" for name in FILTERS]
    told = (
        f"{len(kept.measured)} of {len(search.measured)} trials: those with the best one's bin values and prior, "
        f"{', '.join(words)}."
    )
    if best.settings["network.spacing"] == "gaussian":
        told += " Its limit is not shown: only linear spacing has one."
    width, height = (float(inches) for inches in figure.get_size_inches())
    # Below what colours and rings mean.
    place = ((width - KEY[0] - 0.15) / width, 1 - (KEY[1] + 0.2) / height)
    figure.text(*place, "\n".join(textwrap.wrap(told, 54)), fontsize=8.5, va="top", linespacing=1.45)
    return figure
