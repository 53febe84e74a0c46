"""What a layer promises under torch.compile: beside its contract, because compiling every layer takes half a minute."""

import torch
from torch import Tensor

import squad
from tests.contracts.layers import LayerContract


def check_one_graph(kind: type[LayerContract], training: bool, members: int | None) -> None:
    """Compiled without a break, a layer gives what it gives otherwise, forward and backward."""
    made = kind()
    layer = made.layer(members).train(training)
    x = made.input(members)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    results = []
    for function in (layer, compiled):
        torch.manual_seed(4)
        leaf = x.clone().requires_grad_()
        y = function(leaf)
        y.square().sum().backward()
        results.append((y.detach(), leaf.grad))
    torch.testing.assert_close(*results, atol=1e-4, rtol=1e-4)


def check_kl_collected(kind: type[LayerContract]) -> None:
    """Inside what is compiled, its KL is collected."""
    made = kind()
    layer = made.layer()

    def step(x: Tensor) -> Tensor:
        with squad.collect_kl() as kls:
            y = layer(x)
        total: Tensor = y.sum() + sum((kl.sum() for kl in kls), torch.zeros((), device=x.device))
        return total

    x = made.input()
    results = []
    for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        torch.manual_seed(4)
        results.append(function(x).detach())
    torch.testing.assert_close(*results, atol=1e-4, rtol=1e-4)
