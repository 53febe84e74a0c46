"""Where the bins stand (the paper's v) and what a fixed prior r(z) gives each of them."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from squad.core.checks import check_choice, check_count, check_finite, extremes
from squad.errors import ArgumentError

__all__ = ["gaussian_bins", "gaussian_log_weights", "increasing_values", "linear_bins", "uniform_log_weights"]


def linear_bins(bins: int, limit: float = 3.5, *, dtype: torch.dtype | None = None) -> Tensor:
    """C values linearly spaced over [-limit, limit], shape (C,).

    >>> linear_bins(5, limit=2.0)
    tensor([-2., -1.,  0.,  1.,  2.])
    """
    check_count("bins", bins, 2)
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 < limit < float("inf"):
        raise ArgumentError.of("limit", repr(limit), "positive and finite", "The paper takes 3.5.")
    values = torch.linspace(-limit, limit, bins, dtype=torch.float64).to(dtype or torch.get_default_dtype())
    if not all(number != 0 and abs(number) < float("inf") for number in extremes(values) or ()):
        raise ArgumentError.of("limit", limit, f"within the range of {values.dtype}", "The paper takes 3.5.")
    return values


def gaussian_bins(bins: int, center: Literal["mean", "median"] = "mean", *, dtype: torch.dtype | None = None) -> Tensor:
    """C values of equal probability mass under a standard normal, shape (C,).

    The line is cut into C cells of mass 1/C; each value is the conditional mean of its cell, or its median.

    >>> gaussian_bins(4, center="median")
    tensor([-1.1503, -0.3186,  0.3186,  1.1503])
    """
    check_count("bins", bins, 2)
    check_choice("center", center, ("mean", "median"))
    if center == "median":
        values = torch.special.ndtri((torch.arange(bins, dtype=torch.float64) + 0.5) / bins)
    else:
        edges = torch.special.ndtri(torch.arange(bins + 1, dtype=torch.float64) / bins)
        density = torch.exp(-edges.square() / 2) / (2 * torch.pi) ** 0.5
        values = bins * -density.diff()
    values = (values - values.flip(0)) / 2  # exactly symmetric, as the law is
    result: Tensor = values.to(dtype or torch.get_default_dtype())
    return result


def increasing_values(values: Tensor | Sequence[float], *, name: str = "values") -> Tensor:
    """A user's own initial values, checked: shape (C,) or (K, C), finite, strictly increasing along the last axis."""
    try:
        tensor = torch.as_tensor(values).detach()
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError.of(name, repr(values), "a tensor or a sequence of numbers") from None
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.get_default_dtype())
    if tensor.dim() not in (1, 2) or tensor.shape[-1] < 2:
        raise ArgumentError.of(name, f"shape {tuple(tensor.shape)}", "of shape (C,) or (K, C) with C of at least 2")
    check_finite(name, tensor)
    if not bool((tensor.diff(dim=-1) > 0).all()):
        raise ArgumentError.of(name, tensor.tolist(), "strictly increasing", "Sort them and drop repeated ones.")
    return tensor


def uniform_log_weights(bins: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Log r(z = v_c) = -log C for every bin, shape (C,)."""
    check_count("bins", bins, 2)
    return torch.full((bins,), float(bins), dtype=torch.float64).log().neg().to(dtype or torch.get_default_dtype())


def gaussian_log_weights(values: Tensor | Sequence[float]) -> Tensor:
    """Log of the standard normal's mass in each value's cell, the shape of ``values``: (C,) or (K, C).

    Cells are cut half way between neighbours; the two outer ones are open.  Computed from the nearer tail, so that
    far bins get a small weight and never zero.
    """
    v = increasing_values(values)
    wide = v.double()
    cuts = (wide[..., 1:] + wide[..., :-1]) / 2
    infinity = torch.full_like(wide[..., :1], float("inf"))
    low, high = torch.cat([-infinity, cuts], -1), torch.cat([cuts, infinity], -1)
    # log(Phi(high) - Phi(low)); a cell in the upper half is mirrored into the lower one.
    upper = low > 0
    low, high = torch.where(upper, -high, low), torch.where(upper, -low, high)
    log_low, log_high = torch.special.log_ndtr(low), torch.special.log_ndtr(high)
    log_mass: Tensor = log_high + torch.log1p(-torch.exp(log_low - log_high))
    result = log_mass.log_softmax(-1).to(v.dtype)
    if not bool(result.isfinite().all()):
        raise ArgumentError.of("values", v.tolist(), "near enough to 0 for a normal to have mass there")
    return result
