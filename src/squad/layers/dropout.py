"""Dropout with one rate per member, and fixed masks for deterministic MC dropout."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from squad.core import noise as generator
from squad.core.checks import check_count
from squad.core.noise import Key
from squad.errors import ArgumentError
from squad.layers.linear import per_member
from squad.layers.stochastic import StochasticModule
from squad.ops.dropout import apply_mask, drop

__all__ = ["Dropout"]


class Dropout(StochasticModule):
    """Dropout: set features to zero with probability ``rate`` and scale the others by 1 / (1 - rate).

    In training, features are dropped independently for every row.  In eval mode the layer does nothing by default;
    with ``sampling="sample"`` it performs MC dropout with masks that are fixed by ``layer.seed`` and
    :func:`squad.sample_index` and shared by all rows, so that a prediction is a function of its input.

    Args:
        features: Number of features of x.
        rate: Dropout probability in [0, 1): one number, or one per member.
        members: Number of members M, batched in one layer; None for a layer without members.
        sampling: Sampling mode in eval mode: "mean" (drop nothing, the default) or "sample" (MC dropout).
        device: Device of the buffers, as in torch's layers.
        dtype: Dtype of the buffers, as in torch's layers; the rate is kept in float32 or better.

    Shape:
        (..., features) -> (..., features); with members (M or 1, ..., features) -> (M, ..., features).

    Raises:
        ArgumentError: If a rate is not in [0, 1).

    See Also:
        MaxoutLinear: Maxout units, with dropout the paper's strongest baseline.
        sample_index: Selects the mask of MC dropout.
        reseed: Gives layers new masks.

    References:
        Srivastava et al. "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.
        Gal, Ghahramani. "Dropout as a Bayesian Approximation", 2016.

    Examples:
        >>> import torch
        >>> import squad
        >>> layer = squad.Dropout(8, rate=0.5, sampling="sample").eval()
        >>> x = torch.ones(3, 8)
        >>> y = layer(x)
        >>> torch.equal(y, layer(x)), torch.equal(y[0], y[1])  # the same mask in every call and row
        (True, True)
    """

    samplings = ("mean", "sample")
    structure = ("in_features", "sampling")
    float32_buffers = ("rate",)

    rate: Tensor

    def __init__(
        self,
        features: int,
        rate: float | Sequence[float] | Tensor = 0.5,
        *,
        members: int | None = None,
        sampling: Literal["mean", "sample"] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_count("features", features, 1)
        super().__init__(features, features, members, sampling)
        rates = per_member("rate", rate, members)
        if not bool(((rates >= 0) & (rates < 1)).all()):
            raise ArgumentError.of("rate", rate, "within [0, 1)", "0 drops nothing.")
        self.register_buffer("rate", rates)
        self._finish_init(device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Drop features of x: (..., features) -> (..., features)."""
        if self.training:
            return self.drop(x)
        x = self._expand_to_members(self.check_input(x))
        if self.sampling == "mean":
            return x
        _, index = self.eval_key()
        return x * self.expand_rank(self.masks(1, index).squeeze(-2), x.dim()).to(x.dtype)

    def masks(self, samples: int, first: int | Tensor = 0) -> Tensor:
        """Return the masks of eval mode, with entries 0 or 1 / (1 - rate).

        Args:
            samples: Number of samples.
            first: Index of the first sample.

        Returns:
            Masks of shape (samples, features); with members (M, samples, features).
        """
        key, _ = self.eval_key()
        uniforms = generator.uniform(key, samples, 1, self.in_features, first_row=first).squeeze(-2)
        return apply_mask(torch.ones_like(uniforms), uniforms, self.expand_rank(self.rate, uniforms.dim()))

    def drop(self, x: Tensor, *, seed: int | Tensor | None = None, step: int | Tensor = 0) -> Tensor:
        """Drop features at random, independently for every row, and scale the others by 1 / (1 - rate).

        Args:
            x: Rows, shape (..., in_features); with members (M or 1, ..., in_features).
            seed: Seed of the noise: an integer, or an integer tensor of shape () or (M,); None draws one from torch's
                generator.
            step: Counter combined with the seed, same shapes as ``seed``.

        Returns:
            Tensor of the shape of ``x``; with members, the first axis is M.
        """
        x = self._expand_to_members(self.check_input(x))
        key = self.row_key(x, seed, step)
        rows = x.reshape(self.members or 1, -1, self.in_features)
        rate, key = self.rate.view(-1), Key(*(part.reshape(-1) for part in key))
        return drop(rows, rate, key).view(x.shape)

    def _expand_to_members(self, x: Tensor) -> Tensor:
        return x if self.members is None else x.expand(self.members, *x.shape[1:])
