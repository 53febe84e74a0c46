"""What a layer promises.  Subclass, say how to make one, and the tests come along."""

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
from squad.layers.stochastic import StochasticModule

IN, MEMBERS, ROWS = 6, 3, 5


class LayerContract(ABC):
    """The tests of any layer with members; a subclass gives ``make``."""

    device: ClassVar[str] = "cpu"
    out: ClassVar[int] = 4

    @abstractmethod
    def make(self, members: int | None = None, **options: Any) -> MemberModule:
        """A layer from IN features to ``out``."""

    def run(self, layer: MemberModule, x: Tensor, seed: int | Tensor) -> tuple[Tensor, ...]:
        """What a training step gets, its noise named by ``seed``; a layer without noise ignores it."""
        return (layer(x),)

    def layer(self, members: int | None = None, **options: Any) -> MemberModule:
        return self.make(members, **options).to(self.device)

    def input(self, members: int | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
        shape = (ROWS, IN) if members is None else (members, ROWS, IN)
        return torch.randn(shape, dtype=dtype).to(self.device)

    # In anybody's network

    def test_shapes(self) -> None:
        layer = self.layer()
        lead: tuple[int, ...]
        for lead in ((), (1,), (7,), (2, 3), (0,)):
            assert layer(torch.randn(*lead, IN, device=self.device)).shape == (*lead, self.out)
        many = self.layer(MEMBERS)
        for lead in ((MEMBERS, 7), (1, 7), (MEMBERS, 2, 7), (1, 2, 7), (MEMBERS, 0)):
            assert many(torch.randn(*lead, IN, device=self.device)).shape == (MEMBERS, *lead[1:], self.out)

    def test_in_a_sequential_it_trains(self) -> None:
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
    def test_state_dict_restores_it(self, members: int | None) -> None:
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

    def test_made_without_memory(self) -> None:
        """On the meta device, as loaders of large models do, by the argument and by torch's context."""
        with torch.device("meta"):
            in_context = self.make()
        for layer in (self.make(device="meta"), in_context):
            assert {t.device.type for t in (*layer.parameters(), *layer.buffers())} == {"meta"}
            assert layer(torch.zeros(ROWS, IN, device="meta")).shape == (ROWS, self.out)

    def test_made_in_double(self) -> None:
        layer = self.make(dtype=torch.float64)
        assert all(p.dtype == torch.float64 for p in layer.parameters())

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("members", [None, MEMBERS])
    def test_compiles_to_one_graph(self, training: bool, members: int | None) -> None:
        layer = self.layer(members).train(training)
        x = self.input(members)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        results = []
        for function in (layer, compiled):
            torch.manual_seed(4)
            leaf = x.clone().requires_grad_()
            y = function(leaf)
            y.square().sum().backward()
            results.append((y.detach(), leaf.grad))
        torch.testing.assert_close(*results, atol=1e-4, rtol=1e-4)

    def test_compiles_with_its_kl_collected(self) -> None:
        layer = self.layer()

        def step(x: Tensor) -> Tensor:
            with squad.collect_kl() as kls:
                y = layer(x)
            total: Tensor = y.sum() + sum((kl.sum() for kl in kls), torch.zeros((), device=x.device))
            return total

        x = self.input()
        results = []
        for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
            torch.manual_seed(4)
            results.append(function(x).detach())
        torch.testing.assert_close(*results, atol=1e-4, rtol=1e-4)

    def test_ensembles_by_vmap(self) -> None:
        """torch.func's own way to an ensemble: stacked parameters and buffers, seeds and temperatures among them."""
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

    def test_per_example_gradients(self) -> None:
        """torch.func sees through the layer: the sum of gradients row by row is the gradient of the sum."""
        layer = self.layer().eval()
        parameters = {name: p.detach() for name, p in layer.named_parameters()}
        x = self.input()

        def loss(p: dict[str, Tensor], row: Tensor) -> Tensor:
            y: Tensor = torch.func.functional_call(layer, p, (row.unsqueeze(0),))
            return y.square().sum()

        if not parameters:
            return
        rows = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
        layer(x).square().sum().backward()
        for name, p in layer.named_parameters():
            assert p.grad is not None
            torch.testing.assert_close(rows[name].sum(0), p.grad, atol=1e-4, rtol=1e-4)

    # Gradients and members

    @pytest.mark.parametrize("members", [None, 2])
    def test_gradients_agree_with_differences(self, members: int | None) -> None:
        layer = self.layer(members).double()
        x = self.input(members, torch.float64).requires_grad_()
        names = [name for name, _ in layer.named_parameters()]

        def function(x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
            probe = copy.copy(layer)
            probe._parameters = dict(zip(names, tensors, strict=True))  # type: ignore[arg-type]
            return self.run(probe, x, 3)

        leaves = [p.detach().clone().requires_grad_() for p in layer.parameters()]
        assert torch.autograd.gradcheck(function, (x, *leaves))

    def test_gradients_agree_with_differences_in_eval_mode(self) -> None:
        layer: Any = self.layer().double().eval()
        x = self.input(None, torch.float64).requires_grad_()

        def function(x: Tensor) -> tuple[Tensor, ...]:
            with squad.collect_kl() as kls:
                y = layer(x)
            return y, *kls

        for sampling in getattr(layer, "samplings", ("",)):
            if sampling and sampling != "hard":  # a hard sample is a step function of x
                layer.sampling = sampling
            assert torch.autograd.gradcheck(function, (x,))

    def test_members_equal_layers_of_their_own(self) -> None:
        """Forward and backward, in double: stack, then compare with each layer alone, in training and in eval mode."""
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

    def test_a_shared_input_is_that_input_for_each(self) -> None:
        layer = self.layer(MEMBERS).eval()
        x = self.input()
        torch.testing.assert_close(layer(x.unsqueeze(0)), layer(x.expand(MEMBERS, *x.shape)))

    def test_unstack_undoes_stack(self) -> None:
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

    def test_a_nan_stays_with_its_member(self) -> None:
        layer = self.layer(MEMBERS)
        x = self.input(MEMBERS)
        seeds = torch.tensor([1, 2, 3], device=self.device)
        clean = self.run(layer, x, seeds)
        x[1] = float("nan")
        for before, after in zip(clean, self.run(layer, x, seeds), strict=True):
            assert after[1].isnan().any()
            for other in (0, 2):
                assert torch.equal(before[other], after[other])

    # What is refused

    def test_wrong_inputs_are_told(self) -> None:
        layer = self.layer()
        shape: tuple[int, ...]
        for shape in ((ROWS, IN + 1), (), (IN, ROWS)):
            with pytest.raises(SquadError, match=rf"x must be of shape \(\.\.\., {IN}\)") as caught:
                layer(torch.zeros(shape, device=self.device))
            assert isinstance(caught.value, ValueError)
        many = self.layer(MEMBERS)
        for shape in ((ROWS, IN), (MEMBERS, IN), (MEMBERS + 1, ROWS, IN), (MEMBERS, ROWS, IN + 1)):
            with pytest.raises(SquadError, match=rf"x must be of shape \({MEMBERS}, rows, {IN}\)"):
                many(torch.zeros(shape, device=self.device))

        for wrong in (torch.zeros(ROWS, IN, dtype=torch.int64), [[0.0] * IN]):
            with pytest.raises(SquadError, match="x must be a floating-point tensor"):
                layer(wrong)
        if list(layer.parameters()):
            with pytest.raises(SquadError, match=r"x must be of the dtype .* got torch.float64. x.to\(torch.float32\)"):
                layer(torch.zeros(ROWS, IN, dtype=torch.float64, device=self.device))

    @pytest.mark.parametrize("members", [0, -1, 1.5, "two"])
    def test_wrong_members_are_told(self, members: Any) -> None:
        with pytest.raises(SquadError, match="members must be a whole number of at least 1; got"):
            self.make(members)

    def test_members_are_asked_of_a_layer_that_has_them(self) -> None:
        with pytest.raises(SquadError, match="with members"):
            self.layer().member(0)
        with pytest.raises(SquadError, match="index must be a whole number between -3 and 2; got 3"):
            self.layer(MEMBERS).member(3)

    def test_repr_tells_what_it_is(self) -> None:
        text = repr(self.make(MEMBERS))
        assert f"in_features={IN}" in text
        assert f"members={MEMBERS}" in text


class StochasticContract(LayerContract):
    """The tests of a layer that draws random numbers."""

    #: The word that makes eval mode random, and the one that does not.
    random: ClassVar[str] = "sample"
    fixed: ClassVar[str] = "mean"

    def stochastic(self, members: int | None = None, **options: Any) -> StochasticModule:
        layer = self.layer(members, **options)
        assert isinstance(layer, StochasticModule)
        return layer

    def test_training_draws_from_torchs_generator(self) -> None:
        layer, x = self.layer(), self.input()
        torch.manual_seed(1)
        first, second = layer(x), layer(x)
        torch.manual_seed(1)
        assert torch.equal(layer(x), first)
        assert not torch.equal(first, second)

    def test_training_draws_for_every_row_and_member(self) -> None:
        x = torch.ones(MEMBERS, 20, IN, device=self.device)
        layer = squad.stack([self.layer()] * MEMBERS)
        y = layer(x)
        assert not torch.equal(y[:, 0], y[:, 1])
        assert not torch.equal(y[0], y[1])

    def test_one_seed_gives_all_members_the_same_noise(self) -> None:
        layer = squad.stack([self.layer()] * MEMBERS)
        x = torch.ones(MEMBERS, 20, IN, device=self.device)
        for result in self.run(layer, x, 5):
            assert torch.equal(result[0], result[1])

    def test_eval_is_a_function_of_the_row(self) -> None:
        layer = self.stochastic().eval()
        layer.sampling = self.random
        x = self.input()
        whole = layer(x)
        assert torch.equal(layer(x), whole)
        torch.testing.assert_close(layer(x.flip(0)).flip(0), whole, atol=1e-5, rtol=1e-5)
        for i in range(ROWS):
            torch.testing.assert_close(layer(x[i : i + 1])[0], whole[i], atol=1e-5, rtol=1e-5)
        same = layer(x[:1].expand(4, IN))
        assert torch.equal(same, same[:1].expand_as(same))

    def test_eval_takes_the_sample_asked_for(self) -> None:
        layer = self.stochastic().eval()
        layer.sampling = self.random
        x = self.input()
        samples = []
        for index in range(16):
            with squad.sample_index(index):
                samples.append(layer(x))
        assert torch.equal(samples[0], layer(x))
        assert torch.stack(samples).unique(dim=0).shape[0] > 8  # of few features two samples may drop the same

    def test_seed_is_saved_and_differs_between_layers(self) -> None:
        layer, other = self.stochastic(), self.stochastic()
        assert "seed" in layer.state_dict()
        assert layer.seed != other.seed
        assert self.stochastic(MEMBERS).seed.unique().numel() == MEMBERS
        layer.half().double()
        assert layer.seed.dtype == torch.int64

    def test_the_mean_needs_no_noise(self) -> None:
        layer = self.stochastic().eval()
        layer.sampling = self.fixed
        x = self.input()
        with squad.sample_index(3):
            third = layer(x)
        assert torch.equal(layer(x), third)

    def test_wrong_sampling_is_told(self) -> None:
        with pytest.raises(SquadError, match="sampling must be one of"):
            self.stochastic().sampling = "often"
        with pytest.raises(SquadError, match="sampling must be one of"):
            self.make(sampling="often")

    def test_seed_and_step_name_the_noise(self) -> None:
        layer, x = self.layer(), torch.ones(20, IN, device=self.device)

        def draw(**key: int) -> Tensor:
            if isinstance(layer, squad.Dropout):
                return layer.drop(x, **key)
            z: Tensor = layer.sample_with_kl(x, **key)[0]  # type: ignore[operator]
            return z

        assert torch.equal(draw(seed=1, step=2), draw(seed=1, step=2))
        assert not torch.equal(draw(seed=1, step=2), draw(seed=1, step=3))
        assert not torch.equal(draw(seed=1, step=2), draw(seed=2, step=2))

    def test_copies_can_be_given_noise_of_their_own(self) -> None:
        layer = self.stochastic()
        net = nn.Sequential(layer, copy.deepcopy(layer))
        seeds = [copied.seed.clone() for copied in net if isinstance(copied, StochasticModule)]
        assert torch.equal(*seeds)
        squad.reseed(net)
        found = [copied.seed.clone() for copied in net if isinstance(copied, StochasticModule)]
        assert not torch.equal(*found)
        many = nn.Sequential(self.stochastic(MEMBERS), self.stochastic(MEMBERS))
        squad.reseed(many, torch.tensor([5, 6, 7]))
        squad.reseed(net, 6)
        for single, member in zip(net, many, strict=True):
            assert isinstance(single, StochasticModule)
            assert isinstance(member, StochasticModule)
            assert single.seed == member.seed[1]  # by its own seed and its place, whoever is beside it

    def test_wrong_seeds_are_told(self) -> None:
        with pytest.raises(SquadError, match="seed must be one number"):
            self.run(self.layer(MEMBERS), self.input(MEMBERS), torch.tensor([1, 2], device=self.device))
        with pytest.raises(SquadError, match="seed must be one number; got"):
            self.run(self.layer(), self.input(), torch.tensor([1, 2], device=self.device))


class LatentContract(StochasticContract):
    """The tests of a layer of latent variables: one with a posterior, a prior, and a KL between them."""

    def run(self, layer: MemberModule, x: Tensor, seed: int | Tensor) -> tuple[Tensor, ...]:
        z, kl = layer.sample_with_kl(x, temperature=0.7, seed=seed)  # type: ignore[operator]
        return z, kl

    @pytest.mark.parametrize("members", [None, MEMBERS])
    def test_kl_is_that_of_posterior_and_prior(self, members: int | None) -> None:
        layer: Any = self.layer(members)
        x = self.input(members)
        q = layer.posterior(x)
        assert q.batch_shape == (*x.shape[:-1], self.out)
        want = torch.distributions.kl_divergence(q, layer.prior).sum(-1)
        _, kl = layer.sample_with_kl(x)
        assert kl.shape == x.shape[:-1]
        torch.testing.assert_close(kl, want, atol=1e-4, rtol=1e-4)

    def test_every_call_is_collected(self) -> None:
        layer: Any = self.layer()
        x = self.input()
        with squad.collect_kl() as outer:
            layer(x)
            with squad.collect_kl() as inner:
                layer(x)
            layer.eval()(x)
        layer(x)
        assert len(outer) == 3  # in their order, and none after the block
        assert len(inner) == 1
        assert outer[1] is inner[0]
        for kl in outer:
            assert kl.shape == (ROWS,)
            assert (kl >= 0).all()
        torch.testing.assert_close(outer[0], outer[2])

    @pytest.mark.parametrize("training", [True, False])
    def test_kl_has_a_gradient(self, training: bool) -> None:
        layer = self.layer().train(training)
        with squad.collect_kl() as kls:
            layer(self.input())
        kls[0].sum().backward()
        assert any(p.grad is not None and bool(p.grad.any()) for p in layer.parameters())

    @pytest.mark.parametrize("members", [None, MEMBERS])
    def test_samples_have_the_posteriors_mean(self, members: int | None) -> None:
        """Over many seeds in eval mode, where a sample is drawn from the posterior itself."""
        layer: Any = self.layer(members).eval()
        layer.sampling = "hard" if "hard" in layer.samplings else "sample"
        x = self.input(members)
        q = layer.posterior(x)
        count = 400
        total = torch.zeros_like(q.mean)
        for index in range(count):
            with squad.sample_index(index):
                total += layer(x)
        error = (total / count - q.mean).abs() / (q.stddev + 1e-3)
        assert error.max() < 4.5 / count**0.5

    def test_eval_mean_is_the_posteriors_mean(self) -> None:
        layer: Any = self.layer().eval()
        layer.sampling = "mean"
        x = self.input()
        torch.testing.assert_close(layer(x), layer.posterior(x).mean)
        got, want = (torch.autograd.grad(y.square().sum(), list(layer.parameters()))
                     for y in (layer(x), layer.posterior(x).mean))  # fmt: skip
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)

    def test_explicit_noise(self) -> None:
        layer: Any = self.layer()
        x = self.input()
        with pytest.raises(SquadError, match="noise must be broadcastable"):
            layer.sample_with_kl(x, noise=torch.zeros(ROWS + 1, 1, 1, 1, device=self.device))
        still, _ = layer.sample_with_kl(x, noise=torch.zeros(1, device=self.device))
        torch.testing.assert_close(layer.sample_with_kl(x, noise=torch.zeros((), device=self.device))[0], still)
        shape = (getattr(layer, "bins", ROWS), self.out)
        moved, _ = layer.sample_with_kl(x, noise=torch.randn(shape, device=self.device))
        assert not torch.allclose(moved, still)
        with pytest.raises(SquadError, match="noise must be given, or else seed: one of the two; got both"):
            layer.sample_with_kl(x, seed=1, noise=torch.zeros((), device=self.device))
        with pytest.raises(SquadError, match="temperature must be positive and finite; got -1"):
            layer.sample_with_kl(x, -1.0)
