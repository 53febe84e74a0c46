"""What the text claims, as figures: depth, bins as a bottleneck, kinds of bins, and what they cost."""

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
    across,
    band,
    canvas,
    dots,
    draw_band,
    name_ends,
    percents,
    plain_numbers,
    told,
)
from experiments.paper.pages.result_tables import Variant
from experiments.paper.sources import Sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ablation", "bins", "cost", "depth"]

#: Grids of depth, with the name of their lines.
DEPTHS = {"depth-squad": ("SQUAD", COLOURS["squad"]), "depth-mlp": ("Plain MLP", COLOURS["mlp"])}
#: One more, drawn where it is there: whether it is the KL of many layers that depth suffers from.
LIGHT, LIGHT_LABEL = "depth-squad-light", "SQUAD, a ninth of the KL"
LAYERS = (Style(COLOURS["squad"], "-", "o"), Style(COLOURS["dlgm"], (0, (4, 1.5)), "s"))
#: How the bins of the ablation are called.
WORDS = {"per_layer": "learned by layer", "per_neuron": "learned by neuron", "fixed": "fixed values"}
#: What is shown of them, by its name in a record, with what it is multiplied by.
MEASURES = {
    "coverage@0.01": ("coverage at 1 % risk, higher is better", 100),
    "coverage@0.02": ("coverage at 2 % risk, higher is better", 100),
    "nll": ("NLL, lower is better", 1),
}
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
    there = {name: grid for name, grid in grids.items() if grid is not None}
    if len(there) < len(DEPTHS):
        return None
    figure, panels = canvas(11, 4.4, 3, width_ratios=[1.1, 1, 1])
    for name, (label, colour) in DEPTHS.items():
        depths = [len(_setting(variant, "hidden")) for variant in there[name]]
        _spreads(panels[0], there[name][int(np.argmax(depths))], label, colour)
        for axes, measure in zip(panels[1:], ("accuracy", "coverage@0.02"), strict=True):
            shares = _shares(there[name], measure)
            dots(axes, depths, shares, colour)
            draw_band(axes, depths, band(shares), Style(colour, "-", "o"), label)
    light = sources.grid("figures", LIGHT) or []
    for axes, measure in zip(panels[1:], ("accuracy", "coverage@0.02"), strict=True):
        if light:
            few = [len(_setting(variant, "hidden")) for variant in light]
            dashed = Style(COLOURS["hard"], (0, (4, 1.5)), "v")
            draw_band(axes, few, band(_shares(light, measure)), dashed, LIGHT_LABEL)
    titles = (f"spread of activations, {max(depths)} hidden layers", "test accuracy", "coverage at 2 % risk (SGR)")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        plain_numbers(axes.xaxis, range(1, max(depths) + 1))
    panels[0].set(xlabel="layer", ylabel="standard deviation over rows and units")
    panels[0].set_ylim(bottom=0)
    for axes in panels[1:]:
        axes.set_xlabel("hidden layers of 32")
        axes.set_ylim(0, 100)
        percents(axes.yaxis)
    for axes in panels:
        name_ends(axes, 0.06)
    _below(figure, len(there[name][0].each))
    return figure


def _spreads(axes: "Axes", variant: Variant, label: str, colour: str) -> None:
    """By layer, before training and after; not of the output layer's logits, which nothing keeps small."""
    for moment, (word, dash) in {"before": ("untrained", (0, (2, 1.5))), "after": ("trained", "-")}.items():
        each = np.array([layer["std"] for layer in variant.record.results["probes"]["spread"][moment][:-1]]).T
        draw_band(axes, range(1, each.shape[1] + 1), band(each), Style(colour, dash, "o"), f"{label}, {word}")


def _below(figure: "Figure", count: int) -> None:
    figure.supxlabel(f"lines: {told(count)}; dots: each network", fontsize=SMALL)


def bins(sources: Sources) -> "Figure | None":
    """Bits that a latent tells about its layer's input, and coverage, over the number of bins."""
    variants = sources.grid("figures", "bins")
    if variants is None:
        return None
    numbers = [_setting(variant, "bins") for variant in variants]
    figure, (left, right) = canvas(10, 4.6, 2)
    left.plot(numbers, np.log2(numbers), color=INK, linewidth=1.2, linestyle=(0, (1, 1.5)), label="bound: log₂ C")
    probed = [variant.record.results["probes"]["information"] for variant in variants]
    for layer, style in enumerate(LAYERS[: len(probed[0])]):
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
    _below(figure, len(variants[0].each))
    return figure


def ablation(sources: Sources) -> "Figure | None":
    """Spacing, prior and learned values: three measures of every combination."""
    variants = sources.grid("figures", "ablation")
    if variants is None:
        return None
    kinds = list(dict.fromkeys((_setting(one, "spacing"), _setting(one, "prior")) for one in variants))
    learned = list(dict.fromkeys(_setting(one, "learn_values") for one in variants))
    step = len(learned) + 1  # a heading, and a line for each
    figure, panels = canvas(11, 1.5 + 0.3 * step * len(kinds), len(MEASURES), sharey=True)
    for axes, (measure, (title, scale)) in zip(panels, MEASURES.items(), strict=True):
        axes.set_title(title, fontsize=TEXT, loc="left")
        across(axes, [step * group - 0.5 for group in range(1, len(kinds))])
        for variant in variants:
            kind = _setting(variant, "learn_values")
            group = kinds.index((_setting(variant, "spacing"), _setting(variant, "prior")))
            place = step * group + 1 + learned.index(kind)
            _point(axes, place, scale * np.array(variant.values(measure)), VALUES[kind])
        axes.locator_params(axis="x", nbins=5)
        if scale == 100:
            percents(axes.xaxis)
    names = []
    for spacing, prior in kinds:
        names += [f"{_word(spacing)} spacing, {_word(prior)} prior", *(WORDS[kind] for kind in learned)]
    panels[0].set_yticks(range(len(names)), names, fontsize=SMALL)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    for place, label in enumerate(panels[0].get_yticklabels()):
        if place % step:
            label.set_color(VALUES[learned[place % step - 1]])
        else:
            label.set_fontweight("bold")
    count = len(variants[0].each)
    words = f"strokes: mean of {count} networks; bars: its 90 % interval; dots: each network"
    figure.supxlabel(words if count > 1 else "one network", fontsize=SMALL)
    return figure


def _word(kind: str) -> str:
    return kind.replace("gaussian", "Gaussian")


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
    weights = np.array([variant.record.results["weights"] for variant in variants], dtype=np.float64)
    figure, (left, right) = canvas(10, 4.4, 2)
    left.errorbar(
        numbers, median, yerr=[median - low, high - median], fmt="o", color=COLOURS["squad"], markersize=5.5, capsize=3,
        elinewidth=1.1, label="_measured",
    )  # fmt: skip
    right.plot(numbers, weights / 1e6, "o", color=COLOURS["squad"], markersize=5.5, label="_counted")
    _fitted(left, numbers, median, "{start:.1f} ms + {slope:.3f} ms x C")
    _fitted(right, numbers, weights, "{start:,.0f} + {slope:,.0f} C weights", 1e6)
    machine = variants[0].record.machine
    left.set_title(
        f"an epoch of {timed[0]['steps']} steps of {timed[0]['batch_size']} rows, on "
        f"{machine.get('gpu') or machine['cpu']}",
        fontsize=TEXT,
        loc="left",
    )
    left.set_ylabel("milliseconds")
    right.set_title("weights of a network", fontsize=TEXT, loc="left")
    right.set_ylabel("million")
    return figure


def _fitted(axes: "Axes", x: Any, y: Any, words: str, unit: float = 1.0) -> None:
    """A straight line through points, and what it is."""
    slope, start, explained = line(x, y)
    ends = np.array([0.0, x.max()])
    axes.plot(ends, (start + slope * ends) / unit, color=GRAY, linewidth=1.2, zorder=1, label="_line")
    text = f"{words.format(slope=slope, start=start)},  R² = {r_squared(explained)}"
    axes.text(0.04, 0.95, text, transform=axes.transAxes, fontsize=TEXT, va="top", color=INK)
    axes.set_xlabel("bins C")
    axes.set_xlim(0, 1.04 * x.max())
    axes.set_ylim(0, 1.2 * y.max() / unit)


def line(x: Any, y: Any) -> tuple[float, float, float]:
    """Slope and start of the straight line of least squares, and the share of the variance that it explains."""
    slope, start = np.polyfit(x, y, 1)
    left = y - (start + slope * x)
    return float(slope), float(start), float(1 - (left**2).sum() / ((y - y.mean()) ** 2).sum())


def r_squared(share: float) -> str:
    """With three digits, and 1 only where it is.

    >>> r_squared(0.9764), r_squared(0.99991), r_squared(1 - 1e-14)
    ('0.976', '0.9999', '1')
    """
    if share > 1 - 1e-9:
        return "1"
    return f"{share:.3f}" if share < 0.9995 else f"{min(share, 0.9999):.4f}"
