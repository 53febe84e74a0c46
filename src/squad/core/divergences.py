"""Divergences between quantized distributions, all in closed form, in nats."""

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
    """KL(p || q) over the bins, as in the paper's loss; batch shapes broadcast."""
    _check_same_values(p, q)
    return categorical.kl_divergence(p.log_probs, q.log_probs, -1)


def js_divergence(p: Quantized, q: Quantized) -> Tensor:
    """Jensen-Shannon divergence, between 0 and log 2; batch shapes broadcast.

    >>> a = Quantized(torch.tensor([0.0, -torch.inf]), torch.tensor([-1.0, 1.0]))
    >>> b = Quantized(torch.tensor([-torch.inf, 0.0]), torch.tensor([-1.0, 1.0]))
    >>> js_divergence(a, b)
    tensor(0.6931)
    """
    _check_same_values(p, q)
    log_p, log_q = categorical.floored(p.log_probs), categorical.floored(q.log_probs)
    log_mix = torch.logaddexp(log_p, log_q) - log(2)
    return (categorical.kl_divergence(log_p, log_mix, -1) + categorical.kl_divergence(log_q, log_mix, -1)) / 2


def mutual_information(q: Quantized, dim: int | None = None) -> Tensor:
    """I(z; x) over a batch of inputs x: the entropy of the mean distribution minus the mean entropy.

    Args:
        q: the posterior over a batch, of batch shape (..., N, K).
        dim: the axis of the batch shape along which x runs.  By default the last but one, N before K; the only
            one if there is only one.

    Returns:
        The batch shape without that axis; between 0 and log C.
    """
    if not isinstance(q, Quantized):
        raise ArgumentError.of("q", type(q).__name__, "a squad.Quantized")
    rank = len(q.batch_shape)
    if dim is None:
        dim = -min(rank, 2)
    if rank == 0 or not -rank <= dim < rank:
        raise ArgumentError.of("dim", dim, f"an axis of the batch shape {tuple(q.batch_shape)}", "x runs along it.")
    axis = dim % rank
    # z must live on the same bins for every x: where the values have that axis, they must not change along it.
    values = q.values[(None,) * (rank + 1 - q.values.dim())]
    if values.shape[axis] > 1 and not _equal(values, values.narrow(axis, 0, 1)):
        raise ArgumentError.of("q.values", "values that differ along it", f"the same for all inputs along dim {dim}")
    if q.batch_shape[axis] == 0:
        raise ArgumentError.of(
            "q", f"batch shape {tuple(q.batch_shape)}", f"a batch of at least one input along dim {dim}"
        )
    log_mean = categorical.floored(q.log_probs).logsumexp(axis) - log(q.batch_shape[axis])
    return categorical.nonnegative(categorical.entropy(log_mean, -1) - q.entropy().mean(axis))


def _check_same_values(p: Quantized, q: Quantized) -> None:
    """A divergence compares masses bin by bin, which means nothing unless the bins are the same."""
    for name, side in (("p", p), ("q", q)):
        if not isinstance(side, Quantized):
            raise ArgumentError.of(name, type(side).__name__, "a squad.Quantized")
    if p.bins != q.bins:
        raise ArgumentError.of("values", f"{p.bins} and {q.bins} bins", "the same in both distributions")
    if common_shape(p.batch_shape, q.batch_shape) is None:
        got = f"{tuple(p.batch_shape)} and {tuple(q.batch_shape)}"
        raise ArgumentError.of("batch shapes", got, "such that one broadcasts to the other")
    if p.values.dim() != q.values.dim() and min(p.values.dim(), q.values.dim()) > 2:
        # Values of the rank of logits are aligned with their own batch: of two ranks, they would be misaligned.
        got = f"{tuple(p.batch_shape)} and {tuple(q.batch_shape)}"
        hint = "For the prior of a layer with members, flatten x to (members, rows, in)."
        raise ArgumentError.of("batch shapes", got, "of one rank where values differ along them", hint)
    if not _equal(p.values, q.values):
        gap = (p.values - q.values).abs().max().item()
        hint = "Values of one layer are compared exactly: mind their dtype." if gap < 1e-5 else ""
        got = f"two sets that are up to {gap:.3g} apart"
        raise ArgumentError.of("values", got, "the same in both distributions", hint)


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of values are the same; taken for granted while a graph is traced."""
    return torch.compiler.is_compiling() or bool((one == other).all())
