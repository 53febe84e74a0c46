"""The mathematics of a softmax over bins, along any axis, safe at the edges.

Shared by the distribution (bins last, for people) and by the operation (bins before neurons, for memory).  A bin
may have no mass: its logit is -inf or its probability underflows; such a bin adds nothing and gets no gradient.
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
    """The dtype to compute in: that of the widest tensor, and float32 at least."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def log_softmax(logits: Tensor, dim: int) -> Tensor:
    """Log p over ``dim``, in float32 or better, reduced along the axis that memory runs along.

    torch copies a transposed view before a softmax over its last axis, which is several times slower than a
    softmax over the axis before the last of the tensor behind it.
    """
    logits = logits.to(working_dtype(logits))
    if dim == -1 and logits.dim() > 1 and logits.stride(-2) == 1 and logits.stride(-1) != 1:
        return logits.mT.log_softmax(-2).mT
    return logits.log_softmax(dim)


def floor(dtype: torch.dtype) -> float:
    """A very low number, whose exponential is 0, and four of which can be added."""
    return torch.finfo(dtype).min / 4


def floored(log_p: Tensor) -> Tensor:
    """``log_p`` with a very low number for -inf: its exponential is still 0, and sums of it have gradients."""
    return log_p.clamp_min(floor(log_p.dtype))


def entropy(log_p: Tensor, dim: int) -> Tensor:
    """-sum p log p in nats."""
    p = log_p.exp()
    return nonnegative(-(p * floored(log_p)).sum(dim))


def kl_divergence(log_p: Tensor, log_r: Tensor, dim: int) -> Tensor:
    """Sum p (log p - log r) in nats; infinite where p has mass and r has none."""
    p = log_p.exp()
    return nonnegative((p * (log_p - log_r).masked_fill(p == 0, 0)).sum(dim))


def nonnegative(x: Tensor) -> Tensor:
    """``x`` without the rounding errors below zero, and with its gradient unchanged.

    What is further below is no rounding error (a prior that does not add up to 1, say), and stays to be seen.
    """
    return x - x.detach().clamp(-1e-3, 0)


def relaxed_one_hot(logits: Tensor, noise: Tensor, temperature: float | Tensor, dim: int) -> Tensor:
    """softmax((logits + noise) / temperature): the Gumbel-Softmax, which nears a one-hot sample as it cools."""
    return ((logits + noise) / temperature).softmax(dim)
