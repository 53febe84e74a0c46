"""Answers on a GPU: functions of their input there, and the ones a CPU gives."""

import pytest
import torch

from squad.models import Sampler
from tests.contracts.answers import SAMPLES, WAYS, AnswerContract, example, rows
from tests.needs import need_gpu


@pytest.fixture(autouse=True)
def _gpu() -> None:
    need_gpu()


class TestAnswersOnAGpu(AnswerContract):
    device = "cuda"


@pytest.mark.parametrize(("name", "sampling"), WAYS)
def test_a_gpu_answers_what_a_cpu_answers(name: str, sampling: str) -> None:
    network, x = example(name), rows(2000)
    here = Sampler(network, sampling, SAMPLES)(x)
    there = Sampler(network.to("cuda"), sampling, SAMPLES)(x.to("cuda"))
    torch.testing.assert_close(there.probabilities.cpu(), here.probabilities, rtol=0, atol=1e-5)
    torch.testing.assert_close(there.entropy.cpu(), here.entropy, rtol=0, atol=1e-4)


def test_tf32_is_not_used_even_where_it_is_allowed() -> None:
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
