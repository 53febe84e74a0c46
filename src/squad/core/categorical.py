"""Softmax arithmetic over bins along any axis, numerically safe for bins without mass.

Used by the distribution (bins on the last axis, for readability) and by the sampling operation (bins before neurons,
for memory access).  A bin may have no mass, because its logit is -inf or its probability underflows; such a bin
contributes nothing and receives no gradient.
"""

import torch
from torch import Tensor

__all__ = [
    "entropy",
    "floor",
    "floored",
    "kl_divergence",
    "log_softmax",
    "nonnegative",
    "relaxed_one_hot",
    "working_dtype",
]


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """Return the dtype to compute in: that of the widest tensor, and at least float32."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def log_softmax(logits: Tensor, dim: int) -> Tensor:
    """Compute log p over ``dim`` in float32 or better, reducing along the axis that is contiguous in memory.

    torch copies a transposed view before a softmax over its last axis, which is several times slower than a softmax
    over the second-to-last axis of the underlying tensor.
    """
    logits = logits.to(working_dtype(logits))
    if dim == -1 and logits.dim() > 1 and logits.stride(-2) == 1 and logits.stride(-1) != 1:
        return logits.mT.log_softmax(-2).mT
    return logits.log_softmax(dim)


def floor(dtype: torch.dtype) -> float:
    """Return a finite stand-in for -inf: its exponential is 0, and four of them can be added without overflow."""
    return torch.finfo(dtype).min / 4


def floored(log_p: Tensor) -> Tensor:
    """Replace -inf by :func:`floor`: the exponential is still 0, and sums have finite gradients."""
    return log_p.clamp_min(floor(log_p.dtype))


def entropy(log_p: Tensor, dim: int) -> Tensor:
    """Compute the entropy -sum p log p in nats."""
    p = log_p.exp()
    return nonnegative(-(p * floored(log_p)).sum(dim))


def kl_divergence(log_p: Tensor, log_r: Tensor, dim: int) -> Tensor:
    """Compute KL(p || r) = sum p (log p - log r) in nats; infinite where p has mass and r has none."""
    p = log_p.exp()
    return nonnegative((p * (log_p - log_r).masked_fill(p == 0, 0)).sum(dim))


def nonnegative(x: Tensor) -> Tensor:
    """Set rounding errors below zero to zero, without changing the gradient.

    Values below -1e-3 are not rounding errors (the prior may not sum to 1, for example) and remain visible.
    """
    return x - x.detach().clamp(-1e-3, 0)


def relaxed_one_hot(logits: Tensor, noise: Tensor, temperature: float | Tensor, dim: int) -> Tensor:
    """Compute softmax((logits + noise) / temperature), the Gumbel-softmax relaxation of a one-hot sample."""
    return ((logits + noise) / temperature).softmax(dim)
