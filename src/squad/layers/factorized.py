"""The matrix-factorization variant: many bins for few weights."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from squad.core.checks import check_count
from squad.core.noise import Key
from squad.layers.linear import scaled_normal_
from squad.layers.quantized import LearnValues, Prior, Spacing, SquadLayer
from squad.ops import sample_factorized, serves_factorized
from squad.ops.affine import columns

__all__ = ["FactorizedSquadLinear"]


class FactorizedSquadLinear(SquadLayer):
    r"""Quantized latents whose logits go through B numbers a neuron.

    .. math:: p(z_k = v_c | x) = \mathrm{softmax}(w''_{k,c} (w'_k x + b'_k) + b''_{k,c})

    Args:
        rank: B, how many numbers stand between x and a neuron's C logits.
        shared: one W' for the whole layer instead of one a neuron.
        init_scale: scale of W'' (its fan-in being B); W' has He's scale of 2.
        others: as in :class:`~squad.SquadLinear`.

    Shape:
        x (..., in) -> (..., K); with members (M or 1, ..., in) -> (M, ..., K).
        ``weight1`` W' (in, K, B), or (in, 1, B) with ``shared``; ``bias1`` b' (K or 1, B); ``weight2`` W'' (K, B, C);
        ``bias2`` b'' (K, C); all with M in front where there are members.

    >>> layer = FactorizedSquadLinear(3072, 256, bins=37, rank=4)
    >>> sum(p.numel() for p in (layer.weight1, layer.bias1, layer.weight2, layer.bias2))
    3194112
    """

    structure = (*SquadLayer.structure, "rank", "shared")

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bins: int = 37,
        *,
        rank: int = 4,
        shared: bool = False,
        spacing: Spacing = "linear",
        limit: float = 3.5,
        prior: Prior = "uniform",
        learn_values: LearnValues = "per_layer",
        init_scale: float | Sequence[float] | Tensor = 2.0,
        members: int | None = None,
        sampling: Literal["relaxed", "hard", "mean"] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bins, spacing, limit, prior, learn_values, members, sampling, dtype)
        self.rank = check_count("rank", rank, 1)
        self.shared = bool(shared)
        groups = 1 if shared else out_features
        self.weight1 = nn.Parameter(torch.empty(*self.lead, in_features, groups, rank))
        self.bias1 = nn.Parameter(torch.zeros(*self.lead, groups, rank))
        self.weight2 = nn.Parameter(torch.empty(*self.lead, out_features, rank, bins))
        self.bias2 = nn.Parameter(torch.zeros(*self.lead, out_features, bins))
        scaled_normal_(self.weight1, 2.0, in_features, members)
        scaled_normal_(self.weight2, init_scale, rank, members)
        self.settle(device, dtype)

    def inner(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., K, B), or (..., 1, B) with ``shared``: W' x + b'."""
        weight1, bias1 = self.weight1.flatten(-2), self.bias1.flatten(-2)
        out: Tensor = self.affine(self.check_input(x), weight1, bias1).unflatten(-1, self.bias1.shape[-2:])
        return out

    def logits(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., C, K)."""
        return self._logits(self.inner(x))

    def _logits(self, inner: Tensor) -> Tensor:
        """(..., K or 1, B) -> (..., C, K): W'' inner + b''."""
        rank = inner.dim()
        if self.shared:
            # (..., 1, B) against W'' as a (B, C * K) matrix: one product, no need to repeat the input K times.
            seen_rows = self.weight2.movedim(-3, -1).flatten(-2)
            out = self.affine(inner.squeeze(-2), seen_rows, self.bias2.mT.flatten(-2))
            return out.view(*out.shape[:-1], self.bins, self.out_features)
        out = torch.einsum("...kb,...kbc->...ck", inner, self.spread(self.weight2, rank + 1))
        # contiguous: einsum leaves the bins innermost, and the operation wants the neurons there.
        return (out + self.spread(self.bias2.mT, rank).to(out.dtype)).contiguous()

    def _relaxed_with_kl(
        self, x: Tensor, temperature: float | Tensor, key: Key | None, given: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As in other layers, but where a kernel serves logits are never written."""
        weight2 = self._first(self.weight2)
        if key is None or not serves_factorized(x, weight2, self.values, self.backend):
            return super()._relaxed_with_kl(x, temperature, key, given)
        self.check_product(x, self.weight1)
        members = self.members or 1
        lead = x.shape[1:-1] if self.members else x.shape[:-1]
        rows = x.reshape(x.shape[0] if self.members else 1, -1, self.in_features).expand(members, -1, -1)
        # W' x as columns: the kernels want rows side by side.
        inner = columns(rows, self._first(self.weight1).flatten(-2))
        z, kl = sample_factorized(
            inner.view(members, *self.bias1.shape[-2:], -1).permute(0, 3, 1, 2),
            self._first(self.bias1),
            weight2,
            self._first(self.bias2),
            self._first(self.op_values(3)),
            self._first(self.op_log_prior(3)),
            temperature,
            key,
            total=True,
        )
        return z.to(inner.dtype).reshape(*self.lead, *lead, self.out_features), kl.reshape((*self.lead, *lead))

    def _first(self, tensor: Tensor) -> Tensor:
        """``tensor`` with an axis of members, even of one."""
        return tensor if self.members else tensor.unsqueeze(0)
