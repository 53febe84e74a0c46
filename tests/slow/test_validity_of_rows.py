"""Validity of certificates of a predictor where rows repeat: leaving out rows must not make them false."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import bdtrc

from squad.fitting import FitSettings, fit_predictor
from squad.models import network_config
from squad.predictor import Predictor
from squad.train import TrainConfig

RISK, DELTA, REPEATS = 0.05, 0.1, 40


def draw(kind: str, count: int, random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows, half of which are identical and often wrong; the others are easy."""
    x = random.normal(size=(count, 3)) if kind == "continuous" else random.integers(12, size=(count, 3)).astype(float)
    y = (x[:, 0] > (0 if kind == "continuous" else 5)).astype(np.int64)
    often = random.random(count) < (0.02 if kind == "seldom" else 0.5)
    x[often], y[often] = 0.0, random.random(int(often.sum())) < 0.25
    return x, y


@pytest.mark.filterwarnings("ignore::squad.SquadWarning")
@pytest.mark.parametrize("rows", [400, 3000])
@pytest.mark.parametrize("kind", ["discrete", "continuous", "seldom"])
def test_frequent_rows_do_not_make_certificates_false(kind: str, rows: int) -> None:
    random = np.random.default_rng(0)
    settings = FitSettings(network=network_config("squad", {"hidden": (16,)}), training=TrainConfig(max_epochs=30))
    predictor = fit_predictor(*draw(kind, 400, random), settings)
    x, y = draw(kind, 20_000, random)
    answer = predictor.answer(x)
    false = sum(violated(predictor, answer, y, *draw(kind, rows, random)) for _ in range(REPEATS))
    assert bdtrc(false - 1, REPEATS, DELTA) > 1e-3 if false else True, f"{false} of {REPEATS} certificates are false"


def violated(predictor: Predictor, answer: Any, truth: Any, x: Any, y: Any) -> bool:
    """Whether a certificate from these rows exceeds its risk, by a large sample."""
    certificate = predictor.certify(x, y, RISK, DELTA).certificate
    assert certificate is not None
    accepted = certificate.accepts(answer.confidence) & ~answer.novel
    return bool(accepted.any() and (answer.label[accepted] != truth[accepted]).mean() > RISK + 0.005)
