"""Access to one latent layer of one ensemble member, and to its inputs."""

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

#: Maximum number of elements of the largest tensor of a block (a block has at least one row).
MAX_BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class LayerView:
    """A latent layer of one member, copied to float64 for accurate probabilities and directions.

    Attributes:
        layer: The layer, without members and in eval mode.
        before: The stages before it, also without members and in eval mode.
    """

    layer: SquadLayer
    before: tuple[Stage, ...]

    def inputs(self, x: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Iterate over the layer's inputs in blocks of rows.

        The input of the first layer is x itself.  The input of a later layer is one relaxed sample of the layers before
        it: the sample with index 0 under the model's own seeds, as in eval mode.  Dropout immediately before the layer
        is not applied, even if it is used in prediction (this is the mean over its masks); dropout before earlier
        layers is applied as in prediction.

        Args:
            x: (N, in), encoded rows.

        Yields:
            The slice of rows, and their inputs (rows, in of the layer).
        """
        first = self.before[0].layer if self.before else self.layer
        if x.dim() != 2 or x.shape[1] != first.in_features or not len(x):
            allowed = f"of shape (rows, {first.in_features}) with at least one row"
            raise ArgumentError.of("x", f"shape {tuple(x.shape)}", allowed)
        stages = [stage.layer for stage in self.before] + [self.layer]
        widest = max(max(layer.in_features, layer.out_features * getattr(layer, "bins", 1)) for layer in stages)
        rows = max(1, MAX_BLOCK_ELEMENTS // widest)
        for start in range(0, len(x), rows):
            block_rows = slice(start, min(start + rows, len(x)))
            block = x[block_rows].to(self.layer.values.device, torch.float64)
            with sample_index(0):
                for stage in self.before:
                    block, _ = stage(block)
            yield block_rows, block


def latent_layers(network: Network) -> tuple[int, ...]:
    """Return the number of units of each layer of quantized latents.

    Args:
        network: Network with quantized latents.

    Returns:
        Number of units, from the first layer to the last.

    Raises:
        ArgumentError: If the network has no quantized latents.

    Examples:
        >>> from squad.models import build, network_config
        >>> network = build(network_config("squad", {"hidden": [4], "bins": 5}), 3, 2, [0])
        >>> latent_layers(network)
        (4,)
    """
    layers = [cast(Stage, stage).layer for stage in network.stages]
    units = tuple(layer.out_features for layer in layers if isinstance(layer, SquadLayer))
    if not units:
        raise ArgumentError(
            f"network has no quantized latents, only {type(layers[0]).__name__} layers. Use a squad or squad-factorized"
            " network."
        )
    return units


def view_layer(network: Network, layer: int, member: int = 0) -> LayerView:
    """Return a view of one latent layer of one member.

    Args:
        network: Network with quantized latents.
        layer: Latent layer, counted from 1 as in the paper's z_{l=1,k=12}.
        member: Ensemble member, counted from 0.

    Returns:
        The view, with a copy of the layer in float64.
    """
    layer = check_count("layer", layer, 1, len(latent_layers(network)))
    member = check_count("member", member, 0, (network.members or 1) - 1)
    stages = [cast(Stage, stage) for stage in network.stages]
    index = [index for index, stage in enumerate(stages) if isinstance(stage.layer, SquadLayer)][layer - 1]
    copies = [_member_stage(stage, member).double().eval() for stage in stages[: index + 1]]
    for stage in copies:
        if isinstance(stage.layer, SquadLayer):
            stage.layer.sampling = "relaxed"
    return LayerView(cast(SquadLayer, copies[-1].layer), tuple(copies[:-1]))


def _member_stage(stage: Stage, member: int) -> Stage:
    """Copy a stage of one member, without the member dimension."""
    if stage.layer.members is None:
        return copy.deepcopy(stage)
    dropout = None if stage.dropout is None else stage.dropout.member(member)
    return Stage(dropout, stage.layer.member(member), stage.relu)


def check_unit(unit: int, layer: SquadLayer) -> int:
    """Return the index, from 0, of a unit that is counted from 1.

    Args:
        unit: Unit, counted from 1.
        layer: Its layer.

    Returns:
        Index of the unit, from 0.
    """
    return check_count("unit", unit, 1, layer.out_features) - 1
