"""Small synthetic classification problems and networks."""

import contextlib

import pytest
import torch

from squad.models import NetworkConfig, network_config, sampler
from squad.ops.matmul_precision import matmul_precision
from squad.train import TrainingData

HIDDEN = {"hidden": (6, 5)}


def blobs(
    count: int = 300, classes: int = 3, dtype: torch.dtype = torch.float32, members: int = 1, noise: float = 1.0
) -> TrainingData:
    """Gaussian clusters in six dimensions, a fifth of the rows for validation; one split per member."""
    generator = torch.Generator().manual_seed(0)
    centers = 2 * torch.randn(classes, 6, generator=generator, dtype=torch.float64)
    y = torch.randint(classes, (count,), generator=generator)
    x = centers[y] + noise * torch.randn(count, 6, generator=generator, dtype=torch.float64)
    orders = torch.stack([torch.randperm(count, generator=generator) for _ in range(members)])
    return TrainingData(x.to(dtype), y, classes, orders[:, count // 5 :], orders[:, : count // 5])


def small(name: str, **settings: object) -> NetworkConfig:
    return network_config(name, {**HIDDEN, **settings})


def precisions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the precision of each prediction made by samplers from now on."""
    used: list[str] = []

    def spy(precision: str, device: torch.device) -> contextlib.AbstractContextManager[None]:
        used.append(precision)
        return matmul_precision(precision, device)

    monkeypatch.setattr(sampler, "matmul_precision", spy)
    return used
