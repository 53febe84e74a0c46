"""Predictions on a GPU: functions of their input, and equal to those on a CPU."""

import pytest
import torch

from benchmarks.harness import peak_memory
from squad.models import Sampler, build, network_config
from squad.models.sampler import MAX_BLOCK_ELEMENTS
from tests.contracts.answers import FEATURES, SAMPLES, WAYS, AnswerContract, example, rows
from tests.needs import need_gpu


@pytest.fixture(autouse=True)
def _gpu() -> None:
    need_gpu()


class TestAnswersOnAGpu(AnswerContract):
    device = "cuda"
    within = 1e-5


@pytest.mark.parametrize(("name", "sampling"), WAYS)
def test_predictions_agree_with_a_cpu(name: str, sampling: str) -> None:
    network, x = example(name), rows(2000)
    here = Sampler(network, sampling, SAMPLES)(x)
    there = Sampler(network.to("cuda"), sampling, SAMPLES)(x.to("cuda"))
    torch.testing.assert_close(there.probabilities.cpu(), here.probabilities, rtol=0, atol=1e-5)
    torch.testing.assert_close(there.entropy.cpu(), here.entropy, rtol=0, atol=1e-4)


def test_prediction_does_not_use_tf32() -> None:
    network, x = example("mlp").to("cuda"), rows(2000).to("cuda")
    expected = Sampler(network, "mean", 1)(x).probabilities
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        found = Sampler(network, "mean", 1)(x).probabilities
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize(("name", "sampling"), WAYS)
def test_call_does_not_synchronize_with_the_gpu(name: str, sampling: str) -> None:
    sampler, x = Sampler(example(name).to("cuda"), sampling, SAMPLES), rows(5000).to("cuda")
    sampler(x)  # compiles kernels
    try:
        torch.cuda.set_sync_debug_mode("error")
        sampler(x)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("sampling", ["relaxed", "stratified", "hard"])
def test_memory_does_not_grow_with_samples_and_rows(sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAX_BLOCK_ELEMENTS, "cuda", 1 << 22)
    network = build(network_config("squad", {"hidden": (32, 32)}), FEATURES, 3, [0, 1]).to("cuda")
    peaks = []
    for samples, count in ((64, 2048), (256, 2048), (64, 8192)):
        sampler, x = Sampler(network, sampling, samples), rows(count).to("cuda")
        sampler(x)
        result = 2 * count * (3 + 1) * 8
        peaks.append(peak_memory(lambda sampler=sampler, x=x: sampler(x), "cuda") - result)  # type: ignore[misc]
    assert max(peaks) < 1.1 * peaks[0]


def test_later_layers_do_not_write_logits() -> None:
    """The logits of 64 samples of a layer with 101 bins would take more memory."""
    network = build(network_config("squad", {"hidden": (32, 32), "bins": 101}), FEATURES, 3, [0]).to("cuda")
    x = rows(2048).to("cuda")
    for sampling in ("relaxed", "stratified"):
        sampler = Sampler(network, sampling, 64)
        sampler(x)
        assert peak_memory(lambda sampler=sampler: sampler(x), "cuda") < 64 * 2048 * 101 * 32 * 4 / 4  # type: ignore[misc]
