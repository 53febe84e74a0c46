"""Sums over rows in one small Triton kernel: gradients of biases, and sums of the partial results of tiles.

torch's sum takes several times as long if there are few columns.
"""

# Kernels have no Python types, and their compile-time constants are in capitals, as in Triton itself.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from squad.ops.triton_launch import have_storage, on_device, vmap_by_loop

__all__ = ["affine", "sum_rows"]


#: Maximum number of tensors summed in one launch.
MAX_TENSORS = 5
#: Maximum number of rows for this kernel; for more rows torch's sum is faster, because it splits them.
MAX_ROWS = 1024
#: Maximum number of rows summed by a single lane.
ROWS_PER_LANE = tl.constexpr(8)


@triton.jit
def _sum(x, out, program, rows, width, columns, R: tl.constexpr, W: tl.constexpr):
    """Sum W columns of x (M, rows, width) over the rows; up to ROWS_PER_LANE rows in a single lane."""
    member = (program // columns).to(tl.int64)
    if R <= ROWS_PER_LANE:
        at = (program % columns) * W + tl.arange(0, W)
        total = tl.zeros((W,), tl.float32)
        for n in tl.static_range(R):
            total += tl.load(x + (member * rows + n) * width + at, (at < width) & (at * 0 + n < rows), 0.0).to(
                tl.float32
            )
        tl.store(out + member * width + at, total, at < width)
    else:
        at = (program % columns) * W + tl.arange(0, W)[None, :]
        total = tl.zeros((R, W), tl.float32)
        for start in range(0, rows, R):
            n = start + tl.arange(0, R)[:, None]
            total += tl.load(x + (member * rows + n) * width + at, (n < rows) & (at < width), 0.0).to(tl.float32)
        tl.store(out + member * width + at, tl.sum(total, 0)[None, :], at < width)


@triton.jit
def _kernel(
    x0, x1, x2, x3, x4, out0, out1, out2, out3, out4, rows0, rows1, rows2, rows3, rows4,
    width0, width1, width2, width3, width4, columns0, columns1, columns2, columns3, columns4,
    end0, end1, end2, end3, J: tl.constexpr,
    R0: tl.constexpr, R1: tl.constexpr, R2: tl.constexpr, R3: tl.constexpr, R4: tl.constexpr,
    W0: tl.constexpr, W1: tl.constexpr, W2: tl.constexpr, W3: tl.constexpr, W4: tl.constexpr,
):  # fmt: skip
    """Compute J <= 5 sums: programs below ``end0`` the first, those below ``end1`` the second, and so on."""
    program = tl.program_id(0)
    if program < end0:
        _sum(x0, out0, program, rows0, width0, columns0, R0, W0)
    elif J > 1:
        if program < end1:
            _sum(x1, out1, program - end0, rows1, width1, columns1, R1, W1)
        elif J > 2:
            if program < end2:
                _sum(x2, out2, program - end1, rows2, width2, columns2, R2, W2)
            elif J > 3:
                if program < end3:
                    _sum(x3, out3, program - end2, rows3, width3, columns3, R3, W3)
                elif J > 4:
                    _sum(x4, out4, program - end3, rows4, width4, columns4, R4, W4)


def sum_rows(*tensors: Tensor) -> list[Tensor]:
    """Sum each of up to five tensors (M, N, ...) over its rows, in float32; tensors of few rows in one launch."""
    assert len(tensors) <= MAX_TENSORS
    outs = [x.new_empty((x.shape[0], *x.shape[2:]), dtype=torch.float32) for x in tensors]
    jobs = []
    for index, x in enumerate(tensors):
        if x.shape[1] > MAX_ROWS or not x.is_contiguous():
            outs[index] = x.sum(1, dtype=torch.float32)
        elif outs[index].numel():
            jobs.append((x, outs[index]))
    if not jobs:
        return outs
    # Arguments of the kernel, one list per argument: rows, width, columns, end, R, W.
    arguments: list[list[int]] = [[] for _ in range(6)]
    for x, out in jobs:
        rows, width = x.shape[1], out[0].numel()
        # As many rows at once as a tile can hold: memory latency dominates.
        height = min(triton.next_power_of_2(max(1, rows)), 256)
        tile_width = min(triton.next_power_of_2(width), 512 if height <= ROWS_PER_LANE else max(16, 1024 // height))
        columns = triton.cdiv(width, tile_width)
        end = (arguments[3][-1] if arguments[3] else 0) + columns * len(x)
        for argument, number in zip(arguments, (rows, width, columns, end, height, tile_width), strict=True):
            argument.append(number)
    missing = MAX_TENSORS - len(jobs)
    x, out = jobs[0]  # also passed in place of the missing tensors, which the kernel does not read
    padded = [[*argument, *[1] * missing] for argument in arguments]
    with on_device(x.device):
        _kernel[(arguments[3][-1],)](
            *(job[0] for job in jobs), *[x] * missing, *(job[1] for job in jobs), *[out] * missing,
            *padded[0], *padded[1], *padded[2], *padded[3][:4], J=len(jobs),
            **{f"R{i}": height for i, height in enumerate(padded[4])},
            **{f"W{i}": tile_width for i, tile_width in enumerate(padded[5])}, num_warps=4,
        )  # fmt: skip
    return outs


class _Affine(Function):
    """torch's matrix product, with the gradient of the bias in one small kernel."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if len(x) == 1:  # cuBLAS adds the bias; for several members torch first copies it into the result
            return torch.addmm(bias[0], x[0], weight[0]).unsqueeze(0)
        return torch.baddbmm(bias.unsqueeze(1), x, weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        plain = torch.is_grad_enabled() or not have_storage(grad)
        grad_bias = (grad.sum(1) if plain else sum_rows(grad)[0]) if needs[2] else None
        return grad @ weight.mT if needs[0] else None, x.mT @ grad if needs[1] else None, grad_bias

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """Map by a loop."""
        (out,), (dim,) = vmap_by_loop(_Affine, info.batch_size, in_dims, inputs)
        return out, dim


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute x W + b in float32.

    Args:
        x: Rows per member, shape (M, N, in).
        weight: W, shape (M, in, out).
        bias: b, shape (M, out).

    Returns:
        Tensor of shape (M, N, out).
    """
    out: Tensor = _Affine.apply(x, weight, bias)
    return out
