"""Contract of every layer: subclass, implement ``make``, and inherit the tests."""

import copy
import io
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import squad
from squad.errors import SquadError
from squad.layers.members import MemberModule

IN, MEMBERS, ROWS = 6, 3, 5


class LayerContract(ABC):
    """Tests of any layer with members; a subclass implements ``make``."""

    device: ClassVar[str] = "cpu"
    out: ClassVar[int] = 4

    @abstractmethod
    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        """Return a layer from IN features to ``out``."""

    def run(self, layer: MemberModule, x: Tensor, seed: int | Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of a training step with the noise of ``seed``; a layer without noise ignores the seed."""
        return (layer(x),)

    def layer(self, members: int | None = None, **options: Any) -> MemberModule:
        return self.make(members, **options).to(self.device)

    def input(self, members: int | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
        shape = (ROWS, IN) if members is None else (members, ROWS, IN)
        return torch.randn(shape, dtype=dtype).to(self.device)

    # Use in PyTorch

    def test_shapes(self) -> None:
        layer = self.layer()
        lead: tuple[int, ...]
        for lead in ((), (1,), (7,), (2, 3), (0,)):
            assert layer(torch.randn(*lead, IN, device=self.device)).shape == (*lead, self.out)
        many = self.layer(MEMBERS)
        for lead in ((MEMBERS, 7), (1, 7), (MEMBERS, 2, 7), (1, 2, 7), (MEMBERS, 0)):
            assert many(torch.randn(*lead, IN, device=self.device)).shape == (MEMBERS, *lead[1:], self.out)

    def test_trains_in_a_sequential(self) -> None:
        net = nn.Sequential(self.layer(), nn.Tanh(), nn.Linear(self.out, 2).to(self.device))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        before = {name: p.detach().clone() for name, p in net.named_parameters()}
        with squad.collect_kl() as kls:
            loss = net(self.input()).square().mean()
        (loss + sum((kl.mean() for kl in kls), torch.zeros((), device=self.device))).backward()
        optimizer.step()
        for name, p in net.named_parameters():
            assert not torch.equal(p, before[name]), name

    @pytest.mark.parametrize("members", [None, MEMBERS])
    def test_state_dict_round_trip(self, members: int | None) -> None:
        layer, other = self.layer(members).eval(), self.layer(members).eval()
        x = self.input(members)
        file = io.BytesIO()
        torch.save(layer.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        assert torch.equal(layer(x), other(x))

    def test_deepcopy_is_independent(self) -> None:
        layer = self.layer().eval()
        x = self.input()
        twin = copy.deepcopy(layer)
        assert torch.equal(layer(x), twin(x))
        with torch.no_grad():
            for p in twin.parameters():
                p.add_(1)
        if list(layer.parameters()):
            assert not torch.equal(layer(x), twin(x))

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
    def test_to_dtype(self, dtype: torch.dtype) -> None:
        layer = self.layer()
        x = self.input()
        want = layer.eval()(x)
        got = layer.to(dtype)(x.to(dtype))
        assert got.dtype == dtype
        near = 1e-5 if dtype == torch.float64 else 0.15
        assert (got - want).float().abs().median() <= near * (1 + want.abs().mean())
        assert layer.train()(x.to(dtype)).dtype == dtype

    def test_autocast(self) -> None:
        """The output has autocast's dtype, as in a linear layer."""
        layer = self.layer()
        if not list(layer.parameters()):
            pytest.skip("a layer without parameters has no matrix product")
        for training in (True, False):
            with torch.autocast(self.device, torch.bfloat16), squad.collect_kl() as kls:
                y = layer.train(training)(self.input())
            assert y.dtype == torch.bfloat16
            assert all(kl.dtype == torch.float32 for kl in kls)

    def test_moved_and_converted_in_one_call(self) -> None:
        layer = self.layer().to("meta", torch.bfloat16)
        assert {t.device.type for t in (*layer.parameters(), *layer.buffers())} == {"meta"}
        integers = {name for name, t in layer.named_buffers() if not t.is_floating_point()}
        layer.type(torch.float64)
        assert integers == {name for name, t in layer.named_buffers() if not t.is_floating_point()}

    def test_created_on_the_meta_device(self) -> None:
        """By the argument and by torch's context, as loaders of large models do."""
        with torch.device("meta"):
            in_context = self.make()
        for layer in (self.make(device="meta"), in_context):
            assert {t.device.type for t in (*layer.parameters(), *layer.buffers())} == {"meta"}
            assert layer(torch.zeros(ROWS, IN, device="meta")).shape == (ROWS, self.out)

    def test_created_in_double_precision(self) -> None:
        layer = self.make(dtype=torch.float64)
        assert all(p.dtype == torch.float64 for p in layer.parameters())

    def test_ensembles_by_vmap(self) -> None:
        """torch.func's ensembles: stacked parameters and buffers, including seeds and temperatures."""
        alone = [self.layer().eval() for _ in range(MEMBERS)]
        parameters, buffers = torch.func.stack_module_state(alone)
        x = self.input()
        template = copy.deepcopy(alone[0]).to("meta")

        def one(p: dict[str, Tensor], b: dict[str, Tensor]) -> Tensor:
            y: Tensor = torch.func.functional_call(template, (p, b), (x,))
            return y

        together = torch.func.vmap(one)(parameters, buffers)
        for i, layer in enumerate(alone):
            torch.testing.assert_close(together[i], layer(x), atol=1e-5, rtol=1e-5)

    def test_jacobians(self) -> None:
        layer = self.layer().eval()
        row = self.input()[:1]
        reverse = torch.func.jacrev(layer)(row)
        want = torch.autograd.functional.jacobian(layer, row)
        torch.testing.assert_close(reverse, want, atol=1e-5, rtol=1e-4)
        at_once = torch.autograd.functional.jacobian(layer, row, vectorize=True)
        torch.testing.assert_close(at_once, want, atol=1e-5, rtol=1e-4)

    def test_per_example_gradients(self) -> None:
        """By torch.func: the sum of the gradients per row is the gradient of the sum."""
        layer = self.layer().eval()
        parameters = {name: p.detach() for name, p in layer.named_parameters()}
        if not parameters:
            pytest.skip("no parameters")
        x = self.input()

        def loss(p: dict[str, Tensor], row: Tensor) -> Tensor:
            y: Tensor = torch.func.functional_call(layer, p, (row.unsqueeze(0),))
            return y.square().sum()

        rows = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
        layer(x).square().sum().backward()
        for name, p in layer.named_parameters():
            assert p.grad is not None
            torch.testing.assert_close(rows[name].sum(0), p.grad, atol=1e-4, rtol=1e-4)

    # Gradients and members

    @pytest.mark.parametrize("members", [None, 2])
    def test_gradients_agree_with_finite_differences(self, members: int | None) -> None:
        layer = self.layer(members).double()
        x = self.input(members, torch.float64).requires_grad_()
        names = [name for name, _ in layer.named_parameters()]

        def function(x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
            probe = copy.copy(layer)
            probe._parameters = dict(zip(names, tensors, strict=True))  # type: ignore[arg-type]
            return self.run(probe, x, 3)

        leaves = [p.detach().clone().requires_grad_() for p in layer.parameters()]
        assert torch.autograd.gradcheck(function, (x, *leaves))

    def test_gradients_agree_with_finite_differences_in_eval_mode(self) -> None:
        layer: Any = self.layer().double().eval()
        x = self.input(None, torch.float64).requires_grad_()

        def function(x: Tensor) -> tuple[Tensor, ...]:
            with squad.collect_kl() as kls:
                y = layer(x)
            return y, *kls

        for sampling in getattr(layer, "samplings", ("",)):
            if sampling == "hard":  # a step function of x
                continue
            if sampling:
                layer.sampling = sampling
            assert torch.autograd.gradcheck(function, (x,))

    def test_members_equal_single_layers(self) -> None:
        """Stacked layers agree with each single layer, forward and backward, in training and in eval mode."""
        alone = [self.layer().double() for _ in range(MEMBERS)]
        many = squad.stack(alone)
        assert many.members == MEMBERS
        x = self.input(MEMBERS, torch.float64).requires_grad_()
        seeds = torch.tensor([11, 12, 13], device=self.device)
        together = self.run(many, x, seeds)
        sum((y.square().sum() for y in together), torch.zeros(())).backward()
        assert x.grad is not None
        for i, layer in enumerate(alone):
            row = x[i].detach().clone().requires_grad_()
            results = self.run(layer, row, seeds[i])
            sum((y.square().sum() for y in results), torch.zeros(())).backward()
            assert row.grad is not None
            torch.testing.assert_close(x.grad[i], row.grad, atol=1e-10, rtol=1e-10)
            for whole, one in zip(together, results, strict=True):
                torch.testing.assert_close(whole[i], one, atol=1e-10, rtol=1e-10)
            for (name, p), q in zip(many.named_parameters(), layer.parameters(), strict=True):
                assert p.grad is not None, name
                assert q.grad is not None, name
                torch.testing.assert_close(p.grad[i], q.grad, atol=1e-10, rtol=1e-10)
            torch.testing.assert_close(many.eval()(x)[i], layer.eval()(x[i]), atol=1e-10, rtol=1e-10)

    def test_shared_input_equals_repeated_input(self) -> None:
        layer = self.layer(MEMBERS).eval()
        x = self.input()
        torch.testing.assert_close(layer(x.unsqueeze(0)), layer(x.expand(MEMBERS, *x.shape)))

    def test_unstack_inverts_stack(self) -> None:
        layer = self.layer(MEMBERS).eval()
        parts = squad.unstack(layer)
        assert len(parts) == MEMBERS
        again = squad.stack(parts)
        for (name, a), b in zip(layer.state_dict().items(), again.state_dict().values(), strict=True):
            assert torch.equal(a, b), name
        for i in range(MEMBERS):
            for a, b in zip(parts[i].state_dict().values(), layer.member(i).state_dict().values(), strict=True):
                assert torch.equal(a, b)
        assert layer.member(-1).members is None

    def test_nan_does_not_spread_to_other_members(self) -> None:
        layer = self.layer(MEMBERS)
        x = self.input(MEMBERS)
        seeds = torch.tensor([1, 2, 3], device=self.device)
        clean = self.run(layer, x, seeds)
        x[1] = float("nan")
        for before, after in zip(clean, self.run(layer, x, seeds), strict=True):
            assert after[1].isnan().any()
            for other in (0, 2):
                assert torch.equal(before[other], after[other])

    # Invalid arguments

    def test_invalid_inputs_are_rejected(self) -> None:
        layer = self.layer()
        shape: tuple[int, ...]
        for shape in ((ROWS, IN + 1), (), (IN, ROWS)):
            with pytest.raises(SquadError, match=rf"x .*shape \(\.\.\., {IN}\).*got shape") as caught:
                layer(torch.zeros(shape, device=self.device))
            assert isinstance(caught.value, ValueError)
        many = self.layer(MEMBERS)
        for shape in ((ROWS, IN), (MEMBERS, IN), (MEMBERS + 1, ROWS, IN), (MEMBERS, ROWS, IN + 1)):
            with pytest.raises(SquadError, match=rf"x .*shape \({MEMBERS}, rows, {IN}\).*got shape"):
                many(torch.zeros(shape, device=self.device))

        for wrong in (torch.zeros(ROWS, IN, dtype=torch.int64), [[0.0] * IN]):
            with pytest.raises(SquadError, match=r"x .*floating-point tensor"):
                layer(wrong)
        if list(layer.parameters()):
            with pytest.raises(SquadError, match=r"x .*dtype .*got torch\.float64.*x\.to\(torch\.float32\)"):
                layer(torch.zeros(ROWS, IN, dtype=torch.float64, device=self.device))

    @pytest.mark.parametrize("members", [0, -1, 1.5, "two"])
    def test_invalid_members_are_rejected(self, members: Any) -> None:
        with pytest.raises(SquadError, match=f"members must be .*1, got {members!r}"):
            self.make(members)

    def test_member_needs_a_layer_with_members(self) -> None:
        with pytest.raises(SquadError, match="no members"):
            self.layer().member(0)
        with pytest.raises(SquadError, match=r"index .*between -3 and 2, got 3"):
            self.layer(MEMBERS).member(3)

    def test_repr_shows_the_settings(self) -> None:
        text = repr(self.make(MEMBERS))
        assert f"in_features={IN}" in text
        assert f"members={MEMBERS}" in text
