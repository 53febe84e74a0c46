"""The paper's matrix-factorization variant: many bins with few weights."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from squad.core.checks import check_count
from squad.core.noise import Key
from squad.layers.linear import scaled_normal_
from squad.layers.quantized import LearnValues, Prior, Spacing, SquadLayer
from squad.ops import sample_factorized, serves_factorized
from squad.ops.affine import transposed_product

__all__ = ["FactorizedSquadLinear"]


class FactorizedSquadLinear(SquadLayer):
    r"""Layer of quantized latents with a low-rank factorization of its logits.

    .. math:: p(z_k = v_c | x) = \mathrm{softmax}(w''_{k,c} (w'_k x + b'_k) + b''_{k,c})

    Each neuron maps x to B numbers, and these to its C logits, so that many bins need few weights.  The interface is
    that of :class:`~squad.SquadLinear`.

    Args:
        in_features: Number of input features.
        out_features: Number of latent variables K.
        bins: Number of bins C per latent.
        rank: Rank B of the factorization: how many numbers each neuron computes from x.
        shared: Whether all neurons share one W' instead of having one each.
        spacing: Initial bin values, as in :class:`~squad.SquadLinear`.
        limit: Largest bin value of linear spacing.
        prior: Fixed prior r(z), as in :class:`~squad.SquadLinear`.
        learn_values: How bin values are learned, as in :class:`~squad.SquadLinear`.
        init_scale: Scale of the initial W'', whose std is sqrt(init_scale / B); one number, or one per member.  W' is
            initialized with He's scale of 2.
        members: Number of members M, batched in one layer; None for a layer without members.
        sampling: Sampling mode in eval mode, as in :class:`~squad.SquadLinear`.
        device: Device of the parameters, as in torch's layers.
        dtype: Dtype of the parameters, as in torch's layers.

    Shape:
        x (..., in) -> (..., K); with members (M or 1, ..., in) -> (M, ..., K).
        ``weight1`` W' (in, K, B), or (in, 1, B) with ``shared``; ``bias1`` b' (K or 1, B); ``weight2`` W'' (K, B, C);
        ``bias2`` b'' (K, C); with members each has a leading axis M.

    Raises:
        ArgumentError: If an argument is invalid.

    See Also:
        SquadLinear: The same layer without factorization.

    References:
        Veeling, van den Berg, Welling. "Predictive Uncertainty through Quantization", 2018. arXiv:1810.05500.

    Examples:
        >>> import torch
        >>> import squad
        >>> layer = squad.FactorizedSquadLinear(3072, 256, bins=37, rank=4)
        >>> sum(p.numel() for p in (layer.weight1, layer.bias1, layer.weight2, layer.bias2))
        3194112
        >>> layer(torch.zeros(5, 3072)).shape
        torch.Size([5, 256])
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
        self._finish_init(device, dtype)

    def inner(self, x: Tensor) -> Tensor:
        """Compute W' x + b': (..., in) -> (..., K, B), or (..., 1, B) with ``shared``."""
        weight1, bias1 = self.weight1.flatten(-2), self.bias1.flatten(-2)
        out: Tensor = self.affine(self.check_input(x), weight1, bias1).unflatten(-1, self.bias1.shape[-2:])
        return out

    def logits(self, x: Tensor) -> Tensor:
        """Compute the logits: (..., in) -> (..., C, K)."""
        return self._logits(self.inner(x))

    def _logits(self, inner: Tensor) -> Tensor:
        """Compute W'' inner + b'': (..., K or 1, B) -> (..., C, K)."""
        rank = inner.dim()
        if self.shared:
            # W'' as a (B, C * K) matrix: one product, without repeating the input K times.
            weight = self.weight2.movedim(-3, -1).flatten(-2)
            out = self.affine(inner.squeeze(-2), weight, self.bias2.mT.flatten(-2))
            return out.view(*out.shape[:-1], self.bins, self.out_features)
        out = torch.einsum("...kb,...kbc->...ck", inner, self.expand_rank(self.weight2, rank + 1))
        # contiguous: einsum leaves the bins innermost in memory, and the operation needs the neurons there.
        return (out + self.expand_rank(self.bias2.mT, rank).to(out.dtype)).contiguous()

    def _relaxed_with_kl(
        self, x: Tensor, temperature: float | Tensor, key: Key | None, noise: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Like the base class, but without materializing the logits if a fused kernel supports the layer."""
        weight2 = self._with_member_axis(self.weight2)
        if key is None or not serves_factorized(x, weight2, self.values, self.backend):
            return super()._relaxed_with_kl(x, temperature, key, noise)
        self.check_product(x, self.weight1)
        members = self.members or 1
        lead = x.shape[1:-1] if self.members else x.shape[:-1]
        rows = x.reshape(x.shape[0] if self.members else 1, -1, self.in_features).expand(members, -1, -1)
        # Transposed: the kernels need the rows to be contiguous in memory.
        inner = transposed_product(rows, self._with_member_axis(self.weight1).flatten(-2))
        z, kl = sample_factorized(
            inner.view(members, *self.bias1.shape[-2:], -1).permute(0, 3, 1, 2),
            self._with_member_axis(self.bias1),
            weight2,
            self._with_member_axis(self.bias2),
            self._with_member_axis(self.op_values(3)),
            self._with_member_axis(self.op_log_prior(3)),
            temperature,
            key,
            total=True,
        )
        return z.to(inner.dtype).reshape(*self.lead, *lead, self.out_features), kl.reshape((*self.lead, *lead))

    def _with_member_axis(self, tensor: Tensor) -> Tensor:
        """Return ``tensor`` with a leading member axis, of size 1 in a layer without members."""
        return tensor if self.members else tensor.unsqueeze(0)
