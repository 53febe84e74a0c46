"""Per-epoch computations: the annealed temperature, and validation accuracy and likelihood."""

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["PER_MEMBER", "annealed", "validated"]

#: Settings that may differ between members.
PER_MEMBER = ("lr", "kl_multiplier", "weight_decay", "temperature_start", "temperature_end", "anneal_epochs")


def annealed(epoch: int | Tensor, settings: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the temperature of each member, (M,), and whether its annealing has ended, (M,).

    Args:
        epoch: Number of completed epochs, of all members or of each, (M,).
        settings: Settings of the members by name, (M,) each.
    """
    length = settings["anneal_epochs"]
    fraction = (epoch / length.clamp_min(1)).clamp_max(1).where(length > 0, 1)
    return settings["temperature_start"].lerp(settings["temperature_end"], fraction), fraction >= 1


def validated(p: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """Return accuracy and mean negative log likelihood per member, for p (M, N, classes) and y (M or 1, N)."""
    correct = (p.argmax(-1) == y).sum(1).tolist()  # integers, so that the quotient is the same on every device
    likelihood = p.gather(-1, y.expand(p.shape[:-1]).unsqueeze(-1)).squeeze(-1)
    nll = likelihood.clamp_min(torch.finfo(p.dtype).tiny).log().neg().mean(1)
    return [count / p.shape[1] for count in correct], nll.tolist()
