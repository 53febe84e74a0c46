"""Figures of the latents of one network, drawn by :mod:`squad.analysis`, and of the settings of a study."""

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
from squad.search.pairwise import KEY_SIZE
from squad.search.pairwise import pairwise as draw_pairwise
from squad.search.search_record import Search

if TYPE_CHECKING:
    from matplotlib.figure import Figure, FigureBase

__all__ = ["activation", "pairwise", "stereotypes", "weights", "with_best_bins"]

#: Study of the figure of pairs of settings.
STUDY = "fashion-mnist/squad"
#: Only trials that agree with the best one in these settings, of bin values and prior, are shown.
FILTERS = ("network.spacing", "network.learn_values", "network.prior")
#: Number of small panels per row.
COLUMNS = 8


def stereotypes(sources: Sources, layer: int) -> "Figure | None":
    """Draw the shapes of the distributions that a layer predicts."""
    record = sources.record("figures/latents")
    if record is None:
        return None
    probe = next(one for one in record.results["probes"]["stereotypes"] if one["layer"] == layer)
    nearest = [Nearest.of(one) for one in probe["nearest"]]
    multimodal = percent(sum(probe["modes"][1:]))
    return draw_stereotypes(
        nearest,
        f"Layer {layer}: {multimodal} of the {nearest[0].total:,} predicted distributions have at least two modes",
    )


def activation(sources: Sources) -> "Figure | None":
    """Draw the activation function of a unit over its one input, and those of all units of its layer."""
    record = sources.record("figures/activation")
    if record is None:
        return None
    probe = record.results["probes"]["activation"]
    unit, others = Activation.of(probe["unit"]), probe["others"]
    rows = -(-len(others) // COLUMNS)
    heights = [5.4, 0.75 + 0.95 * rows]
    figure = matplotlib_figure()(figsize=(11, sum(heights)), layout="constrained", facecolor="white")
    parts = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    draw_activation(unit, parts[0])
    _draw_all_units(parts[1], others, unit)
    return figure


def _draw_all_units(part: "FigureBase", others: Any, unit: Activation) -> None:
    """Draw the expectation of every unit over its own input, on a common vertical scale."""
    rows = -(-len(others) // COLUMNS)
    part.suptitle(
        f"Expected value of each of the {len(others)} units of the layer over its own input (central 99.8 % of the "
        "rows)",
        x=0.008, ha="left", fontsize=10,
    )  # fmt: skip
    margin = 0.08 * float(np.ptp(unit.values)) or 1.0
    for index, axes in enumerate(part.subplots(rows, COLUMNS, squeeze=False, sharey=True).flat):
        if index >= len(others):
            axes.set_axis_off()
            continue
        highlighted = index + 1 == unit.unit
        axes.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
        axes.plot(others[index]["position"], others[index]["mean"], color=RED if highlighted else BLUE, linewidth=1.7)
        axes.set_ylim(unit.values.min() - margin, unit.values.max() + margin)
        axes.set_xticks([])
        axes.tick_params(labelsize=8, length=2)
        axes.spines[["top", "right"]].set_visible(False)
        colour = RED if highlighted else "k"
        axes.text(0.04, 0.96, str(index + 1), transform=axes.transAxes, fontsize=9, va="top", color=colour)


def weights(sources: Sources) -> "Figure | None":
    """Draw the weights of each bin of a unit, and rows for which it predicts a typical distribution."""
    record = sources.record("figures/latents")
    if record is None:
        return None
    probe = record.results["probes"]["weights"]
    cases = [Found.of(case) for case in probe["cases"]]
    figure = draw_weights(
        BinWeights.of(probe["weights"]), cases, shape=probe["shape"], pictures=np.array(probe["pictures"])
    )
    # The pictures of the rows are the first axes of the lower part.
    for axes, name in zip(figure.subfigs[-1].axes, probe["classes"], strict=False):
        axes.set_xlabel(name, fontsize=9)
    return figure


def with_best_bins(search: Search) -> Search:
    """Return the search with only the trials that share the best one's bin values and prior.

    Settings that no longer vary are removed from the search space; with Gaussian spacing also ``limit``, which only
    linear spacing uses.
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
    """Draw each pair of settings of the study, for trials with the best bin values and prior."""
    search = sources.search(STUDY)
    if search is None or search.best() is None:
        return None
    best, shown = search.best(), with_best_bins(search)
    assert best is not None
    figure = draw_pairwise(shown)
    filters = [f"{name.partition('.')[2]} = {best.settings[name]}" for name in FILTERS]
    note = (
        f"{len(shown.measured)} of {len(search.measured)} trials: those with the best trial's bin values and prior, "
        f"{', '.join(filters)}."
    )
    if best.settings["network.spacing"] == "gaussian":
        note += " The limit is not shown: only linear spacing has one."
    width, height = (float(inches) for inches in figure.get_size_inches())
    # Below the key of colours and rings.
    position = ((width - KEY_SIZE[0] - 0.15) / width, 1 - (KEY_SIZE[1] + 0.2) / height)
    figure.text(*position, "\n".join(textwrap.wrap(note, 54)), fontsize=8.5, va="top", linespacing=1.45)
    return figure
