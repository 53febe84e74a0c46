"""Between torch and a Triton kernel: where it runs, how it walks through tensors, what autograd functions share."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

__all__ = ["INTERPRETED", "gradients", "on", "one_by_one", "strides"]

#: Whether kernels run in Triton's interpreter, on CPU tensors: slow, and for tests.
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Triton launches on torch's current GPU, which need not be the tensors'."""
    if device.type != "cuda" or device.index in (None, torch.cuda.current_device()):
        return nullcontext()
    return torch.cuda.device(device)


def strides(x: Tensor) -> list[int]:
    """The strides of ``x``, 0 along an axis of 1: there is one such number for all."""
    return [0 if size == 1 else stride for size, stride in zip(x.shape, x.stride(), strict=True)]


def one_by_one(function: Any, size: int, in_dims: tuple[int | None, ...], inputs: tuple[Any, ...]) -> tuple[Any, Any]:
    """A mapped call as one after the other: the mapped axis may be any, and kernels know of members alone."""
    each = [
        function.apply(*(x if d is None else x.select(d, i) for x, d in zip(inputs, in_dims, strict=True)))
        for i in range(size)
    ]
    outputs = [one if isinstance(one, tuple) else (one,) for one in each]
    return tuple(torch.stack(parts) for parts in zip(*outputs, strict=True)), (0,) * len(outputs[0])


def gradients(
    outputs: tuple[Tensor, ...],
    leaves: tuple[Tensor, ...],
    needed: tuple[bool, ...],
    grads: tuple[Tensor | None, ...],
) -> list[Tensor | None]:
    """Gradients for the leaves that need one, as functions of them: for gradients of gradients.

    Args:
        outputs: what a plain formula made of the leaves.
        leaves: some of them may be None, and need none.
        needed: for each of the leaves.
        grads: for each of the outputs, None being zeros.
    """
    given = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [leaf for leaf, needs in zip(leaves, needed, strict=True) if needs]
    if not given or not wanted:
        return [None] * len(leaves)
    of, by = zip(*given, strict=True)
    found = iter(torch.autograd.grad(of, wanted, by, create_graph=True, allow_unused=True))
    return [next(found) if needs else None for needs in needed]
