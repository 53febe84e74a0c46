"""What happens around the steps of an epoch: where the temperature stands, and what validation rows say."""

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["PER_MEMBER", "annealed", "validated"]

#: Settings that each member has its own of.
PER_MEMBER = ("lr", "kl_multiplier", "weight_decay", "temperature_start", "temperature_end", "anneal_epochs")


def annealed(epoch: int | Tensor, own: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The temperature of each member, (M,), and whether it has arrived where it stays.

    Args:
        epoch: how many have passed, for all or for each, (M,).
        own: settings by name, (M,).
    """
    passed = (epoch / own["anneal_epochs"].clamp_min(1)).clamp_max(1).where(own["anneal_epochs"] > 0, 1)
    return own["temperature_start"].lerp(own["temperature_end"], passed), passed >= 1


def validated(p: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """Accuracy and mean negative log likelihood of each member, from p (M, N, classes) and y (M or 1, N)."""
    correct = (p.argmax(-1) == y).sum(1).tolist()  # whole numbers: the same quotient on every device
    likelihood = p.gather(-1, y.expand(p.shape[:-1]).unsqueeze(-1)).squeeze(-1)
    nll = likelihood.clamp_min(torch.finfo(p.dtype).tiny).log().neg().mean(1)
    return [count / p.shape[1] for count in correct], nll.tolist()
