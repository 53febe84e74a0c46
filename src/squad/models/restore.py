"""A network from saved tensors, which may be damaged or made up: what does not fit is told, before memory is taken."""

from collections.abc import Mapping

import torch
from torch import Tensor

from squad.core.checks import check_count, check_temperature
from squad.errors import ArgumentError
from squad.models.config import NetworkConfig, SquadConfig
from squad.models.networks import Network, blank

__all__ = ["restore"]

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def restore(
    config: NetworkConfig, in_features: int, classes: int, members: int, tensors: Mapping[str, Tensor]
) -> Network:
    """The network with these settings and tensors, on the CPU, in the precision of its tensors.

    Args:
        config: its settings.
        in_features: size of a row of x.
        classes: how many there are.
        members: how many networks it is.
        tensors: all that ``state_dict`` gave, members first.
    """
    _check_sizes(config, in_features, classes, members, tensors)
    network = blank(config, in_features, classes, members)
    # By name: the order in which a file gives its tensors is not always the same.
    dtype = next((tensors[name].dtype for name in sorted(tensors) if name.endswith(".weight")), torch.float32)
    if dtype not in FLOATS:
        raise ArgumentError.of("weights", dtype, "floating-point numbers")
    network = network.to(dtype)
    expected = network.state_dict()
    if absent := sorted(expected.keys() - tensors.keys()):
        raise ArgumentError(f"The weights must have {absent[0]!r}; it is missing.")
    if more := sorted(tensors.keys() - expected.keys()):
        raise ArgumentError(f"The weights have {more[0][:80]!r}, which the network {config.name} has not.")
    for name, tensor in expected.items():
        found = tensors[name]
        if found.shape != tensor.shape or found.dtype != tensor.dtype:
            got, wanted = (f"{tuple(one.shape)} of {one.dtype}" for one in (found, tensor))
            raise ArgumentError.of(f"{name!r} of the weights", got, wanted)
        _check_numbers(name, found)
    # Copies: what is read from a file need not lie in memory as torch's own tensors do, on which last bits may depend.
    network.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()}, assign=True)
    return network


def _check_sizes(
    config: NetworkConfig, in_features: int, classes: int, members: int, tensors: Mapping[str, Tensor]
) -> None:
    """That no size is beyond what the tensors could hold: even to look at such a network could fill the memory."""
    total = sum(tensor.numel() for tensor in tensors.values())
    stages = len(config.hidden) + 1
    if stages > len(tensors):
        raise ArgumentError.of("hidden", f"{stages - 1} layers", f"what the weights' {len(tensors)} tensors can be of")
    for name, size in (("members", members), ("in_features", in_features), ("classes", classes)):
        if check_count(name, size, 1) > total:
            raise ArgumentError.of(name, size, f"no more than the {total} numbers of the weights")
    numbers = max(config.hidden) * (config.bins if isinstance(config, SquadConfig) else 1)
    if numbers > total:
        raise ArgumentError.of("hidden", config.hidden, f"no more than the {total} numbers of the weights allow")
    for name, tensor in sorted(tensors.items()):
        if not tensor.dim() or len(tensor) != members:
            raise ArgumentError.of(f"{name!r} of the weights", f"shape {tuple(tensor.shape)}", f"of {members} members")


def _check_numbers(name: str, tensor: Tensor) -> None:
    if not tensor.is_floating_point():
        return
    if not bool(torch.isfinite(tensor).all()):
        raise ArgumentError.of(f"{name!r} of the weights", "NaN or infinity", "finite")
    if name.endswith(".temperature"):
        check_temperature(tensor)
    if name.endswith(".rate") and not bool(((tensor >= 0) & (tensor < 1)).all()):
        raise ArgumentError.of(f"{name!r} of the weights", tensor.tolist(), "within [0, 1)")
