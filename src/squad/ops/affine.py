"""Batched affine maps x W + b with members."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from squad.ops.triton_launch import vmap_by_loop

__all__ = ["affine", "transposed_product"]


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute x W + b.

    Args:
        x: Rows per member, shape (M, N, in).
        weight: W, shape (M, in, out).
        bias: b, shape (M, out).

    Returns:
        Tensor of shape (M, N, out).
    """
    from squad.ops import has_triton

    plain = torch.compiler.is_compiling() or not x.is_cuda or torch.is_autocast_enabled("cuda")
    if plain or x.dtype != torch.float32 or x.numel() == 0 or not has_triton():
        return torch.baddbmm(bias.unsqueeze(1), x, weight)
    from squad.ops import triton_sums

    return triton_sums.affine(x, weight, bias)


def transposed_product(x: Tensor, weight: Tensor) -> Tensor:
    """Compute the transpose of x W, contiguous in memory.

    Args:
        x: Rows per member, shape (M, N, in).
        weight: W, shape (M, in, out).

    Returns:
        Tensor of shape (M, out, N).
    """
    if torch.is_autocast_enabled(x.device.type):
        return torch.bmm(weight.mT, x.mT)
    out: Tensor = _TransposedProduct.apply(x, weight)  # type: ignore[no-untyped-call]
    return out


class _TransposedProduct(Function):
    """The transposed product; the gradient of W has the memory order of W, where torch's would be copied."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return torch.bmm(weight.mT, x.mT)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        return torch.bmm(weight, grad).mT if needs_x else None, torch.bmm(x.mT, grad.mT) if needs_weight else None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """Map by a loop."""
        (out,), (dim,) = vmap_by_loop(_TransposedProduct, info.batch_size, in_dims, inputs)
        return out, dim
