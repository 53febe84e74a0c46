"""Members trained together equal members trained alone: networks and dtypes that the fast suite omits."""

import pytest
import torch

from squad.models import CONFIGS
from tests.train import test_loop, test_slots


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [
        *((name, torch.float64, 1e-10) for name in CONFIGS if name != "squad"),
        ("squad", torch.float64, 1e-10),
        ("squad", torch.float32, 1e-5),
        ("maxout-dropout", torch.float32, 1e-5),
    ],
)
def test_members_trained_together_equal_members_trained_alone(name: str, dtype: torch.dtype, tolerance: float) -> None:
    """Over 200 steps."""
    test_loop.test_members_trained_together_equal_members_trained_alone(name, dtype, tolerance, epochs=25)


@pytest.mark.parametrize("model", test_slots.MODELS)
def test_padded_members_equal_runs_trained_alone(model: str) -> None:
    test_slots.test_padded_members_equal_runs_trained_alone(model, 5)
