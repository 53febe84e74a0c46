"""Reference implementation, as in the paper and with gradients by autograd; other backends are tested against it."""

import torch
from torch import Tensor

from squad.core import categorical
from squad.core.noise import Key, gumbel

__all__ = ["sample_with_kl"]


def sample_with_kl(
    logits: Tensor,
    values: Tensor,
    log_prior: Tensor,
    temperature: Tensor | float,
    noise: Tensor | Key,
    *,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute :func:`squad.ops.sample_with_kl` for validated tensors.

    Args:
        logits: Logits, shape (..., C, K).
        values: Bin values, broadcastable to the shape of ``logits``.
        log_prior: Log prior, broadcastable to the shape of ``logits``.
        temperature: Temperature: a number, or a tensor broadcastable to the shape of ``logits``.
        noise: Gumbel numbers, broadcastable to the shape of ``logits``, or the key that generates them.
        dtype: Precision to compute in, whatever the dtypes of the inputs; default: that of ``values``.

    Returns:
        z and the KL in nats, each of shape (..., K).
    """
    dtype = dtype or values.dtype
    logits, values, log_prior = logits.to(dtype), values.to(dtype), log_prior.to(dtype)
    log_p = categorical.log_softmax(logits, -2)
    kl = categorical.kl_divergence(log_p, log_prior, -2)
    y = categorical.relaxed_one_hot(logits, as_tensor(noise, logits), temperature, -2)
    return (y * values).sum(-2), kl


def as_tensor(noise: Tensor | Key, logits: Tensor, first_row: int = 0) -> Tensor:
    """Return Gumbel noise for ``logits`` in their dtype: explicit noise, or noise generated from a key.

    With a key of M members, the first axis of logits enumerates the members.  The axes between it and (C, K) are
    numbered as rows, from ``first_row`` on.
    """
    if isinstance(noise, Tensor):
        return noise.to(logits.dtype)
    *lead, bins, neurons = logits.shape
    members = noise.seed.dim()
    rows = torch.Size(lead[members:]).numel()
    return gumbel(noise, rows, bins, neurons, first_row=first_row, dtype=logits.dtype).view(logits.shape)
