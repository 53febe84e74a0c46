"""Bin values and prior weights, against scipy and their definitions."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import integrate, stats

from squad.core.bins import (
    gaussian_bins,
    gaussian_log_weights,
    increasing_values,
    linear_bins,
    uniform_log_weights,
)
from squad.errors import SquadError


@given(st.integers(2, 101), st.floats(0.1, 10))
def test_linear_bins_are_equally_spaced_and_symmetric(bins: int, limit: float) -> None:
    values = linear_bins(bins, limit, dtype=torch.float64)
    np.testing.assert_allclose(values, np.linspace(-limit, limit, bins), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("bins", [2, 3, 11, 64])
def test_gaussian_bins_are_conditional_means_and_medians(bins: int) -> None:
    edges = stats.norm.ppf(np.arange(bins + 1) / bins)
    means = [integrate.quad(lambda t: t * stats.norm.pdf(t), a, b)[0] * bins for a, b in pairwise(edges)]
    np.testing.assert_allclose(gaussian_bins(bins, dtype=torch.float64), means, atol=1e-7)
    medians = [stats.norm.ppf((stats.norm.cdf(a) + stats.norm.cdf(b)) / 2) for a, b in pairwise(edges)]
    np.testing.assert_allclose(gaussian_bins(bins, "median", dtype=torch.float64), medians, atol=1e-12)


@pytest.mark.parametrize("bins", [2, 3, 15, 64, 101])
def test_bins_increase_and_are_symmetric(bins: int) -> None:
    for values in (linear_bins(bins), gaussian_bins(bins), gaussian_bins(bins, "median")):
        assert values.dtype == torch.get_default_dtype()
        assert (values.diff() > 0).all()
        torch.testing.assert_close(values, -values.flip(0))


@given(st.lists(st.floats(-6, 6), min_size=2, max_size=20, unique=True))
def test_gaussian_weights_are_the_mass_of_the_cells(points: list[float]) -> None:
    v = np.sort(np.array(points))
    assume(np.diff(v).min() >= 1e-6)
    cuts = np.concatenate([[-np.inf], (v[1:] + v[:-1]) / 2, [np.inf]])
    mass = np.diff(stats.norm.cdf(cuts))
    weights = gaussian_log_weights(torch.tensor(v)).exp()
    np.testing.assert_allclose(weights, mass, rtol=1e-6, atol=1e-15)


def test_distant_bins_have_small_but_positive_mass() -> None:
    log_weights = gaussian_log_weights(torch.tensor([-100.0, -60.0, 0.0, 60.0, 61.0]))
    assert log_weights.isfinite().all()
    # The last cell is unbounded above 60.5: the log of the normal's tail there.
    assert log_weights[-1].item() == pytest.approx(stats.norm.logsf(60.5), rel=1e-5)


def test_uniform_weights() -> None:
    torch.testing.assert_close(uniform_log_weights(7).exp(), torch.full((7,), 1 / 7))


@pytest.mark.parametrize("bins", [1, 0, -3, 2.0, "7", True])
def test_invalid_bin_counts_are_rejected(bins: Any) -> None:
    for make in (linear_bins, gaussian_bins, uniform_log_weights):
        with pytest.raises(SquadError, match=rf"bins must be .*2, got {bins!r}"):
            make(bins)


@pytest.mark.parametrize("limit", [1e39, 1e-46])
def test_limits_beyond_the_dtype_are_rejected(limit: float) -> None:
    with pytest.raises(SquadError, match=r"limit .*torch\.float32"):
        linear_bins(5, limit)
    linear_bins(5, limit, dtype=torch.float64)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("inf"), float("nan"), "wide", None])
def test_invalid_limits_are_rejected(limit: Any) -> None:
    with pytest.raises(SquadError, match=rf"limit .*positive.*got {limit!r}"):
        linear_bins(5, limit)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.0, 0.0, 1.0], "increasing"),
        ([1.0, 0.0], "increasing"),
        ([0.0, float("nan")], "finite, got nan"),
        ([0.0, float("inf")], "finite, got inf"),
        ([1.0], r"shape .*got shape \(1,\)"),
        ([[[0.0, 1.0]]], r"shape .*got shape \(1, 1, 2\)"),
    ],
)
def test_user_values_must_increase(values: list[float], message: str) -> None:
    with pytest.raises(SquadError, match=message):
        increasing_values(values)


def test_user_values_may_be_integers() -> None:
    assert increasing_values([-1, 0, 2]).is_floating_point()


def test_invalid_center_is_rejected() -> None:
    with pytest.raises(SquadError, match=r"center .*'mean', 'median', got 'mode'"):
        gaussian_bins(5, "mode")  # type: ignore[arg-type]
