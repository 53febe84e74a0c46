"""Posteriors of a latent layer, and their mutual information with the input."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.analysis.layer_view import view_layer
from squad.analysis.stored_result import Plain
from squad.errors import ArgumentError
from squad.layers.quantized import SquadLayer
from squad.models.networks import Network

__all__ = ["Posteriors", "ascending", "information", "posteriors"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Posteriors(Plain):
    """Posteriors p(z | input) of the units of one layer.

    Attributes:
        layer: Latent layer, counted from 1.
        probs: (N, K, C), probability of each bin, per row and unit.
        values: (K, C), values of the bins of each unit, ascending.

    Raises:
        ArgumentError: If the shapes do not match.

    See Also:
        :func:`posteriors`: Compute them.

    Examples:
        >>> Posteriors(1, np.full((10, 4, 5), 0.2), np.tile(np.arange(5.0), (4, 1))).probs.shape
        (10, 4, 5)
    """

    layer: int
    probs: Floats
    values: Floats

    def __post_init__(self) -> None:
        if self.probs.ndim != 3 or self.values.shape != self.probs.shape[1:]:
            shapes = f"{self.probs.shape} and {self.values.shape}"
            raise ArgumentError(f"probs and values must have shapes (N, K, C) and (K, C), got {shapes}.")


def ascending(layer: SquadLayer) -> tuple[Floats, NDArray[np.int64]]:
    """Sort the values of a layer without members.

    Learned values need not be in ascending order, and each unit has its own order if values are learned per neuron.

    Returns:
        (K, C), values in ascending order, and (K, C), the bin of each value.
    """
    values = layer.values.detach().double().cpu()
    values = values.mT if layer.learn_values == "per_neuron" else values.expand(layer.out_features, -1)
    ordered, order = values.sort(dim=-1, stable=True)
    return ordered.numpy(), order.numpy()


@torch.no_grad()
def posteriors(network: Network, x: Tensor, layer: int = 1, member: int = 0) -> Posteriors:
    """Compute the posteriors p(z | input) of one latent layer of one member.

    The input of the first layer is the row itself.  The input of a later layer is one relaxed sample of the layers
    before it: the sample with index 0 under the model's own seeds, as in eval mode.

    Args:
        network: Network with quantized latents.
        x: (N, in), encoded rows.
        layer: Latent layer, counted from 1.
        member: Ensemble member, counted from 0.

    Returns:
        The posteriors, with bins in ascending order of their values.

    Examples:
        >>> from squad.models import build, network_config
        >>> network = build(network_config("squad", {"hidden": [4], "bins": 5}), 3, 2, [0])
        >>> posteriors(network, torch.randn(10, 3), layer=1).probs.shape
        (10, 4, 5)
    """
    view = view_layer(network, layer, member)
    values, order = ascending(view.layer)
    probs = np.empty((len(x), *values.shape))
    for rows, block in view.inputs(x):
        unordered = view.layer.posterior(block).probs.cpu().numpy()
        probs[rows] = np.take_along_axis(unordered, np.broadcast_to(order, unordered.shape), -1)
    return Posteriors(layer, probs, values)


def information(probs: Floats) -> Floats:
    """Compute the mutual information I(z; input) of each unit over the rows, in bits.

    It is the mean KL divergence of p(z | row) from its mean over the rows, at most log2 C.

    Args:
        probs: (N, K, C), posteriors.

    Returns:
        (K,), bits per unit.

    Examples:
        >>> information(np.eye(4)[:, None])  # four rows, each with its own value
        array([2.])
    """
    mean = probs.mean(axis=0)
    # Row by row, to avoid temporary arrays of the size of probs.
    conditional = np.mean([_entropy(row) for row in probs], axis=0)
    bits: Floats = np.maximum(_entropy(mean) - conditional, 0.0)
    return bits


def _entropy(probs: Floats) -> Floats:
    """Compute the entropy in bits along the last axis."""
    bits: Floats = -np.sum(probs * np.log2(np.where(probs > 0, probs, 1.0)), axis=-1)
    return bits
