"""Helpers to launch Triton kernels from torch: device, strides, and parts shared by autograd functions."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "INTERPRETED",
    "MAX_MEMBERS",
    "differentiable_gradients",
    "have_storage",
    "on_device",
    "strides",
    "vmap_by_loop",
]

#: Whether kernels run in Triton's interpreter, on CPU tensors: slow, for tests only.
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
#: Maximum number of members: the limit of the second axis of a CUDA grid.
MAX_MEMBERS = 65_535


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Make ``device`` torch's current GPU inside the ``with`` block: Triton launches kernels there."""
    if device.type != "cuda" or device.index in (None, torch.cuda.current_device()):
        return nullcontext()
    return torch.cuda.device(device)


def strides(x: Tensor) -> list[int]:
    """Return the strides of ``x``, with 0 along axes of size 1, so that they broadcast."""
    return [0 if size == 1 else stride for size, stride in zip(x.shape, x.stride(), strict=True)]


def vmap_by_loop(function: Any, size: int, in_dims: tuple[int | None, ...], inputs: tuple[Any, ...]) -> tuple[Any, Any]:
    """Implement vmap of an autograd function by a loop: kernels support only a member axis, not any mapped axis.

    Args:
        function: Subclass of ``torch.autograd.Function``.
        size: Length of the mapped axis.
        in_dims: Mapped axis of each input; None for an input without one.
        inputs: Arguments of ``function.apply``.

    Returns:
        The outputs, stacked along a new first axis, and that axis (0) for each of them.
    """
    results = [
        function.apply(*(x if d is None else x.select(d, i) for x, d in zip(inputs, in_dims, strict=True)))
        for i in range(size)
    ]
    outputs = [result if isinstance(result, tuple) else (result,) for result in results]
    return tuple(torch.stack(parts) for parts in zip(*outputs, strict=True)), (0,) * len(outputs[0])


def have_storage(*tensors: Tensor | None) -> bool:
    """Return whether kernels can read the tensors: tensors wrapped by torch.func have no storage of their own."""
    try:
        for tensor in tensors:
            if tensor is not None:
                tensor.data_ptr()
    except (RuntimeError, NotImplementedError):
        return False
    return True


def differentiable_gradients(
    plain: Callable[..., tuple[Tensor, ...]],
    inputs: tuple[Tensor | None, ...],
    needed: tuple[bool, ...],
    grads: tuple[Tensor | None, ...],
) -> list[Tensor | None]:
    """Compute gradients as differentiable functions of the inputs, for second derivatives and torch.func.

    Args:
        plain: The formula in torch's own operations, a function of all inputs.
        inputs: Inputs of the formula; None for an input that is absent.
        needed: For each input, whether its gradient is needed.
        grads: For each output, its gradient; None for zeros.

    Returns:
        For each input, its gradient, or None if it is not needed.
    """
    outputs_used = [index for index, grad in enumerate(grads) if grad is not None]
    inputs_used = [index for index, needs in enumerate(needed) if needs]
    if not outputs_used or not inputs_used:
        return [None] * len(inputs)

    def restricted(*changed: Tensor) -> tuple[Tensor, ...]:
        arguments = list(inputs)
        for index, tensor in zip(inputs_used, changed, strict=True):
            arguments[index] = tensor
        outputs = plain(*arguments)
        return tuple(outputs[index] for index in outputs_used)

    leaves = [inputs[index] for index in inputs_used]
    cotangents = [grads[index] for index in outputs_used]
    if torch.is_grad_enabled() and have_storage(*leaves, *cotangents):
        results = torch.autograd.grad(restricted(*leaves), leaves, cotangents, create_graph=True, allow_unused=True)  # type: ignore[arg-type]
    else:  # autograd.grad does not see tensors wrapped by torch.func; vjp does not support hooks on saved tensors
        _, pullback, *_ = torch.func.vjp(restricted, *leaves)
        results = pullback(tuple(cotangents))
    by_index = dict(zip(inputs_used, results, strict=True))
    return [by_index.get(index) for index in range(len(inputs))]
