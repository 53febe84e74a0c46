"""Between torch and a Triton kernel: where it runs, how it walks through tensors, what autograd functions share."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

__all__ = ["INTERPRETED", "MEMBERS", "all_in_memory", "gradients", "on", "one_by_one", "strides"]

#: Whether kernels run in Triton's interpreter, on CPU tensors: slow, and for tests.
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
#: Members, at the most: CUDA's grids have no more along their second axis.
MEMBERS = 65_535


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


def all_in_memory(*tensors: Tensor | None) -> bool:
    """Whether kernels can read these: not what torch maps over, of which there is no single tensor."""
    try:
        for tensor in tensors:
            if tensor is not None:
                tensor.data_ptr()
    except (RuntimeError, NotImplementedError):
        return False
    return True


def gradients(
    plain: Callable[..., tuple[Tensor, ...]],
    leaves: tuple[Tensor | None, ...],
    needed: tuple[bool, ...],
    grads: tuple[Tensor | None, ...],
) -> list[Tensor | None]:
    """Gradients for the leaves that need one, as functions of them: for gradients of gradients, and for torch.func.

    Args:
        plain: the formula in torch's own operations, of all leaves.
        leaves: some of them may be None, and need none.
        needed: for each of the leaves.
        grads: for each of the outputs, None being zeros.
    """
    given = [place for place, grad in enumerate(grads) if grad is not None]
    wanted = [place for place, needs in enumerate(needed) if needs]
    if not given or not wanted:
        return [None] * len(leaves)

    def of_wanted(*changing: Tensor) -> tuple[Tensor, ...]:
        whole = list(leaves)
        for place, leaf in zip(wanted, changing, strict=True):
            whole[place] = leaf
        outputs = plain(*whole)
        return tuple(outputs[place] for place in given)

    own = [leaves[place] for place in wanted]
    by = [grads[place] for place in given]
    if torch.is_grad_enabled() and all_in_memory(*own, *by):
        found = torch.autograd.grad(of_wanted(*own), own, by, create_graph=True, allow_unused=True)  # type: ignore[arg-type]
    else:  # which autograd.grad sees nothing of; vjp in turn does not know hooks on saved tensors
        _, pull, *_ = torch.func.vjp(of_wanted, *own)
        found = pull(tuple(by))
    by_place = dict(zip(wanted, found, strict=True))
    return [by_place.get(place) for place in range(len(leaves))]
