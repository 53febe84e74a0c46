"""Learned, stochastic activation function of a unit: its distribution as a function of its input."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.analysis.latents import ascending
from squad.analysis.layer_view import LayerView, check_unit, view_layer
from squad.analysis.stored_result import Plain
from squad.core.checks import check_count
from squad.layers import FactorizedSquadLinear
from squad.models.networks import Network

__all__ = ["Activation", "activation"]

Floats = NDArray[np.float64]

#: Central fraction of the rows over which the function is computed.
CENTRAL_FRACTION = 0.998
#: Number of samples at each position, and the seed they are drawn with.
SAMPLES, SEED = 3, 0
#: Beginning of the axis label of a unit with a scalar input.
SCALAR_INPUT = "the unit's own input"
#: Number of bins in the histogram of the rows.
HISTOGRAM_BINS = 40


@dataclass(frozen=True)
class Activation(Plain):
    """Activation function of one unit: its distribution at P positions along a line.

    Attributes:
        layer: Latent layer, counted from 1.
        unit: Unit of the layer, counted from 1.
        axis: Description of the position.
        position: (P,), positions, ascending.
        probs: (P, C), probability of each value.
        values: (C,), values of the bins, ascending.
        mean: (P,), expected value.
        likely: (P,), most likely value.
        likely_probability: (P,), probability of the most likely value.
        sample_position: (S,), positions of the samples.
        sample: (S,), hard samples.
        explained: Fraction of the variance of the unit's logits over the rows that lies along the line.
        edges: (B + 1,), bin edges of the histogram of the rows along the line.
        counts: (B,), number of rows per bin; rows beyond the ends of the line are left out.

    See Also:
        :func:`activation`: Compute it.

    Examples:
        >>> from squad.models import build, network_config
        >>> network = build(network_config("squad", {"hidden": [4], "bins": 5}), 3, 2, [0])
        >>> found = activation(network, torch.randn(50, 3), layer=1, unit=2)
        >>> found.values.shape, found.mean.shape == found.position.shape
        ((5,), True)
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
        """Whether the position is the unit's scalar input, rather than a direction in the space of logits."""
        return self.axis.startswith(SCALAR_INPUT)


@dataclass(frozen=True)
class _Line:
    """A line in the space of a unit's logits.

    Attributes:
        start: (C,), logits at position 0.
        direction: (C,), change of the logits per unit of position.
        rows: (N,), positions of the rows.
        explained: Fraction of the variance of the logits along the line.
        axis: Description of the position.
    """

    start: Floats
    direction: Floats
    rows: Floats
    explained: float
    axis: str

    def logits(self, position: Floats) -> Floats:
        """Return the logits at positions: (P,) -> (P, C)."""
        return self.start + position[:, None] * self.direction

    def reversed(self) -> "_Line":
        """Return the same line in the opposite direction."""
        return _Line(self.start, -self.direction, -self.rows, self.explained, self.axis.replace("u =", "-u, u ="))


@torch.no_grad()
def activation(network: Network, x: Tensor, layer: int, unit: int, member: int = 0, points: int = 201) -> Activation:
    """Compute the activation function of one unit over the rows x.

    A unit of a factorized layer of rank 1 has a scalar input, u = w'x + b', and its activation is an exact function of
    u.  The logits of other units form a cloud of N points in C dimensions; their activation is computed along the first
    principal component of this cloud, through its mean, and ``explained`` is the fraction of the variance along it.
    (The mean of each row's logits is subtracted first, since it does not change any probability.)  The direction is
    chosen such that the expected value increases.

    Args:
        network: Network with quantized latents.
        x: (N, in), encoded rows.
        layer: Latent layer, counted from 1.
        unit: Unit of the layer, counted from 1.
        member: Ensemble member, counted from 0.
        points: Number of positions P, over the central 99.8 % of the rows.

    Returns:
        The activation function.

    See Also:
        :func:`squad.analysis.latent_figures.draw_activation`: Draw it.

    Examples:
        >>> from squad.models import build, network_config
        >>> network = build(network_config("squad", {"hidden": [4], "bins": 5}), 3, 2, [0])
        >>> found = activation(network, torch.randn(50, 3), layer=1, unit=2, points=21)
        >>> found.probs.shape, found.mean.shape
        ((21, 5), (21,))
    """
    check_count("points", points, 2)
    view = view_layer(network, layer, member)
    index = check_unit(unit, view.layer)
    ordered, order = ascending(view.layer)
    values = ordered[index]
    line = _scalar_input_line(view, x, index) or _principal_line(view, x, index)
    line = _Line(line.start[order[index]], line.direction[order[index]], line.rows, line.explained, line.axis)
    position = _positions(line, points)
    if _decreases(position, _softmax(line.logits(position)) @ values):
        line = line.reversed()
        position = _positions(line, points)
    probs = _softmax(line.logits(position))
    best = probs.argmax(axis=1)
    counts, edges = np.histogram(line.rows, HISTOGRAM_BINS, (position[0], position[-1]))
    samples = _sample_bins(probs)
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
        values[samples].reshape(-1),
        line.explained,
        edges,
        counts,
    )


def _scalar_input_line(view: LayerView, x: Tensor, unit: int) -> _Line | None:
    """Return the line of a unit with a scalar input, with u as its position; None for other units."""
    layer = view.layer
    if not isinstance(layer, FactorizedSquadLinear) or layer.rank != 1:
        return None
    inner = 0 if layer.shared else unit
    rows = np.concatenate([layer.inner(block)[:, inner, 0].cpu().numpy() for _, block in view.inputs(x)])
    start, direction = (tensor.cpu().numpy() for tensor in (layer.bias2[unit], layer.weight2[unit, 0]))
    return _Line(start, direction, rows, 1.0, f"{SCALAR_INPUT} u = w'x + b'")


def _principal_line(view: LayerView, x: Tensor, unit: int) -> _Line:
    """Return the line through the mean of a unit's logits along their first principal component."""
    logits = np.concatenate([view.layer.logits(block)[:, :, unit].cpu().numpy() for _, block in view.inputs(x)])
    logits = logits - logits.mean(axis=1, keepdims=True)
    start = logits.mean(axis=0)
    centered = logits - start
    variances, directions = np.linalg.eigh(centered.T @ centered / len(centered))
    direction = directions[:, -1]
    direction = direction * np.sign(direction[np.abs(direction).argmax()])  # the sign of an eigenvector is arbitrary
    total = float(np.maximum(variances, 0.0).sum())
    explained = min(1.0, float(variances[-1]) / total) if total > 0 else 1.0
    return _Line(
        start, direction, centered @ direction, explained, "position along the main direction of the unit's logits"
    )


def _positions(line: _Line, points: int) -> Floats:
    """Return evenly spaced positions over the central rows, or around them if they all coincide."""
    low, high = np.quantile(line.rows, [(1 - CENTRAL_FRACTION) / 2, (1 + CENTRAL_FRACTION) / 2])
    if high - low <= 1e-9 * max(1.0, abs(low), abs(high)):
        low, high = low - 1.0, high + 1.0
    return np.linspace(low, high, points)


def _decreases(position: Floats, mean: Floats) -> bool:
    """Return whether the mean decreases along the line overall (by linear regression)."""
    return float((position - position.mean()) @ mean) < 0


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probs: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return probs


def _sample_bins(probs: Floats) -> NDArray[np.int64]:
    """Draw hard samples at each position, as indices of bins: (P, C) -> (P, SAMPLES)."""
    u = np.random.default_rng(SEED).random((len(probs), SAMPLES))
    below = probs.cumsum(axis=1)[:, None, :-1] <= u[:, :, None]
    bins: NDArray[np.int64] = below.sum(axis=-1)
    return bins
