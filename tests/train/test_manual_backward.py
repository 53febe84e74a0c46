"""The manual backward pass equals autograd: losses, and the gradient of every parameter."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from squad.layers import Linear, SquadLinear
from squad.layers.members import take
from squad.layers.quantized import SquadLayer, set_temperature
from squad.models import Network, NetworkConfig, build
from squad.models.config import DLGMConfig, FactorizedSquadConfig, MaxoutDropoutConfig, MLPConfig, SquadConfig
from squad.ops import eager
from squad.train import manual_backward, step
from squad.train.adam import Adam

IN, CLASSES, ROWS = 6, 3, 11


def problem(config: NetworkConfig, members: int, dtype: torch.dtype = torch.float64) -> tuple[Any, ...]:
    """Arguments of :func:`squad.train.step.backward`, without ``reach``."""
    torch.manual_seed(members)
    network = build(config, IN, CLASSES, list(range(members))).to(dtype).train()
    with torch.no_grad():  # as after some steps: no zero biases, no equal values
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    if network.has_temperature:
        set_temperature(network, torch.linspace(0.4, 1.1, members))
    x, y = torch.randn(members, ROWS, IN, dtype=dtype), torch.randint(CLASSES, (members, ROWS))
    return network, x, y, torch.linspace(0.1, 2, members), torch.arange(members) + 2**40, 5


def gradients(network: Network, run: Callable[[], Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the result of a step and the gradients it sets."""
    network.zero_grad()
    found = run()
    return found, {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


def agree(config: NetworkConfig, members: int = 1, dtype: torch.dtype = torch.float64) -> None:
    network, x, y, beta, seed, number = problem(config, members, dtype)
    assert manual_backward.supports(network, x)

    def autograd() -> Tensor:
        loss, kl = step.losses(network, x, y, beta, seed, number)
        loss.sum().backward()
        return torch.stack([loss.detach(), kl.detach()])

    expected, wanted = gradients(network, autograd)
    found, given = gradients(network, lambda: step.backward(network, x, y, beta, seed, number, None))
    error = 1e-12 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(found, expected, atol=error, rtol=error)
    assert given.keys() == wanted.keys() == dict(network.named_parameters()).keys()
    for name, grad in wanted.items():
        torch.testing.assert_close(given[name], grad, atol=error, rtol=10 * error, msg=name)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("learn_values", ["per_layer", "per_neuron", "fixed"])
@pytest.mark.parametrize("hidden", [(5,), (5, 4), (4, 3, 5)], ids=len)
def test_agrees_with_autograd(hidden: tuple[int, ...], learn_values: Any, members: int) -> None:
    agree(SquadConfig(hidden=hidden, bins=4, learn_values=learn_values, prior="gaussian"), members)


@pytest.mark.parametrize("hidden", [(5,), (5, 4)], ids=len)
def test_with_dropout(hidden: tuple[int, ...]) -> None:
    agree(SquadConfig(hidden=hidden, bins=4, dropout=(0.0, 0.3, 0.8)), 3)


def test_with_padding_bins() -> None:
    """Their bias is -inf, as in a population, and their gradients are zero."""
    network, x, y, beta, seed, number = problem(SquadConfig(hidden=(5, 4), bins=4, learn_values="per_neuron"), 2)
    for layer in network.modules():
        if isinstance(layer, SquadLayer):
            assert isinstance(layer, SquadLinear)
            with torch.no_grad():
                layer.bias.view(2, 4, -1)[1, 3] = layer.log_prior[1, 3] = -float("inf")

    def autograd() -> Tensor:
        loss, kl = step.losses(network, x, y, beta, seed, number)
        loss.sum().backward()
        return torch.stack([loss, kl]).detach()

    expected, wanted = gradients(network, autograd)
    found, given = gradients(network, lambda: manual_backward.backward(network, x, y, beta, seed, number))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    for name, grad in wanted.items():
        torch.testing.assert_close(given[name], grad, atol=1e-12, rtol=1e-11, msg=name)
    assert not given["stages.0.layer.bias"].view(2, 4, -1)[1, 3].any()


def test_in_single_precision() -> None:
    agree(SquadConfig(hidden=(5, 4), bins=3), 2, torch.float32)


@pytest.mark.parametrize("members", [1, 3])
def test_split_products(monkeypatch: pytest.MonkeyPatch, members: int) -> None:
    """Products in two halves give the same; of 6, 5 and 4 inputs, 5 cannot be halved."""
    monkeypatch.setattr(manual_backward, "SPLIT_ELEMENTS", 1)
    network, *_ = problem(SquadConfig(hidden=(5, 4), bins=3), members)
    assert [manual_backward._is_split(stage.layer) for stage in network.stages] == [True, False, True]
    agree(SquadConfig(hidden=(5, 4), bins=3), members)


@pytest.mark.parametrize("threads", [1, 2])
def test_splitting_does_not_depend_on_members_or_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Otherwise a member would be rounded differently than alone, and results would depend on the number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        network, *_ = problem(SquadConfig(hidden=(4,), bins=5), 3)
        monkeypatch.setattr(manual_backward, "SPLIT_ELEMENTS", network.stages[0].layer.weight[0].numel())
        for one in (network, take(network, [1])):
            assert [manual_backward._is_split(stage.layer) for stage in one.stages] == [True, False]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "config",
    [
        FactorizedSquadConfig(hidden=(4,), rank=2),
        MaxoutDropoutConfig(hidden=(4,), pieces=3),
        DLGMConfig(hidden=(4,)),
        MLPConfig(hidden=(4,)),
    ],
    ids=lambda config: f"{config.name} {config.dropout}",
)
def test_other_networks_are_not_supported(config: NetworkConfig) -> None:
    network, x, *_ = problem(config, 2)
    assert not manual_backward.supports(network, x)


def change(what: str, network: Network, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    (layer,) = (layer for layer in network.modules() if isinstance(layer, SquadLayer))
    if what == "eval mode":
        network.eval()
    elif what == "another backend":
        layer.backend = "reference"
    elif what == "a frozen parameter":
        layer.values.requires_grad_(False)
    elif what == "many logits":
        monkeypatch.setattr(eager, "BLOCK_SIZE", 2 * ROWS * layer.bins * layer.out_features // 2 - 1)
    elif what == "another dtype":
        return x.float()
    elif what == "rows that members share":
        return x[:1]
    elif what == "one layer in eval mode":
        layer.eval()
    elif what == "a weight that layers share":
        last = network.stages[1].layer
        assert isinstance(last, Linear)
        last.bias = layer.bias  # type: ignore[assignment]
    elif what == "a hook of a module":
        network.stages.register_forward_hook(lambda *_: None)
    elif what == "a hook of a parameter":
        layer.values.register_hook(lambda grad: grad)
    elif what == "a weight made of others":
        torch.nn.utils.spectral_norm(layer)
    return x


@pytest.mark.parametrize(
    "what",
    ["eval mode", "another backend", "a frozen parameter", "many logits", "another dtype", "rows that members share",
     "one layer in eval mode", "a weight that layers share", "a hook of a module", "a hook of a parameter",
     "a weight made of others"],
)  # fmt: skip
def test_unsupported_states_of_a_network(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    network, x, *_ = problem(SquadConfig(hidden=(4,)), 2)
    assert manual_backward.supports(network, x)
    assert not manual_backward.supports(network, change(what, network, x, monkeypatch))


def test_autocast_is_not_supported() -> None:
    network, x, *_ = problem(SquadConfig(hidden=(4,)), 2)
    with torch.autocast("cpu"):
        assert not manual_backward.supports(network, x)


def test_training_steps_use_the_manual_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x, y, beta, seed, _ = problem(SquadConfig(hidden=(4,)), 1, torch.float32)
    monkeypatch.setattr(step, "losses", None)  # used with autograd only
    adam = Adam(network, torch.tensor([0.1]), torch.tensor([0.0]))
    before = adam.flat.clone()
    totals = step.PlainSteps(network, adam, x[0], y[0], beta, seed, None).epoch(torch.arange(10).view(1, 2, 5), 0)
    assert bool((totals > 0).all())
    assert not torch.equal(adam.flat, before)


def test_divergence_of_a_member_does_not_change_the_others() -> None:
    config = SquadConfig(hidden=(5, 4), bins=3)
    network, x, *rest = problem(config, 3)
    expected, wanted = gradients(network, lambda: manual_backward.backward(network, x, *rest))
    with torch.no_grad():
        network.stages[0].layer.weight[1] = float("nan")
    found, given = gradients(network, lambda: manual_backward.backward(network, x, *rest))
    assert bool(found[:, 1].isnan().all())
    assert torch.equal(found[:, ::2], expected[:, ::2])
    for name, grad in wanted.items():
        assert torch.equal(given[name][::2], grad[::2]), name
