"""Networks of different settings as members of one: padded to the most bins, with values held for each neuron.

A bin that a member does not have is one without mass: its bias is -inf, its prior has nothing there.  Its logit is then
-inf whatever x is, it adds nothing and gets no gradient, so a padded member is what it would be alone.
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

__all__ = ["put_member", "wide_config"]

#: Parameters with an axis of bins, filled with what a bin without mass has.
FILLINGS = {"weight": 0.0, "weight2": 0.0, "bias": -float("inf"), "bias2": -float("inf"), "values": 0.0,
            "log_prior": -float("inf")}  # fmt: skip


def wide_config(config: NetworkConfig, most: int | None = None, *, dropping: bool | None = None) -> NetworkConfig:
    """The settings of a network that one with ``config`` can be a member of: equal for all that can train together.

    Bins, values, prior, spacing, how values are learned, initial scale and dropout are then data of a member.

    Args:
        config: of the member.
        most: how many bins, or pieces of a maxout unit, any member may have; by default as many as this one.
        dropping: whether any may have dropout; by default whether this one has.
    """
    dropping = config.dropout != 0 if dropping is None else dropping
    changed: dict[str, Any] = {"dropout": 0.5 if dropping else 0.0, "init_scale": 1.0}
    if isinstance(config, SquadConfig):
        same = {"spacing": "linear", "limit": 1.0, "prior": "uniform", "learn_values": "per_neuron"}
        changed |= {"bins": max(config.bins, most or 0), **same}
    if isinstance(config, MaxoutDropoutConfig):
        changed["pieces"] = max(config.pieces, most or 0)
    return dataclasses.replace(config, **changed)


@torch.no_grad()
def put_member(network: Network, index: int, own: Network) -> None:
    """Write a network into one place of a wide one, in place.

    Args:
        network: with members, made from :func:`wide_config`.
        index: which of its members is replaced.
        own: with one member, made from settings of its own.
    """
    for wide, narrow in zip(_layers(network), _layers(own), strict=True):
        if wide is None and narrow is None:
            continue
        if wide is None or (narrow is not None and type(wide) is not type(narrow)):
            raise ArgumentError.of("own", "a layer more", "a network that fits into the other", "Take dropping=True.")
        if narrow is None:  # no dropout among others that drop
            cast(Tensor, wide.rate)[index] = 0.0
            continue
        for name, tensor in _tensors(wide).items():
            _write(wide, name, tensor[index], cast(Tensor, getattr(narrow, name))[0])


def _layers(network: Network) -> list[MemberModule | None]:
    return [layer for stage in network.stages for layer in (cast(Stage, stage).dropout, cast(Stage, stage).layer)]


def _tensors(layer: MemberModule) -> dict[str, Tensor]:
    found = {**layer._parameters, **layer._buffers}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _write(layer: MemberModule, name: str, wide: Tensor, own: Tensor) -> None:
    """One member's tensor into its place; what is beyond its own bins is filled."""
    if not isinstance(layer, (SquadLayer, MaxoutLinear)) or name not in FILLINGS:
        wide.copy_(own)
        return
    wide.fill_(FILLINGS[name])
    if isinstance(layer, FactorizedSquadLinear) and name in ("weight2", "bias2"):  # bins last
        wide[..., : own.shape[-1]].copy_(own)
        return
    neurons = layer.out_features
    if name in ("weight", "bias"):  # (in, C * K) and (C * K,)
        wide, own = (tensor.view(*tensor.shape[:-1], -1, neurons) for tensor in (wide, own))
        wide[..., : own.shape[-2], :].copy_(own)
    else:  # (C,), or values of each neuron (C, K)
        wide[: len(own)].copy_(own.unsqueeze(-1) if own.dim() < wide.dim() else own)
