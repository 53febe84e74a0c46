"""Members trained together are what they are alone: the networks and types that the fast suite leaves out."""

import pytest
import torch

from squad.models import CONFIGS
from tests.train import test_loop, test_slots


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [
        *((name, torch.float64, 1e-10) for name in CONFIGS if name != "squad"),
        ("squad", torch.float32, 1e-5),
    ],
)
def test_together_as_alone_over_200_steps(name: str, dtype: torch.dtype, tolerance: float) -> None:
    test_loop.test_together_as_alone_over_200_steps(name, dtype, tolerance)


@pytest.mark.parametrize("model", test_slots.MODELS)
def test_padded_members_are_what_they_are_alone(model: str) -> None:
    test_slots.test_padded_members_are_what_they_are_alone(model, 5)
