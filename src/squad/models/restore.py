"""Restore a network from saved tensors, which may be damaged or forged: check them before allocating memory."""

from collections.abc import Mapping

import torch
from torch import Tensor

from squad.core.checks import check_count, check_temperature
from squad.errors import ArgumentError
from squad.models.config import NetworkConfig, SquadConfig
from squad.models.networks import Network, blank

__all__ = ["restore"]

#: Data types that weights may have.
FLOAT_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def restore(
    config: NetworkConfig, in_features: int, classes: int, members: int, tensors: Mapping[str, Tensor]
) -> Network:
    """Create the network with the given settings and tensors, on the CPU and in the precision of the tensors.

    Args:
        config: Kind of network and its settings.
        in_features: Number of features of a row of x.
        classes: Number of classes.
        members: M, the number of members.
        tensors: The network's ``state_dict``, with the member axis first.

    Returns:
        The network, in training mode.

    Raises:
        ArgumentError: If the tensors do not fit the settings, or contain invalid numbers.

    Examples:
        >>> from squad.models import MLPConfig, build
        >>> config = MLPConfig(hidden=(8,))
        >>> network = build(config, in_features=4, classes=3, seeds=[0, 1])
        >>> restore(config, 4, 3, members=2, tensors=network.state_dict()).members
        2
    """
    _check_sizes(config, in_features, classes, members, tensors)
    network = blank(config, in_features, classes, members)
    # Sorted by name, because files do not always list their tensors in the same order.
    dtype = next((tensors[name].dtype for name in sorted(tensors) if name.endswith(".weight")), torch.float32)
    if dtype not in FLOAT_DTYPES:
        raise ArgumentError.of("weights", dtype, "floating-point numbers")
    network = network.to(dtype)
    expected = network.state_dict()
    if missing := sorted(expected.keys() - tensors.keys()):
        raise ArgumentError(f"The weights lack the tensor {missing[0]!r}, which the network {config.name} needs.")
    if unknown := sorted(tensors.keys() - expected.keys()):
        raise ArgumentError(f"The weights have a tensor {unknown[0][:80]!r} that the network {config.name} lacks.")
    for name, tensor in expected.items():
        given = tensors[name]
        if given.shape != tensor.shape or given.dtype != tensor.dtype:
            got, wanted = (f"{tuple(one.shape)} of {one.dtype}" for one in (given, tensor))
            raise ArgumentError.of(f"{name!r} of the weights", got, wanted)
        _check_numbers(name, given)
    # Copies: tensors read from a file may be aligned differently in memory, which can change the last bits of results.
    network.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()}, assign=True)
    return network


def _check_sizes(
    config: NetworkConfig, in_features: int, classes: int, members: int, tensors: Mapping[str, Tensor]
) -> None:
    """Check that no size exceeds the tensors' sizes: merely creating such a network could exhaust memory."""
    total = sum(tensor.numel() for tensor in tensors.values())
    stages = len(config.hidden) + 1
    if stages > len(tensors):
        layers = f"{stages - 1} layers"
        raise ArgumentError.of("hidden", layers, f"at most as long as the weights have tensors, {len(tensors)}")
    for name, size in (("members", members), ("in_features", in_features), ("classes", classes)):
        if check_count(name, size, 1) > total:
            raise ArgumentError.of(name, size, f"at most {total}, the number of elements of the weights")
    logits = max(config.hidden) * (config.bins if isinstance(config, SquadConfig) else 1)
    if logits > total:
        raise ArgumentError.of("hidden", config.hidden, f"small enough for the {total} elements of the weights")
    for name, tensor in sorted(tensors.items()):
        if not tensor.dim() or len(tensor) != members:
            got, wanted = f"shape {tuple(tensor.shape)}", f"of shape ({members}, ...), one slice per member"
            raise ArgumentError.of(f"{name!r} of the weights", got, wanted)


def _check_numbers(name: str, tensor: Tensor) -> None:
    if not tensor.is_floating_point():
        return
    if not bool(torch.isfinite(tensor).all()):
        raise ArgumentError.of(f"{name!r} of the weights", "NaN or infinity", "finite")
    if name.endswith(".temperature"):
        check_temperature(tensor)
    if name.endswith(".rate") and not bool(((tensor >= 0) & (tensor < 1)).all()):
        raise ArgumentError.of(f"{name!r} of the weights", tensor.tolist(), "within [0, 1)")
