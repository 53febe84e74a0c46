"""The paper's diagrams, redrawn; all numbers and bars in them are computed by the library.

Each function returns a matplotlib figure; the caller saves it at the resolution of its choice.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, Normal, kl_divergence

from experiments.paper.drawings import sketch
from experiments.paper.drawings.sampling_graph import BINS, FEATURES, sampling_graph, seeded
from experiments.paper.drawings.sketch import ACCENT, FAINT, GREEN, GREY, INK, LIGHT, SMALL, TEXT
from squad.core.bins import linear_bins
from squad.core.distribution import Quantized
from squad.layers import Linear, SquadLinear
from squad.layers.quantized import Prior, Spacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DIAGRAMS", "approximation", "latent_layers", "priors_and_spacings", "quantized_domain",
    "sampling_graph",
]  # fmt: skip


class _Pass(NamedTuple):
    """A forward pass with sampling.

    Attributes:
        layers: Per layer, the probabilities of its latents, (K, C), and the sampled bins, (K,).
        classes: Probabilities of the classes.
    """

    layers: list[tuple[Tensor, Tensor]]
    classes: Tensor


def _ancestral(features: Sequence[float], latents: int, bins: int) -> _Pass:
    """Run one pass through three layers of a small network, each given the sample of the layer before."""
    with seeded(12):
        sizes = [len(features), latents, latents, latents]
        layers = [SquadLinear(a, b, bins=bins, init_scale=1.2 if a > b else 0.4) for a, b in pairwise(sizes)]
        z, outputs = torch.tensor(features), []
        for layer in layers:
            q = layer.posterior(z)
            z = q.sample()
            outputs.append((q.probs, (q.values == z.unsqueeze(-1)).int().argmax(-1)))
        return _Pass(outputs, Linear(latents, 3)(z).softmax(-1))


def latent_layers() -> "Figure":
    """Draw layers of stochastic latents between x and y, each with the distribution that a small network predicts."""
    features, rows, bins = FEATURES[:6], 4, 9
    sampled = _ancestral(features, rows, bins)
    figure, axes = sketch.blank(9.6, 5.1)
    first, *columns, last = stops = (0.7, 2.45, 4.35, 6.85, 8.9)
    heights = [4.02 - 0.94 * row for row in range(rows)]
    middle, gap = sum(heights) / rows, sum(columns[1:]) / 2
    latents = [[(x, y) for y in heights] for x in columns]
    inputs = sketch.cells(axes, (first, middle), features, 0.3, across=False)
    classes = sketch.cells(axes, (last, middle), sampled.classes.tolist(), 0.3, across=False)
    for one, other in pairwise([inputs, *latents, classes]):
        sketch.fan(axes, one, other)
    sketch.box(axes, (gap, middle), 0.84, 3.6, "white", "white", order=0.6)  # omitted layers
    sketch.write(axes, (gap, middle), r"$\cdots$", size=24)
    for layer, (column, (probs, drawn)) in enumerate(zip(latents, sampled.layers, strict=True), 1):
        for row, center in enumerate(column):
            sketch.circle(axes, center, 0.4, edge=FAINT)
            colours = [ACCENT if index == int(drawn[row]) else LIGHT for index in range(bins)]
            sketch.bars(axes, f"latent {layer} {row + 1}", center, sketch.array(probs[row]), 0.52, 0.36, colours)
    _name_layers(axes, stops, gap)
    return figure


def _name_layers(axes: "Axes", stops: Sequence[float], gap: float) -> None:
    """Write each layer's distribution above it and its symbol below it, with arrows from each layer to the next."""
    symbols = (r"\mathbf{x}", r"\mathbf{z}_1", r"\mathbf{z}_2", r"\mathbf{z}_L", r"\mathbf{y}")
    givens = (r"\mathbf{x}", r"\mathbf{z}_1", r"\mathbf{z}_{L-1}", r"\mathbf{z}_L")
    for x, symbol in zip(stops, symbols, strict=True):
        sketch.write(axes, (x, 0.53), f"${symbol}$", size=18)
    for x, symbol, given, law in zip(stops[1:], symbols[1:], givens, "pppq", strict=True):
        sketch.write(axes, (x, 4.8), rf"${law}({symbol}\,|\,{given})$", size=14)
    sketch.write(axes, (gap, 0.53), r"$\cdots$", size=16, colour=FAINT)
    for start, stop in pairwise(sorted([*stops, gap])):
        sketch.arrow(axes, (start + 0.35, 0.53), (stop - 0.35, 0.53), FAINT)
    words = "layers of latent variables (red: the sampled value)"
    for x, word in ((stops[0], "input"), ((stops[1] + stops[-2]) / 2, words), (stops[-1], "classes")):
        sketch.write(axes, (x, 0.17), word, colour=GREY)


def _target() -> Any:
    """Return a density with two modes, one with a shoulder, as an example of an exact posterior."""
    modes = Normal(torch.tensor([-1.55, 1.45, 2.5]).double(), torch.tensor([0.5, 0.45, 0.42]).double())
    return MixtureSameFamily(Categorical(torch.tensor([0.55, 0.31, 0.14]).double()), modes)


def _mass(low: Tensor, high: Tensor) -> Tensor:
    """Return the target's probability mass between two points."""
    target = _target()
    cdf = target.component_distribution.cdf
    mass: Tensor = (target.mixture_distribution.probs * (cdf(high[:, None]) - cdf(low[:, None]))).sum(-1)
    return mass


class _Descent(NamedTuple):
    """Gaussians along gradient descent: their means, standard deviations and KLs, (steps,) each."""

    means: npt.NDArray[np.float64]
    deviations: npt.NDArray[np.float64]
    kls: npt.NDArray[np.float64]


def _gaussian_kls(means: Tensor, deviations: Tensor) -> Tensor:
    """Compute KL(q || p*) of Gaussians, in the shape of the means; bins are fine enough to approximate densities."""
    grid = linear_bins(1201, 12.0, dtype=torch.float64)
    q = Quantized(Normal(means.unsqueeze(-1), deviations.unsqueeze(-1)).log_prob(grid), grid)
    return kl_divergence(q, Quantized(_target().log_prob(grid), grid))


@cache
def _descent(steps: int = 500) -> _Descent:
    """Run gradient descent on the KL over the mean and the logarithm of the standard deviation of a Gaussian."""
    parameters, path = torch.tensor([-1.6, 0.72], dtype=torch.float64), []
    for _ in range(steps):
        parameters = parameters.detach().requires_grad_()
        with torch.enable_grad():
            kl = _gaussian_kls(parameters[0], parameters[1].exp())
            (gradient,) = torch.autograd.grad(kl, parameters)
        path.append((parameters[0].item(), parameters[1].exp().item(), kl.item()))
        parameters = parameters - 0.05 * gradient
    return _Descent(*np.array(path).T)


def approximation() -> "Figure":
    """Draw how gradient descent on the KL moves a Gaussian q to one of the two modes of a density p*."""
    path = _descent()
    crossings = [int(np.argmax(path.kls < level)) for level in (2.2, 1.2, 0.95)]
    shown = [0, *crossings, len(path.kls) - 1]
    figure = sketch.figure_class()(figsize=(10.5, 4.3), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.08))

    z = linear_bins(501, 4.2, dtype=torch.float64)
    density = sketch.array(_target().log_prob(z).exp())
    left.fill_between(z, density, color="#ececec", linewidth=0)
    left.plot(z, density, color=INK, linewidth=1.8, label="target")
    for step in shown:
        q = Normal(torch.tensor(path.means[step]), torch.tensor(path.deviations[step])).log_prob(z).exp()
        last = step == shown[-1]
        name = "closest" if last else f"step {step}"
        left.plot(z, q, color=ACCENT, linewidth=2.2 if last else 1.0, alpha=1.0 if last else 0.45, label=name)
    left.set(xlim=(-4.2, 4.2), ylim=(0, 0.86), yticks=[])
    left.spines[["left", "top", "right"]].set_visible(False)
    sketch.write(left, (2.0, 0.345), r"$p_{\theta^{\!*}}$", size=18)
    sketch.write(left, (-2.35, 0.7), r"$q_\phi$", size=18, colour=ACCENT)
    _name_axes(left, "$z$")
    left.set_title("a density, and Gaussians during gradient descent", loc="left", fontsize=TEXT + 1)

    _draw_gaussians(right)
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


def _draw_gaussians(axes: "Axes") -> None:
    """Draw every Gaussian as a point, darker where it is closer to the target."""
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
    """Draw the same density, and its mass in each of eleven bins."""
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


def priors_and_spacings() -> "Figure":
    """Draw three fixed priors r(z) on eleven bins, with the layer settings that give them."""
    kinds: list[tuple[str, Spacing, Prior]] = [
        ("evenly spaced, equal weights", "linear", "uniform"),
        ("evenly spaced, Gaussian weights", "linear", "gaussian"),
        ("equal mass under a normal, equal weights", "gaussian", "uniform"),
    ]
    figure = sketch.figure_class()(figsize=(11, 3.9), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    scale = float(linear_bins(BINS).diff()[0])  # bars over linear bins are then about as high as the density
    for axes, (words, spacing, prior) in zip(panels, kinds, strict=True):
        with seeded(0):
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
    """Return the boundaries between the bins' cells; none if the bins do not depend on the normal."""
    if spacing == "gaussian":
        return sketch.array(torch.special.ndtri(torch.arange(1, BINS).double() / BINS))
    values = sketch.array(r.values)
    return (values[1:] + values[:-1]) / 2 if prior == "gaussian" else np.array([])


def _draw_normal(axes: "Axes", scale: float, cuts: npt.NDArray[np.float64]) -> None:
    """Draw the density of a standard normal, faint, with every second cell a little darker."""
    edges = np.array([-4.1, *cuts, 4.1])
    for index, (low, high) in enumerate(pairwise(edges)):
        z = np.linspace(low, high, 200)
        density = scale * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        axes.fill_between(z, density, color="#e2e2e2" if index % 2 else "#efefef", linewidth=0, zorder=0.5)


#: Functions that draw the diagrams, by stem of the file name.
DIAGRAMS: dict[str, Callable[[], "Figure"]] = {
    "diagram-latent-layers": latent_layers,
    "diagram-approximation": approximation,
    "diagram-quantized-domain": quantized_domain,
    "diagram-sampling": sampling_graph,
    "diagram-priors": priors_and_spacings,
}
