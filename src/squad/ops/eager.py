"""The operation in plain torch with a backward pass of its own: no compiler, any device, few passes over memory.

With p = softmax(a), y = softmax((a + g) / t), z = sum_c y v and kl = sum_c p (log p - log r), the gradients are

    dz / da_c  = y_c (v_c - z) / t          dkl / da_c = p_c (log p_c - log r_c - kl)          dz / dv_c = y_c
"""

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
    z, kl, *_ = _SampleWithKL.apply(logits, values, log_prior, temperature, noise)  # type: ignore[no-untyped-call]
    return z, kl


class _SampleWithKL(Function):
    """Returns what its backward needs as further outputs, so that torch.func can see through it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor
    ) -> tuple[Tensor, ...]:
        # One exponential for both p and log p.  Floors instead of masks: a bin without mass has p = 0, and 0 times a
        # finite number is 0.
        shifted = categorical.floored(logits - logits.amax(-2, keepdim=True))
        p = shifted.exp()
        total = p.sum(-2, keepdim=True)
        p = p.div_(total)
        ratio = shifted.sub_(total.log_()) - categorical.floored(log_prior)
        kl = (p * ratio).sum(-2)
        slope = ratio.sub_(kl.unsqueeze(-2)).mul_(p)
        y = categorical.relaxed_one_hot(logits, noise, temperature, -2)
        z = (y * values).sum(-2)
        return z, categorical.nonnegative(kl), y, slope

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        logits, values, log_prior, temperature, _ = inputs
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
        if grad_kl is not None and ctx.needs_input_grad[0]:
            grad_logits = slope * grad_kl.unsqueeze(-2)
        if grad_z is not None:
            grad_z = grad_z.unsqueeze(-2)
            if ctx.needs_input_grad[0]:
                slope_z, scale = (values - z.unsqueeze(-2)) * y, grad_z / temperature
                grad_logits = slope_z * scale if grad_logits is None else torch.addcmul(grad_logits, slope_z, scale)
            if ctx.needs_input_grad[1]:
                grad_values = (y * grad_z).sum_to_size(values.shape)
        return grad_logits, grad_values, None, None, None


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
