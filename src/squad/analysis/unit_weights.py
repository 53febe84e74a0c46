"""The weights behind a unit's bins."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from squad.analysis.latents import ascending
from squad.analysis.layer_view import check_unit, view_layer
from squad.analysis.plain import Plain
from squad.data.array_transform import ArrayTransform
from squad.data.columns import NumberColumn
from squad.data.transforms import TableTransform
from squad.layers import FactorizedSquadLinear, SquadLinear
from squad.models.networks import Network

__all__ = ["BinWeights", "bin_weights", "feature_names"]


@dataclass(frozen=True)
class BinWeights(Plain):
    """What makes each value of a unit likely: ``logits = weights @ input + bias``.

    Attributes:
        layer, unit: which, both from 1.
        weights: (C, in).
        bias: (C,).
        values: (C,), ascending.
    """

    layer: int
    unit: int
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    values: NDArray[np.float64]


@torch.no_grad()
def bin_weights(network: Network, layer: int, unit: int, member: int = 0) -> BinWeights:
    """The weights of one unit's bins, in ascending order of their values; of a factorized layer the product W'' W'.

    Args:
        network: one with quantized latents.
        layer: which latent layer, from 1.
        unit: which of its units, from 1.
        member: from 0.
    """
    own = view_layer(network, layer, member).layer
    index = check_unit(unit, own)
    if isinstance(own, FactorizedSquadLinear):
        inner = 0 if own.shared else index
        weights = (own.weight1[:, inner] @ own.weight2[index]).mT
        bias = own.bias1[inner] @ own.weight2[index] + own.bias2[index]
    else:
        assert isinstance(own, SquadLinear)
        weights = own.weight.unflatten(-1, (own.bins, own.out_features))[..., index].mT
        bias = own.bias.unflatten(-1, (own.bins, own.out_features))[..., index]
    ordered, order = ascending(own)
    return BinWeights(
        layer, unit, weights.cpu().numpy()[order[index]], bias.cpu().numpy()[order[index]], ordered[index]
    )


def feature_names(transform: TableTransform | ArrayTransform) -> tuple[str, ...]:
    """What the network's inputs are called: columns, categories of columns, or places in a row, from 1."""
    if isinstance(transform, ArrayTransform):
        return tuple(f"feature {index}" for index in range(1, transform.features + 1))
    names: list[str] = []
    for column in transform.columns:
        if isinstance(column, NumberColumn):
            names += [column.name] if column.std > 0 else []
        else:
            names += [f"{column.name} = {value}" for value in column.values]
        names += [f"{column.name} missing"] if column.missing else []
    return tuple(names)
