"""Contract of layers under torch.compile; separate, because compiling all layers takes half a minute."""

from collections.abc import Sequence
from typing import ClassVar

import pytest
import torch
from torch import Tensor

import squad
from tests.contracts.layers import MEMBERS, LayerContract


class CompilingContract:
    """Tests of the layers whose contracts a subclass lists in ``kinds``."""

    kinds: ClassVar[Sequence[type[LayerContract]]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.parametrize("kind", self.kinds)

    @pytest.mark.parametrize(("training", "members"), [(True, MEMBERS), (False, None)])
    def test_compiles_to_one_graph(self, kind: type[LayerContract], training: bool, members: int | None) -> None:
        """Without a graph break, and with the same results forward and backward."""
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

    def test_collects_kl_when_compiled(self, kind: type[LayerContract]) -> None:
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
