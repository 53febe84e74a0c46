"""Sums over rows as one small Triton kernel: the gradient of a bias, and of what tiles have summed in part.

torch's own takes several times as long where there are few columns.
"""

# Kernels have no Python types, and what they are compiled for is written in capitals, as Triton's own are.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from squad.ops.triton_launch import all_in_memory, on, one_by_one

__all__ = ["affine", "summed"]


@triton.jit
def _kernel(x, out, rows, width, R: tl.constexpr, W: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * W + tl.arange(0, W)[None, :]
    total = tl.zeros((R, W), tl.float32)
    for start in range(0, rows, R):
        n = start + tl.arange(0, R)[:, None]
        total += tl.load(x + (member * rows + n) * width + at, (n < rows) & (at < width), 0.0).to(tl.float32)
    tl.store(out + member * width + at, tl.sum(total, 0)[None, :], at < width)


def summed(x: Tensor) -> Tensor:
    """x (M, N, ...) summed over its rows, in float32."""
    out = x.new_empty((x.shape[0], *x.shape[2:]), dtype=torch.float32)
    rows, width = x.shape[1], out[0].numel()
    if rows > 1024 or not x.is_contiguous():  # enough to keep torch's kernel busy, which shares out rows, too
        return x.sum(1, dtype=torch.float32)
    # All rows at once, as far as a tile may be so large: waiting for memory is what takes time here.
    columns = min(32, triton.next_power_of_2(width))
    height = min(triton.next_power_of_2(rows), 8192 // columns)
    with on(x.device):
        _kernel[(triton.cdiv(width, columns), len(x))](x, out, rows, width, R=height, W=columns, num_warps=8)
    return out


class _Affine(Function):
    """torch's product, with a gradient of the bias that is one small kernel."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.baddbmm(bias.unsqueeze(1), x, weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        plain = torch.is_grad_enabled() or not all_in_memory(grad)
        total = (grad.sum(1) if plain else summed(grad)) if wanted[2] else None
        return grad @ weight.mT if wanted[0] else None, x.mT @ grad if wanted[1] else None, total

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """As :func:`one_by_one`."""
        (out,), (dim,) = one_by_one(_Affine, info.batch_size, in_dims, inputs)
        return out, dim


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (M, N, in) W (M, in, out) + b (M, out), in float32."""
    out: Tensor = _Affine.apply(x, weight, bias)
    return out
