"""Dropout as one Triton kernel that regenerates its mask in the backward pass instead of storing it."""

# Kernels have no Python types, and their compile-time constants are in capitals, as in Triton itself.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from squad.core import noise
from squad.core.noise import Key
from squad.ops.dropout import apply_mask
from squad.ops.triton_launch import INTERPRETED, have_storage, on_device, strides, vmap_by_loop
from squad.ops.triton_noise import bin_word, keys, row_word, uniform

__all__ = ["drop"]

#: Numbers per program.
BLOCK = 4096 if INTERPRETED else 1024


@triton.jit
def _kernel(x, rate, seed, step, out, size, x_m, rate_m, seed_m, step_m, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    first, second = keys(tl.load(seed + member * seed_m), tl.load(step + member * step_m))
    p = tl.load(rate + member * rate_m)
    kept = uniform(row_word(at, first), bin_word(0, second)) >= p
    numbers = tl.load(x + member * x_m + at, at < size, 0.0)
    tl.store(out + member * size + at, tl.where(kept, numbers * (1 / (1 - p)).to(numbers.dtype), 0.0), at < size)


class _Drop(Function):
    """Dropout of x (M, N, features), whose first axis may have any stride."""

    @staticmethod
    def forward(x: Tensor, rate: Tensor, seed: Tensor, step: Tensor) -> Tensor:
        members, size = len(x), x[0].numel()
        if not x[0].is_contiguous():
            x = x.contiguous()
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        with on_device(x.device):
            _kernel[(triton.cdiv(size, BLOCK), members)](
                x, rate, seed, step, out, size, *(strides(tensor)[0] for tensor in (x, rate, seed, step)), BLOCK=BLOCK
            )
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rate, seed, step = ctx.saved_tensors
        if not have_storage(grad):
            uniforms = noise.uniform(Key(seed, step), grad.shape[-2], 1, grad.shape[-1]).squeeze(-2)
            return apply_mask(grad, uniforms, rate.view(-1, 1, 1)), None, None, None
        return _Drop.apply(grad, rate, seed, step), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """Map by a loop."""
        (out,), (dim,) = vmap_by_loop(_Drop, info.batch_size, in_dims, inputs)
        return out, dim


def drop(x: Tensor, rate: Tensor, key: Key) -> Tensor:
    """Drop features at random, as :func:`squad.ops.dropout.drop` does, in one kernel.

    Args:
        x: Rows per member, shape (M, N, features), on a GPU.
        rate: Dropout rates, shape (M,).
        key: Key of the noise, shape (M,).

    Returns:
        Tensor of the shape and dtype of ``x``.
    """
    out: Tensor = _Drop.apply(x, rate, key.seed, key.step)
    return out
