"""The learned, stochastic activation function of one unit: how its distribution changes along its input."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.analysis.latents import ascending
from squad.analysis.layer_view import LayerView, check_unit, view_layer
from squad.analysis.plain import Plain
from squad.core.checks import check_count
from squad.layers import FactorizedSquadLinear
from squad.models.networks import Network

__all__ = ["Activation", "activation"]

Floats = NDArray[np.float64]

#: The function is shown over this share of the rows, in the middle of where they are.
CENTRAL = 0.998
#: Samples at each position, and the seed they are drawn with.
SAMPLES, SEED = 3, 0
#: What the position of a unit with one number as its input is called.
OWN = "the unit's own input"
#: Bars of the histogram of the rows.
BARS = 40


@dataclass(frozen=True)
class Activation(Plain):
    """What one unit makes of its input, at P positions along a line.

    Attributes:
        layer, unit: which, both from 1.
        axis: what the position is, in words.
        position: (P,), ascending.
        probs: (P, C), of each value.
        values: (C,), ascending.
        mean: (P,), the expectation.
        likely: (P,), the most likely value.
        likely_probability: (P,), how likely it is.
        sample_position, sample: (S,), hard samples and where they were drawn.
        explained: the share of the variance of the unit's logits over the rows that lies along the line.
        edges, counts: (B + 1,) and (B,), how many rows stand where; those beyond the line's ends are left out.
    """

    layer: int
    unit: int
    axis: str
    position: Floats
    probs: Floats
    values: Floats
    mean: Floats
    likely: Floats
    likely_probability: Floats
    sample_position: Floats
    sample: Floats
    explained: float
    edges: Floats
    counts: NDArray[np.int64]

    @property
    def exact(self) -> bool:
        """Whether the line is the unit's own input, and not one through a cloud of logits."""
        return self.axis.startswith(OWN)


@dataclass(frozen=True)
class _Line:
    """Logits (C,) along a line: ``start + position * direction``; and where the rows are on it, (N,)."""

    start: Floats
    direction: Floats
    rows: Floats
    explained: float
    axis: str

    def logits(self, position: Floats) -> Floats:
        """(P,) -> (P, C)."""
        return self.start + position[:, None] * self.direction

    def turned(self) -> "_Line":
        """The same line from its other end."""
        return _Line(self.start, -self.direction, -self.rows, self.explained, self.axis.replace("u =", "-u, u ="))


@torch.no_grad()
def activation(network: Network, x: Tensor, layer: int, unit: int, member: int = 0, points: int = 201) -> Activation:
    """The activation function of one unit, over the rows x.

    A unit of a factorized layer of rank 1 has one number as its input, u = w'x + b', and its activation is a function
    of u.  Other units have logits of their own for every row, a cloud in C dimensions; the function is then along the
    first principal direction of this cloud, through its mean, and ``explained`` says how much of the cloud's variance
    that is.  (What is common to a row's logits changes no probability, and is taken off first.)  The direction is
    turned so that the expectation rises.

    Args:
        network: one with quantized latents.
        x: (N, in), rows as the network takes them.
        layer: which latent layer, from 1.
        unit: which of its units, from 1.
        member: from 0.
        points: how many positions, over the central 99.8 % of the rows.
    """
    check_count("points", points, 2)
    at = view_layer(network, layer, member)
    index = check_unit(unit, at.layer)
    ordered, order = ascending(at.layer)
    values = ordered[index]
    line = _own_input(at, x, index) or _principal(at, x, index)
    line = _Line(line.start[order[index]], line.direction[order[index]], line.rows, line.explained, line.axis)
    position = _positions(line, points)
    if _falls(position, _softmax(line.logits(position)) @ values):
        line = line.turned()
        position = _positions(line, points)
    probs = _softmax(line.logits(position))
    best = probs.argmax(axis=1)
    counts, edges = np.histogram(line.rows, BARS, (position[0], position[-1]))
    drawn = _drawn(probs)
    return Activation(
        layer,
        unit,
        line.axis,
        position,
        probs,
        values,
        probs @ values,
        values[best],
        np.take_along_axis(probs, best[:, None], 1)[:, 0],
        position.repeat(SAMPLES),
        values[drawn].reshape(-1),
        line.explained,
        edges,
        counts,
    )


def _own_input(at: LayerView, x: Tensor, unit: int) -> _Line | None:
    """The line of a unit with one number as its input, position u; None for others."""
    layer = at.layer
    if not isinstance(layer, FactorizedSquadLinear) or layer.rank != 1:
        return None
    inner = 0 if layer.shared else unit
    rows = np.concatenate([layer.inner(block)[:, inner, 0].cpu().numpy() for _, block in at.inputs(x)])
    start, direction = (tensor.cpu().numpy() for tensor in (layer.bias2[unit], layer.weight2[unit, 0]))
    return _Line(start, direction, rows, 1.0, f"{OWN} u = w'x + b'")


def _principal(at: LayerView, x: Tensor, unit: int) -> _Line:
    """The line through the middle of a unit's logits along which they vary most."""
    logits = np.concatenate([at.layer.logits(block)[:, :, unit].cpu().numpy() for _, block in at.inputs(x)])
    logits = logits - logits.mean(axis=1, keepdims=True)
    start = logits.mean(axis=0)
    away = logits - start
    variances, directions = np.linalg.eigh(away.T @ away / len(away))
    direction = directions[:, -1]
    direction = direction * np.sign(direction[np.abs(direction).argmax()])  # eigh's sign is anything
    total = float(np.maximum(variances, 0.0).sum())
    explained = min(1.0, float(variances[-1]) / total) if total > 0 else 1.0
    return _Line(
        start, direction, away @ direction, explained, "position along the main direction of the unit's logits"
    )


def _positions(line: _Line, points: int) -> Floats:
    """Evenly over the middle of the rows, and around them if they are all at one place."""
    low, high = np.quantile(line.rows, [(1 - CENTRAL) / 2, (1 + CENTRAL) / 2])
    if high - low <= 1e-9 * max(1.0, abs(low), abs(high)):
        low, high = low - 1.0, high + 1.0
    return np.linspace(low, high, points)


def _falls(position: Floats, mean: Floats) -> bool:
    """Whether the mean falls along the line, by and large."""
    return float((position - position.mean()) @ mean) < 0


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return found


def _drawn(probs: Floats) -> NDArray[np.int64]:
    """Hard samples at each position, as bins: (P, C) -> (P, samples)."""
    u = np.random.default_rng(SEED).random((len(probs), SAMPLES))
    below = probs.cumsum(axis=1)[:, None, :-1] <= u[:, :, None]
    found: NDArray[np.int64] = below.sum(axis=-1)
    return found
