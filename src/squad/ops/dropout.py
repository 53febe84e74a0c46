"""Dropout of features, independently for every row, with a rate a member."""

import torch
from torch import Tensor

from squad.core import noise
from squad.core.noise import Key

__all__ = ["drop", "masked"]


def drop(x: Tensor, rate: Tensor, key: Key) -> Tensor:
    """x (M, N, features) with features set to 0 at ``rate`` (M,) and the others scaled, by a key (M,)."""
    from squad.ops import has_triton

    plain = torch.compiler.is_compiling() or not x.is_cuda or x.dtype == torch.float64 or x.numel() == 0
    if plain or not has_triton():
        return masked(x, noise.uniform(key, x.shape[1], 1, x.shape[2]).squeeze(-2), rate.view(-1, 1, 1))
    from squad.ops import triton_dropout

    return triton_dropout.drop(x, rate, key)


def masked(x: Tensor, uniform: Tensor, rate: Tensor) -> Tensor:
    """``x`` where a uniform number is no less than the rate, scaled; 0 elsewhere."""
    return torch.where(uniform >= rate, x * (1 / (1 - rate)).to(x.dtype), 0)
