"""x W + b with members."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from squad.ops.triton_launch import one_by_one

__all__ = ["affine", "columns"]


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (M, N, in) W (M, in, out) + b (M, out)."""
    from squad.ops import has_triton

    plain = torch.compiler.is_compiling() or not x.is_cuda or torch.is_autocast_enabled("cuda")
    if plain or x.dtype != torch.float32 or x.numel() == 0 or not has_triton():
        return torch.baddbmm(bias.unsqueeze(1), x, weight)
    from squad.ops import triton_sums

    return triton_sums.affine(x, weight, bias)


def columns(x: Tensor, weight: Tensor) -> Tensor:
    """x (M, N, in) W (M, in, out) as (M, out, N): each row of x is a column."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.bmm(weight.mT, x.mT)
    out: Tensor = _Columns.apply(x, weight)  # type: ignore[no-untyped-call]
    return out


class _Columns(Function):
    """The product as columns; the gradient of W in its own memory order (torch's would be copied), x's as columns."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return torch.bmm(weight.mT, x.mT)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = ctx.needs_input_grad
        return torch.bmm(weight, grad).mT if of_x else None, torch.bmm(x.mT, grad.mT) if of_weight else None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """As :func:`one_by_one`."""
        (out,), (dim,) = one_by_one(_Columns, info.batch_size, in_dims, inputs)
        return out, dim
