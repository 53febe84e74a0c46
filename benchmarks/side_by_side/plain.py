"""The same networks in plain PyTorch, with the weights of squad's networks.

Bins and pieces precede neurons in the layout, and the maximum is ``max``, not ``amax``: the faster of the obvious
implementations.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from squad.layers import Linear, MaxoutLinear, SquadLinear
from squad.models import Network
from squad.models.networks import Stage


class Maxout(nn.Module):
    """Maximum of C linear pieces: (N, in) -> (N, K)."""

    def __init__(self, linear: nn.Linear, pieces: int) -> None:
        super().__init__()
        self.linear, self.pieces = linear, pieces

    def forward(self, x: Tensor) -> Tensor:
        """Return the maximum over the pieces."""
        pieces: Tensor = self.linear(x).unflatten(-1, (self.pieces, -1))
        return pieces.max(-2).values


class Quantized(nn.Module):
    """A relaxed sample of each latent in training mode, its mean in eval mode: (N, in) -> (N, K)."""

    def __init__(self, linear: nn.Linear, values: Tensor, temperature: float) -> None:
        super().__init__()
        self.linear, self.values, self.temperature = linear, nn.Parameter(values), temperature

    def forward(self, x: Tensor) -> Tensor:
        """Return a sample or the mean, depending on the mode."""
        logits = self.linear(x).unflatten(-1, (len(self.values), -1))
        weights = F.gumbel_softmax(logits, self.temperature, dim=-2) if self.training else logits.softmax(-2)
        return self.values @ weights


def plain(network: Network) -> nn.Sequential:
    """Convert a network without members to torch's own modules, with copies of its weights."""
    modules: list[nn.Module] = []
    for stage in cast(Sequence[Stage], network.stages):
        if stage.dropout is not None:
            modules.append(nn.Dropout(float(stage.dropout.rate)))
        modules.append(_layer(stage.layer))
        if stage.relu:
            modules.append(nn.ReLU())
    return nn.Sequential(*modules)


def _layer(layer: nn.Module) -> nn.Module:
    if not isinstance(layer, (Linear, MaxoutLinear, SquadLinear)):
        raise TypeError(f"The layer must be linear, maxout or SQUAD, got {type(layer).__name__}.")
    assert layer.bias is not None
    linear = nn.Linear(*layer.weight.shape)
    with torch.no_grad():
        linear.weight.copy_(layer.weight.T)
        linear.bias.copy_(layer.bias)
    if isinstance(layer, MaxoutLinear):
        return Maxout(linear, layer.pieces)
    if isinstance(layer, SquadLinear):
        return Quantized(linear, layer.values.detach().clone(), float(layer.temperature))
    return linear


class Loop:
    """T passes of each network in training mode, in which dropout and latents are random, one after the other.

    Args:
        networks: One network, or those of an ensemble.
        samples: T.
        random: Whether passes are random; otherwise they are in eval mode.
    """

    def __init__(self, networks: Sequence[nn.Module], samples: int, random: bool = True) -> None:
        self.networks = [network.train(random) for network in networks]
        self.samples = samples

    @torch.inference_mode()
    def __call__(self, x: Tensor) -> Tensor:
        """Return the mean probabilities of each network for x (N, in): (M, N, classes)."""
        means = []
        for network in self.networks:
            means.append(sum(network(x).softmax(-1) for _ in range(self.samples)) / self.samples)
        return torch.stack(means)
