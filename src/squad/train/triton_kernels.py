"""Triton kernels of a training step with few launches: gathering the batch, the loss with its gradient, Adam."""

# Kernels have no Python types, and compile-time constants are written in capitals, as in Triton's own code.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803
import math

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["adam", "adam_chunks", "gather", "has_head", "head", "loss"]

#: Parameters updated by one program of the Adam kernel.
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
    """Gather the rows and labels of a batch into ``x_out`` and ``y_out``.

    Args:
        x: All rows, (N, in), contiguous.
        y: Their labels, (N,).
        order: Rows of each member's batches, (M, steps, batch), int64; contiguous for each member.
        index: Index of the batch, ().
        x_out: Rows of the batch, (M, batch, in), contiguous, written.
        y_out: Labels of the batch, (M, batch), contiguous, written.
    """
    members, _, batch = order.shape
    block = min(1024, triton.next_power_of_2(x.shape[1]))
    warps = 1 if x.shape[1] <= block else 2
    _gather[(batch, members)](
        x, y, order, index, x_out, y_out, x.shape[1], batch, order.stride(0), BLOCK=block, num_warps=warps
    )


@triton.jit
def _loss(
    logits, y, kl, more_kl, beta, grad, totals, steps, rows, classes, members,
    KLS: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, C)[None, :]
    nll = tl.zeros((R,), tl.float32)
    kls = tl.zeros((R,), tl.float32)
    for start in range(0, rows, R):
        n = start + tl.arange(0, R)
        inside = (n[:, None] < rows) & (c < classes)
        at = (member * rows + n[:, None]) * classes + c
        a = tl.load(logits + at, inside, -float("inf"))
        a = tl.where(n[:, None] < rows, a, 0.0)  # avoids NaN in rows beyond the last
        label = tl.load(y + member * rows + n, n < rows, 0)
        shifted = a - tl.max(a, 1)[:, None]
        e = tl.exp(shifted)
        total = tl.sum(e, 1)
        own = tl.sum(tl.where(c == label[:, None], shifted, 0.0), 1)
        nll += tl.where(n < rows, tl.log(total) - own, 0.0)
        slope = (e / total[:, None] - tl.where(c == label[:, None], 1.0, 0.0)) / rows
        tl.store(grad + at, slope, inside)
        if KLS > 0:
            kls += tl.load(kl + member * rows + n, n < rows, 0.0)
        if KLS > 1:
            kls += tl.load(more_kl + member * rows + n, n < rows, 0.0)
    mean_kl = tl.sum(kls) / rows
    tl.store(steps + member, tl.load(steps + member) + 1)
    at = totals + member
    tl.store(at, tl.load(at) + tl.sum(nll) / rows + tl.load(beta + member) * mean_kl)
    tl.store(at + members, tl.load(at + members) + mean_kl)


def _two(kls: list[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """Return two KLs, the number a kernel takes; further ones are added to the second."""
    if len(kls) > 2:
        kls = [kls[0], torch.stack(kls[1:]).sum(0)]
    return kls[0] if kls else None, kls[1] if len(kls) > 1 else None


def loss(
    logits: Tensor, y: Tensor, kls: list[Tensor], beta: Tensor, grad: Tensor, totals: Tensor, steps: Tensor
) -> None:
    """Compute the gradient of each member's mean cross-entropy; add its loss and mean KL to ``totals``.

    Args:
        logits: (M, N, classes), contiguous.
        y: Labels, (M, N).
        kls: KLs of the layers that have one, (M, N) each.
        beta: KL multipliers, (M,).
        grad: Gradient of the logits, (M, N, classes), written.
        totals: Sums of losses and KLs, (2, M), added to.
        steps: Number of steps taken, (M,), incremented.
    """
    members, rows, classes = logits.shape
    width = max(2, triton.next_power_of_2(classes))
    height = max(1, min(triton.next_power_of_2(rows), 1024 // width))
    _loss[(members,)](
        logits, y, *_two(kls), beta, grad, totals, steps, rows, classes, members, KLS=min(2, len(kls)), R=height,
        C=width, num_warps=16,
    )  # fmt: skip


@triton.jit
def _head(
    z, weight, bias, y, kl, more_kl, beta, grad_z, grad_weight, grad_bias, totals, steps, rows, features, classes,
    members, weight_m, bias_m,
    KLS: tl.constexpr, PRECISION: tl.constexpr, R: tl.constexpr, F: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0).to(tl.int64)
    f, c = tl.arange(0, F), tl.arange(0, C)
    there = (f[:, None] < features) & (c[None, :] < classes)
    w = tl.load(weight + member * weight_m + f[:, None] * classes + c[None, :], there, 0.0)
    b = tl.load(bias + member * bias_m + c, c < classes, 0.0)
    w_sum, b_sum = tl.zeros((F, C), tl.float32), tl.zeros((C,), tl.float32)
    nll, kls = tl.zeros((R,), tl.float32), tl.zeros((R,), tl.float32)
    for start in range(0, rows, R):
        n = start + tl.arange(0, R)
        inside = (n[:, None] < rows) & (f[None, :] < features)
        at = (member * rows + n[:, None]) * features + f[None, :]
        x = tl.load(z + at, inside, 0.0)
        a = tl.dot(x, w, input_precision=PRECISION) + b[None, :]
        a = tl.where(c[None, :] < classes, a, -float("inf"))
        label = tl.load(y + member * rows + n, n < rows, 0)
        shifted = a - tl.max(a, 1)[:, None]
        e = tl.exp(shifted)
        total = tl.sum(e, 1)
        chosen = c[None, :] == label[:, None]
        nll += tl.where(n < rows, tl.log(total) - tl.sum(tl.where(chosen, shifted, 0.0), 1), 0.0)
        slope = (e / total[:, None] - tl.where(chosen, 1.0, 0.0)) / rows
        slope = tl.where(n[:, None] < rows, slope, 0.0)
        tl.store(grad_z + at, tl.dot(slope, tl.trans(w), input_precision=PRECISION), inside)
        w_sum += tl.dot(tl.trans(x), slope, input_precision=PRECISION)
        b_sum += tl.sum(slope, 0)
        if KLS > 0:
            kls += tl.load(kl + member * rows + n, n < rows, 0.0)
        if KLS > 1:
            kls += tl.load(more_kl + member * rows + n, n < rows, 0.0)
    tl.store(grad_weight + (member * features + f[:, None]) * classes + c[None, :], w_sum, there)
    tl.store(grad_bias + member * classes + c, b_sum, c < classes)
    mean_kl = tl.sum(kls) / rows
    tl.store(steps + member, tl.load(steps + member) + 1)
    at_total = totals + member
    tl.store(at_total, tl.load(at_total) + tl.sum(nll) / rows + tl.load(beta + member) * mean_kl)
    tl.store(at_total + members, tl.load(at_total + members) + mean_kl)


def has_head(features: int, classes: int) -> bool:
    """Return whether an output layer is small enough for :func:`head`, which keeps all of it in shared memory.

    Args:
        features: Number of inputs of the output layer.
        classes: Number of classes.

    Returns:
        True for at most 64 features and 32 classes.
    """
    return features <= 64 and classes <= 32


def head(
    z: Tensor,
    weight: Tensor,
    bias: Tensor,
    y: Tensor,
    kls: list[Tensor],
    beta: Tensor,
    totals: Tensor,
    steps: Tensor,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the output layer z W + b and :func:`loss` in one kernel.

    Args:
        z: Input of the output layer, (M, N, features), contiguous.
        weight: W, (M, features, classes), with any stride along M.
        bias: b, (M, classes), with any stride along M.
        y: Labels, (M, N).
        kls: KLs of the layers that have one, (M, N) each.
        beta: KL multipliers, (M,).
        totals: Sums of losses and KLs, (2, M), added to.
        steps: Number of steps taken, (M,), incremented.
        precision: Precision of matrix products, "tf32" or "float32".

    Returns:
        The gradients of z, W and b.
    """
    members, rows, features = z.shape
    classes = weight.shape[2]
    width, depth = max(16, triton.next_power_of_2(classes)), max(16, triton.next_power_of_2(features))
    height = max(16, min(triton.next_power_of_2(rows), 4096 // depth, 128))
    grad_z, grad_weight, grad_bias = torch.empty_like(z), z.new_empty(weight.shape), z.new_empty(bias.shape)
    _head[(members,)](
        z, weight, bias, y, *_two(kls), beta, grad_z, grad_weight, grad_bias, totals, steps, rows, features, classes,
        members, weight.stride(0), bias.stride(0),
        KLS=min(2, len(kls)), PRECISION="tf32" if precision == "tf32" else "ieee", R=height, F=depth, C=width,
        num_warps=8,
    )  # fmt: skip
    return grad_z, grad_weight, grad_bias


@triton.jit
def _adam(
    flat, mean, square, grads, chunks, lr, decay, steps, index, step, P,
    FIRST: tl.constexpr, SECOND: tl.constexpr, LOG_FIRST: tl.constexpr, LOG_SECOND: tl.constexpr,
    EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    if tl.program_id(0) == 0:  # advance to the next batch and its noise, which this kernel does not read
        tl.store(step + member, tl.load(step + member) + 1)
        if member == 0:
            tl.store(index, tl.load(index) + 1)
    if tl.load(lr + member) == 0:  # an empty slot of a population: nothing changes
        return
    chunk = chunks + tl.program_id(0) * 5
    which, offset, size = tl.load(chunk), tl.load(chunk + 1), tl.load(chunk + 2)
    at = tl.load(chunk + 3) + tl.arange(0, BLOCK)
    inside = at < size
    own = member * P + offset + at
    x = tl.load(flat + own, inside, 0.0)
    grad = tl.load(grads + which).to(tl.pointer_type(tl.float32))
    g = tl.load(grad + member * size + at, inside, 0.0)
    if tl.load(chunk + 4) != 0:  # not a product with 0: a bias may be -inf
        g += x * tl.load(decay + member)
    m = tl.load(mean + own, inside, 0.0)
    m += (g - m) * (1 - FIRST)
    s = tl.load(square + own, inside, 0.0) * SECOND + g * g * (1 - SECOND)
    # In double precision, because 1 - .999 has few digits left in single precision.
    count = tl.load(steps + member).to(tl.float64)
    rate = (tl.load(lr + member).to(tl.float64) / (1 - tl.exp(count * LOG_FIRST))).to(tl.float32)
    root = tl.sqrt(1 - tl.exp(count * LOG_SECOND)).to(tl.float32)
    tl.store(mean + own, m, inside)
    tl.store(square + own, s, inside)
    tl.store(flat + own, x - rate * m / (tl.sqrt(s) / root + EPSILON), inside)


def adam_chunks(sizes: list[int], decayed: list[bool], align: int) -> Tensor:
    """Divide the parameters among the programs of :func:`adam`.

    Args:
        sizes: Sizes of the parameters of one member, in their order.
        decayed: Whether weight decay applies to each.
        align: Each parameter starts at a multiple of this.

    Returns:
        int32 tensor of shape (chunks, 5), with the columns: index of the parameter, its offset in a member's row, its
        size, start of the chunk within it, and whether weight decay applies.
    """
    chunks, offset = [], 0
    for index, (size, decays) in enumerate(zip(sizes, decayed, strict=True)):
        chunks += [[index, offset, size, start, int(decays)] for start in range(0, size, ADAM_BLOCK)]
        offset += size + -size % align
    return torch.tensor(chunks, dtype=torch.int32)


def adam(
    flat: Tensor, mean: Tensor, square: Tensor, grads: Tensor, chunks: Tensor, lr: Tensor, decay: Tensor, steps: Tensor,
    index: Tensor, step: Tensor, betas: tuple[float, float], epsilon: float,
) -> None:  # fmt: skip
    """Take a step of Adam for all members and parameters, at the end of a training step.

    Args:
        flat: Parameters, (M, P), float32, written.
        mean: Running mean of their gradients, (M, P), float32, written.
        square: Running mean of the squared gradients, (M, P), float32, written.
        grads: Addresses of the gradients (M, ...), each contiguous, one per parameter; int64.
        chunks: The result of :func:`adam_chunks`.
        lr: Learning rates, (M,), float32; a member with 0 is left unchanged.
        decay: Weight decays, (M,), float32.
        steps: Number of steps including this one (:func:`loss` and :func:`head` count it), (M,), float32.
        index: Index of the batch in the epoch, (), int64, incremented.
        step: Number of the step in each member's run, (M,), int64, incremented.
        betas: Decay rates of the running means, for all members.
        epsilon: Term added to the denominator, for all members.
    """
    first, second = betas
    _adam[(len(chunks), len(flat))](
        flat, mean, square, grads, chunks, lr, decay, steps, index, step, flat.shape[1],
        FIRST=first, SECOND=second, LOG_FIRST=math.log(first), LOG_SECOND=math.log(second), EPSILON=epsilon,
        BLOCK=ADAM_BLOCK,
    )  # fmt: skip
