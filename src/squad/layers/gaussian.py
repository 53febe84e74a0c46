"""Mean-field Gaussian latents: the information-bottleneck baseline (the paper's DLGM)."""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal

from squad.core import categorical
from squad.core import noise as generator
from squad.core.checks import broadcasts_to, check_temperature
from squad.errors import ArgumentError
from squad.layers.linear import scaled_normal_
from squad.layers.stochastic import StochasticModule, report_kl

__all__ = ["GaussianLinear"]


class GaussianLinear(StochasticModule):
    r"""A linear layer of Gaussian latents, :math:`p(z_k | x) = N(\mu_k, \sigma_k^2)`, with the prior N(0, 1).

    mu and the number whose softplus is sigma are both linear in x.  The interface is that of
    :class:`~squad.SquadLinear`, so that one can take the place of the other.

    Args:
        in_features, out_features: sizes of x and of z.
        init_scale: scale of the fan-in initializer, W having std sqrt(init_scale / in_features); one number, or one a
            member.
        members: M layers at once, or None.
        sampling: in eval mode: "sample", with noise fixed by ``layer.seed`` and shared by all rows, or "mean".
        device, dtype: as in torch's own layers.

    Shape:
        x (..., in) -> (..., K); with members (M or 1, ..., in) -> (M, ..., K).
        ``weight`` (in, 2 * K), ``bias`` (2 * K,), both with M in front where there are members.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        init_scale: float | Sequence[float] | Tensor = 2.0,
        members: int | None = None,
        sampling: Literal["sample", "mean"] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, members, sampling)
        self.weight = nn.Parameter(torch.empty(*self.lead, in_features, 2 * out_features))
        self.bias = nn.Parameter(torch.zeros(*self.lead, 2 * out_features))
        scaled_normal_(self.weight, init_scale, in_features, members)
        self.settle(device, dtype)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(..., in) -> mu and sigma, each (..., K), in float32 or better."""
        return self._moments(self.affine(self.check_input(x), self.weight, self.bias))

    @staticmethod
    def _moments(out: Tensor) -> tuple[Tensor, Tensor]:
        mu, raw = out.to(categorical.working_dtype(out)).chunk(2, -1)
        # softplus underflows far below zero, where a log would follow: sigma has a floor.
        return mu, F.softplus(raw).clamp_min(1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., K): a sample in training, in eval mode what ``sampling`` says."""
        if self.training:
            z, kl = self.sample_with_kl(x)
        else:
            z, kl = self.predict_with_kl(x)
        report_kl(kl)
        return z

    def predict_with_kl(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What ``layer(x)`` is in eval mode, with its KL: z (..., K) and one number a row, (...,)."""
        if self.sampling == "mean":
            return self.sample_with_kl(x, noise=x.new_zeros(()))
        _, index = self.fixed_key()
        table = self.normals(1, index, categorical.working_dtype(self.weight)).squeeze(-2)
        return self.sample_with_kl(x, noise=self.spread(table, x.dim()))

    def normals(self, samples: int, first: int | Tensor = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """The normal numbers of samples ``first``, ... in eval mode, for all rows: (samples, K); members first."""
        key, _ = self.fixed_key()
        return generator.normal(key, samples, self.out_features, first_row=first, dtype=dtype)

    def posterior(self, x: Tensor) -> Normal:
        """p(z | x), of batch shape (..., K); members first."""
        return Normal(*self.moments(x))

    @property
    def prior(self) -> Normal:
        """r(z) = N(0, 1)."""
        zero = torch.zeros((), device=self.weight.device, dtype=categorical.working_dtype(self.weight))
        return Normal(zero, zero + 1)

    def sample_with_kl(
        self,
        x: Tensor,
        temperature: float | Tensor | None = None,
        *,
        seed: int | Tensor | None = None,
        step: int | Tensor = 0,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """A reparametrized sample and its KL to the prior; arguments as in ``SquadLinear.sample_with_kl``.

        ``temperature`` is taken so that latent layers can be exchanged, and has no effect: a Gaussian needs none.
        ``noise`` is standard normal and broadcasts to (..., K).

        Returns:
            z (..., K), and the KL in nats summed over the K latents, (...,).
        """
        out = self.affine(self.check_input(x), self.weight, self.bias)
        mu, sigma = self._moments(out)
        if temperature is not None:
            check_temperature(temperature)
            self.check_one_a_member("temperature", torch.as_tensor(temperature))
        if noise is not None and not isinstance(noise, Tensor):
            raise ArgumentError.of("noise", type(noise).__name__, "a tensor")
        if noise is not None and seed is not None:
            raise ArgumentError.of("noise", "both", "given, or else seed: one of the two")
        if noise is None:
            key = self.row_key(x, seed, step)
            rows = torch.Size(mu.shape[key.seed.dim() : -1]).numel()
            noise = generator.normal(key, rows, self.out_features, dtype=mu.dtype).view(mu.shape)
        elif not broadcasts_to(noise.shape, mu.shape):
            raise ArgumentError.of("noise", f"shape {tuple(noise.shape)}", f"broadcastable to {tuple(mu.shape)}")
        return (mu + sigma * noise).to(out.dtype), _kl(mu, sigma)


def _kl(mu: Tensor, sigma: Tensor) -> Tensor:
    """KL(N(mu, sigma^2) || N(0, 1)) summed over the last axis."""
    return (0.5 * (mu.square() + sigma.square() - 1) - sigma.log()).sum(-1)
