"""Backends that need neither GPU nor compiler, tested by the contract; the reference against numpy."""

import numpy as np
import pytest
import torch

from squad.core.noise import Key, gumbel
from squad.ops import reference
from tests.contracts.backends import BackendContract, problem


class TestReference(BackendContract):
    name = "reference"

    # A comparison with itself cannot fail; it is compared with numpy below.
    test_is_as_accurate_as_the_reference = None  # type: ignore[assignment]
    test_is_as_accurate_with_large_logits = None  # type: ignore[assignment]
    test_gradient_of_a_single_output = None  # type: ignore[assignment]

    @pytest.mark.parametrize("bins", [2, 15, 101])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_agrees_with_numpy(self, bins: int, dtype: torch.dtype) -> None:
        p = problem((3, 4), bins, 7, members=True, per_neuron=True)
        assert isinstance(p.noise, Key)
        assert isinstance(p.temperature, torch.Tensor)
        noise = gumbel(p.noise, 4, bins, 7, dtype=torch.float64)
        a, v, r, t, g = (x.double().numpy() for x in (p.logits, p.values, p.log_prior, p.temperature, noise))
        e = np.exp(a - a.max(-2, keepdims=True))
        q = e / e.sum(-2, keepdims=True)
        s = (a + g) / t
        y = np.exp(s - s.max(-2, keepdims=True))
        y /= y.sum(-2, keepdims=True)
        z, kl = reference.sample_with_kl(
            p.logits.to(dtype), p.values.to(dtype), p.log_prior.to(dtype), p.temperature.to(dtype), p.noise
        )
        near = 1e-12 if dtype == torch.float64 else 1e-4
        np.testing.assert_allclose(z, (y * v).sum(-2), atol=near, rtol=near)
        np.testing.assert_allclose(kl, (q * (np.log(q) - r)).sum(-2), atol=near, rtol=near)


class TestEager(BackendContract):
    name = "eager"
