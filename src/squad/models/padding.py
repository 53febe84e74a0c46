"""Padding of networks with different settings, so that they can be members of one network.

Members are padded to the largest number of bins, and their values are stored per neuron.  A padding bin has no
probability mass: its bias and its log prior are -inf.  Its logit is then -inf for every x, so it contributes nothing
and gets no gradient, and a padded member computes exactly what it would compute alone.
"""

import dataclasses
from typing import Any, cast

import torch
from torch import Tensor

from squad.errors import ArgumentError
from squad.layers import FactorizedSquadLinear, MaxoutLinear
from squad.layers.members import MemberModule
from squad.layers.quantized import SquadLayer
from squad.models.config import MaxoutDropoutConfig, NetworkConfig, SquadConfig
from squad.models.networks import Network, Stage

__all__ = ["padded_config", "put_member"]

#: Value of padding bins (bins without mass), for each parameter with an axis of bins.
PADDING_VALUES = {"weight": 0.0, "weight2": 0.0, "bias": -float("inf"), "bias2": -float("inf"), "values": 0.0,
                  "log_prior": -float("inf")}  # fmt: skip


def padded_config(config: NetworkConfig, most: int | None = None, *, dropping: bool | None = None) -> NetworkConfig:
    """Return the settings of the padded network that a network with ``config`` can be a member of.

    They are equal for all configurations that can be trained together.  The number of bins, values, prior, spacing,
    the way values are learned, initial scale and dropout may differ between members.

    Args:
        config: Settings of the member.
        most: Largest number of bins, or of pieces of a maxout unit, of any member; default: that of this one.
        dropping: Whether any member may have dropout; default: whether this one has.

    Returns:
        The settings of the padded network.
    """
    dropping = config.dropout != 0 if dropping is None else dropping
    changed: dict[str, Any] = {"dropout": 0.5 if dropping else 0.0, "init_scale": 1.0}
    if isinstance(config, SquadConfig):
        fixed = {"spacing": "linear", "limit": 1.0, "prior": "uniform", "learn_values": "per_neuron"}
        changed |= {"bins": max(config.bins, most or 0), **fixed}
    if isinstance(config, MaxoutDropoutConfig):
        changed["pieces"] = max(config.pieces, most or 0)
    return dataclasses.replace(config, **changed)


@torch.no_grad()
def put_member(network: Network, index: int, own: Network) -> None:
    """Write a network over one member of a padded network, in place.

    Args:
        network: Padded network with members, created from :func:`padded_config`.
        index: Index of the member to replace.
        own: Network with one member, created from its own settings.

    Raises:
        ArgumentError: If ``own`` has layers that ``network`` does not have.
    """
    for padded, source in zip(_layers(network), _layers(own), strict=True):
        if padded is None and source is None:
            continue
        if padded is None or (source is not None and type(padded) is not type(source)):
            extra = type(source).__name__
            raise ArgumentError(
                f"own has a layer {extra} that the padded network does not have. Create it with dropping=True."
            )
        if source is None:  # a member without dropout among others with dropout
            cast(Tensor, padded.rate)[index] = 0.0
            continue
        for name, tensor in _tensors(padded).items():
            _write(padded, name, tensor[index], cast(Tensor, getattr(source, name))[0])


def _layers(network: Network) -> list[MemberModule | None]:
    return [layer for stage in network.stages for layer in (cast(Stage, stage).dropout, cast(Stage, stage).layer)]


def _tensors(layer: MemberModule) -> dict[str, Tensor]:
    tensors = {**layer._parameters, **layer._buffers}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _write(layer: MemberModule, name: str, padded: Tensor, source: Tensor) -> None:
    """Copy one member's tensor into its padded counterpart and fill the padding bins."""
    if not isinstance(layer, (SquadLayer, MaxoutLinear)) or name not in PADDING_VALUES:
        padded.copy_(source)
        return
    padded.fill_(PADDING_VALUES[name])
    if isinstance(layer, FactorizedSquadLinear) and name in ("weight2", "bias2"):  # bins last
        padded[..., : source.shape[-1]].copy_(source)
        return
    neurons = layer.out_features
    if name in ("weight", "bias"):  # (in, C * K) and (C * K,)
        padded, source = (tensor.view(*tensor.shape[:-1], -1, neurons) for tensor in (padded, source))
        padded[..., : source.shape[-2], :].copy_(source)
    else:  # (C,), or values per neuron (C, K)
        padded[: len(source)].copy_(source.unsqueeze(-1) if source.dim() < padded.dim() else source)
