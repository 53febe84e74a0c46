"""Figures of the claims in the paper's text: depth, bins as a bottleneck, ablation of the bins, and their cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
    draw_dots,
    label_line_ends,
    make_panels,
    percent_ticks,
    row_grid,
    set_ticks,
)
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ablation", "bins", "cost", "depth", "fit_line", "format_r_squared"]

#: Grids over depth, with the label and colour of their lines.
DEPTHS = {"depth-squad": ("SQUAD", COLOURS["squad"]), "depth-mlp": ("Plain MLP", COLOURS["mlp"])}
#: Another grid over depth, drawn if it exists; it shows whether the sum of many layers' KL is what harms deep networks.
SMALL_KL_GRID, SMALL_KL_LABEL = "depth-squad-light", "SQUAD, KL / 9"
#: Styles of the lines of the first and second layer.
LAYER_STYLES = (Style(COLOURS["squad"], "-", "o"), Style(COLOURS["dlgm"], (0, (4, 1.5)), "s"))
#: Labels of the bin values in the ablation.
BIN_VALUE_LABELS = {"per_layer": "learned per layer", "per_neuron": "learned per neuron", "fixed": "fixed values"}
#: Panels of the ablation: measure in a record, title, factor.
PANELS = {
    "coverage@0.01": ("coverage at 1 % risk, higher is better", 100),
    "coverage@0.02": ("coverage at 2 % risk, higher is better", 100),
    "nll": ("NLL, lower is better", 1),
}
#: Colours of the bin values in the ablation.
BIN_VALUE_COLOURS = {"fixed": COLOURS["mlp"], "per_layer": COLOURS["squad"], "per_neuron": COLOURS["maxout-dropout"]}


def _setting(variant: Variant, name: str) -> Any:
    """Return a setting of the network that a grid varies."""
    return variant.row.content["network"][name]


def _percentages(variants: Sequence[Variant], measure: str) -> Any:
    """Return a measure in percent, (networks, variants)."""
    return 100 * np.array([variant.values(measure) for variant in variants]).T


def depth(sources: Sources) -> "Figure | None":
    """Draw the spread of activations per layer, and accuracy and coverage over the depth."""
    found = {name: sources.grid("figures", name) for name in DEPTHS}
    grids = {name: grid for name, grid in found.items() if grid is not None}
    if len(grids) < len(DEPTHS):
        return None
    figure, panels = make_panels(11, 4.4, 3, width_ratios=[1.1, 1, 1])
    for name, (label, colour) in DEPTHS.items():
        depths = [len(_setting(variant, "hidden")) for variant in grids[name]]
        _draw_spreads(panels[0], grids[name][int(np.argmax(depths))], label, colour)
        for axes, measure in zip(panels[1:], ("accuracy", "coverage@0.02"), strict=True):
            values = _percentages(grids[name], measure)
            draw_dots(axes, depths, values, colour)
            draw_band(axes, depths, band(values), Style(colour, "-", "o"), label)
    small_kl = sources.grid("figures", SMALL_KL_GRID) or []
    for axes, measure in zip(panels[1:], ("accuracy", "coverage@0.02"), strict=True):
        if small_kl:
            small_kl_depths = [len(_setting(variant, "hidden")) for variant in small_kl]
            dashed = Style(COLOURS["hard"], (0, (4, 1.5)), "v")
            draw_dots(axes, small_kl_depths, _percentages(small_kl, measure), dashed.colour)
            draw_band(axes, small_kl_depths, band(_percentages(small_kl, measure)), dashed, SMALL_KL_LABEL)
    titles = (f"spread of activations, {max(depths)} hidden layers", "test accuracy", "coverage at 2 % risk (SGR)")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        set_ticks(axes.xaxis, range(1, max(depths) + 1))
    panels[0].set(xlabel="layer", ylabel="standard deviation over rows and units")
    panels[0].set_ylim(bottom=0)
    for axes in panels[1:]:
        axes.set_xlabel("hidden layers of 32")
        axes.set_ylim(-2, 100)
        percent_ticks(axes.yaxis)
    for axes in panels:
        label_line_ends(axes, 0.06)
    _describe_marks(figure, len(grids[name][0].networks))
    return figure


def _draw_spreads(axes: "Axes", variant: Variant, label: str, colour: str) -> None:
    """Draw the spread per hidden layer, before and after training; the logits are left out, as nothing bounds them."""
    for when, (word, dash) in {"before": ("untrained", (0, (2, 1.5))), "after": ("trained", "-")}.items():
        spreads = np.array([layer["std"] for layer in variant.record.results["probes"]["spread"][when][:-1]]).T
        draw_band(axes, range(1, spreads.shape[1] + 1), band(spreads), Style(colour, dash, "o"), f"{label}, {word}")


def _describe_marks(figure: "Figure", count: int) -> None:
    figure.supxlabel(f"lines: {describe_line(count)}; dots: single networks", fontsize=SMALL)


def bins(sources: Sources) -> "Figure | None":
    """Draw the information that a latent carries about its layer's input, and coverage, over the number of bins."""
    variants = sources.grid("figures", "bins")
    if variants is None:
        return None
    numbers = [_setting(variant, "bins") for variant in variants]
    figure, (left, right) = make_panels(10, 4.6, 2)
    left.plot(numbers, np.log2(numbers), color=INK, linewidth=1.2, linestyle=(0, (1, 1.5)), label="bound: log₂ C")
    probed = [variant.record.results["probes"]["information"] for variant in variants]
    for layer, style in enumerate(LAYER_STYLES[: len(probed[0])]):
        each = np.array([one[layer]["mean"] for one in probed]).T
        draw_band(left, numbers, band(each), style, f"layer {layer + 1}, mean")
        largest = np.array([one[layer]["largest"] for one in probed]).mean(axis=1)
        left.plot(
            numbers, largest, color=style.colour, linestyle=(0, (1, 1)), linewidth=1.3, alpha=0.8,
            label=f"layer {layer + 1}, largest",
        )  # fmt: skip
    for measure, text, style in (
        ("coverage@0.02", "at 2 % risk", Style(COLOURS["squad"], "-", "o")),
        ("coverage@0.01", "at 1 % risk", Style(COLOURS["hard"], "-", "s")),
    ):
        draw_dots(right, numbers, _percentages(variants, measure), style.colour)
        draw_band(right, numbers, band(_percentages(variants, measure)), style, text)
    titles = ("mutual information of a latent and its layer's input", "coverage")
    for axes, title in zip((left, right), titles, strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        axes.set_xscale("log")
        axes.set_xlim(min(numbers) / 1.08, max(numbers) * 1.08)
        set_ticks(axes.xaxis, numbers)
        axes.set_xlabel("bins C")
    left.set_ylabel("bits")
    left.set_ylim(bottom=0)
    percent_ticks(right.yaxis)
    for axes in (left, right):
        label_line_ends(axes, 0.06)
    _describe_marks(figure, len(variants[0].networks))
    return figure


def ablation(sources: Sources) -> "Figure | None":
    """Draw three measures for every combination of spacing, prior and learned values."""
    variants = sources.grid("figures", "ablation")
    if variants is None:
        return None
    kinds = list(dict.fromkeys((_setting(one, "spacing"), _setting(one, "prior")) for one in variants))
    learned = list(dict.fromkeys(_setting(one, "learn_values") for one in variants))
    step = len(learned) + 1  # a heading, and one row each
    figure, panels = make_panels(11, 1.5 + 0.3 * step * len(kinds), len(PANELS), sharey=True)
    figure.set_layout_engine("constrained", wspace=0.05)  # keeps the outermost ticks of two panels apart
    for axes, (measure, (title, scale)) in zip(panels, PANELS.items(), strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        row_grid(axes, [step * group - 0.5 for group in range(1, len(kinds))])
        for variant in variants:
            kind = _setting(variant, "learn_values")
            group = kinds.index((_setting(variant, "spacing"), _setting(variant, "prior")))
            row = step * group + 1 + learned.index(kind)
            _draw_mean(axes, row, scale * np.array(variant.values(measure)), BIN_VALUE_COLOURS[kind])
        axes.locator_params(axis="x", nbins=4)
        if scale == 100:
            percent_ticks(axes.xaxis)
    names = []
    for spacing, prior in kinds:
        heading = f"{spacing} spacing, {prior} prior".replace("gaussian", "Gaussian")
        names += [heading, *(BIN_VALUE_LABELS[kind] for kind in learned)]
    panels[0].set_yticks(range(len(names)), names, fontsize=SMALL)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    for row, label in enumerate(panels[0].get_yticklabels()):
        if row % step:
            label.set_color(BIN_VALUE_COLOURS[learned[row % step - 1]])
        else:
            label.set_fontweight("bold")
    count = len(variants[0].networks)
    text = f"vertical marks: mean of {count} networks; thick bars: its 90 % interval; dots: single networks"
    figure.supxlabel(text if count > 1 else "one network", fontsize=SMALL)
    return figure


def _draw_mean(axes: "Axes", row: int, values: Any, colour: str) -> None:
    """Draw the mean over the networks with its interval, and each network."""
    mean, low, high = band(values)
    axes.plot([low, high], [row, row], color=colour, linewidth=3.5, alpha=0.35, solid_capstyle="butt")
    axes.plot([values.min(), values.max()], [row, row], color=colour, linewidth=0.8, alpha=0.5)
    axes.plot(values, np.full(len(values), row), "o", color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
    axes.plot([mean], [row], "|", color=colour, markersize=13, markeredgewidth=2.2, label="mean")


def cost(sources: Sources) -> "Figure | None":
    """Draw the time of an epoch, and the number of weights, over the number of bins."""
    variants = sources.grid("figures", "bins")
    if variants is None:
        return None
    numbers = np.array([_setting(variant, "bins") for variant in variants], dtype=np.float64)
    timed = [variant.record.results["probes"]["epoch"] for variant in variants]
    median, low, high = (1000 * np.array([one[name] for one in timed]) for name in ("median", "q25", "q75"))
    weights = np.array([variant.record.results["weights"] for variant in variants], dtype=np.float64)
    figure, (left, right) = make_panels(10, 4.4, 2)
    left.errorbar(
        numbers, median, yerr=[median - low, high - median], fmt="o", color=COLOURS["squad"], markersize=5.5, capsize=3,
        elinewidth=1.1, label="_measured",
    )  # fmt: skip
    right.plot(numbers, weights / 1e6, "o", color=COLOURS["squad"], markersize=5.5, label="_counted")
    _draw_fit(left, numbers, median, "{intercept:.1f} ms + {slope:.3f} ms x C")
    _draw_fit(right, numbers, weights, "{intercept:,.0f} + {slope:,.0f} C weights", 1e6)
    machine = variants[0].record.machine
    left.set_title(
        f"an epoch of {timed[0]['steps']} steps of {timed[0]['batch_size']} rows, on "
        f"{machine.get('gpu') or machine['cpu']}",
        fontsize=TEXT,
        loc="left",
    )
    left.set_ylabel("milliseconds")
    right.set_title("number of weights of a network", fontsize=TEXT, loc="left")
    right.set_ylabel("millions")
    return figure


def _draw_fit(axes: "Axes", x: Any, y: Any, formula: str, unit: float = 1.0) -> None:
    """Draw a straight line fitted to points, with its formula and R²."""
    slope, intercept, r2 = fit_line(x, y)
    ends = np.array([0.0, x.max()])
    axes.plot(ends, (intercept + slope * ends) / unit, color=GRAY, linewidth=1.2, zorder=1, label="_line")
    text = f"{formula.format(slope=slope, intercept=intercept)},  R² = {format_r_squared(r2)}"
    axes.text(0.04, 0.95, text, transform=axes.transAxes, fontsize=TEXT, va="top", color=INK)
    axes.set_xlabel("bins C")
    axes.set_xlim(0, 1.04 * x.max())
    axes.set_ylim(0, 1.2 * y.max() / unit)


def fit_line(x: Any, y: Any) -> tuple[float, float, float]:
    """Return slope, intercept and R² of the least-squares line."""
    slope, intercept = np.polyfit(x, y, 1)
    residuals = y - (intercept + slope * x)
    return float(slope), float(intercept), float(1 - (residuals**2).sum() / ((y - y.mean()) ** 2).sum())


def format_r_squared(value: float) -> str:
    """Format R² with three digits, or four near 1; "1" only for a perfect fit.

    >>> format_r_squared(0.9764), format_r_squared(0.99991), format_r_squared(1 - 1e-14)
    ('0.976', '0.9999', '1')
    """
    if value > 1 - 1e-9:
        return "1"
    return f"{value:.3f}" if value < 0.9995 else f"{min(value, 0.9999):.4f}"
