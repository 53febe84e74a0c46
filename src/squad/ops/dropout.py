"""Dropout of features, independently for every row, with one rate per member."""

import torch
from torch import Tensor

from squad.core import noise
from squad.core.noise import Key

__all__ = ["apply_mask", "drop"]


def drop(x: Tensor, rate: Tensor, key: Key) -> Tensor:
    """Drop features at random, independently for every row, and scale the others by 1 / (1 - rate).

    Args:
        x: Rows per member, shape (M, N, features).
        rate: Dropout rates, shape (M,).
        key: Key of the noise, shape (M,).

    Returns:
        Tensor of the shape and dtype of ``x``.
    """
    from squad.ops import has_triton

    plain = torch.compiler.is_compiling() or not x.is_cuda or x.dtype == torch.float64 or x.numel() == 0
    if plain or not has_triton():
        return apply_mask(x, noise.uniform(key, x.shape[1], 1, x.shape[2]).squeeze(-2), rate.view(-1, 1, 1))
    from squad.ops import triton_dropout

    return triton_dropout.drop(x, rate, key)


def apply_mask(x: Tensor, uniform: Tensor, rate: Tensor) -> Tensor:
    """Return x / (1 - rate) where the uniform number is at least ``rate``, and 0 elsewhere.

    Args:
        x: Features, any shape.
        uniform: Uniform numbers on (0, 1), shape of ``x``.
        rate: Dropout rates, broadcastable to the shape of ``x``.

    Returns:
        Tensor of the shape and dtype of ``x``.
    """
    return torch.where(uniform >= rate, x * (1 / (1 - rate)).to(x.dtype), 0)
