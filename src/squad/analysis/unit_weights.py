"""Weights behind the logits of a unit's bins."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from squad.analysis.latents import ascending
from squad.analysis.layer_view import check_unit, view_layer
from squad.analysis.stored_result import Plain
from squad.data.array_transform import ArrayTransform
from squad.data.columns import NumberColumn
from squad.data.transforms import TableTransform
from squad.layers import FactorizedSquadLinear, SquadLinear
from squad.models.networks import Network

__all__ = ["BinWeights", "bin_weights", "feature_names"]


@dataclass(frozen=True)
class BinWeights(Plain):
    """Weights and biases of a unit's logits: ``logits = weights @ input + bias``.

    Attributes:
        layer: Latent layer, counted from 1.
        unit: Unit of the layer, counted from 1.
        weights: (C, in), weights.
        bias: (C,), biases.
        values: (C,), values of the bins, ascending.

    See Also:
        :func:`bin_weights`: Compute them.

    Examples:
        >>> from squad.models import build, network_config
        >>> network = build(network_config("squad", {"hidden": [4], "bins": 5}), 3, 2, [0])
        >>> found = bin_weights(network, layer=1, unit=2)
        >>> found.weights.shape, found.bias.shape
        ((5, 3), (5,))
    """

    layer: int
    unit: int
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    values: NDArray[np.float64]


@torch.no_grad()
def bin_weights(network: Network, layer: int, unit: int, member: int = 0) -> BinWeights:
    """Return the weights of one unit's bins in ascending order of their values; W'' W' for a factorized layer.

    Args:
        network: Network with quantized latents.
        layer: Latent layer, counted from 1.
        unit: Unit of the layer, counted from 1.
        member: Ensemble member, counted from 0.

    Returns:
        The weights.

    See Also:
        :func:`squad.analysis.latent_figures.draw_weights`: Draw them.

    Examples:
        >>> from squad.models import build, network_config
        >>> network = build(network_config("squad", {"hidden": [4], "bins": 5}), 3, 2, [0])
        >>> bin_weights(network, layer=1, unit=2).weights.shape
        (5, 3)
    """
    squad_layer = view_layer(network, layer, member).layer
    index = check_unit(unit, squad_layer)
    if isinstance(squad_layer, FactorizedSquadLinear):
        inner = 0 if squad_layer.shared else index
        weights = (squad_layer.weight1[:, inner] @ squad_layer.weight2[index]).mT
        bias = squad_layer.bias1[inner] @ squad_layer.weight2[index] + squad_layer.bias2[index]
    else:
        assert isinstance(squad_layer, SquadLinear)
        weights = squad_layer.weight.unflatten(-1, (squad_layer.bins, squad_layer.out_features))[..., index].mT
        bias = squad_layer.bias.unflatten(-1, (squad_layer.bins, squad_layer.out_features))[..., index]
    ordered, order = ascending(squad_layer)
    return BinWeights(
        layer, unit, weights.cpu().numpy()[order[index]], bias.cpu().numpy()[order[index]], ordered[index]
    )


def feature_names(transform: TableTransform | ArrayTransform) -> tuple[str, ...]:
    """Return the names of the network's inputs: columns, categories of columns, or positions counted from 1.

    Args:
        transform: Transform of the model.

    Returns:
        One name per input.

    Examples:
        >>> feature_names(ArrayTransform.fit(np.eye(3)))
        ('feature 1', 'feature 2', 'feature 3')
    """
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
