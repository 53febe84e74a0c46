"""The layers under torch.compile with its default backend, which generates C++: the same results."""

import pytest
import torch
from torch import Tensor, nn

import squad
from squad.core.noise import Key, bits
from tests.needs import need_command

# torch's compiler uses deprecated parts of torch.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")


@pytest.fixture(autouse=True)
def compiler() -> None:
    need_command("g++")


def test_compiled_noise_is_the_same_to_the_bit() -> None:
    compiled = torch.compile(lambda key: bits(key, 50, 15, 33), fullgraph=True)
    for seed, step in ((1, 0), (-5, 3), (2**61 + 7, 10**6)):
        key = Key(torch.tensor([seed, seed + 1]), torch.tensor([step, step]))
        assert torch.equal(compiled(key), bits(key, 50, 15, 33))


@pytest.mark.parametrize("members", [None, 3])
def test_compiled_training_step_agrees(members: int | None) -> None:
    net = nn.Sequential(
        squad.SquadLinear(20, 8, bins=5, members=members),
        squad.FactorizedSquadLinear(8, 6, bins=7, rank=2, members=members),
        squad.GaussianLinear(6, 5, members=members),
        squad.MaxoutLinear(5, 4, pieces=3, members=members),
        squad.Dropout(4, 0.2, members=members),
        squad.Linear(4, 3, members=members),
    )
    x = torch.randn(*(() if members is None else (members,)), 30, 20)

    def loss(x: Tensor) -> Tensor:
        with squad.collect_kl() as kls:
            y = net(x)
        total: Tensor = y.square().mean() + sum((kl.mean() for kl in kls), torch.zeros(()))
        return total

    # By default Inductor has its own random number generator; our seeds come from torch's.
    compiled = torch.compile(loss, fullgraph=True, options={"fallback_random": True})
    results: list[list[Tensor]] = []
    for function in (loss, compiled):
        torch.manual_seed(7)
        net.zero_grad()
        value = function(x)
        value.backward()
        results.append([value.detach(), *(p.grad.clone() for p in net.parameters() if p.grad is not None)])
    torch.testing.assert_close(*results, atol=1e-4, rtol=1e-4)


def test_compiled_training_draws_new_noise_in_each_call() -> None:
    layer = squad.SquadLinear(6, 4, bins=5)
    compiled = torch.compile(layer, fullgraph=True)
    x = torch.randn(5, 6)
    assert not torch.equal(compiled(x), compiled(x))
