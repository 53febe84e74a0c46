"""Where one looks: a latent layer of one member, one of its units, and what the layer is given."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from squad.core.checks import check_count
from squad.errors import ArgumentError
from squad.layers import sample_index
from squad.layers.quantized import SquadLayer
from squad.models.networks import Network, Stage

__all__ = ["LayerView", "check_unit", "latent_layers", "view_layer"]

#: Numbers of a block's largest tensor, at the most (if one row fits).
NUMBERS = 1 << 22


@dataclass(frozen=True)
class LayerView:
    """A latent layer of one member, as a copy in float64: probabilities then add up, and directions are exact.

    Attributes:
        layer: without members, in eval mode.
        before: the stages that come before it, likewise.
    """

    layer: SquadLayer
    before: tuple[Stage, ...]

    def inputs(self, x: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """What the layer is given for rows x (N, in): blocks of rows, (rows, in of the layer), and where they stand.

        For the first layer that is x itself.  For others it is one sample of the layers before: relaxed, and the one
        with index 0 by the model's own seeds, as in eval mode.  Nothing is dropped before the layer itself, even where
        dropout is used in prediction (the mean over its masks); before earlier layers it is as in prediction.
        """
        first = self.before[0].layer if self.before else self.layer
        if x.dim() != 2 or x.shape[1] != first.in_features or not len(x):
            allowed = f"of shape (rows, {first.in_features}) with at least one row, as the network takes them"
            raise ArgumentError.of("x", f"shape {tuple(x.shape)}", allowed)
        stages = [stage.layer for stage in self.before] + [self.layer]
        widest = max(max(layer.in_features, layer.out_features * getattr(layer, "bins", 1)) for layer in stages)
        rows = max(1, NUMBERS // widest)
        for start in range(0, len(x), rows):
            part = slice(start, min(start + rows, len(x)))
            block = x[part].to(self.layer.values.device, torch.float64)
            with sample_index(0):
                for stage in self.before:
                    block, _ = stage(block)
            yield part, block


def latent_layers(network: Network) -> tuple[int, ...]:
    """How many units each layer of quantized latents has, the first layer first; an error if there is none."""
    layers = [cast(Stage, stage).layer for stage in network.stages]
    units = tuple(layer.out_features for layer in layers if isinstance(layer, SquadLayer))
    if not units:
        allowed = "one with quantized latents, such as squad or squad-factorized"
        raise ArgumentError.of("network", f"one of {type(layers[0]).__name__} layers", allowed)
    return units


def view_layer(network: Network, layer: int, member: int = 0) -> LayerView:
    """The latent layer that ``layer`` counts, from 1 as in the paper's z_{l=1,k=12}, of a member, counted from 0."""
    layer = check_count("layer", layer, 1, len(latent_layers(network)))
    member = check_count("member", member, 0, (network.members or 1) - 1)
    stages = [cast(Stage, stage) for stage in network.stages]
    at = [index for index, stage in enumerate(stages) if isinstance(stage.layer, SquadLayer)][layer - 1]
    own = [_own(stage, member).double().eval() for stage in stages[: at + 1]]
    for stage in own:
        if isinstance(stage.layer, SquadLayer):
            stage.layer.sampling = "relaxed"
    return LayerView(cast(SquadLayer, own[-1].layer), tuple(own[:-1]))


def _own(stage: Stage, member: int) -> Stage:
    """A copy of a stage with one member's numbers, and no members."""
    if stage.layer.members is None:
        return copy.deepcopy(stage)
    dropout = None if stage.dropout is None else stage.dropout.member(member)
    return Stage(dropout, stage.layer.member(member), stage.relu)


def check_unit(unit: int, layer: SquadLayer) -> int:
    """The index, from 0, of a unit that is counted from 1."""
    return check_count("unit", unit, 1, layer.out_features) - 1
