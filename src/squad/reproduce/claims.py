"""What the text claims, as figures: depth, bins as a bottleneck, kinds of bins, and what they cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from squad.reproduce.drawing import (
    COLOURS, GRAY, INK, SMALL, TEXT, Style, band, canvas, dots, draw_band, name_ends, percents, plain_numbers,
)  # fmt: skip
from squad.reproduce.sources import Sources
from squad.reproduce.tables import Variant

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ablation", "bins", "cost", "depth"]

#: Grids of depth, with the name of their lines.
DEPTHS = {"depth-squad": ("SQUAD", COLOURS["squad"]), "depth-mlp": ("Plain MLP", COLOURS["mlp"])}
LAYERS = (Style(COLOURS["squad"], "-", "o"), Style(COLOURS["dlgm"], (0, (4, 1.5)), "s"))
#: How the bins of the ablation are called.
WORDS = {"per_layer": "learned by layer", "per_neuron": "learned by neuron", "fixed": "fixed values"}
VALUES = {"fixed": COLOURS["mlp"], "per_layer": COLOURS["squad"], "per_neuron": COLOURS["maxout-dropout"]}


def _setting(variant: Variant, name: str) -> Any:
    """One of the network's settings that a grid varies."""
    return variant.row.content["network"][name]


def _shares(variants: Sequence[Variant], measure: str) -> Any:
    """In per cent, (networks, variants)."""
    return 100 * np.array([variant.values(measure) for variant in variants]).T


def depth(sources: Sources) -> "Figure | None":
    """Whether activations stay as they are from layer to layer, and what depth does to accuracy and coverage."""
    grids = {name: sources.grid("figures", name) for name in DEPTHS}
    figure, panels = None, []
    for name, (label, colour) in DEPTHS.items():
        variants = grids[name]
        if variants is None or any(grid is None for grid in grids.values()):
            return None
        if figure is None:
            figure, panels = canvas(12.5, 4.6, 3, width_ratios=[1.15, 1, 1])
        deepest = max(variants, key=lambda variant: len(_setting(variant, "hidden")))
        layers = range(1, len(_setting(deepest, "hidden")) + 1)
        for moment, (word, dash) in {"before": ("untrained", (0, (2, 1.5))), "after": ("trained", "-")}.items():
            # The last entry is the output layer's logits, which nothing normalizes.
            spread = [layer["std"] for layer in deepest.record.results["probes"]["spread"][moment][:-1]]
            draw_band(panels[0], layers, band(np.array(spread).T), Style(colour, dash, "o"), f"{label}, {word}")
        depths = [len(_setting(variant, "hidden")) for variant in variants]
        for axes, measure in zip(panels[1:], ("accuracy", "coverage@0.02"), strict=True):
            dots(axes, depths, _shares(variants, measure), colour)
            draw_band(axes, depths, band(_shares(variants, measure)), Style(colour, "-", "o"), label)
    assert figure is not None
    count = len(deepest.each)
    titles = (
        f"spread of activations, {len(layers)} hidden layers",
        "test accuracy",
        "coverage at 2 % risk",
    )
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        plain_numbers(axes.xaxis, list(layers))
    panels[0].set(xlabel="layer", ylabel="standard deviation over rows and units")
    panels[0].set_ylim(bottom=0)
    name_ends(panels[0], 0.06)
    for axes in panels[1:]:
        axes.set_xlabel("hidden layers of 32")
        axes.set_ylim(0, 100)
        percents(axes.yaxis)
        name_ends(axes, 0.06)
    figure.supxlabel(f"lines: mean of {count} networks, with its 90 % band; dots: each network", fontsize=SMALL)
    return figure


def bins(sources: Sources) -> "Figure | None":
    """Bits that a latent tells about its layer's input, and coverage, over the number of bins."""
    variants = sources.grid("figures", "bins")
    if variants is None:
        return None
    numbers = [_setting(variant, "bins") for variant in variants]
    figure, (left, right) = canvas(10, 4.6, 2)
    left.plot(numbers, np.log2(numbers), color=INK, linewidth=1.2, linestyle=(0, (1, 1.5)), label="bound: log2 C")
    told = [variant.record.results["probes"]["information"] for variant in variants]
    for layer, style in enumerate(LAYERS[: len(told[0])]):
        each = np.array([one[layer]["mean"] for one in told]).T
        draw_band(left, numbers, band(each), style, f"layer {layer + 1}, mean")
        largest = np.array([one[layer]["largest"] for one in told]).mean(axis=1)
        left.plot(
            numbers, largest, color=style.colour, linestyle=(0, (1, 1)), linewidth=1.3, alpha=0.8,
            label=f"layer {layer + 1}, largest",
        )  # fmt: skip
    for measure, text, style in (
        ("coverage@0.02", "at 2 % risk", Style(COLOURS["squad"], "-", "o")),
        ("coverage@0.01", "at 1 % risk", Style(COLOURS["hard"], "-", "s")),
    ):
        dots(right, numbers, _shares(variants, measure), style.colour)
        draw_band(right, numbers, band(_shares(variants, measure)), style, text)
    titles = ("information of a latent about its layer's input", "coverage")
    for axes, title in zip((left, right), titles, strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        axes.set_xscale("log")
        axes.set_xlim(min(numbers) / 1.08, max(numbers) * 1.08)
        plain_numbers(axes.xaxis, numbers)
        axes.set_xlabel("bins C")
    left.set_ylabel("bits")
    left.set_ylim(bottom=0)
    percents(right.yaxis)
    for axes in (left, right):
        name_ends(axes, 0.06)
    count = len(variants[0].each)
    figure.supxlabel(f"lines: mean of {count} networks, with its 90 % band; dots: each network", fontsize=SMALL)
    return figure


def ablation(sources: Sources) -> "Figure | None":
    """Spacing, prior and learned values: three measures of every combination."""
    variants = sources.grid("figures", "ablation")
    if variants is None:
        return None
    kinds = list(dict.fromkeys((_setting(one, "spacing"), _setting(one, "prior")) for one in variants))
    learned = list(dict.fromkeys(_setting(one, "learn_values") for one in variants))
    measures = {"coverage@0.01": ("coverage at 1 % risk", 100), "coverage@0.02": ("coverage at 2 % risk", 100)}
    figure, panels = canvas(11, 1.6 + 0.36 * len(variants), 3, sharey=True)
    for axes, (measure, (title, scale)) in zip(panels, {**measures, "nll": ("NLL", 1)}.items(), strict=True):
        axes.set_title(f"{title}, {'lower' if measure == 'nll' else 'higher'} is better", fontsize=TEXT, loc="left")
        axes.grid(visible=False, axis="y")
        axes.grid(axis="x", color="#e4e4e4", linewidth=0.7)
        for variant in variants:
            group = kinds.index((_setting(variant, "spacing"), _setting(variant, "prior")))
            kind = _setting(variant, "learn_values")
            place = group * (len(learned) + 1) + learned.index(kind)
            _point(axes, place, scale * np.array(variant.values(measure)), VALUES[kind])
        for group in range(1, len(kinds)):
            axes.axhline(group * (len(learned) + 1) - 1, color="#e4e4e4", linewidth=0.7)
        if scale == 100:
            percents(axes.xaxis)
    places, names = [], []
    for group, (spacing, prior) in enumerate(kinds):
        for kind in learned:
            places.append(group * (len(learned) + 1) + learned.index(kind))
            head = f"{spacing} spacing, {prior} prior:  " if kind == learned[len(learned) // 2] else ""
            names.append(f"{head}{WORDS[kind]}")
    panels[0].set_yticks(places, names, fontsize=SMALL)
    panels[0].tick_params(axis="y", length=0)
    panels[0].set_ylim(max(places) + 0.9, -0.9)
    for label, kind in zip(panels[0].get_yticklabels(), [kind for _ in kinds for kind in learned], strict=True):
        label.set_color(VALUES[kind])
    count = len(variants[0].each)
    figure.supxlabel(f"bars: 90 % interval of the mean of {count} networks; dots: each network", fontsize=SMALL)
    return figure


def _point(axes: "Axes", place: int, values: Any, colour: str) -> None:
    """The mean of networks with its interval, and each of them."""
    found = band(values)
    axes.plot([found.low, found.high], [place, place], color=colour, linewidth=3.5, alpha=0.35, solid_capstyle="butt")
    axes.plot(values, np.full(len(values), place), "o", color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
    axes.plot([found.mean], [place], "|", color=colour, markersize=13, markeredgewidth=2.2, label="mean")


def cost(sources: Sources) -> "Figure | None":
    """Seconds of an epoch, and weights, over the number of bins."""
    variants = sources.grid("figures", "bins")
    if variants is None:
        return None
    numbers = np.array([_setting(variant, "bins") for variant in variants], dtype=np.float64)
    timed = [variant.record.results["probes"]["epoch"] for variant in variants]
    median, low, high = (1000 * np.array([one[name] for one in timed]) for name in ("median", "q25", "q75"))
    weights = np.array([variant.record.results["weights"] for variant in variants], dtype=np.float64) / 1e6
    figure, (left, right) = canvas(10, 4.4, 2)
    machine = variants[0].record.machine
    left.errorbar(
        numbers, median, yerr=[median - low, high - median], fmt="o", color=COLOURS["squad"], markersize=5.5, capsize=3,
        elinewidth=1.1, label="_measured",
    )  # fmt: skip
    right.plot(numbers, weights, "o", color=COLOURS["squad"], markersize=5.5, label="_counted")
    for axes, y, unit in ((left, median, "ms"), (right, weights, "million")):
        slope, start, fit = line(numbers, y)
        ends = np.array([0.0, numbers.max()])
        axes.plot(ends, start + slope * ends, color=GRAY, linewidth=1.2, zorder=1, label="_line")
        axes.text(
            0.04, 0.95, f"{start:.3g} + {slope:.3g} C ({unit}),  R² = {r_squared(fit)}", transform=axes.transAxes,
            fontsize=TEXT, va="top", color=INK,
        )  # fmt: skip
        axes.set_xlabel("bins C")
        axes.set_xlim(0, 1.04 * numbers.max())
        axes.set_ylim(0, 1.18 * max(y.max(), start + slope * numbers.max()))
    left.set_ylabel("milliseconds of an epoch")
    right.set_ylabel("weights of a network (million)")
    left.set_title(
        f"{timed[0]['steps']} steps of {timed[0]['batch_size']} rows, {machine.get('gpu') or machine['cpu']}",
        fontsize=TEXT,
        loc="left",
    )
    right.set_title("784 inputs, two layers of 32, 10 classes", fontsize=TEXT, loc="left")
    return figure


def line(x: Any, y: Any) -> tuple[float, float, float]:
    """Slope and start of the straight line of least squares, and the share of the variance that it explains."""
    slope, start = np.polyfit(x, y, 1)
    left = y - (start + slope * x)
    return float(slope), float(start), float(1 - (left**2).sum() / ((y - y.mean()) ** 2).sum())


def r_squared(fit: float) -> str:
    """As people read it: 1 only where it is."""
    return "1" if fit > 1 - 1e-9 else f"{min(fit, 0.9999):.4g}" if fit > 0.9995 else f"{fit:.3f}"
