"""Initial bin values (the paper's v) and the log weights of fixed priors r(z) on them."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from squad.core.checks import check_choice, check_count, check_finite, extremes
from squad.errors import ArgumentError

__all__ = ["gaussian_bins", "gaussian_log_weights", "increasing_values", "linear_bins", "uniform_log_weights"]


def linear_bins(bins: int, limit: float = 3.5, *, dtype: torch.dtype | None = None) -> Tensor:
    """Return C bin values spaced linearly over [-limit, limit].

    Args:
        bins: Number of bins C, at least 2.
        limit: Largest bin value, positive; the paper uses 3.5.
        dtype: Floating-point dtype of the result; torch's default dtype if None.

    Returns:
        Bin values in increasing order, shape (C,).

    Raises:
        ArgumentError: If ``bins`` is not an integer >= 2, or ``limit`` is not positive and finite in ``dtype``.

    See Also:
        gaussian_bins: Bin values of equal mass under a standard normal distribution.
        SquadLinear: Layer that uses these values (``spacing="linear"``).

    References:
        Veeling, van den Berg, Welling. "Predictive Uncertainty through Quantization", 2018. arXiv:1810.05500.

    Examples:
        >>> import squad
        >>> squad.linear_bins(5, limit=2.0)
        tensor([-2., -1.,  0.,  1.,  2.])
    """
    check_count("bins", bins, 2)
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 < limit < float("inf"):
        raise ArgumentError.of("limit", repr(limit), "positive and finite", "The paper uses 3.5.")
    values = torch.linspace(-limit, limit, bins, dtype=torch.float64).to(dtype or torch.get_default_dtype())
    if not all(number != 0 and abs(number) < float("inf") for number in extremes(values) or ()):
        raise ArgumentError.of("limit", limit, f"within the range of {values.dtype}", "The paper uses 3.5.")
    return values


def gaussian_bins(bins: int, center: Literal["mean", "median"] = "mean", *, dtype: torch.dtype | None = None) -> Tensor:
    """Return C bin values of equal probability mass under a standard normal distribution.

    The real line is cut into C cells of mass 1/C; each bin value is the conditional mean or the median of its cell.

    Args:
        bins: Number of bins C, at least 2.
        center: Which point of a cell is its bin value: "mean" or "median".
        dtype: Floating-point dtype of the result; torch's default dtype if None.

    Returns:
        Bin values in increasing order and symmetric about 0, shape (C,).

    Raises:
        ArgumentError: If ``bins`` is not an integer >= 2, or ``center`` is unknown.

    See Also:
        linear_bins: Linearly spaced bin values.
        SquadLinear: Layer that uses these values (``spacing="gaussian"``).

    References:
        Veeling, van den Berg, Welling. "Predictive Uncertainty through Quantization", 2018. arXiv:1810.05500.

    Examples:
        >>> import squad
        >>> squad.gaussian_bins(4, center="median")
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
    values = (values - values.flip(0)) / 2  # exactly symmetric, like the normal distribution
    result: Tensor = values.to(dtype or torch.get_default_dtype())
    return result


def increasing_values(values: Tensor | Sequence[float], *, name: str = "values") -> Tensor:
    """Validate bin values given by the user.

    Args:
        values: Bin values, shape (C,) or (K, C), finite and strictly increasing along the last axis.
        name: Name of the argument, used in error messages.

    Returns:
        The values as a detached floating-point tensor of the same shape.

    Raises:
        ArgumentError: If the values have another shape, are not finite or do not increase.

    Examples:
        >>> increasing_values([-1, 0, 2]).tolist()
        [-1.0, 0.0, 2.0]
    """
    try:
        tensor = torch.as_tensor(values).detach()
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError.of(name, repr(values), "a tensor or a sequence of numbers") from None
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.get_default_dtype())
    if tensor.dim() not in (1, 2) or tensor.shape[-1] < 2:
        raise ArgumentError.of(name, f"shape {tuple(tensor.shape)}", "of shape (C,) or (K, C) with C >= 2")
    check_finite(name, tensor)
    if not bool((tensor.diff(dim=-1) > 0).all()):
        raise ArgumentError.of(name, tensor.tolist(), "strictly increasing", "Sort them and remove duplicates.")
    return tensor


def uniform_log_weights(bins: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Return the log weights of a uniform prior: log r(z = v_c) = -log C for every bin.

    Args:
        bins: Number of bins C, at least 2.
        dtype: Dtype of the result; default: torch's default dtype.

    Returns:
        Log weights, shape (C,).

    See Also:
        gaussian_log_weights: Log weights of a normal prior.

    Examples:
        >>> uniform_log_weights(4).exp().tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    check_count("bins", bins, 2)
    return torch.full((bins,), float(bins), dtype=torch.float64).log().neg().to(dtype or torch.get_default_dtype())


def gaussian_log_weights(values: Tensor | Sequence[float]) -> Tensor:
    """Return the log mass of a standard normal distribution in the cell of each bin value.

    Cells are cut halfway between neighbouring values; the two outer cells are unbounded.  The mass is computed from
    the nearer tail, so that the weight of a distant bin is small but never zero.

    Args:
        values: Bin values, shape (C,) or (K, C), strictly increasing along the last axis.

    Returns:
        Log weights of the same shape, normalized along the last axis.

    Raises:
        ArgumentError: If the values do not increase, or lie so far from 0 that a cell's log mass is not finite.

    See Also:
        uniform_log_weights: Log weights of a uniform prior.

    Examples:
        >>> gaussian_log_weights([-1.0, 0.0, 1.0]).exp()
        tensor([0.3085, 0.3829, 0.3085])
    """
    v = increasing_values(values)
    wide = v.double()
    cuts = (wide[..., 1:] + wide[..., :-1]) / 2
    infinity = torch.full_like(wide[..., :1], float("inf"))
    low, high = torch.cat([-infinity, cuts], -1), torch.cat([cuts, infinity], -1)
    # log(Phi(high) - Phi(low)); a cell in the upper half is mirrored to the lower half.
    upper = low > 0
    low, high = torch.where(upper, -high, low), torch.where(upper, -low, high)
    log_low, log_high = torch.special.log_ndtr(low), torch.special.log_ndtr(high)
    log_mass: Tensor = log_high + torch.log1p(-torch.exp(log_low - log_high))
    result = log_mass.log_softmax(-1).to(v.dtype)
    if not bool(result.isfinite().all()):
        raise ArgumentError.of("values", v.tolist(), "close enough to 0 for a standard normal to have mass there")
    return result
