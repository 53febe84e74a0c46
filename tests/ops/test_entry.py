"""The entry point of the sampling operation: arguments that it accepts and rejects."""

from typing import Any

import pytest
import torch

from squad.core.noise import gumbel, make_key
from squad.errors import SquadError
from squad.ops import sample_with_kl

C, K = 5, 3
VALUES = torch.linspace(-2, 2, C).unsqueeze(-1)
PRIOR = torch.full((C, 1), 1 / C).log()


def call(logits: torch.Tensor, **changes: Any) -> tuple[torch.Tensor, torch.Tensor]:
    arguments: dict[str, Any] = {
        "values": VALUES,
        "log_prior": PRIOR,
        "temperature": 0.5,
        "seed": 1,
    } | changes
    return sample_with_kl(logits, **arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": VALUES[:, 0]}, r"values .*\(5, 1\), \(5, 3\).*got shape \(5,\)"),
        ({"values": VALUES[:4]}, r"values .*got shape \(1, 4, 1\)"),
        ({"values": torch.zeros(C, 2)}, r"values .*got shape \(1, 5, 2\)"),
        ({"log_prior": PRIOR[:4]}, r"log_prior .*\(5, 1\).*got shape \(1, 4, 1\)"),
        ({"temperature": 0.0}, r"temperature .*positive.*got 0\.0"),
        ({"temperature": float("inf")}, "temperature .*got inf"),
        ({"temperature": float("nan")}, "temperature .*got nan"),
        ({"temperature": -1}, "temperature .*got -1"),
        ({"temperature": torch.tensor([0.5, -0.5])}, r"temperature .*got -0\.5"),
        ({"temperature": torch.tensor([0.5, float("nan")])}, "temperature .*got nan"),
        ({"temperature": torch.ones(3)}, r"temperature .*shape \(2,\).*got shape \(3,\)"),
        ({"temperature": 1e-40}, "temperature .*got 1e-40.*1e-06"),
        ({"temperature": torch.tensor(0.5, requires_grad=True)}, "temperature .*gradient"),
        ({"log_prior": PRIOR.clone().requires_grad_()}, "log_prior .*gradient"),
        ({"values": [0.0]}, "values .*tensor, got list"),
        ({"seed": None, "noise": 0.0}, "noise .*tensor, got float"),
        ({"step": 2**32}, "step .*4294967295, got 4294967296"),
        ({"temperature": "warm"}, "temperature .*got 'warm'"),
        ({"seed": None}, "noise.*seed.*neither"),
        ({"noise": torch.zeros(C, K)}, "noise.*seed.*not both"),
        ({"seed": None, "noise": torch.zeros(3, C, K)}, r"noise .*\(2, 5, 3\).*got shape \(3, 5, 3\)"),
        ({"seed": torch.tensor([1, 2, 3])}, r"seed .*per member, got shape \(3,\)"),
        ({"seed": torch.tensor(1.0)}, r"seed .*integer tensor.*got torch\.float32"),
        ({"seed": 1.5}, r"seed .*integer.*got 1\.5"),
        ({"seed": 2**63}, "seed .*-9223372036854775808.*got 9223372036854775808"),
        (
            {"seed": torch.tensor([1, 2]), "step": torch.tensor([1, 2, 3])},
            r"step .*seed.*\(2,\), got shape \(3,\)",
        ),
        ({"backend": "cuda"}, "backend .*'auto', 'compile', 'eager', 'reference', 'triton', got 'cuda'"),
    ],
)
def test_invalid_arguments_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SquadError, match=message) as caught:
        call(torch.zeros(2, C, K), **changes)
    assert isinstance(caught.value, ValueError)


def test_temperature_without_members_is_a_single_number() -> None:
    with pytest.raises(SquadError, match=r"temperature .*single number, got shape \(5,\)"):
        call(torch.zeros(C, K), temperature=torch.full((C,), 0.5))  # one per bin would be a silent broadcast


def test_noise_of_members_is_not_broadcast_over_rows() -> None:
    with pytest.raises(SquadError, match=r"noise .*broadcastable.*got shape \(2, 5, 3\)"):
        call(torch.zeros(4, 2, C, K), seed=None, noise=torch.zeros(2, C, K))


@pytest.mark.parametrize("logits", [torch.zeros(C), torch.zeros(1, K), torch.zeros(2, C, K, dtype=torch.int64)])
def test_invalid_logits_are_rejected(logits: torch.Tensor) -> None:
    with pytest.raises(SquadError, match=r"logits .*shape \(\.\.\., C, K\).*got torch"):
        call(logits)


def test_seed_and_noise_agree() -> None:
    logits = torch.randn(4, C, K)
    noise = gumbel(make_key(1), 4, C, K)
    torch.testing.assert_close(call(logits), call(logits, seed=None, noise=noise))


def test_step_and_seed_both_change_the_noise() -> None:
    logits = torch.randn(4, C, K)
    results = [call(logits, seed=seed, step=step)[0] for seed in (1, 2) for step in (0, 1)]
    for i, first in enumerate(results):
        for second in results[:i]:
            assert not torch.equal(first, second)


def test_rows_are_numbered_over_the_axes_between() -> None:
    logits = torch.randn(2, 3, 4, C, K)
    whole, _ = call(logits, seed=torch.tensor([7, 8]))
    flat, _ = call(logits.view(2, 12, C, K), seed=torch.tensor([7, 8]))
    assert torch.equal(whole.view(2, 12, K), flat)


def test_outputs_follow_the_dtype_of_the_logits() -> None:
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        z, kl = call(torch.zeros(2, C, K, dtype=dtype))
        assert z.dtype == dtype
        assert kl.dtype == torch.promote_types(dtype, torch.float32)


def test_bfloat16_is_computed_in_float32() -> None:
    logits = torch.randn(64, C, K).bfloat16()
    _, narrow = call(logits)
    _, wide = call(logits.float())
    assert torch.equal(narrow, wide)
