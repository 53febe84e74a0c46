"""Divergences between quantized distributions, in closed form and in nats."""

from math import log

import torch
from torch import Tensor
from torch.distributions import kl_divergence, register_kl

from squad.core import categorical
from squad.core.checks import common_shape
from squad.core.distribution import Quantized
from squad.errors import ArgumentError

__all__ = ["js_divergence", "kl_divergence", "mutual_information"]


@register_kl(Quantized, Quantized)  # type: ignore[untyped-decorator]
def _kl_quantized_quantized(p: Quantized, q: Quantized) -> Tensor:
    """Compute KL(p || q) over the bins, as in the paper's loss; batch shapes broadcast."""
    _check_same_values(p, q)
    return categorical.kl_divergence(p.log_probs, q.log_probs, -1)


def js_divergence(p: Quantized, q: Quantized) -> Tensor:
    """Compute the Jensen-Shannon divergence of two distributions on the same bin values.

    Args:
        p: First distribution.
        q: Second distribution, on the same values; batch shapes broadcast.

    Returns:
        Divergence in nats, between 0 and log 2, in the broadcast batch shape.

    Raises:
        ArgumentError: If the two distributions have different values or incompatible batch shapes.

    See Also:
        torch.distributions.kl_divergence: KL divergence; also supports two Quantized distributions.
        mutual_information: Information about the input in a batch of distributions.

    References:
        Lin. "Divergence Measures Based on the Shannon Entropy", 1991.

    Examples:
        >>> import torch
        >>> import squad
        >>> values = torch.tensor([-1.0, 1.0])
        >>> p = squad.Quantized(torch.tensor([0.0, -torch.inf]), values)
        >>> q = squad.Quantized(torch.tensor([-torch.inf, 0.0]), values)
        >>> squad.js_divergence(p, q)
        tensor(0.6931)
    """
    _check_same_values(p, q)
    log_p, log_q = categorical.floored(p.log_probs), categorical.floored(q.log_probs)
    log_mix = torch.logaddexp(log_p, log_q) - log(2)
    return (categorical.kl_divergence(log_p, log_mix, -1) + categorical.kl_divergence(log_q, log_mix, -1)) / 2


def mutual_information(q: Quantized, dim: int | None = None) -> Tensor:
    """Estimate the mutual information I(z; x) over a batch of inputs x.

    It is the entropy of the mean distribution minus the mean entropy.

    Args:
        q: Posterior of a batch of inputs, batch shape (..., N, K).
        dim: Axis of the batch shape that enumerates the inputs.  By default the second-to-last axis (N), or the only
            axis if there is one.

    Returns:
        Mutual information in nats, between 0 and log C, in the batch shape without ``dim``.

    Raises:
        ArgumentError: If ``dim`` is not an axis of the batch shape, the axis is empty, or values differ along it.

    See Also:
        js_divergence: Divergence of two distributions.
        SquadLinear.posterior: Posterior of a batch of inputs.

    References:
        Cover, Thomas. "Elements of Information Theory", chapter 2, 2006.

    Examples:
        >>> import torch
        >>> import squad
        >>> values = torch.tensor([-1.0, 1.0])
        >>> logits = torch.tensor([[[20.0, 0.0]], [[0.0, 20.0]]])  # two inputs, one latent, two bins
        >>> squad.mutual_information(squad.Quantized(logits, values))
        tensor([0.6931])
    """
    if not isinstance(q, Quantized):
        raise ArgumentError.of("q", type(q).__name__, "a squad.Quantized")
    rank = len(q.batch_shape)
    if dim is None:
        dim = -min(rank, 2)
    if rank == 0 or not -rank <= dim < rank:
        hint = "It is the axis of the inputs."
        raise ArgumentError.of("dim", dim, f"an axis of the batch shape {tuple(q.batch_shape)}", hint)
    axis = dim % rank
    # z must have the same bin values for every x: if the values have that axis, they must be constant along it.
    values = q.values[(None,) * (rank + 1 - q.values.dim())]
    if values.shape[axis] > 1 and not _equal(values, values.narrow(axis, 0, 1)):
        raise ArgumentError.of("q.values", "different values", f"the same for all inputs along dim {dim}")
    if q.batch_shape[axis] == 0:
        raise ArgumentError.of(
            "q", f"batch shape {tuple(q.batch_shape)}", f"a batch of at least one input along dim {dim}"
        )
    log_mean = categorical.floored(q.log_probs).logsumexp(axis) - log(q.batch_shape[axis])
    return categorical.nonnegative(categorical.entropy(log_mean, -1) - q.entropy().mean(axis))


def _check_same_values(p: Quantized, q: Quantized) -> None:
    """Raise unless both distributions have the same values: a divergence compares masses bin by bin."""
    for name, distribution in (("p", p), ("q", q)):
        if not isinstance(distribution, Quantized):
            raise ArgumentError.of(name, type(distribution).__name__, "a squad.Quantized")
    if p.bins != q.bins:
        raise ArgumentError.of("values", f"{p.bins} and {q.bins} bins", "the same in both distributions")
    if common_shape(p.batch_shape, q.batch_shape) is None:
        got = f"{tuple(p.batch_shape)} and {tuple(q.batch_shape)}"
        raise ArgumentError.of("batch shapes", got, "broadcastable")
    if p.values.dim() != q.values.dim() and min(p.values.dim(), q.values.dim()) > 2:
        # Values with the rank of the logits are aligned with their own batch: different ranks would be misaligned.
        got = f"{tuple(p.batch_shape)} and {tuple(q.batch_shape)}"
        hint = "For the prior of a layer with members, flatten x to (members, rows, in)."
        raise ArgumentError.of("batch shapes", got, "of equal rank if values differ along them", hint)
    if not _equal(p.values, q.values):
        gap = (p.values - q.values).abs().max().item()
        hint = "Values are compared exactly: check that both have the same dtype." if gap < 1e-5 else ""
        got = f"values that differ by up to {gap:.3g}"
        raise ArgumentError.of("values", got, "the same in both distributions", hint)


def _equal(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors of values are equal; assumed to be while a graph is traced."""
    return torch.compiler.is_compiling() or bool((one == other).all())
