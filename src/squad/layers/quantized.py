"""Layers whose outputs are quantized latent variables: the paper's method."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from squad.core import categorical, noise
from squad.core.bins import (
    gaussian_bins,
    gaussian_log_weights,
    increasing_values,
    linear_bins,
    uniform_log_weights,
)
from squad.core.checks import check_choice, check_count, check_finite, check_temperature
from squad.core.distribution import Quantized
from squad.errors import ArgumentError
from squad.layers import sampling_modes
from squad.layers.linear import per_member, scaled_normal_
from squad.layers.stochastic import StochasticModule, report_kl
from squad.ops import BackendName, sample_with_kl

__all__ = ["LearnValues", "Prior", "Spacing", "SquadLayer", "SquadLinear", "set_temperature"]

Spacing: TypeAlias = Literal["linear", "gaussian"] | Tensor | Sequence[float]
Prior: TypeAlias = Literal["uniform", "gaussian"] | Tensor | Sequence[float]
LearnValues: TypeAlias = Literal["per_layer", "per_neuron", "fixed"]


class SquadLayer(StochasticModule, ABC):
    """What layers of quantized latents share; a subclass computes the logits.

    Attributes:
        values: where the bins stand, (C,), or (C, K) with ``learn_values="per_neuron"``; members first.
        log_prior: log r(z), (C,), fixed; members first.
        temperature: of the relaxed samples, () or (M,), saved with the layer; see :func:`set_temperature`.
        backend: which implementation of the operation serves this layer; "auto" by default.
    """

    samplings = ("relaxed", "hard", "mean")
    structure = (*StochasticModule.structure, "bins", "learn_values")
    exact = ("log_prior", "temperature")

    values: Tensor
    log_prior: Tensor
    temperature: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bins: int,
        spacing: Spacing,
        limit: float,
        prior: Prior,
        learn_values: LearnValues,
        members: int | None,
        sampling: str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(in_features, out_features, members, sampling)
        self.bins = check_count("bins", bins, 2)
        self.learn_values = check_choice("learn_values", learn_values, ("per_layer", "per_neuron", "fixed"))
        self.backend: BackendName = "auto"
        wide = torch.promote_types(dtype or torch.get_default_dtype(), torch.float32)
        with torch.device("cpu"):  # looked at while they are made, whatever device the layer is made for
            values = _initial_values(spacing, bins, limit, wide)
            log_prior = _log_prior(prior, values)
        if learn_values == "per_neuron":
            values = values.unsqueeze(-1).expand(bins, out_features)
        values = values.expand(*self.lead, *values.shape).clone()
        if learn_values == "fixed":
            self.register_buffer("values", values)
        else:
            self.values = nn.Parameter(values)
        self.register_buffer("log_prior", log_prior.expand(*self.lead, bins).clone())
        self.register_buffer("temperature", per_member("temperature", 0.5, members))

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., C, K), bins before neurons; members first."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., K): a relaxed sample in training, in eval mode what ``sampling`` says."""
        if self.training:
            z, kl = self.sample_with_kl(x)
        else:
            z, kl = self.predict_with_kl(x)
        report_kl(kl)
        return z

    def posterior(self, x: Tensor) -> Quantized:
        """p(z | x), of batch shape (..., K); members first."""
        logits = self.logits(x).mT
        values = self.values.mT if self.learn_values == "per_neuron" else self.values
        return Quantized(logits, self.spread(values, logits.dim()))

    @property
    def prior(self) -> Quantized:
        """r(z) on the current values: batch shape (), or (K,) with values per neuron; (M, 1, 1 or K) with members."""
        per_neuron = self.learn_values == "per_neuron"
        values = self.values.mT if per_neuron else self.values
        log_prior = self.log_prior.unsqueeze(-2) if per_neuron else self.log_prior
        return Quantized(self.spread(log_prior, 4).expand_as(self.spread(values, 4)), self.spread(values, 4))

    def sample_with_kl(
        self,
        x: Tensor,
        temperature: float | Tensor | None = None,
        *,
        seed: int | Tensor | None = None,
        step: int | Tensor = 0,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """A relaxed sample and its KL to the prior: what a training step calls, one fused operation.

        Args:
            x: (..., in); with members (M or 1, ..., in).
            temperature: a number, or a tensor () or (M,); the layer's own by default.
            seed: names the noise, which is independent for every row: a whole number or an integer tensor, () or
                (M,).  Without one it is drawn from torch's generator, one a member.
            step: names it further, so that one seed serves a whole training run; shaped as seed.
            noise: explicit Gumbel noise that broadcasts to (..., C, K), instead of a seed.

        Returns:
            z (..., K), and the KL in nats summed over the K latents, (...,).
        """
        self.check_input(x)
        if isinstance(temperature, Tensor):
            self.check_one_a_member("temperature", temperature)
        if noise is not None and seed is not None:
            raise ArgumentError.of("noise", "both", "given, or else seed: one of the two")
        temperature = self.temperature if temperature is None else temperature
        key = self.row_key(x, seed, step) if noise is None else None
        return self._relaxed_with_kl(x, temperature, key, noise)

    def _relaxed_with_kl(
        self, x: Tensor, temperature: float | Tensor, key: noise.Key | None, given: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """z (..., K) and the KL of each row, (...,), by a key of noise or by given noise."""
        return self._operated(self.logits(x), None, temperature, key, given)

    def _operated(
        self,
        logits: Tensor,
        bias: Tensor | None,
        temperature: float | Tensor,
        key: noise.Key | None,
        given: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        seed, step = (None, 0) if key is None else key
        return sample_with_kl(
            logits,
            self.op_values(logits.dim()),
            self.op_log_prior(logits.dim()),
            temperature,
            seed=seed,
            step=step,
            noise=given,
            bias=bias,
            total=True,
            backend=self.backend,
        )

    def predict_with_kl(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What ``layer(x)`` is in eval mode, with its KL: z (..., K) and one number a row, (...,)."""
        logits = self.logits(x)
        rank = logits.dim()
        values, log_prior = self.op_values(rank), self.op_log_prior(rank)
        wide = logits.to(categorical.working_dtype(logits))
        _, index = self.fixed_key()
        if self.sampling == "relaxed":
            table = self.spread(self.gumbels(1, index, wide.dtype).squeeze(-3), rank)
            z, kl = sample_with_kl(logits, values, log_prior, self.temperature, noise=table, backend=self.backend)
            return z, kl.sum(-1)
        kl = categorical.kl_divergence(categorical.log_softmax(wide, -2), log_prior, -2)
        if self.sampling == "mean":
            z = sampling_modes.mean(wide, values)
        else:
            z = sampling_modes.hard(wide, values, self.spread(self.gumbels(1, index, wide.dtype).squeeze(-3), rank))
        return z.to(logits.dtype), kl.sum(-1)

    def gumbels(self, samples: int, first: int | Tensor = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """The Gumbel numbers of samples ``first``, ``first + 1``, ... in eval mode, shared by all rows.

        (samples, C, K); members first.
        """
        key, _ = self.fixed_key()
        return noise.gumbel(key, samples, self.bins, self.out_features, first_row=first, dtype=dtype)

    def levels(self, samples: int) -> Tensor:
        """Where the winners of T stratified samples are looked up in eval mode, for all rows: (T, K); members first."""
        key, _ = self.fixed_key()
        return sampling_modes.levels(key, samples, self.out_features)

    def strata(self, at: Tensor, first: int = 0, dtype: torch.dtype = torch.float32) -> sampling_modes.Strata:
        """The noise of stratified samples from ``first`` on, whose :meth:`levels` are ``at``, shared by all rows."""
        key, _ = self.fixed_key()
        return sampling_modes.strata(key, at, first, self.bins, dtype)

    def op_values(self, rank: int) -> Tensor:
        """The values as the operation takes them: (C, 1 or K), with members in the rank of the logits."""
        return self.spread(self.values if self.learn_values == "per_neuron" else self.values.unsqueeze(-1), rank)

    def op_log_prior(self, rank: int) -> Tensor:
        """The prior as the operation takes it: (C, 1), with members in the rank of the logits."""
        return self.spread(self.log_prior.unsqueeze(-1), rank)


class SquadLinear(SquadLayer):
    r"""A linear layer of quantized latents: :math:`p(z_k = v_c | x) = \mathrm{softmax}(W x + b)_c`.

    A drop-in: ``layer(x)`` is a relaxed sample in training; in eval mode it is what ``sampling`` says, with noise that
    is fixed by ``layer.seed`` and shared by all rows, so that the result is a function of x.  The output lies within
    the range of the values, which is why no normalization is needed between such layers.

    Args:
        in_features, out_features: sizes of x and of z; out_features is the paper's K.
        bins: C, how many values a latent can take.
        spacing: where the values start: "linear" over [-limit, limit]; "gaussian", equal mass under a normal; or C
            increasing numbers of your own.
        limit: of linear spacing.
        prior: r(z), fixed: "uniform"; "gaussian", the normal's mass around the initial values; or C positive weights.
        learn_values: "per_layer", "per_neuron" or "fixed".
        init_scale: scale of the fan-in initializer, W having std sqrt(init_scale / in_features); one number, or one a
            member.
        members: M layers at once, or None.
        sampling: in eval mode: "relaxed", "hard" (on the values), or "mean" (the expectation of each latent).
        device, dtype: as in torch's own layers.

    Shape:
        x (..., in) -> (..., K); with members (M or 1, ..., in) -> (M, ..., K).
        ``weight`` (in, C * K), ``bias`` (C * K,), both with M in front where there are members.

    >>> layer = SquadLinear(784, 32, bins=15)
    >>> layer(torch.zeros(5, 784)).shape
    torch.Size([5, 32])
    >>> layer.posterior(torch.zeros(5, 784)).probs.shape
    torch.Size([5, 32, 15])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bins: int = 15,
        *,
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
        self.weight = nn.Parameter(torch.empty(*self.lead, in_features, bins * out_features))
        self.bias = nn.Parameter(torch.zeros(*self.lead, bins * out_features))
        scaled_normal_(self.weight, init_scale, in_features, members)
        self.settle(device, dtype)

    def logits(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., C, K)."""
        out = self.affine(self.check_input(x), self.weight, self.bias)
        return out.view(*out.shape[:-1], self.bins, self.out_features)

    def _relaxed_with_kl(
        self, x: Tensor, temperature: float | Tensor, key: noise.Key | None, given: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As in other layers; on a GPU the bias is left to the operation, which spares a pass over the logits."""
        if not x.is_cuda or torch.is_autocast_enabled("cuda"):
            return super()._relaxed_with_kl(x, temperature, key, given)
        out = self.affine(self.check_input(x), self.weight, None)
        logits = out.view(*out.shape[:-1], self.bins, self.out_features)
        bias = self.spread(self.bias.unflatten(-1, (self.bins, self.out_features)), logits.dim())
        return self._operated(logits, bias, temperature, key, given)


@torch.no_grad()
def set_temperature(module: nn.Module, temperature: float | Sequence[float] | Tensor) -> None:
    """Set the temperature of every SQUAD layer in ``module``: a number, or one a member.

    It is kept in a buffer, so that changing it neither recompiles nor recaptures anything, and eval mode and saved
    files use the one a network was trained to.

    >>> layer = SquadLinear(4, 8)
    >>> set_temperature(layer, 0.7)
    >>> layer.temperature
    tensor(0.7000)
    """
    layers = [layer for layer in module.modules() if isinstance(layer, SquadLayer)]
    if not layers:
        raise ArgumentError.of("module", type(module).__name__, "a network with at least one SQUAD layer")
    checked = [per_member("temperature", temperature, layer.members) for layer in layers]
    for layer, new in zip(layers, checked, strict=True):
        check_temperature(new)
        layer.temperature.copy_(new)


def _initial_values(spacing: Spacing, bins: int, limit: float, dtype: torch.dtype) -> Tensor:
    """(C,)."""
    if isinstance(spacing, str):
        check_choice("spacing", spacing, ("linear", "gaussian"))
        return linear_bins(bins, limit, dtype=dtype) if spacing == "linear" else gaussian_bins(bins, dtype=dtype)
    values = increasing_values(spacing, name="spacing").to("cpu", dtype)
    if values.shape != (bins,):
        raise ArgumentError.of("spacing", f"shape {tuple(values.shape)}", f"a word, or {bins} values, one a bin")
    return values


def _log_prior(prior: Prior, values: Tensor) -> Tensor:
    """(C,) in the dtype of ``values``; weights of a user's own are normalized."""
    bins = values.shape[0]
    if isinstance(prior, str):
        check_choice("prior", prior, ("uniform", "gaussian"))
        return uniform_log_weights(bins, dtype=values.dtype) if prior == "uniform" else gaussian_log_weights(values)
    try:
        weights = torch.as_tensor(prior, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError.of("prior", repr(prior), f"a word, or {bins} positive weights, one a bin") from None
    check_finite("prior", weights)
    if weights.shape != (bins,) or not bool((weights > 0).all()):
        raise ArgumentError.of("prior", weights.tolist(), f"a word, or {bins} positive weights, one a bin")
    return weights.log().log_softmax(-1).to(values.dtype)
