"""The operation in plain torch with a backward pass of its own: no compiler, any device, few passes over memory.

With p = softmax(a), y = softmax((a + g) / t), z = sum_c y v and kl = sum_c p (log p - log r), the gradients are

    dz / da_c  = y_c (v_c - z) / t          dkl / da_c = p_c (log p_c - log r_c - kl)          dz / dv_c = y_c
"""

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from squad.core import categorical
from squad.core.noise import Key
from squad.ops.reference import as_tensor

__all__ = ["sample_with_kl"]


def sample_with_kl(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor | Key
) -> tuple[Tensor, Tensor]:
    """As :func:`squad.ops.sample_with_kl`, on checked tensors (..., C, K)."""
    drawn = as_tensor(noise, logits)
    z, kl, *_ = _SampleWithKL.apply(logits, values, log_prior, temperature, drawn)  # type: ignore[no-untyped-call]
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
        ratio = shifted.sub_(total.log_()).sub_(categorical.floored(log_prior))
        kl = (p * ratio).sum(-2)
        y = (logits + noise).div_(temperature).softmax(-2)
        z = (y * values).sum(-2)
        return z, categorical.nonnegative(kl), y, p, ratio

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, values, _, temperature, _ = inputs
        z, kl, y, p, ratio = output
        ctx.mark_non_differentiable(y, p, ratio)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(values, z, kl, y, p, ratio)
        ctx.temperature = temperature

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        values, z, kl, y, p, ratio = ctx.saved_tensors
        grad_logits: Tensor | None = None
        grad_values: Tensor | None = None
        if grad_z is not None:
            grad_z = grad_z.unsqueeze(-2)
            if ctx.needs_input_grad[0]:
                grad_logits = (values - z.unsqueeze(-2)).mul_(y).mul_(grad_z / ctx.temperature)
            if ctx.needs_input_grad[1]:
                grad_values = (y * grad_z).sum_to_size(values.shape)
        if grad_kl is not None and ctx.needs_input_grad[0]:
            term = (ratio - kl.unsqueeze(-2)).mul_(p).mul_(grad_kl.unsqueeze(-2))
            grad_logits = term if grad_logits is None else grad_logits.add_(term)
        return grad_logits, grad_values, None, None, None
