"""Maxout units: with dropout, the paper's strongest baseline."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from squad.core.checks import check_count
from squad.layers.linear import scaled_normal_
from squad.layers.members import MemberModule

__all__ = ["MaxoutLinear"]


class MaxoutLinear(MemberModule):
    """Maxout layer: each of K outputs is the maximum of C linear functions ("pieces") of x.

    Args:
        in_features: Number of input features.
        out_features: Number of outputs K.
        pieces: Number of linear pieces C per output; the layer has as many weights as a :class:`~squad.SquadLinear`
            with C bins.
        init_scale: Scale of the initial weights, whose std is sqrt(init_scale / in_features); one number, or one per
            member.
        members: Number of members M, batched in one layer; None for a layer without members.
        device: Device of the parameters, as in torch's layers.
        dtype: Dtype of the parameters, as in torch's layers.

    Shape:
        x (..., in) -> (..., K); with members (M or 1, ..., in) -> (M, ..., K).
        ``weight`` (in, C * K), ``bias`` (C * K,); with members both have a leading axis M.

    Raises:
        ArgumentError: If an argument is invalid.

    See Also:
        Dropout: Used together with maxout in the paper's strongest baseline.
        SquadLinear: Quantized latents with the same number of weights.

    References:
        Goodfellow, Warde-Farley, Mirza, Courville, Bengio. "Maxout Networks", 2013.

    Examples:
        >>> import torch
        >>> import squad
        >>> layer = squad.MaxoutLinear(3, 2, pieces=4)
        >>> layer(torch.zeros(5, 3)).shape
        torch.Size([5, 2])
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
        self._finish_init(device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the largest piece of each output: (..., in) -> (..., K)."""
        out = self.affine(self.check_input(x), self.weight, self.bias)
        # max, not amax: the gradient of amax takes several passes, and is divided among equal pieces.
        return out.view(*out.shape[:-1], self.pieces, self.out_features).max(-2).values
