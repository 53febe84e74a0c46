"""Properties specific to the Gaussian, maxout, linear and dropout layers."""

from typing import Any

import pytest
import torch
from torch.distributions import Normal, kl_divergence

import squad
from squad.errors import SquadError


def test_gaussian_kl_is_analytic() -> None:
    layer = squad.GaussianLinear(6, 4)
    x = torch.randn(5, 6)
    q = layer.posterior(x)
    want = kl_divergence(q, Normal(0.0, 1.0)).sum(-1)
    torch.testing.assert_close(layer.sample_with_kl(x)[1], want)
    samples = q.sample((200_000,))
    estimate = (q.log_prob(samples) - Normal(0.0, 1.0).log_prob(samples)).sum(-1).mean(0)
    torch.testing.assert_close(estimate, want, rtol=0.03, atol=0.03)


def test_gaussian_survives_extreme_inputs() -> None:
    layer = squad.GaussianLinear(6, 4)
    x = (1e4 * torch.randn(50, 6)).requires_grad_()
    z, kl = layer.sample_with_kl(x)
    (z.sum() + kl.sum()).backward()
    assert x.grad is not None
    for tensor in (z, kl, x.grad):
        assert tensor.isfinite().all()


def test_gaussian_noise_and_stddev() -> None:
    layer = squad.GaussianLinear(6, 4)
    x = torch.randn(5, 6)
    q = layer.posterior(x)
    for noise in (torch.tensor(2.0), torch.randn(4), torch.randn(5, 4)):
        torch.testing.assert_close(layer.sample_with_kl(x, noise=noise)[0], q.mean + noise * q.stddev)
    with torch.no_grad():
        layer.bias[4:] = -10.0
        layer.weight.zero_()
    # softplus(-10): small, but not clamped.
    torch.testing.assert_close(layer.posterior(x).stddev, torch.full((5, 4), 4.5398e-5), rtol=1e-3, atol=0)


def test_maxout_is_the_largest_piece() -> None:
    layer = squad.MaxoutLinear(6, 4, pieces=3)
    x = torch.randn(5, 6)
    pieces = [x @ layer.weight.view(6, 3, 4)[:, c] + layer.bias.view(3, 4)[c] for c in range(3)]
    torch.testing.assert_close(layer(x), torch.stack(pieces).amax(0))
    with pytest.raises(SquadError, match=r"pieces .*1, got 0"):
        squad.MaxoutLinear(6, 4, pieces=0)


def test_linear_is_linear() -> None:
    layer = squad.Linear(6, 4)
    x = torch.randn(5, 6)
    assert layer.bias is not None
    torch.testing.assert_close(layer(x), x @ layer.weight + layer.bias)
    bare = squad.Linear(6, 4, bias=False, members=2)
    assert bare.bias is None
    torch.testing.assert_close(bare(x.unsqueeze(0))[1], x @ bare.weight[1])
    assert squad.unstack(bare)[0].bias is None


def test_dropout_has_its_rate_and_keeps_the_mean() -> None:
    rates = [0.0, 0.1, 0.5, 0.9]
    layer = squad.Dropout(50, rates, members=4)
    y = layer(torch.ones(1, 4000, 50))
    for i, rate in enumerate(rates):
        assert (y[i] == 0).float().mean().item() == pytest.approx(rate, abs=0.005)
        assert y[i].mean().item() == pytest.approx(1, abs=0.03)
    assert torch.equal(y[0], torch.ones(4000, 50))


def test_dropout_keeps_the_dtype_and_a_float32_rate() -> None:
    layer = squad.Dropout(50, [0.1, 0.3], members=2).bfloat16()
    assert layer.rate.dtype == torch.float32
    assert layer(torch.ones(1, 3, 50, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_dropout_in_eval_mode() -> None:
    x = torch.randn(5, 50)
    assert torch.equal(squad.Dropout(50, 0.5).eval()(x), x)
    y = squad.Dropout(50, 0.5, sampling="sample").eval()(x)
    dropped = y == 0
    assert dropped.any()
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))  # the same features for all rows


def test_dropout_removes_infinities() -> None:
    """A dropped infinity is 0; multiplied by zero it would be NaN."""
    y = squad.Dropout(50, 0.5).drop(torch.full((20, 50), float("inf")), seed=1)
    assert not y.isnan().any()


@pytest.mark.parametrize(("rate", "members"), [(1.0, None), (-0.1, None), (float("nan"), None), ([0.1, 1.0], 2)])
def test_invalid_rates_are_rejected(rate: Any, members: int | None) -> None:
    with pytest.raises(SquadError, match=r"rate .*\[0, 1\)"):
        squad.Dropout(5, rate, members=members)
