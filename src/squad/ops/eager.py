"""Backend in plain torch with a hand-written backward pass: no compiler, any device, few passes over memory.

With p = softmax(a), y = softmax((a + g) / t), z = sum_c y v and kl = sum_c p (log p - log r), the gradients are

    dz / da_c  = y_c (v_c - z) / t          dkl / da_c = p_c (log p_c - log r_c - kl)          dz / dv_c = y_c
"""

import inspect
import math
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd import Function

from squad.core import categorical
from squad.core.noise import Key
from squad.ops.reference import as_tensor

__all__ = ["sample_with_kl"]


AnyInput = TypeVar("AnyInput", bound=Tensor | Key | float)

#: Number of logits per block on the CPU.  The allocator returns blocks above a few MiB to the system at once, and
#: requesting them page by page dominates a large call; in blocks the time is linear in C (benchmarks/op_bins.py).
BLOCK_SIZE = 1 << 19

LOG2_E = 1 / math.log(2)


def sample_with_kl(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor | Key
) -> tuple[Tensor, Tensor]:
    """Compute :func:`squad.ops.sample_with_kl` for validated tensors of shape (..., C, K).

    The arguments are those of :func:`squad.ops.reference.sample_with_kl`, and so are the results.
    """
    logits = logits.to(values.dtype)
    size = logits.numel()
    if logits.device.type != "cpu" or size <= 2 * BLOCK_SIZE or logits.dim() < 3:
        return _compute(logits, values, log_prior, temperature, as_tensor(noise, logits))
    rows = logits.shape[-3]
    step = max(1, rows * BLOCK_SIZE // size)
    if isinstance(noise, Key) and logits.dim() != 3 + noise.seed.dim():
        noise = as_tensor(noise, logits)  # the rows that a key numbers are not the axis that is split
    results = []
    # torch.split, not slices: the gradient of each slice would be as large as the whole tensor.
    parts = (_split_rows(x, step, rows) for x in (logits, values, log_prior, temperature, noise))
    for index, (a, v, r, t, g) in enumerate(zip(*parts, strict=True)):
        results.append(_compute(a, v, r, t, as_tensor(g, a, index * step)))
    z, kl = zip(*results, strict=True)
    return torch.cat(z, -2), torch.cat(kl, -2)


def _split_rows(x: AnyInput, step: int, rows: int) -> Sequence[AnyInput]:
    """Split the rows of x (..., N, C, K) into blocks of ``step``; a key or an input shared by all rows is repeated."""
    if isinstance(x, Tensor) and x.dim() > 2 and x.shape[-3] > 1:
        return cast(Sequence[AnyInput], torch.split(x, step, -3))
    return [x] * -(-rows // step)


def _compute(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute z and KL of one block."""
    z, kl, *_ = SampleWithKL.apply(logits, values, log_prior, temperature, noise)  # type: ignore[no-untyped-call]
    return z, kl


def forward(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute z and kl (..., K), and the tensors their gradients need: y and dkl / da, (..., C, K)."""
    # Only three tensors of this size are written, in place: what stays in a core's cache takes a third of the time.
    work = logits + noise
    y = work.div_(temperature).softmax(-2)
    z = torch.mul(y, values, out=work).sum(-2)
    # exp2 takes half the time of exp in torch.  Clamping instead of masking: a bin without mass has p = 0, and 0 times
    # a finite number is 0.
    slope = logits.log_softmax(-2)
    p = torch.mul(slope, LOG2_E, out=work).exp2_()
    slope.clamp_min_(categorical.floor(slope.dtype)).sub_(categorical.floored(log_prior)).mul_(p)
    kl = slope.sum(-2)
    return z, categorical.nonnegative(kl), y, slope.addcmul_(p, kl.unsqueeze(-2), value=-1)


def grad_of_logits(
    values: Tensor, temperature: Tensor | float, z: Tensor, slope: Tensor, weighted: Tensor, grad_kl: Tensor | None
) -> Tensor:
    """Compute the gradient of the logits.

    Args:
        values: Bin values.
        temperature: Temperature.
        z: Relaxed samples.
        slope: dkl / da.
        weighted: y times the gradient of z.
        grad_kl: Gradient of the KL, or None.
    """
    deviation = _scaled_deviation(values, temperature, z)
    return (
        weighted * deviation if grad_kl is None else torch.addcmul(slope * grad_kl.unsqueeze(-2), weighted, deviation)
    )


def grad_of_logits_(
    values: Tensor, temperature: Tensor | float, z: Tensor, slope: Tensor, weighted: Tensor, grad_kl: Tensor
) -> Tensor:
    """Compute :func:`grad_of_logits` in the memory of ``slope``, which is overwritten."""
    return slope.mul_(grad_kl.unsqueeze(-2)).addcmul_(weighted, _scaled_deviation(values, temperature, z))


def _scaled_deviation(values: Tensor, temperature: Tensor | float, z: Tensor) -> Tensor:
    """Compute (v - z) / t, dividing before the broadcast, while the tensors are small."""
    return values / temperature - z.unsqueeze(-2) / temperature


class SampleWithKL(Function):
    """Autograd function that returns the tensors its backward needs as extra outputs, as torch.func requires."""

    @staticmethod
    def forward(
        logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor
    ) -> tuple[Tensor, ...]:
        return forward(logits, values, log_prior, temperature, noise)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        logits, values, log_prior, temperature, *_ = inputs
        z, _, y, slope = output
        ctx.mark_non_differentiable(y, slope)
        ctx.set_materialize_grads(False)
        # logits and log_prior are saved for second derivatives only; they are alive anyway.
        saved = [logits, values, log_prior, z, y, slope]
        # A tensor is saved with save_for_backward, so that torch detects changes before the backward pass.
        ctx.temperature = None if isinstance(temperature, Tensor) else temperature
        ctx.save_for_backward(*saved, *([temperature] if isinstance(temperature, Tensor) else []))

    @staticmethod
    def backward(ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        logits, values, log_prior, z, y, slope, *rest = ctx.saved_tensors
        temperature = rest[0] if rest else ctx.temperature
        if torch.is_grad_enabled():
            z, y, slope = _differentiable(logits, values, log_prior, temperature, y)
        grad_logits: Tensor | None = None
        grad_values: Tensor | None = None
        if grad_z is not None:
            weighted = y * grad_z.unsqueeze(-2)
            if ctx.needs_input_grad[0]:
                grad_logits = grad_of_logits(values, temperature, z, slope, weighted, grad_kl)
            if ctx.needs_input_grad[1]:
                grad_values = sum_to(weighted, values.shape)
        elif grad_kl is not None and ctx.needs_input_grad[0]:
            grad_logits = slope * grad_kl.unsqueeze(-2)
        return grad_logits, grad_values, *(None,) * (len(ctx.needs_input_grad) - 2)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Treat the mapped axis as one more leading axis: vmap cannot trace the in-place forward pass."""
        rank = inputs[0].dim() + (in_dims[0] is None)
        logits, *rest = (_move_to_front(x, axis, rank) for x, axis in zip(inputs[:5], in_dims, strict=False))
        assert isinstance(logits, Tensor)
        logits = logits.expand(info.batch_size, *logits.shape[1:])
        return SampleWithKL.apply(logits, *rest), (0,) * 4  # type: ignore[no-untyped-call]


# torch binds the arguments of every call to this signature; stored here, it is not computed each time.
SampleWithKL.forward.__signature__ = inspect.signature(SampleWithKL.forward)  # type: ignore[attr-defined]


def _move_to_front(x: Tensor | float, axis: int | None, rank: int) -> Tensor | float:
    """Return ``x`` in the given rank with its mapped axis first; an input that is not mapped broadcasts."""
    if not isinstance(x, Tensor) or (axis is None and x.dim() == 0):
        return x
    x = x.unsqueeze(0) if axis is None else x.movedim(axis, 0)
    return x[:, *(None,) * (rank - x.dim())]


def sum_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Sum ``x`` to ``shape``, over the axes before the bins first: that is fast and leaves little to sum."""
    lead = [axis for axis in range(x.dim() - 2) if shape[axis] == 1]
    return (x.sum(lead, keepdim=True) if lead else x).sum_to_size(shape)


def _differentiable(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Recompute z, y and dkl / da as differentiable functions of logits and values, for second derivatives.

    y is known, and it is the softmax of logits / temperature plus a constant, which suffices to differentiate it.
    """
    y = (categorical.floored(y.log()) + (logits - logits.detach()).nan_to_num() / temperature).softmax(-2)
    log_p = categorical.log_softmax(logits, -2)
    p = log_p.exp()
    ratio = (log_p - log_prior).masked_fill(p == 0, 0)
    kl = (p * ratio).sum(-2, keepdim=True)
    return (y * values).sum(-2), y, p * (ratio - kl)
