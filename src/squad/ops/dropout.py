"""Dropout of features, independently for every row, with one rate per member."""

import torch
from torch import Tensor

from squad.core import noise
from squad.core.noise import Key

__all__ = ["apply_mask", "drop"]


def drop(x: Tensor, rate: Tensor, key: Key) -> Tensor:
    """Drop features of x (M, N, features) with probability ``rate`` (M,) and scale the others; key of shape (M,)."""
    from squad.ops import has_triton

    plain = torch.compiler.is_compiling() or not x.is_cuda or x.dtype == torch.float64 or x.numel() == 0
    if plain or not has_triton():
        return apply_mask(x, noise.uniform(key, x.shape[1], 1, x.shape[2]).squeeze(-2), rate.view(-1, 1, 1))
    from squad.ops import triton_dropout

    return triton_dropout.drop(x, rate, key)


def apply_mask(x: Tensor, uniform: Tensor, rate: Tensor) -> Tensor:
    """Return x / (1 - rate) where the uniform number is at least ``rate``, and 0 elsewhere."""
    return torch.where(uniform >= rate, x * (1 / (1 - rate)).to(x.dtype), 0)
