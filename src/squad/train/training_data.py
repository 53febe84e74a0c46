"""Training data, and the order in which each member sees its rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from squad.core.noise import bits, hashed_seeds, make_key
from squad.errors import ArgumentError

__all__ = ["NOISE", "SHUFFLE", "TrainingData", "feature_ranges", "seeds_of", "shuffled", "to_device_if_it_fits"]

#: Purposes for which seeds are hashed; far from the layer indices that networks.py hashes seeds with.
NOISE, SHUFFLE = 2**20, 2**20 + 1


@dataclass(frozen=True)
class TrainingData:
    """Rows and labels, with their split into training and validation rows.

    Attributes:
        x: Standardized features, (N, in), floating point.
        y: Labels 0, 1, ..., (N,), int64.
        classes: Number of classes.
        train: Indices of the training rows, (1, n) for all members or (M, n) for each; int64.
        validation: Indices of the validation rows, (1, m) or (M, m); int64.

    Examples:
        >>> rows = torch.arange(10).unsqueeze(0)
        >>> x, y = torch.randn(10, 3), torch.arange(10) % 2
        >>> data = TrainingData(x, y, classes=2, train=rows[:, :8], validation=rows[:, 8:])
        >>> data.check(members=1)
    """

    x: Tensor
    y: Tensor
    classes: int
    train: Tensor
    validation: Tensor

    def check(self, members: int) -> None:
        """Check the shapes of ``train`` and ``validation``.

        Raises:
            ArgumentError: If one of them is empty, or is neither for all nor for each of the members.
        """
        for name in ("train", "validation"):
            rows = getattr(self, name)
            if rows.dim() != 2 or rows.shape[0] not in (1, members) or rows.shape[1] == 0:
                raise ArgumentError.of(name, f"shape {tuple(rows.shape)}", f"of shape (1 or {members}, at least 1)")


def to_device_if_it_fits(x: Tensor, device: torch.device) -> Tensor:
    """Move x to the device if it fits into half of its free memory; otherwise pin it on the host for fast copies.

    Args:
        x: All rows, (N, in), on the host.
        device: Device to train on.

    Returns:
        The rows on the device, or pinned on the host.
    """
    if device.type == "cuda" and x.nbytes > torch.cuda.mem_get_info(device)[0] / 2:
        return x.pin_memory()
    return x.to(device)


def seeds_of(purpose: int, seeds: Sequence[int]) -> Tensor:
    """Hash the seed of each member for one purpose: (M,), well mixed.

    Args:
        purpose: Number of the purpose, so that different purposes share no random numbers.
        seeds: M seeds.

    Returns:
        Hashed seeds, (M,), int64.
    """
    return hashed_seeds(make_key(torch.tensor(seeds), purpose)).squeeze(-1)


def shuffled(rows: Tensor, seeds: Tensor, epoch: int | Tensor, batch_size: int) -> Tensor:
    """Shuffle the rows of an epoch for each member, and divide them into batches.

    The last batch is filled up from the start of the order, so that all batches have one shape and every row is seen.

    Args:
        rows: Indices of the training rows, (M or 1, n).
        seeds: (M,); the order depends on the member's seed and on the epoch only.
        epoch: Number of the epoch, from 0, of all members or of each, (M,).
        batch_size: Rows per batch, at most n.

    Returns:
        Indices of the rows of each batch, (M, steps, batch).
    """
    count = rows.shape[1]
    keys = bits(make_key(seeds, epoch, seeds.device), 1, 1, count).view(len(seeds), count)
    order = rows.expand(len(seeds), -1).gather(1, keys.argsort(dim=1, stable=True))
    steps = -(-count // batch_size)
    return torch.cat([order, order[:, : steps * batch_size - count]], 1).view(len(seeds), steps, batch_size)


def feature_ranges(x: Tensor, rows: Tensor) -> Tensor:
    """Return maximum minus minimum of each feature.

    Args:
        x: All rows, (N, in).
        rows: Indices of the rows to consider, (M or 1, n).

    Returns:
        Ranges, (M or 1, 1, in).
    """
    ends = [torch.aminmax(x[own.to(x.device)], dim=0) for own in rows]
    return torch.stack([high - low for low, high in ends]).unsqueeze(1)
