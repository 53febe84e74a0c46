"""Predictions are the same with every instruction set that can be selected on this machine, and any number of threads.

The guarantee (docs/explanation/determinism.md): labels, confidences and decisions are equal to the bit,
probabilities to 1e-6.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from squad.data.array_transform import ArrayTransform
from squad.fitting import fit_predictor
from squad.models import network_config
from squad.predictor import Predictor
from tests.contracts.answers import FEATURES, WAYS, example
from tests.contracts.guaranteed import assert_same
from tests.predictor.examples import QUICK, points

ROWS = 2000

#: Environment variables that make libraries use other kernels; each in its own process, since they are read once.
SETTINGS = [
    {},
    {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    {"MKL_ENABLE_INSTRUCTIONS": "AVX512"},
    {"MKL_CBWR": "COMPATIBLE"},
    {"MKL_CBWR": "AVX2"},
    {"ATEN_CPU_CAPABILITY": "default"},
    {"ATEN_CPU_CAPABILITY": "avx2"},
    {"ATEN_CPU_CAPABILITY": "avx512"},
    {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
]

Arrays = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for every network and sampling mode, a highly confident one, and certified ones."""
    folder = tmp_path_factory.mktemp("models")
    x = np.random.default_rng(0).normal(size=(ROWS, FEATURES))

    def save(name: str, made: Predictor, rows: Any) -> None:
        made.save(folder / f"{name}-model")
        np.save(folder / f"{name}-model.npy", rows)

    for network, sampling in WAYS:
        config = network_config(network, {"hidden": (12, 9)})
        plain = example(network)
        made = Predictor(plain, config, ArrayTransform.fit(x), tuple("abcde"), sampling=sampling, num_samples=4)
        save(f"{network}-{sampling}", made, x)
    confident = example("squad")
    with torch.no_grad():
        for parameter in list(confident.parameters())[-2:]:
            parameter.mul_(8)
    config = network_config("squad", {"hidden": (12, 9)})
    save("confident", Predictor(confident, config, ArrayTransform.fit(x), tuple("abcde"), num_samples=4), x)

    fitted = fit_predictor(*points(600, 0), QUICK)
    rows, _ = points(ROWS, 8)
    save("certified", fitted.certify(*points(2000, 1), risk=0.1, delta=0.05), rows)
    for method in ("temperature", "isotonic"):
        recalibrated = fitted.recalibrate(*points(700, 7), method=method)
        save(method, recalibrated.certify(*points(2000, 1), risk=0.1, delta=0.05), rows)
    return folder


def predictions(models: Path, settings: dict[str, str]) -> Arrays:
    """Predict in a subprocess; return arrays by model, by kind of call, by field."""
    name = "-".join(f"{key}={value}" for key, value in settings.items()) or "default"
    result = models / f"{name}.npz"
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("MKL_", "ATEN_", "ONEDNN_", "OMP_"))
    }
    environment["OMP_WAIT_POLICY"] = "PASSIVE"  # a waiting thread leaves its core to others
    command = [sys.executable, "-m", "tests.slow.machines", str(models), str(result)]
    done = subprocess.run(command, env={**environment, **settings}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: Arrays = {}
    with np.load(result) as arrays:
        for key in arrays.files:
            model, call, field = key.split("|")
            found.setdefault(model, {}).setdefault(call, {})[field] = arrays[key]
    return found


@pytest.fixture(scope="module")
def expected(models: Path) -> Arrays:
    """Predictions with the machine's default settings."""
    return predictions(models, {})


def test_confidences_and_decisions_vary(expected: Arrays) -> None:
    assert len(expected) == len(WAYS) + 4
    for model, calls in expected.items():
        whole = calls["whole"]
        assert len(set(whole["confidence"].tolist())) > ROWS / 50, model
        if model in ("certified-model", "temperature-model", "isotonic-model"):
            assert set(whole["decision"].tolist()) == {"accepted", "referred"}


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: " ".join(map("=".join, settings.items())) or "none")
def test_predictions_are_the_same(models: Path, expected: Arrays, settings: dict[str, str]) -> None:
    found = predictions(models, settings) if settings else expected
    assert found.keys() == expected.keys()
    for model, calls in found.items():
        whole = expected[model]["whole"]
        for call, answer in calls.items():
            try:
                assert_same({name: value for name, value in answer.items() if name != "rows"}, whole, answer["rows"])
            except AssertionError as cause:
                raise AssertionError(f"{model}, {call}, {settings}: {cause}") from None
