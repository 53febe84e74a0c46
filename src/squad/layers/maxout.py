"""Maxout units: with dropout, the paper's strongest baseline."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from squad.core.checks import check_count
from squad.layers.linear import scaled_normal_
from squad.layers.members import MemberModule

__all__ = ["MaxoutLinear"]


class MaxoutLinear(MemberModule):
    """The largest of C linear pieces, for each of K outputs (Goodfellow et al., 2013).

    Args:
        in_features, out_features: sizes of x and of the result.
        pieces: C; as many weights as a :class:`~squad.SquadLinear` of C bins.
        init_scale: scale of the fan-in initializer, W having std sqrt(init_scale / in_features); one number, or one a
            member.
        members: M layers at once, or None.
        device, dtype: as in torch's own layers.

    Shape:
        x (..., in) -> (..., K); with members (M or 1, ..., in) -> (M, ..., K).
        ``weight`` (in, C * K), ``bias`` (C * K,), both with M in front where there are members.
    """

    structure = (*MemberModule.structure, "pieces")

    def __init__(
        self,
        in_features: int,
        out_features: int,
        pieces: int = 11,
        *,
        init_scale: float | Sequence[float] | Tensor = 2.0,
        members: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, members)
        self.pieces = check_count("pieces", pieces, 1)
        self.weight = nn.Parameter(torch.empty(*self.lead, in_features, pieces * out_features))
        self.bias = nn.Parameter(torch.zeros(*self.lead, pieces * out_features))
        scaled_normal_(self.weight, init_scale, in_features, members)
        self.settle(device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., K)."""
        out = self.affine(self.check_input(x), self.weight, self.bias)
        # max, not amax, whose gradient is several passes; of equal pieces it chooses one instead of sharing it out.
        return out.view(*out.shape[:-1], self.pieces, self.out_features).max(-2).values
