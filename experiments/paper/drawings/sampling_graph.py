"""The paper's diagram of how a latent is sampled, plain and factorized, with the numbers of small layers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from experiments.paper.drawings import sketch
from experiments.paper.drawings.sketch import ACCENT, FAINT, GREEN, GREY, INK, LIGHT, LINE, SMALL, TEXT, Point
from squad.core import categorical, noise
from squad.layers import FactorizedSquadLinear, SquadLinear
from squad.layers.quantized import SquadLayer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BINS", "FEATURES", "TAU", "sampling_graph", "seeded"]

#: Number of bins of the small layers in all diagrams.
BINS = 11
#: Temperature of the samples.
TAU = 0.5
#: Input of the small layers.
FEATURES = (0.9, -0.4, 1.3, 0.2, -1.1, 0.6, -0.2, 0.5)
#: Sizes of the layer whose weights are counted: the paper's largest, on SVHN.
LARGE_INPUTS, LARGE_LATENTS, LARGE_BINS, LARGE_RANK = 3072, 256, 37, 4


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's random weights within the block, and restore its generator afterwards."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        yield


class _Latent(NamedTuple):
    """The steps by which one latent is sampled in training; all are (C,) except z and kl."""

    logits: Tensor
    noise: Tensor
    relaxed: Tensor
    values: Tensor
    probs: Tensor
    prior: Tensor
    z: float
    kl: float


def _one_latent(layer: SquadLayer, seed: int) -> _Latent:
    """Sample a layer's only latent step by step, as the layer does in one call."""
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
    """Count the weights and biases of a large layer, plain and factorized."""
    sizes = LARGE_INPUTS, LARGE_LATENTS
    with seeded(0):
        layers = {
            "plain": SquadLinear(*sizes, bins=LARGE_BINS),
            "factorized": FactorizedSquadLinear(*sizes, bins=LARGE_BINS, rank=LARGE_RANK),
            "shared": FactorizedSquadLinear(*sizes, bins=LARGE_BINS, rank=LARGE_RANK, shared=True),
        }
    return {
        name: sum(p.numel() for part, p in layer.named_parameters() if part.startswith(("weight", "bias")))
        for name, layer in layers.items()
    }


def sampling_graph() -> "Figure":
    """Draw how one latent is sampled in training (left), and the factorized variant (right)."""
    figure, axes = sketch.blank(11, 8.3)
    _plain_graph(axes)
    _factorized_graph(axes)
    _weight_bars(axes)
    axes.plot([6.7, 6.7], [0.25, 8.1], color=LINE, linewidth=1)
    return figure


def _plain_graph(axes: "Axes") -> None:
    with seeded(3):
        layer = SquadLinear(len(FEATURES), 1, bins=BINS, prior="gaussian")
    latent = _one_latent(layer, 2)
    main, side, branch = 2.95, 0.98, 5.3
    sketch.write(axes, (0.2, 8.02), "SQUAD, one latent variable in training", size=13, ha="left", weight="bold")

    # Outside the plate: the input above, the rest of the network below.
    places = sketch.cells(axes, (main, 7.4), FEATURES)
    sketch.write(axes, (main - 1.15, 7.4), r"$\mathbf{x}$", size=17)
    sketch.write(axes, (main + 1.02, 7.4), r"$|X|$ numbers", ha="left", colour=GREY)
    sketch.box(axes, (3.19, 4.29), 6.06, 5.0, "#fafafa", LINE, order=0.2)
    sketch.write(axes, (6.05, 2.02), r"one of $K$ latent variables", ha="right", colour=GREY)

    bars = sketch.bars(axes, "logits", (main, 6.1), sketch.array(latent.logits), colour=FAINT)
    sketch.fan(axes, [(x, y - 0.1) for x, y in places], [(x, 6.45) for x in bars])
    sketch.write(axes, (side, 7.24), r"$\mathbf{W}$", size=15)
    sketch.write(axes, (side, 6.97), r"$|X|\times K\times C$", colour=GREY)
    sketch.write(axes, (side, 6.2), r"$\mathbf{W}\mathbf{x}+\mathbf{b}$", size=15)
    sketch.write(axes, (side, 5.92), r"$C$ logits", colour=GREY)

    sketch.arrow(axes, (main, 5.75), (main, 5.3))
    _operator(axes, (main, 5.13), "+")
    sketch.bars(axes, "noise", (side, 5.13), sketch.array(latent.noise), 1.3, 0.5, colour=FAINT)
    sketch.arrow(axes, (side + 0.7, 5.13), (main - 0.17, 5.13))
    sketch.write(axes, (side, 4.7), r"$\epsilon$, Gumbel noise", colour=INK)

    sketch.arrow(axes, (main, 4.96), (main, 4.5))
    sketch.write(axes, (main + 0.12, 4.74), rf"softmax$(\,\cdot\,/\,\tau)$, $\tau={TAU:g}$", ha="left")
    sketch.bars(axes, "relaxed", (main, 4.12), sketch.array(latent.relaxed), colour=ACCENT)
    sketch.arrow(axes, (main, 3.76), (main, 3.37))
    _operator(axes, (main, 3.2), r"$\bullet$", 9)
    sketch.bars(axes, "values", (side, 3.2), sketch.array(latent.values), 1.3, 0.5, colour=INK)
    sketch.arrow(axes, (side + 0.7, 3.2), (main - 0.17, 3.2))
    sketch.write(axes, (side, 2.77), r"$\mathbf{v}$, the values", colour=INK)
    sketch.arrow(axes, (main, 3.03), (main, 2.6))
    sketch.circle(axes, (main, 2.3), 0.29, edge=ACCENT)
    sketch.write(axes, (main, 2.3), "$z_k$", size=16, colour=ACCENT, zorder=3)
    sketch.write(axes, (main + 0.4, 2.3), f"$={latent.z:.2f}$", size=12, ha="left", colour=ACCENT)

    sketch.arrow(axes, (main + 0.88, 6.1), (branch - 0.88, 6.1))
    sketch.write(axes, ((main + branch) / 2, 6.25), "softmax", size=SMALL)
    sketch.bars(axes, "probs", (branch, 6.1), sketch.array(latent.probs))
    sketch.write(axes, (branch, 6.6), r"$p(z_k\,|\,\mathbf{x})$", size=13)
    sketch.arrow(axes, (branch, 5.75), (branch, 5.34))
    sketch.box(axes, (branch, 5.12), 1.2, 0.4)
    sketch.write(axes, (branch, 5.12), rf"$\mathrm{{KL}}={latent.kl:.2f}$", size=13)
    sketch.arrow(axes, (branch, 4.3), (branch, 4.9))
    sketch.bars(axes, "prior", (branch, 3.95), sketch.array(latent.prior), colour=LIGHT)
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
    with seeded(8):
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
    sketch.write(axes, (main, 4.18), "continued as on the left", colour=GREY)


def _weight_bars(axes: "Axes") -> None:
    """Draw the numbers of weights of a large layer, plain and factorized."""
    counts = _weights()
    names = {
        "plain": r"SQUAD, $\mathbf{W}$",
        "factorized": r"SQUAD-factorized, $\mathbf{W}^\prime$ and $\mathbf{W}^{\prime\prime}$",
        "shared": r"factorized, one $\mathbf{W}^\prime$ for all $K$",
    }
    sizes = rf"$|X|={LARGE_INPUTS},\ K={LARGE_LATENTS},\ C={LARGE_BINS},\ B={LARGE_RANK}$"
    sketch.write(axes, (7.0, 3.5), "weights and biases of a layer", ha="left", size=TEXT + 0.5)
    sketch.write(axes, (7.0, 3.2), sizes, ha="left", size=12, colour=GREY)
    inset = sketch.inset(axes, "weights", (8.9, 1.62), 3.8, 2.6)
    inset.barh(np.arange(len(counts)), list(counts.values()), 0.3, color=[FAINT, GREEN, GREEN])
    inset.set(xlim=(0, max(counts.values())), ylim=(len(counts) - 0.55, -0.75))
    for row, (name, count) in enumerate(counts.items()):
        sketch.write(inset, (0, row - 0.32), names[name], ha="left")
        sketch.write(inset, (max(counts.values()), row - 0.32), f"{count:,}", ha="right")
