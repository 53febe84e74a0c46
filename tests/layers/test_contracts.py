"""Every layer and variant, tested by its contract."""

from typing import Any

import torch
from torch import Tensor

import squad
from squad.layers.members import MemberModule
from tests.contracts.layers import IN, LayerContract
from tests.contracts.stochastic import LatentContract, StochasticContract


class TestLinear(LayerContract):
    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        return squad.Linear(IN, self.out, members=members, **options)


class TestMaxout(LayerContract):
    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        return squad.MaxoutLinear(IN, self.out, pieces=3, members=members, **options)


class TestDropout(StochasticContract):
    out = IN

    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        return squad.Dropout(IN, 0.3, members=members, **options)

    def run(self, layer: MemberModule, x: Tensor, seed: int | Tensor) -> tuple[Tensor, ...]:
        assert isinstance(layer, squad.Dropout)
        return (layer.drop(x, seed=seed),)


class TestGaussian(LatentContract):
    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        return squad.GaussianLinear(IN, self.out, members=members, **options)


class TestSquad(LatentContract):
    noisy_modes = ("relaxed", "hard")

    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        return squad.SquadLinear(IN, self.out, bins=5, members=members, **options)


class TestSquadPerNeuron(TestSquad):
    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        return squad.SquadLinear(
            IN, self.out, bins=5, learn_values="per_neuron", prior="gaussian", members=members, **options
        )


class TestSquadFixed(TestSquad):
    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        return squad.SquadLinear(
            IN, self.out, bins=4, learn_values="fixed", spacing="gaussian", members=members, **options
        )


class TestFactorized(TestSquad):
    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        return squad.FactorizedSquadLinear(IN, self.out, bins=5, rank=2, members=members, **options)


class TestFactorizedShared(TestSquad):
    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        return squad.FactorizedSquadLinear(IN, self.out, bins=5, rank=2, shared=True, members=members, **options)


class TestSquadOnTheReference(TestSquad):
    """The same layer with the reference backend."""

    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        layer = squad.SquadLinear(IN, self.out, bins=5, members=members, **options)
        layer.backend = "reference"
        return layer


def test_backends_agree_on_a_layer() -> None:
    layer = squad.SquadLinear(IN, 4, bins=5)
    x = torch.randn(7, IN)
    results = []
    for backend in ("eager", "reference"):
        layer.backend = backend
        results.append(layer.sample_with_kl(x, 0.5, seed=1))
    torch.testing.assert_close(*results)
