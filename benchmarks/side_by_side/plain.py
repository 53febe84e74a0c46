"""The same networks in plain PyTorch, as one writes them without this library, with the weights of ours.

Bins and pieces stand before neurons, and the maximum is ``max``, not ``amax``: of the ways one would write it, the
quicker ones.
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
    """(N, in) -> (N, K): the largest of C linear pieces."""

    def __init__(self, linear: nn.Linear, pieces: int) -> None:
        super().__init__()
        self.linear, self.pieces = linear, pieces

    def forward(self, x: Tensor) -> Tensor:
        """The maximum over the pieces."""
        pieces: Tensor = self.linear(x).unflatten(-1, (self.pieces, -1))
        return pieces.max(-2).values


class Quantized(nn.Module):
    """(N, in) -> (N, K): a relaxed sample of each latent in training mode, its mean in eval mode."""

    def __init__(self, linear: nn.Linear, values: Tensor, temperature: float) -> None:
        super().__init__()
        self.linear, self.values, self.temperature = linear, nn.Parameter(values), temperature

    def forward(self, x: Tensor) -> Tensor:
        """By the mode, a sample or the mean."""
        logits = self.linear(x).unflatten(-1, (len(self.values), -1))
        weights = F.gumbel_softmax(logits, self.temperature, dim=-2) if self.training else logits.softmax(-2)
        return self.values @ weights


def plain(network: Network) -> nn.Sequential:
    """A network without members, written out in torch's own modules, with copies of its weights."""
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
        raise TypeError(f"the layer must be linear, maxout or SQUAD, got {type(layer).__name__}.")
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
    """T passes in training mode, where dropout drops and latents are drawn, one after the other; so for each network.

    Args:
        networks: one, or those of an ensemble.
        samples: T.
        random: whether a pass draws anything; otherwise passes are in eval mode.
    """

    def __init__(self, networks: Sequence[nn.Module], samples: int, random: bool = True) -> None:
        self.networks = [network.train(random) for network in networks]
        self.samples = samples

    @torch.inference_mode()
    def __call__(self, x: Tensor) -> Tensor:
        """(N, in) -> the mean probabilities of each network (M, N, classes)."""
        means = []
        for network in self.networks:
            means.append(sum(network(x).softmax(-1) for _ in range(self.samples)) / self.samples)
        return torch.stack(means)
