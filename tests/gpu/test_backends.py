"""Every backend on a GPU, tested by its contract and against the CPU."""

import pytest
import torch

from squad.ops import BACKENDS, reference
from tests.contracts.backends import BackendContract, problem
from tests.contracts.factorized import FactorizedContract
from tests.needs import need_gpu


@pytest.fixture(autouse=True)
def gpu() -> None:
    need_gpu()


class TestReference(BackendContract):
    name = "reference"
    device = "cuda"


class TestEager(BackendContract):
    name = "eager"
    device = "cuda"


class TestTriton(BackendContract):
    name = "triton"
    device = "cuda"
    double = False

    @pytest.mark.parametrize(("rows", "bins", "neurons"), [(8192, 37, 256), (244, 11, 300)])
    def test_is_as_accurate_at_large_sizes(self, rows: int, bins: int, neurons: int) -> None:
        """Full tiles, many blocks of rows; sums over rows are compared relative to their size."""
        p = problem((rows,), bins, neurons, device=self.device)
        exact = p.run(reference.sample_with_kl, torch.float64)
        plain = p.run(reference.sample_with_kl, torch.float32)
        for want, like, got in zip(exact, plain, p.run(self.backend, torch.float32), strict=True):
            assert (got - want).abs().max() <= 2 * (like - want).abs().max() + 2e-6 * want.abs().max()


class TestFactorized(FactorizedContract):
    device = "cuda"

    @pytest.mark.parametrize("shared", [False, True])
    def test_is_as_accurate_at_large_sizes(self, shared: bool) -> None:
        self.test_is_as_accurate_as_the_reference(1, 8192, 37, 256, 4, shared, False)


@pytest.mark.parametrize("name", BACKENDS)
def test_gpu_agrees_with_cpu(name: str) -> None:
    there, here = (
        problem((3, 50), 15, 32, members=True, device=device).run(BACKENDS[name], torch.float32)
        for device in ("cuda", "cpu")
    )
    for a, b in zip(there, here, strict=True):
        torch.testing.assert_close(a.cpu(), b, atol=1e-5, rtol=1e-5)
