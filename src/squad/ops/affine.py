"""x W + b with members."""

import torch
from torch import Tensor

__all__ = ["affine"]


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (M, N, in) W (M, in, out) + b (M, out)."""
    from squad.ops import has_triton

    plain = torch.compiler.is_compiling() or not x.is_cuda or torch.is_autocast_enabled("cuda")
    if plain or x.dtype != torch.float32 or x.numel() == 0 or not has_triton():
        return torch.baddbmm(bias.unsqueeze(1), x, weight)
    from squad.ops import triton_sums

    return triton_sums.affine(x, weight, bias)
