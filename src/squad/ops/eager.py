"""The operation in plain torch with a backward pass of its own: no compiler, any device, few passes over memory.

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

# Numbers of logits in a block on the CPU.  The allocator gives memory above a few MiB back at once, and taking it anew
# page by page costs much of a large call; in blocks time is linear in C (benchmarks/op_bins.py measures both).
BLOCK = 1 << 19

LOG2_E = 1 / math.log(2)


def sample_with_kl(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor | Key
) -> tuple[Tensor, Tensor]:
    """As :func:`squad.ops.sample_with_kl`, on checked tensors (..., C, K)."""
    logits = logits.to(values.dtype)
    size = logits.numel()
    if logits.device.type != "cpu" or size <= 2 * BLOCK or logits.dim() < 3:
        return _whole(logits, values, log_prior, temperature, as_tensor(noise, logits))
    rows = logits.shape[-3]
    step = max(1, rows * BLOCK // size)
    if isinstance(noise, Key) and logits.dim() != 3 + noise.seed.dim():
        noise = as_tensor(noise, logits)  # what a key counts as rows is not the axis that is cut
    blocks = []
    # split, not slices: the gradient of each slice would be as large as the whole.
    parts = (_parts(x, step, rows) for x in (logits, values, log_prior, temperature, noise))
    for index, (part, v, r, t, drawn) in enumerate(zip(*parts, strict=True)):
        blocks.append(_whole(part, v, r, t, as_tensor(drawn, part, index * step)))
    z, kl = zip(*blocks, strict=True)
    return torch.cat(z, -2), torch.cat(kl, -2)


def _parts(x: AnyInput, step: int, rows: int) -> Sequence[AnyInput]:
    """The rows of x (..., N, C, K) in blocks of ``step``; what has one row for all, or is a key, is in every block."""
    if isinstance(x, Tensor) and x.dim() > 2 and x.shape[-3] > 1:
        return cast(Sequence[AnyInput], torch.split(x, step, -3))
    return [x] * -(-rows // step)


def _whole(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor
) -> tuple[Tensor, Tensor]:
    z, kl, *_ = SampleWithKL.apply(logits, values, log_prior, temperature, noise)  # type: ignore[no-untyped-call]
    return z, kl


def forward(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """z and kl (..., K), and what their gradients need: y and dkl / da, (..., C, K)."""
    # Three tensors of this size are written, over and over: what is in a core's cache takes a third of the time.
    work = logits + noise
    y = work.div_(temperature).softmax(-2)
    z = torch.mul(y, values, out=work).sum(-2)
    # torch's powers of 2 take half the time of its exponentials.  Floors instead of masks: a bin without mass has
    # p = 0, and 0 times a finite number is 0.
    slope = logits.log_softmax(-2)
    p = torch.mul(slope, LOG2_E, out=work).exp2_()
    slope.clamp_min_(categorical.floor(slope.dtype)).sub_(categorical.floored(log_prior)).mul_(p)
    kl = slope.sum(-2)
    return z, categorical.nonnegative(kl), y, slope.addcmul_(p, kl.unsqueeze(-2), value=-1)


def grad_of_logits(
    values: Tensor, temperature: Tensor | float, z: Tensor, slope: Tensor, weighted: Tensor, grad_kl: Tensor | None
) -> Tensor:
    """From ``weighted``, y times the gradient of z, and the gradient of the KL if there is one."""
    away = _away(values, temperature, z)
    return weighted * away if grad_kl is None else torch.addcmul(slope * grad_kl.unsqueeze(-2), weighted, away)


def grad_of_logits_(
    values: Tensor, temperature: Tensor | float, z: Tensor, slope: Tensor, weighted: Tensor, grad_kl: Tensor
) -> Tensor:
    """The same in place of ``slope``, for one who needs it once."""
    return slope.mul_(grad_kl.unsqueeze(-2)).addcmul_(weighted, _away(values, temperature, z))


def _away(values: Tensor, temperature: Tensor | float, z: Tensor) -> Tensor:
    """(v - z) / t, divided while they are small."""
    return values / temperature - z.unsqueeze(-2) / temperature


class SampleWithKL(Function):
    """Returns what its backward needs as further outputs, so that torch.func can see through it."""

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
        # logits and log_prior are kept for second derivatives only; they are alive anyway.
        kept = [logits, values, log_prior, z, y, slope]
        # A tensor is saved as one, so that torch notices if it is changed before the backward pass.
        ctx.temperature = None if isinstance(temperature, Tensor) else temperature
        ctx.save_for_backward(*kept, *([temperature] if isinstance(temperature, Tensor) else []))

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
        """A mapped axis is one more in front of the others: the forward pass works in place, which vmap cannot see."""
        rank = inputs[0].dim() + (in_dims[0] is None)
        logits, *rest = (_fronted(x, axis, rank) for x, axis in zip(inputs[:5], in_dims, strict=False))
        assert isinstance(logits, Tensor)
        logits = logits.expand(info.batch_size, *logits.shape[1:])
        return SampleWithKL.apply(logits, *rest), (0,) * 4  # type: ignore[no-untyped-call]


# torch binds the arguments of every call by this signature; kept here, it need not be worked out each time.
SampleWithKL.forward.__signature__ = inspect.signature(SampleWithKL.forward)  # type: ignore[attr-defined]


def _fronted(x: Tensor | float, axis: int | None, rank: int) -> Tensor | float:
    """``x`` in the given rank with its mapped axis in front; what is not mapped is for all."""
    if not isinstance(x, Tensor) or (axis is None and x.dim() == 0):
        return x
    x = x.unsqueeze(0) if axis is None else x.movedim(axis, 0)
    return x[:, *(None,) * (rank - x.dim())]


def sum_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """``x`` summed to ``shape``, over the axes before the bins first: that is fast, and leaves little to sum."""
    lead = [axis for axis in range(x.dim() - 2) if shape[axis] == 1]
    return (x.sum(lead, keepdim=True) if lead else x).sum_to_size(shape)


def _differentiable(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """z, y and the slope of the KL once more, as functions of logits and values, for gradients of gradients.

    y is known; that it is a softmax of logits / temperature and something fixed is enough to differentiate it.
    """
    y = (categorical.floored(y.log()) + (logits - logits.detach()).nan_to_num() / temperature).softmax(-2)
    log_p = categorical.log_softmax(logits, -2)
    p = log_p.exp()
    ratio = (log_p - log_prior).masked_fill(p == 0, 0)
    kl = (p * ratio).sum(-2, keepdim=True)
    return (y * values).sum(-2), y, p * (ratio - kl)
