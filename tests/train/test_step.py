"""A step of few kernels is the plain step: in Triton's interpreter, on the CPU."""

import pytest
import torch
from torch import Tensor

from squad.models import NetworkConfig, build
from squad.models.config import (
    DLGMConfig,
    FactorizedSquadConfig,
    MaxoutDropoutConfig,
    MLPConfig,
    SquadConfig,
)
from squad.train.adam import Adam
from squad.train.step import GraphedSteps, PlainSteps

CONFIGS: list[NetworkConfig] = [
    SquadConfig(hidden=(5, 4), bins=3),
    FactorizedSquadConfig(hidden=(5,), bins=4, rank=2),
    MaxoutDropoutConfig(hidden=(4,), pieces=3),
    DLGMConfig(hidden=(4,)),
    MLPConfig(hidden=(6,)),
]


def run(config: NetworkConfig, graphed: bool, members: int = 2) -> tuple[Tensor, Adam]:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 7, generator=g), torch.randint(3, (40,), generator=g)
    network = build(config, 7, 3, list(range(members))).train()
    for layer in network.modules():
        if hasattr(layer, "backend"):
            layer.backend = "triton" if graphed else "eager"
    adam = Adam(network, torch.linspace(0.001, 0.02, members), torch.linspace(0, 0.1, members))
    beta, seed = torch.linspace(0.1, 1, members), torch.arange(members) + 2**40
    order = torch.randint(40, (members, 4, 9), generator=g)
    steps = (
        GraphedSteps(network, adam, x, y, beta, seed, captured=False)
        if graphed
        else PlainSteps(network, adam, x, y, beta, seed, None)
    )
    totals = torch.stack([steps.epoch(order, 0), steps.epoch(order.flip(1), 4)])
    return totals, adam


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_both_kinds_of_steps_agree(config: NetworkConfig) -> None:
    plain, graphed = run(config, False), run(config, True)
    torch.testing.assert_close(graphed[0], plain[0], atol=1e-5, rtol=1e-5)
    for name, tensor in plain[1].state().items():
        torch.testing.assert_close(graphed[1].state()[name], tensor, atol=1e-5, rtol=1e-4, msg=name)
    assert graphed[1].steps.tolist() == [8, 8]
