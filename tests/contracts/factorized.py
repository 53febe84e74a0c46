"""Contract of the kernels of factorized layers: they agree with the reference on materialized logits."""

from typing import ClassVar

import pytest
import torch
from torch import Tensor

from squad.core.noise import Key
from squad.ops import reference
from tests.contracts.backends import far_apart, problem


def materialized_logits(inner: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Logits (M, N, C, K) of inner (M, N, K or 1, B), W'' (M, K, B, C) and b'' (M, K, C)."""
    return (inner.unsqueeze(-2) @ weight.unsqueeze(1) + bias[:, None, :, None]).squeeze(-2).mT


CASES = [
    pytest.param(*case, id="-".join(map(str, case)))
    for case in (
        (1, 1, 2, 1, 1, False, False),
        (1, 5, 3, 7, 2, False, True),
        (2, 9, 15, 5, 3, False, False),
        (2, 40, 37, 3, 4, False, True),
        (2, 7, 37, 3, 4, True, False),
        (1, 6, 101, 2, 5, False, False),
        (2, 3, 6, 3, 8, True, True),
    )
]


class FactorizedContract:
    """Tests of the kernels; a subclass may set ``device``."""

    device: ClassVar[str] = "cpu"
    atol: ClassVar[float] = 2e-6

    def case(
        self, members: int, rows: int, bins: int, neurons: int, rank: int, shared: bool, per_neuron: bool
    ) -> tuple[list[Tensor], Tensor, Tensor, Key]:
        """Leaves (inner, inner bias, weight, bias, values), log_prior, temperature, key."""
        p = problem((members, rows), bins, neurons, members=True, per_neuron=per_neuron, device=self.device)
        assert isinstance(p.temperature, Tensor)
        assert isinstance(p.noise, Key)
        g = torch.Generator().manual_seed(7)
        leaves = [
            torch.randn(members, rows, 1 if shared else neurons, rank, generator=g),
            torch.randn(members, 1 if shared else neurons, rank, generator=g),
            2 * torch.randn(members, neurons, rank, bins, generator=g) / rank**0.5,
            torch.randn(members, neurons, bins, generator=g),
        ]
        leaves = [*(x.to(self.device) for x in leaves), p.values.squeeze(1)]
        return leaves, p.log_prior.squeeze(1), p.temperature.view(-1), p.noise

    def run(self, fused: bool, dtype: torch.dtype, *case: int) -> list[Tensor]:
        """Return z, kl and the gradients of a random function of both with respect to the leaves."""
        from squad.ops import triton_factorized

        leaves, log_prior, temperature, key = self.case(*case)  # type: ignore[arg-type]
        inner, inner_bias, weight, bias, values = leaves = [x.to(dtype).requires_grad_() for x in leaves]
        if fused:
            z, kl = triton_factorized.sample_with_kl(
                inner, inner_bias, weight, bias, values, log_prior, temperature, key
            )
        else:
            logits = materialized_logits(inner + inner_bias.unsqueeze(1), weight, bias)
            z, kl = reference.sample_with_kl(
                logits, values.unsqueeze(1), log_prior.to(dtype).unsqueeze(1),
                temperature.to(dtype).view(-1, 1, 1, 1), key,
            )  # fmt: skip
        probe = torch.Generator().manual_seed(1)
        weights = [torch.randn(z.shape, generator=probe, dtype=torch.float64).to(z) for _ in range(2)]
        (z * weights[0] + kl * weights[1]).sum().backward()
        return [z.detach(), kl.detach(), *(x.grad for x in leaves if x.grad is not None)]

    @pytest.mark.parametrize(("members", "rows", "bins", "neurons", "rank", "shared", "per_neuron"), CASES)
    def test_is_as_accurate_as_the_reference(
        self, members: int, rows: int, bins: int, neurons: int, rank: int, shared: bool, per_neuron: bool
    ) -> None:
        case = members, rows, bins, neurons, rank, shared, per_neuron
        exact = self.run(False, torch.float64, *case)
        plain = self.run(False, torch.float32, *case)
        names = "z", "kl", "grad inner", "grad inner bias", "grad weight", "grad bias", "grad values"
        for name, want, like, got in zip(names, exact, plain, self.run(True, torch.float32, *case), strict=True):
            assert got.shape == want.shape, name
            error = (got - want).abs().max()
            allowed = 2 * (like - want).abs().max() + self.atol * (want.abs().max() + 0.1)
            assert error <= allowed, f"{name}: off by {error:.2e}, allowed {allowed:.2e}"

    @pytest.mark.parametrize("value", [-float("inf"), float("nan"), 1e4, -1e4])
    def test_bins_without_mass_and_extreme_logits(self, value: float) -> None:
        """Like the reference: bins without mass contribute nothing, and NaN occurs at the same places."""
        from squad.ops import triton_factorized

        (inner, inner_bias, weight, bias, values), log_prior, temperature, key = self.case(2, 5, 6, 2, 2, False, False)
        bias[0, 1, 4:] = value
        found = []
        for fused in (True, False):
            leaves = [x.clone().requires_grad_() for x in (inner, inner_bias, weight, bias, values)]
            if fused:
                z, kl = triton_factorized.sample_with_kl(
                    leaves[0], leaves[1], leaves[2], leaves[3], leaves[4], log_prior, temperature, key
                )
            else:
                logits = materialized_logits(leaves[0] + leaves[1].unsqueeze(1), *leaves[2:4])
                z, kl = reference.sample_with_kl(
                    logits, leaves[4].unsqueeze(1), log_prior.unsqueeze(1), temperature.view(-1, 1, 1, 1), key
                )
            (z.sum() + kl.sum()).backward()
            found.append([z.detach(), kl.detach(), *(x.grad for x in leaves if x.grad is not None)])
        for got, want in zip(*found, strict=True):
            assert torch.equal(got.isnan(), want.isnan()) or value == -float("inf")
            finite = want.isfinite()
            tolerance = 1e-2 if value == 1e4 else 2e-4  # logits of that size are rounded to 1e-3, in another order
            torch.testing.assert_close(got[finite], want[finite], atol=tolerance, rtol=tolerance)
            if value == -float("inf"):
                assert got.isfinite().all()

    def test_jacobians(self) -> None:
        """Both of torch's ways to vectorize a backward pass; kernels cannot read tensors wrapped by vmap."""
        from squad.ops import triton_factorized

        leaves, log_prior, temperature, key = self.case(2, 1, 2, 1, 2, False, False)

        def function(inner: Tensor, inner_bias: Tensor, weight: Tensor, bias: Tensor, values: Tensor) -> Tensor:
            found = triton_factorized.sample_with_kl(
                inner, inner_bias, weight, bias, values, log_prior, temperature, key
            )
            return torch.cat([x.flatten() for x in found])

        at = tuple(leaves)
        want = torch.autograd.functional.jacobian(function, at)
        torch.testing.assert_close(torch.func.jacrev(function, (0, 1, 2, 3, 4))(*at), want, atol=1e-5, rtol=1e-5)
        at_once = torch.autograd.functional.jacobian(function, at, vectorize=True)
        torch.testing.assert_close(at_once, want, atol=1e-5, rtol=1e-5)

    def test_members_far_apart_in_memory(self) -> None:
        """As parameters are in training, rows of one matrix: offsets that exceed 32 bits."""
        from squad.ops import triton_factorized

        (inner, *rest), log_prior, temperature, key = self.case(3, 4, 3, 1, 2, False, False)
        apart = [far_apart(x) for x in rest]
        results = [
            triton_factorized.sample_with_kl(inner, bias1, weight, bias2, values, log_prior, temperature, key)
            for bias1, weight, bias2, values in (rest, apart)
        ]
        torch.testing.assert_close(*results)

    def test_results_can_be_modified_in_place(self) -> None:
        from squad.ops import triton_factorized

        (inner, *rest), log_prior, temperature, key = self.case(1, 4, 5, 2, 2, False, False)
        bias1, weight, bias2, values = rest
        for total in (True, False):
            leaf = inner.clone().requires_grad_()
            z, kl = triton_factorized.sample_with_kl(
                leaf, bias1, weight, bias2, values, log_prior, temperature, key, total=total
            )
            z.mul_(2)
            if total:
                kl.mul_(2)
            (z.sum() + kl.sum()).backward()

    def test_gradients_of_a_subset_of_inputs(self) -> None:
        """With fixed values, and of the KL alone, which does not depend on the values."""
        from squad.ops import triton_factorized

        leaves, log_prior, temperature, key = self.case(1, 5, 3, 2, 2, False, False)
        for wanted in ((0, 1, 2, 3), (2, 4)):
            found = []
            for only in (False, True):
                inner, inner_bias, weight, bias, values = own = [
                    x.clone().requires_grad_(not only or place in wanted) for place, x in enumerate(leaves)
                ]
                z, kl = triton_factorized.sample_with_kl(
                    inner, inner_bias, weight, bias, values, log_prior, temperature, key
                )
                found.append(torch.autograd.grad(z.square().sum() + kl.sum(), [own[place] for place in wanted]))
            torch.testing.assert_close(*found)
        inner, inner_bias, weight, bias, values = (x.clone().requires_grad_() for x in leaves)
        _, kl = triton_factorized.sample_with_kl(inner, inner_bias, weight, bias, values, log_prior, temperature, key)
        grads = torch.autograd.grad(kl.sum(), [inner, values], allow_unused=True, materialize_grads=True)
        assert grads[0].any()
        assert not grads[1].any()

    def test_total_kl_has_the_same_gradients(self) -> None:
        """Alone and together with the gradient of z."""
        from squad.ops import triton_factorized

        leaves, log_prior, temperature, key = self.case(1, 5, 3, 2, 2, False, False)
        inner, inner_bias, weight, bias, values = leaves = [x.requires_grad_() for x in leaves]
        found = []
        for total in (True, False):
            z, kl = triton_factorized.sample_with_kl(
                inner, inner_bias, weight, bias, values, log_prior, temperature, key, total=total
            )
            kl = kl if total else kl.sum(-1)
            assert kl.shape == z.shape[:-1]
            found.append([kl, *torch.autograd.grad(kl.square().sum(), leaves[:4], retain_graph=True),
                          *torch.autograd.grad(kl.sum() + z.square().sum(), leaves)])  # fmt: skip
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
