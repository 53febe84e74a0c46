"""The distributions that a latent layer predicts, and how much they tell about the input."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.analysis.layer_view import view_layer
from squad.analysis.plain import Plain
from squad.errors import ArgumentError
from squad.layers.quantized import SquadLayer
from squad.models.networks import Network

__all__ = ["Posteriors", "ascending", "information", "posteriors"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Posteriors(Plain):
    """p(z | input) of the units of one layer.

    Attributes:
        layer: which latent layer, from 1.
        probs: (N, K, C), of each row, unit and bin.
        values: (K, C), where the bins of each unit stand, ascending.
    """

    layer: int
    probs: Floats
    values: Floats

    def __post_init__(self) -> None:
        if self.probs.ndim != 3 or self.values.shape != self.probs.shape[1:]:
            got = f"shapes {self.probs.shape} and {self.values.shape}"
            raise ArgumentError.of("probs and values", got, "of the shapes (N, K, C) and (K, C)")


def ascending(layer: SquadLayer) -> tuple[Floats, NDArray[np.int64]]:
    """The values of a layer without members in ascending order, (K, C), and which bin each is, (K, C).

    Learned values need not ascend: each unit has an order of its own where they are its own.
    """
    values = layer.values.detach().double().cpu()
    values = values.mT if layer.learn_values == "per_neuron" else values.expand(layer.out_features, -1)
    ordered, order = values.sort(dim=-1, stable=True)
    return ordered.numpy(), order.numpy()


@torch.no_grad()
def posteriors(network: Network, x: Tensor, layer: int = 1, member: int = 0) -> Posteriors:
    """p(z | input) of one latent layer of one member.

    The input of the first layer is the row itself.  That of a later one is a sample of the layers before it, and one
    only: relaxed, the sample with index 0 by the model's own seeds, as in eval mode.

    Args:
        network: one with quantized latents.
        x: (N, in), rows as the network takes them.
        layer: which latent layer, from 1.
        member: from 0.
    """
    at = view_layer(network, layer, member)
    values, order = ascending(at.layer)
    probs = np.empty((len(x), *values.shape))
    for rows, block in at.inputs(x):
        found = at.layer.posterior(block).probs.cpu().numpy()
        probs[rows] = np.take_along_axis(found, np.broadcast_to(order, found.shape), -1)
    return Posteriors(layer, probs, values)


def information(probs: Floats) -> Floats:
    """I(z; input) of each unit over the rows, in bits: the mean KL of p(z | row) to its mean; (N, K, C) -> (K,)."""
    mean = probs.mean(axis=0)
    # Row by row: nothing of the size of probs is made.
    own = np.mean([_entropy(row) for row in probs], axis=0)
    found: Floats = np.maximum(_entropy(mean) - own, 0.0)
    return found


def _entropy(probs: Floats) -> Floats:
    """In bits, along the last axis."""
    found: Floats = -np.sum(probs * np.log2(np.where(probs > 0, probs, 1.0)), axis=-1)
    return found
