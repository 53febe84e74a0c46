"""Contract of every backend of the sampling operation: subclass, set ``name``, and inherit the tests."""

import contextlib
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor

from squad.core.noise import Key, gumbel, make_key
from squad.ops import BACKENDS, Backend, reference, sample_with_kl


@dataclass
class Problem:
    """Inputs of a backend for one call, all of equal rank."""

    logits: Tensor
    values: Tensor
    log_prior: Tensor
    temperature: Tensor | float
    noise: Tensor | Key

    def run(self, backend: Backend, dtype: torch.dtype) -> list[Tensor]:
        """Return z, kl and the gradients of a random function of both with respect to logits and values."""
        logits = self.logits.detach().to(dtype).requires_grad_()
        values = self.values.detach().to(dtype).requires_grad_()
        temperature = self.temperature.to(dtype) if isinstance(self.temperature, Tensor) else self.temperature
        noise = self.noise.to(dtype) if isinstance(self.noise, Tensor) else self.noise
        z, kl = backend(logits, values, self.log_prior.to(dtype), temperature, noise)
        probe = torch.Generator().manual_seed(1)
        weights = [torch.randn(z.shape, generator=probe, dtype=torch.float64).to(z) for _ in range(2)]
        (z * weights[0] + kl * weights[1]).sum().backward()
        assert logits.grad is not None
        assert values.grad is not None
        return [z.detach(), kl.detach(), logits.grad, values.grad]


def problem(
    lead: tuple[int, ...], bins: int, neurons: int, *, members: bool = False, per_neuron: bool = False,
    device: str = "cpu", scale: float = 3.0, seed: int = 0,
) -> Problem:  # fmt: skip
    """Return a random problem; with ``members`` the first axis of ``lead`` enumerates members, which all differ."""
    g = torch.Generator().manual_seed(seed)
    first = lead[:1] if members else ()
    ones = (1,) * (len(lead) - len(first))
    width = neurons if per_neuron else 1
    values = torch.randn(*first, *ones, bins, width, generator=g).cumsum(-2) / bins**0.5
    log_prior = torch.randn(*first, *ones, bins, width, generator=g).log_softmax(-2)
    count = lead[0] if members else 1
    temperature = torch.rand(count, generator=g) + 0.4
    seeds = torch.randint(2**62, (count,), generator=g)
    return Problem(
        logits=(scale * torch.randn(*lead, bins, neurons, generator=g)).to(device),
        values=values.to(device),
        log_prior=log_prior.to(device),
        temperature=(temperature.view(-1, *(1,) * (len(lead) + 1)) if members else temperature[0]).to(device),
        noise=make_key((seeds if members else seeds[0]).to(device), 3, device),
    )


def far_apart(x: Tensor) -> Tensor:
    """Return ``x`` (M, ...) with members 2^30 numbers apart, in memory that is only allocated where it is used."""
    space = torch.empty((len(x) - 1) * 2**30 + x[0].numel(), device=x.device, dtype=x.dtype)
    return space.as_strided(x.shape, (2**30, *x[0].contiguous().stride())).copy_(x)


AWKWARD = [
    pytest.param(lead, bins, neurons, members, per_neuron, id=f"{lead}-C{bins}-K{neurons}-M{members}-{per_neuron}")
    for bins in (2, 3, 15, 37, 101)
    for lead, neurons, members, per_neuron in (
        ((1,), 1, False, False),
        ((5,), 7, False, True),
        ((3, 4), 33, True, False),
        ((2, 3, 5), 13, True, True),
        ((17, 2), 32, False, False),
    )
]


class BackendContract:
    """Tests of a backend; a subclass sets ``name`` and, if needed, ``device``."""

    name: ClassVar[str]
    device: ClassVar[str] = "cpu"
    #: Whether the backend computes in float64, so that its gradients can be checked by finite differences.
    double: ClassVar[bool] = True
    atol: ClassVar[float] = 2e-6
    #: How far the numbers of a member may differ from those of the same member alone: 0 for equality to the bit.
    rounding: ClassVar[float] = 0.0

    @property
    def backend(self) -> Backend:
        return BACKENDS[self.name]

    @pytest.mark.parametrize(("lead", "bins", "neurons", "members", "per_neuron"), AWKWARD)
    def test_is_as_accurate_as_the_reference(
        self, lead: tuple[int, ...], bins: int, neurons: int, members: bool, per_neuron: bool
    ) -> None:
        p = problem(lead, bins, neurons, members=members, per_neuron=per_neuron, device=self.device)
        exact = p.run(reference.sample_with_kl, torch.float64)
        plain = p.run(reference.sample_with_kl, torch.float32)
        for name, want, like, got in zip(
            ("z", "kl", "grad logits", "grad values"),
            exact,
            plain,
            p.run(self.backend, torch.float32),
            strict=True,
        ):
            assert got.shape == want.shape, name
            error, allowed = (
                (got - want).abs().max(),
                2 * (like - want).abs().max() + self.atol * want.abs().max(),
            )
            assert error <= allowed, f"{name}: off by {error:.2e}, allowed {allowed:.2e}"

    @pytest.mark.parametrize("scale", [50.0, 1000.0])
    def test_is_as_accurate_with_large_logits(self, scale: float) -> None:
        p = problem((3, 4), 15, 5, members=True, device=self.device, scale=scale)
        exact, plain, found = (
            p.run(backend, dtype)
            for backend, dtype in (
                (reference.sample_with_kl, torch.float64),
                (reference.sample_with_kl, torch.float32),
                (self.backend, torch.float32),
            )
        )
        for name, want, like, got in zip(("z", "kl", "grad logits", "grad values"), exact, plain, found, strict=True):
            allowed = 2 * (like - want).abs().max() + 1e-5 * want.abs().max()
            assert (got - want).abs().max() <= allowed, name

    def test_result_is_nan_if_no_bin_has_mass(self) -> None:
        p = problem((2, 3), 3, 2, members=True, device=self.device)
        p.logits[0, 1, :, 1] = -float("inf")
        z, kl = self.backend(p.logits, p.values, p.log_prior, p.temperature, p.noise)
        for found in (z, kl):
            assert found[0, 1, 1].isnan()
            assert found.isnan().sum() == 1

    def test_gradients_agree_with_finite_differences(self) -> None:
        if not self.double:
            pytest.skip(f"{self.name} does not compute in float64")
        p = problem((2, 3), 5, 4, members=True, per_neuron=True, device=self.device)
        temperature = p.temperature.double() if isinstance(p.temperature, Tensor) else p.temperature
        logits, values = p.logits.double().requires_grad_(), p.values.double().requires_grad_()

        def function(a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            return self.backend(a, v, p.log_prior.double(), temperature, p.noise)

        assert torch.autograd.gradcheck(function, (logits, values))

    def test_second_derivatives_agree_with_finite_differences(self) -> None:
        if not self.double:
            pytest.skip(f"{self.name} does not compute in float64")
        p = problem((2, 3), 3, 2, members=True, device=self.device)
        temperature = p.temperature.double() if isinstance(p.temperature, Tensor) else p.temperature
        logits, values = p.logits.double().requires_grad_(), p.values.double().requires_grad_()

        def function(a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            return self.backend(a, v, p.log_prior.double(), temperature, p.noise)

        assert torch.autograd.gradgradcheck(function, (logits, values))

    @pytest.mark.parametrize("padded", [False, True])
    def test_gradient_penalty_agrees_with_the_reference(self, padded: bool) -> None:
        """The simplest use of second derivatives: the incoming gradient itself requires no gradient."""
        p = problem((3, 4), 5, 3, members=True, device=self.device)
        if padded:  # bins without mass, in one member
            p.logits[1, :, 3:] = p.log_prior[1, :, 3:] = -float("inf")
        found = []
        for backend in (self.backend, reference.sample_with_kl):
            logits = p.logits.clone().requires_grad_()
            z, kl = backend(logits, p.values, p.log_prior, p.temperature, p.noise)
            (grad,) = torch.autograd.grad(z.sum() + kl.sum(), logits, create_graph=True)
            found.append(torch.autograd.grad(grad.square().sum(), logits)[0])
        assert found[0].isfinite().all()
        torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)

    @pytest.mark.parametrize("biased", [False, True])
    def test_jacobians(self, biased: bool) -> None:
        """Both of torch's ways to vectorize a backward pass; kernels cannot read tensors wrapped by vmap."""
        p = problem((2, 2), 3, 2, members=True, device=self.device)
        bias = torch.randn(2, 1, 3, 2, generator=torch.Generator().manual_seed(4)).to(self.device) if biased else None
        key, temperature = p.noise, p.temperature
        assert isinstance(key, Key)
        assert isinstance(temperature, Tensor)

        def function(logits: Tensor, values: Tensor) -> Tensor:
            z, kl = sample_with_kl(
                logits, values, p.log_prior, temperature.view(-1), seed=key.seed, step=key.step,
                bias=bias, total=biased, backend=self.name,  # type: ignore[arg-type]
            )  # fmt: skip
            return torch.cat([z.flatten(), kl.flatten()])

        at = p.logits, p.values
        want = torch.autograd.functional.jacobian(function, at)
        torch.testing.assert_close(torch.func.jacrev(function, (0, 1))(*at), want, atol=1e-5, rtol=1e-5)
        at_once = torch.autograd.functional.jacobian(function, at, vectorize=True)
        torch.testing.assert_close(at_once, want, atol=1e-5, rtol=1e-5)

    def test_activation_checkpointing(self) -> None:
        """Activation checkpointing returns each saved tensor only once."""
        p = problem((4,), 5, 3, device=self.device)
        leaf = p.logits.clone().requires_grad_()

        def function(logits: Tensor) -> Tensor:
            z, kl = self.backend(logits, p.values, p.log_prior, p.temperature, p.noise)
            return z.square() + kl

        (want,) = torch.autograd.grad(function(leaf).sum(), leaf)
        again = torch.utils.checkpoint.checkpoint(function, leaf, use_reentrant=False)
        torch.testing.assert_close(torch.autograd.grad(again.sum(), leaf)[0], want)

    def test_second_derivatives_with_hooks_on_saved_tensors(self) -> None:
        """For example hooks that move saved tensors to the host."""
        p = problem((4,), 5, 3, device=self.device)
        leaf, found = p.logits.clone().requires_grad_(), []
        for kept in (torch.autograd.graph.save_on_cpu(), contextlib.nullcontext()):
            with kept:
                z, kl = self.backend(leaf, p.values, p.log_prior, p.temperature, p.noise)
                (grad,) = torch.autograd.grad(z.square().sum() + kl.sum(), leaf, create_graph=True)
                found.append(torch.autograd.grad(grad.square().sum(), leaf)[0])
        torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)

    def test_members_far_apart_in_memory(self) -> None:
        """As parameters are in training, rows of one matrix: offsets that exceed 32 bits."""
        p = problem((3, 4), 5, 2, members=True, device=self.device)
        assert isinstance(p.noise, Key)
        assert isinstance(p.temperature, Tensor)
        bias = torch.randn(3, 1, 5, 2, generator=torch.Generator().manual_seed(4)).to(self.device)
        key, temperature = p.noise, p.temperature.view(-1)
        results = [
            sample_with_kl(
                p.logits, values, p.log_prior, temperature, seed=key.seed, bias=own,
                backend=self.name,  # type: ignore[arg-type]
            )
            for values, own in ((p.values, bias), (far_apart(p.values), far_apart(bias)))
        ]  # fmt: skip
        torch.testing.assert_close(*results)

    def test_any_memory_order(self) -> None:
        """Logits that are a view: transposed, expanded, cut out."""
        p = problem((6, 8), 5, 7, device=self.device)
        want = p.run(self.backend, torch.float32)
        views = [
            p.logits.permute(2, 0, 3, 1).contiguous().permute(1, 3, 0, 2),
            torch.stack([p.logits, p.logits], -1)[..., 0],
        ]
        for view in views:
            assert not view.is_contiguous()
            got = self.backend(view, p.values, p.log_prior, p.temperature, p.noise)
            torch.testing.assert_close([x.detach() for x in got], want[:2])
        row = p.logits[:1].expand(6, 8, 5, 7)
        torch.testing.assert_close(
            self.backend(row, p.values, p.log_prior, p.temperature, p.noise),
            self.backend(row.contiguous(), p.values, p.log_prior, p.temperature, p.noise),
        )

    def test_each_member_has_its_own_temperature(self) -> None:
        p = problem((3, 4), 5, 7, members=True, device=self.device)
        temperatures = torch.tensor([0.3, 0.7, 1.5], device=self.device)
        noise = gumbel(p.noise, 4, 5, 7) if isinstance(p.noise, Key) else p.noise
        whole, _ = sample_with_kl(p.logits, p.values, p.log_prior, temperatures, noise=noise, backend=self.name)  # type: ignore[arg-type]
        for i, t in enumerate((0.3, 0.7, 1.5)):
            alone = ((p.logits[i] + noise[i]) / t).softmax(-2) * p.values[i]
            torch.testing.assert_close(whole[i], alone.sum(-2), atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize("wanted", ["z", "kl"])
    def test_gradient_of_a_single_output(self, wanted: str) -> None:
        p = problem((4,), 5, 3, device=self.device)
        grads = []
        for backend in (self.backend, reference.sample_with_kl):
            logits, values = p.logits.clone().requires_grad_(), p.values.clone().requires_grad_()
            z, kl = backend(logits, values, p.log_prior, p.temperature, p.noise)
            out = z.square() if wanted == "z" else kl.square()
            grads.append(torch.autograd.grad(out.sum(), [logits, values], allow_unused=True, materialize_grads=True))
        torch.testing.assert_close(*grads)

    def test_key_and_explicit_noise_agree(self) -> None:
        p = problem((3, 4), 6, 5, members=True, device=self.device)
        assert isinstance(p.noise, Key)
        explicit = gumbel(p.noise, 4, 6, 5)
        keyed = self.backend(p.logits, p.values, p.log_prior, p.temperature, p.noise)
        given = self.backend(p.logits, p.values, p.log_prior, p.temperature, explicit)
        torch.testing.assert_close(keyed, given, atol=1e-6, rtol=1e-6)

    def test_each_member_uses_its_own_seed(self) -> None:
        """The noise depends neither on the number of members nor on their position."""
        p = problem((3, 4), 15, 9, members=True, device=self.device)
        assert isinstance(p.noise, Key)
        assert isinstance(p.temperature, Tensor)
        together = self.backend(p.logits, p.values, p.log_prior, p.temperature, p.noise)
        for i in range(3):
            alone = self.backend(
                p.logits[i],
                p.values[i],
                p.log_prior[i],
                p.temperature[i].view(()),
                Key(p.noise.seed[i], p.noise.step[i]),
            )
            for whole, one in zip(together, alone, strict=True):
                torch.testing.assert_close(whole[i], one, rtol=self.rounding, atol=self.rounding)

    def test_nan_does_not_spread_to_other_members(self) -> None:
        p = problem((3, 4), 6, 5, members=True, device=self.device)
        clean = p.run(self.backend, torch.float32)
        p.logits[1] = float("nan")
        dirty = p.run(self.backend, torch.float32)
        for before, after in zip(clean, dirty, strict=True):
            assert after[1].isnan().any()
            for other in (0, 2):
                assert torch.equal(before[other], after[other])

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
    def test_extreme_logits(self, dtype: torch.dtype) -> None:
        if dtype == torch.float64 and not self.double:
            pytest.skip(f"{self.name} does not compute in float64")
        size = torch.tensor([-1e4, -1.0, 0.0, 1.0, 1e4])
        logits = torch.cartesian_prod(*[size] * 3).T.contiguous().to(self.device, dtype).requires_grad_()
        values = torch.tensor([[-3.5], [0.0], [3.5]], device=self.device, dtype=dtype).requires_grad_()
        prior = torch.full((3, 1), 1 / 3, device=self.device).log()
        z, kl = sample_with_kl(logits, values, prior, 0.1, seed=5, backend=self.name)  # type: ignore[arg-type]
        (z.float().sum() + kl.sum()).backward()
        for tensor in (z, kl, logits.grad, values.grad):
            assert tensor is not None
            assert tensor.isfinite().all()
        assert (kl >= 0).all()
        assert (kl <= torch.tensor(3.0).log() + 1e-6).all()
        assert (z.abs() <= 3.5).all()
        assert z.dtype == dtype
        assert kl.dtype == torch.promote_types(dtype, torch.float32)

    def test_kl_is_never_below_zero(self) -> None:
        """Where posterior and prior agree the sum is a rounding error, and half of those are negative."""
        g = torch.Generator().manual_seed(2)
        logits = (torch.randn(37, 999, generator=g) * 2).to(self.device).requires_grad_()
        prior = logits.detach().log_softmax(-2)
        values = torch.linspace(-1, 1, 37, device=self.device).unsqueeze(-1)
        _, kl = self.backend(logits, values, prior, 0.5, make_key(1, device=self.device))
        assert (kl >= 0).all()
        assert (kl < 1e-5).all()

    def test_bins_without_mass_change_nothing(self) -> None:
        """A member padded to more bins (logits and prior of -inf) equals one without them, gradients included."""
        small, wide = problem((6,), 7, 5, device=self.device), problem((6,), 11, 5, device=self.device)
        pad = (0, 0, 0, 4)
        wide.logits = torch.nn.functional.pad(small.logits, pad, value=-float("inf"))
        wide.values = torch.nn.functional.pad(small.values, pad, value=9.0)
        wide.log_prior = torch.nn.functional.pad(small.log_prior, pad, value=-float("inf"))
        wide.temperature = small.temperature
        wide.noise = small.noise
        z, kl, logits, values = small.run(self.backend, torch.float32)
        z2, kl2, logits2, values2 = wide.run(self.backend, torch.float32)
        torch.testing.assert_close(z2, z)
        torch.testing.assert_close(kl2, kl)
        torch.testing.assert_close(logits2[:, :7], logits)
        torch.testing.assert_close(values2[:, :7], values)
        assert not logits2[:, 7:].any()
        assert not values2[:, 7:].any()

    @pytest.mark.parametrize("lead", [(0,), (2, 0)])
    def test_no_rows(self, lead: tuple[int, ...]) -> None:
        z, kl, _, grad_values = problem(lead, 5, 3, device=self.device).run(self.backend, torch.float32)
        assert z.shape == kl.shape == (*lead, 3)
        assert not grad_values.any()

    def test_temperature_changed_before_the_backward_pass_raises(self) -> None:
        """As for torch's own operations: the gradient would be wrong."""
        p = problem((4,), 5, 3, device=self.device)
        temperature = torch.tensor(0.5, device=self.device)
        z, _ = self.backend(p.logits.requires_grad_(), p.values, p.log_prior, temperature, p.noise)
        temperature.fill_(5.0)
        with pytest.raises(RuntimeError, match="inplace"):
            z.sum().backward()

    def test_vmap_over_temperatures(self) -> None:
        p = problem((4,), 5, 3, device=self.device)
        noise = gumbel(p.noise, 4, 5, 3) if isinstance(p.noise, Key) else p.noise
        temperatures = torch.tensor([0.5, 0.9], device=self.device)
        sweep = torch.func.vmap(lambda t: self.backend(p.logits, p.values, p.log_prior, t, noise)[0])(temperatures)
        for i, t in enumerate((0.5, 0.9)):
            torch.testing.assert_close(sweep[i], self.backend(p.logits, p.values, p.log_prior, t, noise)[0])

    def test_low_temperature_samples_follow_the_softmax(self) -> None:
        """At a low temperature relaxed samples are bin values, with the frequencies of their probabilities."""
        rows, bins = 20_000, 6
        logits = torch.linspace(-1.5, 1.0, bins, device=self.device)
        p = logits.softmax(0).double().cpu()
        values = torch.arange(bins, dtype=torch.float32, device=self.device).unsqueeze(-1)
        z, _ = self.backend(
            logits.view(1, bins, 1).expand(rows, bins, 2).contiguous(),
            values[None], torch.zeros(1, bins, 1, device=self.device), 1e-4, make_key(11, device=self.device),
        )  # fmt: skip
        for column in z.cpu().unbind(-1):
            counts = torch.bincount(column.round().long(), minlength=bins).double()
            statistic = ((counts - rows * p).square() / (rows * p)).sum()
            assert statistic < 20.5, counts  # chi-square with 5 degrees of freedom: p = 1e-3

    def test_result_does_not_depend_on_the_number_of_threads(self) -> None:
        if self.device != "cpu":
            pytest.skip("threads are used on the CPU only")
        p = problem((300,), 15, 32)
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(p.run(self.backend, torch.float32))
        for one, two in zip(*results, strict=True):
            torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-5)
