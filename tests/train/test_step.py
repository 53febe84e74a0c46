"""Steps of Triton kernels equal plain steps, in Triton's interpreter on the CPU."""

from typing import Any

import pytest
import torch
from torch import Tensor

from squad.layers.quantized import SquadLayer
from squad.models import NetworkConfig, build
from squad.models.config import (
    DLGMConfig,
    FactorizedSquadConfig,
    MaxoutDropoutConfig,
    MLPConfig,
    SquadConfig,
)
from squad.train.adam import Adam
from squad.train.step import KernelSteps, PlainSteps

#: SQUAD networks are small, because the interpreter's time grows with their neurons; tests/slow has larger ones.
CONFIGS: list[NetworkConfig] = [
    SquadConfig(hidden=(3, 2), bins=3),
    FactorizedSquadConfig(hidden=(2,), bins=3, rank=1),
    MaxoutDropoutConfig(hidden=(4,), pieces=3),
    DLGMConfig(hidden=(4,)),
    MLPConfig(hidden=(6,)),
]


def run(
    config: NetworkConfig, graphed: bool, members: int = 2, *, classes: int = 3, steps: int = 4, batch: int = 9,
    frozen: tuple[int, ...] = (), reach: float = 0.0,
) -> tuple[Tensor, Adam]:  # fmt: skip
    """Train for two epochs; return the sums of each, (2, 2, M), and the optimizer."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 7, generator=g), torch.randint(classes, (40,), generator=g)
    network = build(config, 7, classes, list(range(members))).train()
    for layer in network.modules():
        if isinstance(layer, SquadLayer):
            layer.backend = "triton" if graphed else "eager"
    for index in frozen:
        network.stages[index].requires_grad_(False)
    adam = Adam(network, torch.linspace(0.001, 0.02, members), torch.linspace(0, 0.1, members))
    beta, seed = torch.linspace(0.1, 1, members), torch.arange(members) + 2**40
    order = torch.randint(40, (members, steps, batch), generator=g)
    perturbation = torch.full((1, 1, 7), reach) if reach else None
    taken = (
        KernelSteps(network, adam, x, y, beta, seed, captured=False, reach=perturbation)
        if graphed
        else PlainSteps(network, adam, x, y, beta, seed, perturbation)
    )
    totals = torch.stack([taken.epoch(order, 0), taken.epoch(order.flip(1), steps)])
    return totals, adam


def agree(config: NetworkConfig, steps: int, **options: Any) -> None:
    plain, graphed = (run(config, graphed, steps=steps, **options) for graphed in (False, True))
    torch.testing.assert_close(graphed[0], plain[0], atol=1e-5, rtol=1e-5)
    for name, tensor in plain[1].state().items():
        torch.testing.assert_close(graphed[1].state()[name], tensor, atol=1e-5, rtol=1e-4, msg=name)
    assert graphed[1].steps.tolist() == [2 * steps] * len(graphed[1].steps)


@pytest.mark.parametrize("frozen", [(1,), (0, 2)], ids=str)  # tests/slow has the others
def test_what_is_frozen_is_not_trained(frozen: tuple[int, ...]) -> None:
    agree(SquadConfig(hidden=(3, 2), bins=3), 1, members=1, frozen=frozen)


@pytest.mark.parametrize("hidden", [(3,), (3, 2, 3)], ids=str)  # tests/slow has the others
def test_one_layer_and_many(hidden: tuple[int, ...]) -> None:
    agree(SquadConfig(hidden=hidden, bins=3), 1, members=1)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_both_kinds_of_steps_agree(config: NetworkConfig) -> None:
    agree(config, 2, batch=5)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_both_kinds_agree_on_adversarial_neighbours(config: NetworkConfig) -> None:
    agree(config, 1, members=1, batch=4, reach=0.1)


def test_an_epoch_of_one_batch() -> None:
    agree(SquadConfig(hidden=(3,), bins=3), 1)


@pytest.mark.parametrize("config", [MLPConfig(hidden=(6,))], ids=lambda c: c.name)  # tests/slow has another
def test_large_batches_and_many_classes(config: NetworkConfig) -> None:
    """More rows and classes than a tile of the loss kernel."""
    agree(config, 1, members=1, classes=300, batch=260)


def test_labels_need_not_be_contiguous() -> None:
    """For example a column of a table."""
    x, y = torch.randn(20, 4), torch.randint(3, (20, 2))
    order = torch.randint(20, (1, 3, 5))
    found = []
    for labels in (y[:, 0], y[:, 0].contiguous()):
        network = build(MLPConfig(hidden=(6,)), 4, 3, [0]).train()
        adam = Adam(network, torch.full((1,), 0.01), torch.zeros(1))
        steps = KernelSteps(network, adam, x, labels, torch.zeros(1), torch.zeros(1, dtype=torch.int64), captured=False)
        found.append(steps.epoch(order, 0))
    assert torch.equal(*found)
