"""Triton kernels of a training step, so that it needs few launches: the batch, the loss with its gradient, Adam."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803
import math

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["adam", "adam_chunks", "gather", "loss", "tick"]

#: Numbers of a program of Adam.
ADAM_BLOCK = 1024


@triton.jit
def _gather(x, y, order, index, x_out, y_out, features, batch, order_m, BLOCK: tl.constexpr):
    n, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    row = tl.load(order + member * order_m + tl.load(index) * batch + n)
    tl.store(y_out + member * batch + n, tl.load(y + row))
    for start in range(0, features, BLOCK):
        at = start + tl.arange(0, BLOCK)
        numbers = tl.load(x + row * features + at, at < features)
        tl.store(x_out + (member * batch + n) * features + at, numbers, at < features)


def gather(x: Tensor, y: Tensor, order: Tensor, index: Tensor, x_out: Tensor, y_out: Tensor) -> None:
    """Batch ``index`` () of order (M, steps, batch): rows of x (N, in) and y (N,) into (M, batch, in) and (M, batch)."""
    members, _, batch = order.shape
    block = min(1024, triton.next_power_of_2(x.shape[1]))
    _gather[(batch, members)](x, y, order, index, x_out, y_out, x.shape[1], batch, order.stride(0), BLOCK=block)


@triton.jit
def _loss(
    logits, y, kl, beta, grad, totals, rows, classes, members, HAS_KL: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):
    member = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, C)[None, :]
    nll = tl.zeros((R,), tl.float32)
    kls = tl.zeros((R,), tl.float32)
    for start in range(0, rows, R):
        n = start + tl.arange(0, R)
        inside = (n[:, None] < rows) & (c < classes)
        at = (member * rows + n[:, None]) * classes + c
        a = tl.load(logits + at, inside, -float("inf"))
        a = tl.where(n[:, None] < rows, a, 0.0)  # rows beyond the last: no NaN
        label = tl.load(y + member * rows + n, n < rows, 0)
        shifted = a - tl.max(a, 1)[:, None]
        e = tl.exp(shifted)
        total = tl.sum(e, 1)
        own = tl.sum(tl.where(c == label[:, None], shifted, 0.0), 1)
        nll += tl.where(n < rows, tl.log(total) - own, 0.0)
        slope = (e / total[:, None] - tl.where(c == label[:, None], 1.0, 0.0)) / rows
        tl.store(grad + at, slope, inside)
        if HAS_KL:
            kls += tl.load(kl + member * rows + n, n < rows, 0.0)
    mean_kl = tl.sum(kls) / rows
    at = totals + member
    tl.store(at, tl.load(at) + tl.sum(nll) / rows + tl.load(beta + member) * mean_kl)
    tl.store(at + members, tl.load(at + members) + mean_kl)


def loss(logits: Tensor, y: Tensor, kl: Tensor | None, beta: Tensor, grad: Tensor, totals: Tensor) -> None:
    """The gradient of each member's mean cross-entropy; its loss and its mean KL are added to ``totals``.

    Args:
        logits: (M, N, classes), contiguous.
        y: (M, N).
        kl: (M, N), or None for a network without.
        beta: (M,), the KL multipliers.
        grad: (M, N, classes), written.
        totals: (2, M), added to.
    """
    members, rows, classes = logits.shape
    width = max(2, triton.next_power_of_2(classes))
    height = max(1, min(triton.next_power_of_2(rows), 4096 // width))
    _loss[(members,)](
        logits, y, kl, beta, grad, totals, rows, classes, members, HAS_KL=kl is not None, R=height, C=width,
        num_warps=8,
    )  # fmt: skip


@triton.jit
def _adam(
    flat, mean, square, grads, chunks, lr, decay, steps, P,
    FIRST: tl.constexpr, SECOND: tl.constexpr, LOG_FIRST: tl.constexpr, LOG_SECOND: tl.constexpr,
    EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    chunk = chunks + tl.program_id(0) * 5
    which, place, size = tl.load(chunk), tl.load(chunk + 1), tl.load(chunk + 2)
    at = tl.load(chunk + 3) + tl.arange(0, BLOCK)
    inside = at < size
    own = member * P + place + at
    x = tl.load(flat + own, inside, 0.0)
    grad = tl.load(grads + which).to(tl.pointer_type(tl.float32))
    g = tl.load(grad + member * size + at, inside, 0.0) + x * (tl.load(decay + member) * tl.load(chunk + 4))
    m = tl.load(mean + own, inside, 0.0)
    m += (g - m) * (1 - FIRST)
    s = tl.load(square + own, inside, 0.0) * SECOND + g * g * (1 - SECOND)
    # In double precision, as 1 - .999 has few digits left in single.
    step = tl.load(steps + member).to(tl.float64) + 1
    rate = (tl.load(lr + member).to(tl.float64) / (1 - tl.exp(step * LOG_FIRST))).to(tl.float32)
    root = tl.sqrt(1 - tl.exp(step * LOG_SECOND)).to(tl.float32)
    tl.store(mean + own, m, inside)
    tl.store(square + own, s, inside)
    tl.store(flat + own, x - rate * m / (tl.sqrt(s) / root + EPSILON), inside)


def adam_chunks(sizes: list[int], decayed: list[bool], align: int) -> Tensor:
    """What each program of :func:`adam` does: (chunks, 5), int32.

    Which parameter, where its first number stands in a member's row, how many it has, where the chunk begins in it, and
    whether it decays.

    Args:
        sizes: of the parameters of one member, in their order.
        decayed: whether weight decay is for them.
        align: what each begins at a multiple of.
    """
    chunks, place = [], 0
    for which, (size, decays) in enumerate(zip(sizes, decayed, strict=True)):
        chunks += [[which, place, size, start, int(decays)] for start in range(0, size, ADAM_BLOCK)]
        place += size + -size % align
    return torch.tensor(chunks, dtype=torch.int32)


def adam(
    flat: Tensor, mean: Tensor, square: Tensor, grads: Tensor, chunks: Tensor, lr: Tensor, decay: Tensor, steps: Tensor,
    betas: tuple[float, float], epsilon: float,
) -> None:  # fmt: skip
    """A step of Adam over all members and parameters.

    Args:
        flat, mean, square: (M, P), float32, written.
        grads: addresses of the gradients (M, ...), each contiguous, one for each parameter; int64.
        chunks: what :func:`adam_chunks` made.
        lr, decay, steps: (M,), float32; ``steps`` taken before, and not counted here (:func:`tick` does).
        betas, epsilon: of all members.
    """
    first, second = betas
    _adam[(len(chunks), len(flat))](
        flat, mean, square, grads, chunks, lr, decay, steps, flat.shape[1],
        FIRST=first, SECOND=second, LOG_FIRST=math.log(first), LOG_SECOND=math.log(second), EPSILON=epsilon,
        BLOCK=ADAM_BLOCK,
    )  # fmt: skip


@triton.jit
def _tick(index, step, steps, members, M: tl.constexpr):
    tl.store(index, tl.load(index) + 1)
    tl.store(step, tl.load(step) + 1)
    member = tl.arange(0, M)
    tl.store(steps + member, tl.load(steps + member, member < members) + 1, member < members)


def tick(index: Tensor, step: Tensor, steps: Tensor) -> None:
    """Count a step: the batch of the epoch (), that of the run (), and those of each member (M,)."""
    _tick[(1,)](index, step, steps, len(steps), M=triton.next_power_of_2(len(steps)))
