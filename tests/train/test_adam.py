"""Adam with members equals torch's Adam for each member: with torch's fused step, and with that for other devices."""

from typing import Any

import pytest
import torch
from torch.optim.adam import adam as torch_adam

import squad
from squad.layers.members import take
from squad.train.adam import Adam, flatten


@pytest.fixture(params=[("cpu",), ()], ids=["fused", "unfused"], autouse=True)
def fused_or_not(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Adam, "fused_on", request.param)


def loss(network: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = network(x)
    return out.square().mean((1, 2)).sum()


def plain(network: torch.nn.Module, lr: float, decay: float) -> torch.optim.Adam:
    """torch's own Adam, with weight decay for weight matrices only."""
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


def test_only_weight_matrices_decay() -> None:
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


def test_removing_members_does_not_change_the_others() -> None:
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


def test_one_fused_call_for_all_parameters_with_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[float, float, int]] = []

    def spy(parameters: list[torch.Tensor], *rest: Any, lr: float, weight_decay: float, **options: Any) -> None:
        calls.append((round(lr, 6), weight_decay, len(parameters)))
        torch_adam(parameters, *rest, lr=lr, weight_decay=weight_decay, **options)

    monkeypatch.setattr("squad.train.adam.adam", spy)
    network = torch.nn.Sequential(squad.Linear(4, 8, members=3), squad.Linear(8, 2, members=3))
    Adam(network, torch.tensor([0.1, 0.1, 0.2]), torch.tensor([0.5, 0.5, 0.0])).step()
    # Weights of the first two members, all parameters of the third, biases of the first two.
    assert calls == ([(0.1, 0.5, 4), (0.2, 0.0, 4), (0.1, 0.0, 4)] if Adam.fused_on else [])


def test_a_new_learning_rate_applies_to_the_next_step() -> None:
    network = squad.Linear(4, 3, members=2).double()
    adam = Adam(network, torch.tensor([0.1, 0.1]), torch.zeros(2))
    adam.set_lr([0.1, 0.0])
    before = adam.flat.clone()
    loss(network, torch.randn(2, 5, 4, dtype=torch.float64)).backward()
    adam.step()
    assert not torch.equal(adam.flat[0], before[0])
    assert torch.equal(adam.flat[1], before[1])


def test_a_missing_gradient_counts_as_zero() -> None:
    """Parameters still move by their momentum; the memory layout of the gradient does not matter."""
    found = []
    for kind in ("none", "zero", "transposed"):
        torch.manual_seed(0)
        network = squad.Linear(4, 3, members=2).double()
        adam = Adam(network, torch.tensor([0.1, 0.2]), torch.tensor([0.1, 0.0]))
        loss(network, torch.randn(2, 5, 4, dtype=torch.float64)).backward()
        adam.step()
        adam.zero_grad()
        if kind == "zero":
            for parameter in network.parameters():
                parameter.grad = torch.zeros_like(parameter)
        if kind == "transposed":
            network.weight.grad = torch.zeros(2, 3, 4, dtype=torch.float64).mT
        adam.step()
        assert adam.steps.tolist() == [2, 2]
        found.append(adam.flat.clone())
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    torch.testing.assert_close(found[0], found[2], rtol=0, atol=0)


def test_a_transposed_gradient() -> None:
    gradient = torch.randn(2, 3, 4, dtype=torch.float64).mT
    found = []
    for grad in (gradient, gradient.contiguous()):
        torch.manual_seed(0)
        network = squad.Linear(4, 3, members=2, bias=False).double()
        adam = Adam(network, torch.tensor([0.1, 0.2]), torch.zeros(2))
        network.weight.grad = grad
        adam.step()
        found.append(adam.flat.clone())
    assert torch.equal(*found)


def test_nan_does_not_spread_to_other_members() -> None:
    network = squad.Linear(4, 3, members=3)
    adam = Adam(network, torch.full((3,), 0.1), torch.zeros(3))
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
        parameter.grad[1] = float("nan")
    adam.step()
    assert all(parameter[1].isnan().all() for parameter in network.parameters())
    assert adam.flat[[0, 2]].isfinite().all()


def test_steps_are_counted_per_member() -> None:
    """Members with different numbers of steps have different bias corrections."""
    torch.manual_seed(0)
    network = squad.Linear(4, 3, members=2).double()
    lr, decay = torch.tensor([0.1, 0.1]), torch.zeros(2)
    adam = Adam(network, lr, decay)
    state = {name: tensor.clone() for name, tensor in adam.state().items()}
    state["steps"] = torch.tensor([0.0, 7.0], dtype=torch.float64)
    state["square"] = torch.rand_like(state["square"])
    gradient = torch.randn(2, 4, 3, dtype=torch.float64)
    adam.restore(network, {name: tensor.clone() for name, tensor in state.items()})
    network.weight.grad = gradient
    adam.step()
    assert adam.steps.tolist() == [1, 8]
    for member in range(2):
        alone = take(network, [member])
        other = Adam(alone, lr[:1], decay[:1])
        other.restore(alone, {name: tensor[member : member + 1].clone() for name, tensor in state.items()})
        alone.weight.grad = gradient[member : member + 1].clone()
        other.step()
        torch.testing.assert_close(adam.flat[member : member + 1], other.flat, rtol=1e-12, atol=1e-12)
