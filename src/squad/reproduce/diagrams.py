"""The paper's diagrams, drawn again by code: what is shown as a number or a bar is computed by the library.

Each function returns a figure of matplotlib that nobody has drawn yet; whoever saves it chooses the resolution.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, Normal, kl_divergence

from squad.core import categorical, noise
from squad.core.bins import linear_bins
from squad.core.distribution import Quantized
from squad.layers import FactorizedSquadLinear, Linear, SquadLinear
from squad.layers.quantized import Prior, Spacing, SquadLayer
from squad.reproduce import sketch
from squad.reproduce.sketch import ACCENT, FAINT, GREEN, GREY, INK, LIGHT, LINE, SMALL, TEXT, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CAPTIONS", "DIAGRAMS", "approximation", "latent_layers", "priors_and_spacings", "quantized_domain",
    "sampling_graph",
]  # fmt: skip


BINS = 11
TAU = 0.5
#: An input of the small layers that are drawn.
FEATURES = (0.9, -0.4, 1.3, 0.2, -1.1, 0.6, -0.2, 0.5)
#: Of the layer whose weights are counted: the paper's largest, on SVHN.
INPUTS, LATENTS, MANY_BINS, RANK = 3072, 256, 37, 4


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Random weights that are always the same, and torch's own generator left as it was."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        yield


class _Pass(NamedTuple):
    """Of each layer, the probabilities of its latents, (K, C), and the bins that were drawn, (K,); then the classes."""

    layers: list[tuple[Tensor, Tensor]]
    classes: Tensor


def _ancestral(features: Sequence[float], latents: int, bins: int) -> _Pass:
    """One pass through three layers of a small network, each being given what was drawn from the one before."""
    with _seeded(12):
        sizes = [len(features), latents, latents, latents]
        layers = [SquadLinear(a, b, bins=bins, init_scale=1.2 if a > b else 0.4) for a, b in pairwise(sizes)]
        z, found = torch.tensor(features), []
        for layer in layers:
            q = layer.posterior(z)
            z = q.sample()
            found.append((q.probs, (q.values == z.unsqueeze(-1)).int().argmax(-1)))
        return _Pass(found, Linear(latents, 3)(z).softmax(-1))


def latent_layers() -> "Figure":
    """Layers of stochastic latents between x and y; in each latent the distribution that a small network predicts."""
    features, rows, bins = FEATURES[:6], 4, 9
    found = _ancestral(features, rows, bins)
    figure, axes = sketch.blank(9.6, 5.1)
    first, *columns, last = stops = (0.7, 2.45, 4.35, 6.85, 8.9)
    heights = [4.02 - 0.94 * row for row in range(rows)]
    middle, gap = sum(heights) / rows, sum(columns[1:]) / 2
    latents = [[(x, y) for y in heights] for x in columns]
    inputs = sketch.cells(axes, (first, middle), features, 0.3, across=False)
    classes = sketch.cells(axes, (last, middle), found.classes.tolist(), 0.3, across=False)
    for one, other in pairwise([inputs, *latents, classes]):
        sketch.fan(axes, one, other)
    sketch.box(axes, (gap, middle), 0.84, 3.6, "white", "white", order=0.6)  # layers that are left out
    sketch.write(axes, (gap, middle), r"$\cdots$", size=24)
    for layer, (column, (probs, drawn)) in enumerate(zip(latents, found.layers, strict=True), 1):
        for row, center in enumerate(column):
            sketch.circle(axes, center, 0.4, edge=FAINT)
            colours = [ACCENT if place == int(drawn[row]) else LIGHT for place in range(bins)]
            sketch.bars(axes, f"latent {layer} {row + 1}", center, sketch.array(probs[row]), 0.52, 0.36, colours)
    _name_layers(axes, stops, gap)
    return figure


def _name_layers(axes: "Axes", stops: Sequence[float], gap: float) -> None:
    """Above each layer its law, below it its symbol, with arrows from each to the next."""
    symbols = (r"\mathbf{x}", r"\mathbf{z}_1", r"\mathbf{z}_2", r"\mathbf{z}_L", r"\mathbf{y}")
    givens = (r"\mathbf{x}", r"\mathbf{z}_1", r"\mathbf{z}_{L-1}", r"\mathbf{z}_L")
    for x, symbol in zip(stops, symbols, strict=True):
        sketch.write(axes, (x, 0.53), f"${symbol}$", size=18)
    for x, symbol, given, law in zip(stops[1:], symbols[1:], givens, "pppq", strict=True):
        sketch.write(axes, (x, 4.8), rf"${law}({symbol}\,|\,{given})$", size=14)
    sketch.write(axes, (gap, 0.53), r"$\cdots$", size=16, colour=FAINT)
    for start, stop in pairwise(sorted([*stops, gap])):
        sketch.arrow(axes, (start + 0.35, 0.53), (stop - 0.35, 0.53), FAINT)
    words = "layers of latent variables (red: the value that was sampled)"
    for x, word in ((stops[0], "input"), ((stops[1] + stops[-2]) / 2, words), (stops[-1], "classes")):
        sketch.write(axes, (x, 0.17), word, colour=GREY)


def _target() -> Any:
    """A density of two modes, one with a shoulder: what an exact posterior might be."""
    modes = Normal(torch.tensor([-1.55, 1.45, 2.5]).double(), torch.tensor([0.5, 0.45, 0.42]).double())
    return MixtureSameFamily(Categorical(torch.tensor([0.55, 0.31, 0.14]).double()), modes)


def _mass(low: Tensor, high: Tensor) -> Tensor:
    """What the target has between two points."""
    parts = _target()
    cdf = parts.component_distribution.cdf
    inside: Tensor = (parts.mixture_distribution.probs * (cdf(high[:, None]) - cdf(low[:, None]))).sum(-1)
    return inside


class _Descent(NamedTuple):
    """Gaussians on the way to the closest: their means and deviations, and the KL of each, (steps,)."""

    means: npt.NDArray[np.float64]
    deviations: npt.NDArray[np.float64]
    kls: npt.NDArray[np.float64]


def _gaussian_kls(means: Tensor, deviations: Tensor) -> Tensor:
    """KL(q || p*) of Gaussians, of the shape of the means: both on so many bins that they are as good as densities."""
    grid = linear_bins(1201, 12.0, dtype=torch.float64)
    q = Quantized(Normal(means.unsqueeze(-1), deviations.unsqueeze(-1)).log_prob(grid), grid)
    return kl_divergence(q, Quantized(_target().log_prob(grid), grid))


@cache
def _descent(steps: int = 500) -> _Descent:
    """Gradient descent on the KL over the mean and the logarithm of the deviation of a Gaussian."""
    where, found = torch.tensor([-1.6, 0.72], dtype=torch.float64), []
    for _ in range(steps):
        where = where.detach().requires_grad_()
        with torch.enable_grad():
            kl = _gaussian_kls(where[0], where[1].exp())
            (slope,) = torch.autograd.grad(kl, where)
        found.append((where[0].item(), where[1].exp().item(), kl.item()))
        where = where - 0.05 * slope
    return _Descent(*np.array(found).T)


def approximation() -> "Figure":
    """A Gaussian q is moved down its KL to a density p* of two modes, and ends on one of them."""
    path = _descent()
    falls = [int(np.argmax(path.kls < level)) for level in (2.2, 1.2, 0.95)]
    shown = [0, *falls, len(path.kls) - 1]
    figure = sketch.figure_class()(figsize=(10.5, 4.3), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.08))

    z = linear_bins(501, 4.2, dtype=torch.float64)
    density = sketch.array(_target().log_prob(z).exp())
    left.fill_between(z, density, color="#ececec", linewidth=0)
    left.plot(z, density, color=INK, linewidth=1.8, label="target")
    for at in shown:
        q = Normal(torch.tensor(path.means[at]), torch.tensor(path.deviations[at])).log_prob(z).exp()
        last = at == shown[-1]
        name = "closest" if last else f"step {at}"
        left.plot(z, q, color=ACCENT, linewidth=2.2 if last else 1.0, alpha=1.0 if last else 0.45, label=name)
    left.set(xlim=(-4.2, 4.2), ylim=(0, 0.86), yticks=[])
    left.spines[["left", "top", "right"]].set_visible(False)
    sketch.write(left, (2.0, 0.345), r"$p_{\theta^{\!*}}$", size=18)
    sketch.write(left, (-2.35, 0.7), r"$q_\phi$", size=18, colour=ACCENT)
    _name_axes(left, "$z$")
    left.set_title("a density, and Gaussians on the way to it", loc="left", fontsize=TEXT + 1)

    _draw_class(right)
    right.plot(path.means, path.deviations, color=ACCENT, linewidth=1.4, label="descent")
    right.plot(path.means[shown], path.deviations[shown], "o", color=ACCENT, markersize=4, alpha=0.6)
    right.plot(path.means[-1:], path.deviations[-1:], "o", color=ACCENT, markersize=8)
    sketch.write(right, (path.means[0] + 0.15, path.deviations[0] + 0.03), "start", ha="left", colour=ACCENT)
    sketch.write(
        right,
        (path.means[-1] + 0.2, path.deviations[-1] - 0.14),
        f"closest: {path.kls[-1]:.2f}",
        ha="left",
        colour=ACCENT,
    )
    return figure


def _draw_class(axes: "Axes") -> None:
    """Every Gaussian as a point, darker where it is closer to the target."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    means, deviations = np.linspace(-2.9, 2.9, 117), np.linspace(0.25, 2.25, 81)
    kls = _gaussian_kls(*(torch.from_numpy(grid) for grid in np.meshgrid(means, deviations)))
    levels = [0.5, 0.7, 0.9, 1.0, 1.2, 1.5, 2, 3, 4, 6]
    shades = LinearSegmentedColormap.from_list("closeness", ["#7fb892", "#ffffff"])
    filled = axes.contourf(means, deviations, kls, levels, cmap=shades, norm=LogNorm(levels[0], levels[-1]))
    axes.contour(means, deviations, kls, levels, colors="white", linewidths=0.8)
    figure: Any = axes.figure
    bar = figure.colorbar(filled, ax=axes, ticks=[0.5, 0.7, 1, 2, 4], format="%g", pad=0.02, aspect=30)
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    title = r"KL$(q_\phi\,\|\,p_{\theta^{\!*}})$ of every Gaussian, in nats"
    axes.set_title(title, loc="left", fontsize=TEXT + 1, math_fontfamily="cm")
    _name_axes(axes, r"mean of $q_\phi$", r"standard deviation of $q_\phi$")


def _name_axes(axes: "Axes", x: str = "", y: str = "") -> None:
    axes.set_xlabel(x, fontsize=TEXT + 1, math_fontfamily="cm")
    axes.set_ylabel(y, fontsize=TEXT + 1, math_fontfamily="cm")
    axes.tick_params(labelsize=SMALL)


def quantized_domain() -> "Figure":
    """The same density, and the mass that each of eleven bins has of it."""
    values = linear_bins(BINS, dtype=torch.float64)
    width = float(values[1] - values[0])
    q = Quantized(_mass(values - width / 2, values + width / 2).log(), values)
    path = _descent()
    closest = Normal(torch.tensor(path.means[-1]), torch.tensor(path.deviations[-1]))

    figure = sketch.figure_class()(figsize=(9, 4.3), layout="constrained", facecolor="white")
    axes = figure.subplots()
    bars = axes.bar(sketch.array(values), sketch.array(q.probs), 0.86 * width, color=LIGHT)
    z = linear_bins(601, 4.1, dtype=torch.float64)
    (dashed,) = axes.plot(z, width * closest.log_prob(z).exp(), color=ACCENT, linewidth=1.2, dashes=(4, 3))
    (curve,) = axes.plot(z, width * _target().log_prob(z).exp(), color=INK, linewidth=1.8)
    numbers = [f"{round(v, 6) + 0:g}".replace("-", "\N{MINUS SIGN}") for v in values.tolist()]
    axes.set_xticks(sketch.array(values), [f"$v_{{{c}}}$\n{number}" for c, number in enumerate(numbers, 1)])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(xlim=(-4.1, 4.1), ylim=(0, 0.58), yticks=[0, 0.1, 0.2, 0.3, 0.4, 0.5])
    words = ("a density, times the width of a bin", f"$p(z=v_c)$ on $C={BINS}$ bins", "the closest Gaussian")
    legend = axes.legend([curve, bars, dashed], words, loc="upper right", frameon=False, fontsize=TEXT + 0.5)
    for text in legend.get_texts():
        text.set_math_fontfamily("cm")
    _name_axes(axes, "", "probability of a bin")
    axes.tick_params(axis="x", labelsize=TEXT)
    for label in axes.get_xticklabels():
        label.set_math_fontfamily("cm")
    return figure


class _Latent(NamedTuple):
    """What one latent goes through in training, each (C,) but the last two."""

    logits: Tensor
    noise: Tensor
    relaxed: Tensor
    values: Tensor
    probs: Tensor
    prior: Tensor
    z: float
    kl: float


def _one_latent(layer: SquadLayer, seed: int) -> _Latent:
    """A layer's only latent, sampled with noise of its own, step by step; ``layer`` does the same at once."""
    with torch.no_grad():
        x = torch.tensor(FEATURES)
        logits = layer.logits(x)[:, 0]
        drawn = noise.gumbel(noise.make_key(seed), 1, layer.bins, 1).flatten()
        relaxed = categorical.relaxed_one_hot(logits, drawn, TAU, -1)
        q = layer.posterior(x)
        kl = kl_divergence(q, layer.prior).item()
        z = (relaxed * layer.values).sum().item()
        return _Latent(logits, drawn, relaxed, layer.values, q.probs[0], layer.prior.probs, z, kl)


def _weights() -> dict[str, int]:
    """Weights and biases of a large layer, plain and factorized, counted in the layers themselves."""
    with _seeded(0):
        layers = {
            "plain": SquadLinear(INPUTS, LATENTS, bins=MANY_BINS),
            "factorized": FactorizedSquadLinear(INPUTS, LATENTS, bins=MANY_BINS, rank=RANK),
            "shared": FactorizedSquadLinear(INPUTS, LATENTS, bins=MANY_BINS, rank=RANK, shared=True),
        }
    return {
        name: sum(p.numel() for part, p in layer.named_parameters() if part.startswith(("weight", "bias")))
        for name, layer in layers.items()
    }


def sampling_graph() -> "Figure":
    """Left: how one latent is sampled in training, with the numbers of a small layer. Right: the factorized variant."""
    figure, axes = sketch.blank(11, 8.3)
    _plain_graph(axes)
    _factorized_graph(axes)
    _weight_bars(axes)
    axes.plot([6.7, 6.7], [0.25, 8.1], color=LINE, linewidth=1)
    return figure


def _plain_graph(axes: "Axes") -> None:
    with _seeded(3):
        layer = SquadLinear(len(FEATURES), 1, bins=BINS, prior="gaussian")
    found = _one_latent(layer, 2)
    main, side, branch = 2.95, 0.98, 5.3
    sketch.write(axes, (0.2, 8.02), "SQUAD, one latent variable in training", size=13, ha="left", weight="bold")

    # Outside of the plate: the input above, the rest of the network below.
    places = sketch.cells(axes, (main, 7.4), FEATURES)
    sketch.write(axes, (main - 1.15, 7.4), r"$\mathbf{x}$", size=17)
    sketch.write(axes, (main + 1.02, 7.4), r"$|X|$ numbers", ha="left", colour=GREY)
    sketch.box(axes, (3.19, 4.29), 6.06, 5.0, "#fafafa", LINE, order=0.2)
    sketch.write(axes, (6.05, 2.02), r"one of $K$ latent variables", ha="right", colour=GREY)

    bars = sketch.bars(axes, "logits", (main, 6.1), sketch.array(found.logits), colour=FAINT)
    sketch.fan(axes, [(x, y - 0.1) for x, y in places], [(x, 6.45) for x in bars])
    sketch.write(axes, (side, 7.24), r"$\mathbf{W}$", size=15)
    sketch.write(axes, (side, 6.97), r"$|X|\times K\times C$", colour=GREY)
    sketch.write(axes, (side, 6.2), r"$\mathbf{W}\mathbf{x}+\mathbf{b}$", size=15)
    sketch.write(axes, (side, 5.92), r"$C$ logits", colour=GREY)

    sketch.arrow(axes, (main, 5.75), (main, 5.3))
    _operator(axes, (main, 5.13), "+")
    sketch.bars(axes, "noise", (side, 5.13), sketch.array(found.noise), 1.3, 0.5, colour=FAINT)
    sketch.arrow(axes, (side + 0.7, 5.13), (main - 0.17, 5.13))
    sketch.write(axes, (side, 4.7), r"$\epsilon$, Gumbel noise", colour=INK)

    sketch.arrow(axes, (main, 4.96), (main, 4.5))
    sketch.write(axes, (main + 0.12, 4.74), rf"softmax$(\,\cdot\,/\,\tau)$, $\tau={TAU:g}$", ha="left")
    sketch.bars(axes, "relaxed", (main, 4.12), sketch.array(found.relaxed), colour=ACCENT)
    sketch.arrow(axes, (main, 3.76), (main, 3.37))
    _operator(axes, (main, 3.2), r"$\bullet$", 9)
    sketch.bars(axes, "values", (side, 3.2), sketch.array(found.values), 1.3, 0.5, colour=INK)
    sketch.arrow(axes, (side + 0.7, 3.2), (main - 0.17, 3.2))
    sketch.write(axes, (side, 2.77), r"$\mathbf{v}$, the values", colour=INK)
    sketch.arrow(axes, (main, 3.03), (main, 2.6))
    sketch.circle(axes, (main, 2.3), 0.29, edge=ACCENT)
    sketch.write(axes, (main, 2.3), "$z_k$", size=16, colour=ACCENT, zorder=3)
    sketch.write(axes, (main + 0.4, 2.3), f"$={found.z:.2f}$", size=12, ha="left", colour=ACCENT)

    sketch.arrow(axes, (main + 0.88, 6.1), (branch - 0.88, 6.1))
    sketch.write(axes, ((main + branch) / 2, 6.25), "softmax", size=SMALL)
    sketch.bars(axes, "probs", (branch, 6.1), sketch.array(found.probs))
    sketch.write(axes, (branch, 6.6), r"$p(z_k\,|\,\mathbf{x})$", size=13)
    sketch.arrow(axes, (branch, 5.75), (branch, 5.34))
    sketch.box(axes, (branch, 5.12), 1.2, 0.4)
    sketch.write(axes, (branch, 5.12), rf"$\mathrm{{KL}}={found.kl:.2f}$", size=13)
    sketch.arrow(axes, (branch, 4.3), (branch, 4.9))
    sketch.bars(axes, "prior", (branch, 3.95), sketch.array(found.prior), colour=LIGHT)
    sketch.write(axes, (branch, 3.45), "$r(z_k)$, the prior", size=12)
    sketch.elbow(axes, [(branch + 0.6, 5.12), (6.4, 5.12), (6.4, 0.46), (main + 2.02, 0.46)])

    sketch.arrow(axes, (main, 2.01), (main, 1.57))
    sketch.box(axes, (main, 1.36), 0.7, 0.4)
    sketch.write(axes, (main, 1.36), r"$f_\theta$", size=15)
    sketch.arrow(axes, (main, 1.15), (main, 0.81))
    sketch.box(axes, (main, 0.46), 4.0, 0.66, "white")
    sketch.write(
        axes,
        (main, 0.46),
        r"$\mathcal{L}=\log q_\theta(\mathbf{y}\,|\,\mathbf{z})-\beta\,\sum_k\,\mathrm{KL}_k$",
        size=14,
    )


def _operator(axes: "Axes", center: Point, sign: str, size: float = 15) -> None:
    sketch.circle(axes, center, 0.16)
    sketch.write(axes, center, sign, size=size, zorder=3)


def _factorized_graph(axes: "Axes") -> None:
    with _seeded(8):
        layer = FactorizedSquadLinear(len(FEATURES), 1, bins=BINS, rank=2)
        inner = sketch.array(layer.inner(torch.tensor(FEATURES)))
        logits = sketch.array(layer.logits(torch.tensor(FEATURES)))
    main, side = 9.55, 7.85
    sketch.write(axes, (7.0, 8.02), "SQUAD-factorized", size=13, ha="left", weight="bold")
    places = sketch.cells(axes, (main, 7.4), FEATURES)
    sketch.write(axes, (main - 1.15, 7.4), r"$\mathbf{x}$", size=17)
    middle = sketch.cells(axes, (main, 6.35), inner.tolist())
    bars = sketch.bars(axes, "factorized logits", (main, 5.15), logits, colour=FAINT)
    sketch.fan(axes, [(x, y - 0.1) for x, y in places], [(x, y + 0.1) for x, y in middle])
    sketch.fan(axes, [(x, y - 0.1) for x, y in middle], [(x, 5.5) for x in bars])
    for height, symbol, shape in (
        (6.88, r"$\mathbf{W}^\prime$", r"$|X|\times K\times B$"),
        (5.85, r"$\mathbf{W}^{\prime\prime}$", r"$K\times B\times C$"),
    ):
        sketch.write(axes, (side, height + 0.11), symbol, size=15)
        sketch.write(axes, (side, height - 0.17), shape, colour=GREY)
    sketch.write(axes, (main + 0.4, 6.35), "$B$ numbers", ha="left", colour=GREY)
    sketch.write(axes, (side, 5.15), "$C$ logits", colour=GREY)
    sketch.arrow(axes, (main, 4.8), (main, 4.35))
    sketch.write(axes, (main, 4.18), "then as on the left", colour=GREY)


def _weight_bars(axes: "Axes") -> None:
    """How many weights a large layer has, plain and factorized."""
    counts = _weights()
    names = {
        "plain": r"SQUAD, $\mathbf{W}$",
        "factorized": r"SQUAD-factorized, $\mathbf{W}^\prime$ and $\mathbf{W}^{\prime\prime}$",
        "shared": r"the same, one $\mathbf{W}^\prime$ for all $K$",
    }
    sizes = rf"$|X|={INPUTS},\ K={LATENTS},\ C={MANY_BINS},\ B={RANK}$"
    sketch.write(axes, (7.0, 3.5), "weights and biases of a layer", ha="left", size=TEXT + 0.5)
    sketch.write(axes, (7.0, 3.2), sizes, ha="left", size=12, colour=GREY)
    inset = sketch.inset(axes, "weights", (8.9, 1.62), 3.8, 2.6)
    places = np.arange(len(counts))
    inset.barh(places, list(counts.values()), 0.3, color=[FAINT, GREEN, GREEN])
    inset.set(xlim=(0, max(counts.values())), ylim=(len(counts) - 0.55, -0.75))
    for place, (name, count) in enumerate(counts.items()):
        sketch.write(inset, (0, place - 0.32), names[name], ha="left")
        sketch.write(inset, (max(counts.values()), place - 0.32), f"{count:,}", ha="right")


def priors_and_spacings() -> "Figure":
    """Three fixed distributions r(z) on eleven bins, by the settings of a layer that has them."""
    kinds: list[tuple[str, Spacing, Prior]] = [
        ("evenly spaced, equal weights", "linear", "uniform"),
        ("evenly spaced, a normal's mass", "linear", "gaussian"),
        ("equal normal mass, equal weights", "gaussian", "uniform"),
    ]
    figure = sketch.figure_class()(figsize=(11, 3.9), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    scale = float(linear_bins(BINS).diff()[0])  # a bar over linear bins is then about as high as the density
    for axes, (words, spacing, prior) in zip(panels, kinds, strict=True):
        with _seeded(0):
            r = SquadLinear(1, 1, bins=BINS, spacing=spacing, prior=prior).prior
        _draw_normal(axes, scale, _cuts(r, spacing, prior))
        axes.bar(sketch.array(r.values), sketch.array(r.probs), 0.13, color=GREEN)
        axes.plot(sketch.array(r.values), sketch.array(r.probs), "o", color=GREEN, markersize=4.5)
        axes.set_title(words, fontsize=TEXT, loc="left", pad=22)
        sketch.write(
            axes,
            (0, 1.045),
            f'spacing="{spacing}", prior="{prior}"',
            size=SMALL,
            transform=axes.transAxes,
            ha="left",
            family="monospace",
            colour=GREY,
        )
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(xlim=(-4.1, 4.1), ylim=(0, 0.31), xticks=[-3.5, -2, -1, 0, 1, 2, 3.5], yticks=[0, 0.1, 0.2, 0.3])
        axes.xaxis.set_major_formatter("{x:g}")
        _name_axes(axes, "$v_c$", "$r(z=v_c)$" if axes is panels[0] else "")
    return figure


def _cuts(r: Quantized, spacing: Spacing, prior: Prior) -> npt.NDArray[np.float64]:
    """Where the line is cut into the bins' cells; nowhere, if the normal has no part in the bins."""
    if spacing == "gaussian":
        return sketch.array(torch.special.ndtri(torch.arange(1, BINS).double() / BINS))
    values = sketch.array(r.values)
    return (values[1:] + values[:-1]) / 2 if prior == "gaussian" else np.array([])


def _draw_normal(axes: "Axes", scale: float, cuts: npt.NDArray[np.float64]) -> None:
    """A standard normal's density, faint, with every second cell a little darker."""
    edges = np.array([-4.1, *cuts, 4.1])
    for place, (low, high) in enumerate(pairwise(edges)):
        z = np.linspace(low, high, 200)
        density = scale * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        axes.fill_between(z, density, color="#e2e2e2" if place % 2 else "#efefef", linewidth=0, zorder=0.5)


#: By the stem of a file's name.
DIAGRAMS: dict[str, Callable[[], "Figure"]] = {
    "diagram-latent-layers": latent_layers,
    "diagram-approximation": approximation,
    "diagram-quantized-domain": quantized_domain,
    "diagram-sampling": sampling_graph,
    "diagram-priors": priors_and_spacings,
}

#: What stands below each.
CAPTIONS: dict[str, str] = {
    "diagram-latent-layers": (
        "A deep latent variable model has layers of stochastic latent variables between the input x and the classes y. "
        "Each circle shows the distribution that a small SQUAD network predicts for one of them; the value that was "
        "drawn, in red, is handed on to the next layer."
    ),
    "diagram-approximation": (
        "Variational inference takes, from a class that can be computed with, the distribution q that is closest to "
        "the true one, p. Here the class is that of the Gaussians: each is a point on the right, darker where its KL "
        "divergence to p is smaller, and gradient descent goes from a wide one to the closest of all. It covers one "
        "mode and leaves the other out: it is surer than it should be."
    ),
    "diagram-quantized-domain": (
        "SQUAD quantizes the domain of a latent z: a probability for each of C = 11 values can follow any shape. The "
        "density is that of the figure before; the bars are its mass around each value, and the closest Gaussian is "
        "drawn for comparison."
    ),
    "diagram-sampling": (
        "Left: how one latent variable is sampled in training, with the numbers of a small layer. Gumbel noise is "
        "added to the logits, a softmax at a low temperature makes an almost one-hot vector of them, and its inner "
        "product with the values is the sample; the KL divergence to the prior needs no sample. Right: the "
        "matrix-factorized variant goes through B numbers for each latent, which takes a fraction of the weights."
    ),
    "diagram-priors": (
        "Three priors r(z) on C = 11 bins, with the settings of a layer that give them. Left: values evenly spaced, "
        "and equal weights. Middle: the same values, each weighted by a normal's mass in its cell. Right: values of "
        "cells that have equal mass under a normal, and equal weights. Grey: the standard normal density, on a scale "
        "of its own, with every second cell darker."
    ),
}
