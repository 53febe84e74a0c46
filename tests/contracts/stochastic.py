"""Contracts of stochastic layers and of layers of latent variables."""

import copy
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import squad
from squad.errors import SquadError
from squad.layers.members import MemberModule
from squad.layers.stochastic import StochasticModule
from tests.contracts.layers import IN, MEMBERS, ROWS, LayerContract


class StochasticContract(LayerContract):
    """Tests of a layer with noise."""

    #: Sampling modes with noise; "mean" is the one without.
    noisy_modes: ClassVar[tuple[str, ...]] = ("sample",)

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
            torch.testing.assert_close(result[0], result[1])  # two matrix products may round differently

    def test_eval_is_a_function_of_the_row(self) -> None:
        layer = self.stochastic().eval()
        x = self.input()
        for mode in self.noisy_modes:
            layer.sampling = mode
            whole = layer(x)
            assert torch.equal(layer(x), whole)
            torch.testing.assert_close(layer(x.flip(0)).flip(0), whole, atol=1e-5, rtol=1e-5)
            for i in range(ROWS):
                torch.testing.assert_close(layer(x[i : i + 1])[0], whole[i], atol=1e-5, rtol=1e-5)
            same = layer(x[:1].expand(4, IN))
            torch.testing.assert_close(same, same[:1].expand_as(same))  # rows of one product may round differently

    def test_eval_uses_the_sample_index(self) -> None:
        layer = self.stochastic().eval()
        x = self.input()
        for mode in self.noisy_modes:
            layer.sampling = mode
            samples = []
            for index in range(16):
                with squad.sample_index(index):
                    samples.append(layer(x))
            assert torch.equal(samples[0], layer(x))
            assert torch.stack(samples).unique(dim=0).shape[0] > 8  # with few features two dropout masks may be equal

    def test_seed_is_saved_and_differs_between_layers(self) -> None:
        layer, other = self.stochastic(), self.stochastic()
        assert "seed" in layer.state_dict()
        assert layer.seed != other.seed
        assert self.stochastic(MEMBERS).seed.unique().numel() == MEMBERS
        layer.half().double()
        assert layer.seed.dtype == torch.int64

    def test_mean_does_not_depend_on_the_sample_index(self) -> None:
        layer = self.stochastic().eval()
        layer.sampling = "mean"
        x = self.input()
        with squad.sample_index(3):
            third = layer(x)
        assert torch.equal(layer(x), third)

    def test_invalid_sampling_is_rejected(self) -> None:
        with pytest.raises(SquadError, match=r"sampling .*'mean'.*got 'often'"):
            self.stochastic().sampling = "often"
        with pytest.raises(SquadError, match=r"sampling .*'mean'.*got 'often'"):
            self.make(sampling="often")

    def test_seed_and_step_determine_the_noise(self) -> None:
        layer, x = self.layer(), torch.ones(20, IN, device=self.device)

        def draw(**key: int) -> Tensor:
            if isinstance(layer, squad.Dropout):
                return layer.drop(x, **key)
            z: Tensor = layer.sample_with_kl(x, **key)[0]  # type: ignore[operator]
            return z

        assert torch.equal(draw(seed=1, step=2), draw(seed=1, step=2))
        assert not torch.equal(draw(seed=1, step=2), draw(seed=1, step=3))
        assert not torch.equal(draw(seed=1, step=2), draw(seed=2, step=2))

    def test_reseed(self) -> None:
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
            assert single.seed == member.seed[1]  # depends on seed and position, not on the other members
            assert single.seed > 2**33  # uses both 32-bit words
        squad.reseed(many, 6)
        assert all(layer.seed.unique().numel() == MEMBERS for layer in many if isinstance(layer, StochasticModule))
        with pytest.raises(SquadError, match=r"module .*stochastic layer, got ReLU"):
            squad.reseed(nn.ReLU())

    def test_invalid_seeds_are_rejected(self) -> None:
        with pytest.raises(SquadError, match=rf"seed .*{MEMBERS} members, got shape \(2,\)"):
            self.run(self.layer(MEMBERS), self.input(MEMBERS), torch.tensor([1, 2], device=self.device))
        with pytest.raises(SquadError, match=r"seed must be a single number, got shape \(2,\)"):
            self.run(self.layer(), self.input(), torch.tensor([1, 2], device=self.device))


class LatentContract(StochasticContract):
    """Tests of a layer of latent variables, with a posterior, a prior and a KL."""

    def run(self, layer: MemberModule, x: Tensor, seed: int | Tensor) -> tuple[Tensor, ...]:
        z, kl = layer.sample_with_kl(x, temperature=0.7, seed=seed)  # type: ignore[operator]
        return z, kl

    @pytest.mark.parametrize("members", [None, MEMBERS])
    def test_kl_agrees_with_posterior_and_prior(self, members: int | None) -> None:
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
        assert len(outer) == 3  # in order, and none after the block
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
        """Over many samples in eval mode, in the mode that samples from the posterior itself."""
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
        with pytest.raises(SquadError, match=r"noise .*broadcastable"):
            layer.sample_with_kl(x, noise=torch.zeros(ROWS + 1, 1, 1, 1, device=self.device))
        still, _ = layer.sample_with_kl(x, noise=torch.zeros(1, device=self.device))
        torch.testing.assert_close(layer.sample_with_kl(x, noise=torch.zeros((), device=self.device))[0], still)
        shape = (getattr(layer, "bins", ROWS), self.out)
        moved, _ = layer.sample_with_kl(x, noise=torch.randn(shape, device=self.device))
        assert not torch.allclose(moved, still)
        with pytest.raises(SquadError, match=r"noise.*seed.*not both"):
            layer.sample_with_kl(x, seed=1, noise=torch.zeros((), device=self.device))
        with pytest.raises(SquadError, match=r"noise .*tensor, got float"):
            layer.sample_with_kl(x, noise=0.0)
        with pytest.raises(SquadError, match=r"temperature .*single number, got shape \(7,\)"):
            layer.sample_with_kl(x, torch.ones(7, device=self.device))
        with pytest.raises(SquadError, match=r"temperature .*positive.*got -1"):
            layer.sample_with_kl(x, -1.0)
