"""Mean-field Gaussian latents: the paper's information-bottleneck baseline (DLGM)."""

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
    r"""Linear layer of Gaussian latents, :math:`p(z_k | x) = N(\mu_k, \sigma_k^2)`, with prior N(0, 1).

    The mean and the argument of the softplus that yields sigma are both linear in x.  The interface is that of
    :class:`~squad.SquadLinear`, so that the two layers are interchangeable.

    Args:
        in_features: Number of input features.
        out_features: Number of latent variables K.
        init_scale: Scale of the initial weights, whose std is sqrt(init_scale / in_features); one number, or one per
            member.
        members: Number of members M, batched in one layer; None for a layer without members.
        sampling: Sampling mode in eval mode: "sample" (noise fixed by ``layer.seed`` and shared by all rows; the
            default) or "mean".
        device: Device of the parameters, as in torch's layers.
        dtype: Dtype of the parameters, as in torch's layers.

    Shape:
        x (..., in) -> (..., K); with members (M or 1, ..., in) -> (M, ..., K).
        ``weight`` (in, 2 * K), ``bias`` (2 * K,); with members both have a leading axis M.

    Raises:
        ArgumentError: If an argument is invalid.

    See Also:
        SquadLinear: Quantized latents with the same interface.
        collect_kl: Collects the KL terms of the loss.

    References:
        Rezende, Mohamed, Wierstra. "Stochastic Backpropagation and Approximate Inference in Deep Generative Models",
        2014.

        Veeling, van den Berg, Welling. "Predictive Uncertainty through Quantization", 2018. arXiv:1810.05500.

    Examples:
        >>> import torch
        >>> import squad
        >>> layer = squad.GaussianLinear(4, 8)
        >>> z, kl = layer.sample_with_kl(torch.zeros(5, 4))
        >>> z.shape, kl.shape
        (torch.Size([5, 8]), torch.Size([5]))
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
        self._finish_init(device, dtype)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute mean and standard deviation: (..., in) -> two tensors (..., K), in float32 or better."""
        return self._moments(self.affine(self.check_input(x), self.weight, self.bias))

    @staticmethod
    def _moments(out: Tensor) -> tuple[Tensor, Tensor]:
        mu, raw = out.to(categorical.working_dtype(out)).chunk(2, -1)
        # softplus underflows far below zero, and the KL takes a log: sigma is clamped.
        return mu, F.softplus(raw).clamp_min(1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """Draw z: (..., in) -> (..., K), a random sample in training, by ``sampling`` in eval mode."""
        if self.training:
            z, kl = self.sample_with_kl(x)
        else:
            z, kl = self.predict_with_kl(x)
        report_kl(kl)
        return z

    def predict_with_kl(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output of eval mode, z of shape (..., K), and the KL per row, shape (...,)."""
        if self.sampling == "mean":
            return self.sample_with_kl(x, noise=x.new_zeros(()))
        _, index = self.eval_key()
        normals = self.normals(1, index, categorical.working_dtype(self.weight)).squeeze(-2)
        return self.sample_with_kl(x, noise=self.expand_rank(normals, x.dim()))

    def normals(self, samples: int, first: int | Tensor = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the normal noise of eval mode, shared by all rows.

        Args:
            samples: Number of samples T.
            first: Index of the first sample, an integer or a tensor of shape ().
            dtype: float32 or float64.

        Returns:
            Tensor of shape (samples, K); with members (M, samples, K).
        """
        key, _ = self.eval_key()
        return generator.normal(key, samples, self.out_features, first_row=first, dtype=dtype)

    def posterior(self, x: Tensor) -> Normal:
        """Return p(z | x), batch shape (..., K); with members (M, ..., K)."""
        return Normal(*self.moments(x))

    @property
    def prior(self) -> Normal:
        """Prior r(z) = N(0, 1)."""
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
        """Draw a reparameterized sample and compute its KL to the prior.

        Args:
            x: Input of shape (..., in); with members (M or 1, ..., in).
            temperature: Ignored; accepted so that latent layers are interchangeable.
            seed: Seed of the noise, as in ``SquadLinear.sample_with_kl``.
            step: Step of the noise, as in ``SquadLinear.sample_with_kl``.
            noise: Explicit standard normal noise that broadcasts to (..., K), instead of a seed.

        Returns:
            z of shape (..., K), and the KL in nats summed over the K latents, shape (...,).
        """
        out = self.affine(self.check_input(x), self.weight, self.bias)
        mu, sigma = self._moments(out)
        if temperature is not None:
            check_temperature(temperature)
            self.check_per_member("temperature", torch.as_tensor(temperature))
        if noise is not None and not isinstance(noise, Tensor):
            raise ArgumentError.of("noise", type(noise).__name__, "a tensor")
        if noise is not None and seed is not None:
            raise ArgumentError("Pass either `noise` or `seed`, not both.")
        if noise is None:
            key = self.row_key(x, seed, step)
            rows = torch.Size(mu.shape[key.seed.dim() : -1]).numel()
            noise = generator.normal(key, rows, self.out_features, dtype=mu.dtype).view(mu.shape)
        elif not broadcasts_to(noise.shape, mu.shape):
            raise ArgumentError.of("noise", f"shape {tuple(noise.shape)}", f"broadcastable to {tuple(mu.shape)}")
        return (mu + sigma * noise).to(out.dtype), _kl(mu, sigma)


def _kl(mu: Tensor, sigma: Tensor) -> Tensor:
    """Compute KL(N(mu, sigma^2) || N(0, 1)), summed over the last axis."""
    return (0.5 * (mu.square() + sigma.square() - 1) - sigma.log()).sum(-1)
