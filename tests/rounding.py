"""Simulation of other machines: matrix products that round differently."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

#: Largest relative change of a product by dtype: 8 units in the last place.
MOVED = {torch.float32: 1e-6, torch.float64: 1e-6 * 2.0**-29}

#: The operations that torch's matrix products, linear layers and einsum consist of.
PRODUCTS = {
    getattr(packet, overload)
    for packet in (torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.addmm, torch.ops.aten.baddbmm)
    for overload in ("default", "out")
} | {torch.ops.aten.mv.default, torch.ops.aten.dot.default, torch.ops.aten.addmv.default}


class OtherRounding(TorchDispatchMode):
    """Context in which every number of every matrix product is changed by a random amount, new in every call."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator().manual_seed(seed)
        #: Number of products changed, by dtype.
        self.moved: dict[torch.dtype, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in PRODUCTS:
            assert isinstance(out, Tensor)
            noise = torch.rand(out.shape, generator=self.generator, dtype=torch.float64).mul_(2).sub_(1)
            out.mul_(noise.mul_(MOVED[out.dtype]).add_(1).to(out.dtype))
            self.moved[out.dtype] = self.moved.get(out.dtype, 0) + 1
        return out
