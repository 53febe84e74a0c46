"""Every layer on a GPU, tested by its contract and against the CPU."""

import copy

import pytest
import torch
from torch import nn

import squad
from squad.core.noise import bits, gumbel, make_key
from tests.contracts.compiling import CompilingContract
from tests.layers import test_contracts as cpu
from tests.needs import need_gpu


@pytest.fixture(autouse=True)
def gpu() -> None:
    need_gpu()


class TestLinear(cpu.TestLinear):
    device = "cuda"


class TestMaxout(cpu.TestMaxout):
    device = "cuda"


class TestDropout(cpu.TestDropout):
    device = "cuda"


class TestGaussian(cpu.TestGaussian):
    device = "cuda"


class TestSquad(cpu.TestSquad):
    device = "cuda"


class TestSquadPerNeuron(cpu.TestSquadPerNeuron):
    device = "cuda"


class TestFactorized(cpu.TestFactorized):
    device = "cuda"


class TestFactorizedShared(cpu.TestFactorizedShared):
    device = "cuda"


class TestCompiling(CompilingContract):
    kinds = (
        TestLinear,
        TestMaxout,
        TestDropout,
        TestGaussian,
        TestSquad,
        TestSquadPerNeuron,
        TestFactorized,
        TestFactorizedShared,
    )


def test_noise_is_bit_identical_on_cpu_and_gpu() -> None:
    for members in (None, 3):
        seed = torch.tensor(5) if members is None else torch.tensor([5, -6, 2**61])
        here, there = (make_key(seed.to(device), 7, device) for device in ("cpu", "cuda"))
        assert torch.equal(bits(here, 1000, 15, 32), bits(there, 1000, 15, 32).cpu())
        torch.testing.assert_close(gumbel(here, 1000, 15, 32), gumbel(there, 1000, 15, 32).cpu(), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("sampling", ["relaxed", "mean"])
def test_network_is_the_same_function_on_cpu_and_gpu(sampling: str) -> None:
    net = nn.Sequential(
        squad.SquadLinear(64, 32, sampling=sampling),  # type: ignore[arg-type]
        squad.FactorizedSquadLinear(32, 32, sampling=sampling),  # type: ignore[arg-type]
        squad.Linear(32, 10),
    ).eval()
    x = torch.randn(500, 64)
    with squad.sample_index(5):
        want = net(x).softmax(-1)
        got = copy.deepcopy(net).cuda()(x.cuda()).softmax(-1).cpu()
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


def test_training_step_can_be_captured_in_a_cuda_graph() -> None:
    """Forward and backward pass can be captured in a CUDA graph while seed, step and temperature change."""
    layer = squad.SquadLinear(20, 8, members=2).cuda()
    x = torch.randn(2, 30, 20, device="cuda")
    seed, step = torch.tensor([1, 2], device="cuda"), torch.tensor([0, 0], device="cuda")

    def run() -> torch.Tensor:
        z, kl = layer.sample_with_kl(x, layer.temperature, seed=seed, step=step)
        (z.square().sum() + kl.sum()).backward()
        return z

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for number, temperature in ((0, 0.5), (1, 0.5), (1, 0.9)):
        step.fill_(number)
        squad.set_temperature(layer, temperature)
        graph.replay()
        torch.testing.assert_close(captured, layer.sample_with_kl(x, seed=seed, step=step)[0])
