"""Adam over members is torch's Adam, member by member."""

from typing import Any

import torch

import squad
from squad.layers.members import take
from squad.train.adam import Adam, flatten


def loss(network: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = network(x)
    return out.square().mean((1, 2)).sum()


def plain(network: torch.nn.Module, lr: float, decay: float) -> torch.optim.Adam:
    """torch's own, with the decay for weight matrices alone."""
    weights = [parameter for name, parameter in network.named_parameters() if "weight" in name]
    biases = [parameter for name, parameter in network.named_parameters() if "bias" in name]
    groups: list[dict[str, Any]] = [{"params": weights, "weight_decay": decay}, {"params": biases}]
    return torch.optim.Adam(groups, lr=lr)


def test_equals_torch_optim_member_by_member() -> None:
    torch.manual_seed(0)
    together = torch.nn.Sequential(squad.Linear(4, 8, members=3), torch.nn.Tanh(), squad.Linear(8, 2, members=3))
    together.double()
    alone: list[torch.nn.Sequential] = squad.unstack(together)
    lr, decay = torch.tensor([1e-2, 1e-3, 3e-3]), torch.tensor([0.0, 0.1, 1e-5])
    adam = Adam(together, lr, decay)
    others = [plain(*each) for each in zip(alone, lr.double().tolist(), decay.double().tolist(), strict=True)]
    x = torch.randn(3, 20, 4, dtype=torch.float64)
    for _ in range(50):
        adam.zero_grad()
        loss(together, x).backward()
        adam.step()
        for member, (net, optimizer) in enumerate(zip(alone, others, strict=True)):
            optimizer.zero_grad()
            net(x[member]).square().mean().backward()
            optimizer.step()
    for member, net in enumerate(squad.unstack(together)):
        for ours, theirs in zip(net.parameters(), alone[member].parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_decay_is_for_weight_matrices_alone() -> None:
    network = torch.nn.Sequential(squad.SquadLinear(3, 4, members=1), squad.Linear(4, 2, members=1))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1.0)
    adam = Adam(network, torch.tensor([0.1]), torch.tensor([1.0]))
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    adam.step()
    for name, parameter in network.named_parameters():
        moved = bool((parameter != 1).any())
        assert moved == name.endswith("weight"), name


def test_keeping_some_members_keeps_their_course() -> None:
    torch.manual_seed(0)
    network = squad.Linear(4, 3, members=4).double()
    x = torch.randn(4, 10, 4, dtype=torch.float64)
    adam = Adam(network, torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.zeros(4))
    whole = take(network, range(4))
    whole_adam = Adam(whole, torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.zeros(4))
    for step in range(6):
        if step == 3:
            network = take(network, [1, 3])
            adam.keep(network, [1, 3])
        rows = x if step < 3 else x[[1, 3]]
        for net, optimizer, batch in ((network, adam, rows), (whole, whole_adam, x)):
            optimizer.zero_grad()
            loss(net, batch).backward()
            optimizer.step()
    torch.testing.assert_close(flatten(network), flatten(whole)[[1, 3]], rtol=1e-12, atol=0)
