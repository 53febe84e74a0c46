"""A guarantee certified on one device holds on the other; tensors on a GPU are accepted."""

from typing import Any

import numpy as np
import pytest
import torch

import squad
from squad import metrics
from squad.fitting import FitSettings, fit_predictor
from squad.models import network_config
from squad.train import TrainConfig
from tests.needs import need_gpu


@pytest.fixture(autouse=True)
def _gpu() -> None:
    need_gpu()


def points(count: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    y = random.integers(3, size=count)
    return np.array([[0, 0], [2.5, 0], [0, 2.5]])[y] + random.normal(size=(count, 2)), np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("name", ["squad", "squad-factorized", "maxout-dropout", "mlp"])
@pytest.mark.parametrize("first", ["cpu", "cuda"])
def test_decisions_are_the_same_on_cpu_and_gpu(name: str, first: str) -> None:
    settings = FitSettings(network=network_config(name, {"hidden": (8,)}), training=TrainConfig(max_epochs=5))
    safe = fit_predictor(*points(600, 0), settings, device=first).certify(*points(2000, 1), risk=0.08, delta=0.05)
    assert safe.certificate is not None
    assert safe.certificate.certified
    x, _ = points(20_000, 2)
    before = safe.answer(x)
    after = safe.to("cuda" if first == "cpu" else "cpu").answer(x)
    assert np.abs(before.probabilities - after.probabilities).max() < 1e-5
    assert (before.decision == after.decision).mean() > 0.9999
    assert 0.3 < (before.decision == "accepted").mean() < 1


def test_gpu_tensors_are_accepted() -> None:
    torch.manual_seed(0)
    confidence = torch.rand(3000, device="cuda")
    correct = torch.rand(3000, device="cuda") > 0.3 * (1 - confidence) ** 2
    one, other = squad.certify(confidence, correct, 0.05), squad.certify(confidence.cpu(), correct.cpu(), 0.05)
    assert one == other
    assert one.accepts(confidence).sum() == one.n
    half = confidence.bfloat16()
    assert metrics.aurc(half, correct) == metrics.aurc(half.cpu(), correct.cpu())
