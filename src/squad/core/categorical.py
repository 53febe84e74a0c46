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

    Args:
        logits: Logits, any shape.
        dim: Axis of the classes.

    Returns:
        Log probabilities of the same shape, in float32 or better.
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
    """Compute the entropy -sum p log p in nats.

    Args:
        log_p: Normalized log probabilities; -inf is allowed.
        dim: Axis of the classes.

    Returns:
        Entropy in nats, never negative, without the axis ``dim``.
    """
    p = log_p.exp()
    return nonnegative(-(p * floored(log_p)).sum(dim))


def kl_divergence(log_p: Tensor, log_r: Tensor, dim: int) -> Tensor:
    """Compute KL(p || r) = sum p (log p - log r) in nats; infinite where p has mass and r has none.

    Args:
        log_p: Normalized log probabilities of p.
        log_r: Normalized log probabilities of r, broadcastable to the shape of ``log_p``.
        dim: Axis of the classes.

    Returns:
        Divergence in nats, never negative, without the axis ``dim``.
    """
    p = log_p.exp()
    return nonnegative((p * (log_p - log_r).masked_fill(p == 0, 0)).sum(dim))


def nonnegative(x: Tensor) -> Tensor:
    """Set rounding errors below zero to zero, without changing the gradient.

    Values below -1e-3 are not rounding errors (the prior may not sum to 1, for example) and remain visible.
    """
    return x - x.detach().clamp(-1e-3, 0)


def relaxed_one_hot(logits: Tensor, noise: Tensor, temperature: float | Tensor, dim: int) -> Tensor:
    """Compute softmax((logits + noise) / temperature), the Gumbel-softmax relaxation of a one-hot sample.

    Args:
        logits: Logits, any shape.
        noise: Standard Gumbel numbers, broadcastable with ``logits``.
        temperature: Positive temperature τ, broadcastable with ``logits``; samples approach one-hot vectors as it goes
            to 0.
        dim: Axis of the classes.

    Returns:
        Weights that sum to 1 along ``dim``.
    """
    return ((logits + noise) / temperature).softmax(dim)
