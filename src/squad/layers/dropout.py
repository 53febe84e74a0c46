"""Dropout with a rate a member, and with the fixed noise that MC dropout needs to be a function of its input."""

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
from squad.ops.dropout import drop, masked

__all__ = ["Dropout"]


class Dropout(StochasticModule):
    """Sets features to zero with probability ``rate`` and scales the others by 1 / (1 - rate).

    Args:
        features: size of x.
        rate: within [0, 1); one number, or one a member.
        members: M layers at once, or None.
        sampling: in eval mode: "mean", nothing is dropped; or "sample", MC dropout: features are dropped by
            ``layer.seed`` and :func:`squad.sample_index`, the same ones for all rows.

    Shape:
        (..., features) -> the same; with members (M or 1, ..., features) -> (M, ..., features).
    """

    samplings = ("mean", "sample")
    structure = ("in_features", "sampling")
    exact = ("rate",)

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
        self.settle(device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(..., features) -> (..., features)."""
        if self.training:
            return self.drop(x)
        x = self._for_all(self.check_input(x))
        if self.sampling == "mean":
            return x
        _, index = self.fixed_key()
        return x * self.spread(self.masks(1, index).squeeze(-2), x.dim()).to(x.dtype)

    def masks(self, samples: int, first: int | Tensor = 0) -> Tensor:
        """Factors of eval mode, 0 or 1 / (1 - rate), from sample ``first`` on: (samples, features); members first."""
        key, _ = self.fixed_key()
        table = generator.uniform(key, samples, 1, self.in_features, first_row=first).squeeze(-2)
        return masked(torch.ones_like(table), table, self.spread(self.rate, table.dim()))

    def drop(self, x: Tensor, *, seed: int | Tensor | None = None, step: int | Tensor = 0) -> Tensor:
        """Drop independently for every row; ``seed`` and ``step`` as in ``SquadLinear.sample_with_kl``."""
        x = self._for_all(self.check_input(x))
        key = self.row_key(x, seed, step)
        rows = x.reshape(self.members or 1, -1, self.in_features)
        rate, key = self.rate.view(-1), Key(*(part.reshape(-1) for part in key))
        return drop(rows, rate, key).view(x.shape)

    def _for_all(self, x: Tensor) -> Tensor:
        return x if self.members is None else x.expand(self.members, *x.shape[1:])
