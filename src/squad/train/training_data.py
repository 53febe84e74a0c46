"""What a run learns from, and the order in which it sees it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from squad.core.noise import bits, hashed_seeds, make_key
from squad.errors import ArgumentError

__all__ = ["NOISE", "SHUFFLE", "TrainingData", "feature_ranges", "seeds_of", "shuffled", "to_device_if_it_fits"]

#: What seeds are hashed for: each purpose has numbers of its own, far from the places of layers (networks.py).
NOISE, SHUFFLE = 2**20, 2**20 + 1


@dataclass(frozen=True)
class TrainingData:
    """What a run learns from.

    Attributes:
        x: (N, in), floating, already standardized.
        y: (N,), int64, the classes 0, 1, ...
        classes: how many there are.
        train: (1, n), rows of x that all members train on, or (M, n), each its own; int64.
        validation: (1, m) or (M, m), rows that accuracy is measured on.
    """

    x: Tensor
    y: Tensor
    classes: int
    train: Tensor
    validation: Tensor

    def check(self, members: int) -> None:
        """That the parts fit together."""
        for name in ("train", "validation"):
            rows = getattr(self, name)
            if rows.dim() != 2 or rows.shape[0] not in (1, members) or rows.shape[1] == 0:
                raise ArgumentError.of(name, f"shape {tuple(rows.shape)}", f"of shape (1 or {members}, at least 1)")


def to_device_if_it_fits(x: Tensor, device: torch.device) -> Tensor:
    """``x`` on the device if it takes no more than half of what is free there; else where it is, ready to be copied."""
    if device.type == "cuda" and x.nbytes > torch.cuda.mem_get_info(device)[0] / 2:
        return x.pin_memory()
    return x.to(device)


def seeds_of(purpose: int, seeds: Sequence[int]) -> Tensor:
    """Well-mixed numbers for one purpose, by each member's own seed: (M,)."""
    return hashed_seeds(make_key(torch.tensor(seeds), purpose)).squeeze(-1)


def shuffled(rows: Tensor, seeds: Tensor, epoch: int | Tensor, batch_size: int) -> Tensor:
    """The rows of an epoch for each member, in an order of its own: (M, steps, batch).

    The last batch is filled up from the beginning of the order: all batches have one shape, and every row is seen.

    Args:
        rows: (M or 1, n).
        seeds: (M,); the order depends on a member's own seed and on the epoch.
        epoch: from 0; or of each member, (M,).
        batch_size: rows of a batch, n at the most.
    """
    count = rows.shape[1]
    keys = bits(make_key(seeds, epoch, seeds.device), 1, 1, count).view(len(seeds), count)
    order = rows.expand(len(seeds), -1).gather(1, keys.argsort(dim=1, stable=True))
    steps = -(-count // batch_size)
    return torch.cat([order, order[:, : steps * batch_size - count]], 1).view(len(seeds), steps, batch_size)


def feature_ranges(x: Tensor, rows: Tensor) -> Tensor:
    """From the smallest to the largest of each feature among rows (M or 1, n) of x (N, in): (M or 1, 1, in)."""
    ends = [torch.aminmax(x[own.to(x.device)], dim=0) for own in rows]
    return torch.stack([high - low for low, high in ends]).unsqueeze(1)
