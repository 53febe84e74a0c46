"""Every backend on a GPU, by its contract, and against the CPU."""

import pytest
import torch

from squad.ops import BACKENDS
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


class TestFactorized(FactorizedContract):
    device = "cuda"


@pytest.mark.parametrize("name", BACKENDS)
def test_the_gpu_computes_what_the_cpu_computes(name: str) -> None:
    there, here = (
        problem((3, 50), 15, 32, members=True, device=device).run(BACKENDS[name], torch.float32)
        for device in ("cuda", "cpu")
    )
    for a, b in zip(there, here, strict=True):
        torch.testing.assert_close(a.cpu(), b, atol=1e-5, rtol=1e-5)
