"""Layers of quantized latent variables: the paper's method."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from squad.core import categorical
from squad.core.bins import (
    gaussian_bins,
    gaussian_log_weights,
    increasing_values,
    linear_bins,
    uniform_log_weights,
)
from squad.core.checks import check_choice, check_count, check_finite, check_temperature
from squad.core.distribution import Quantized
from squad.core.noise import Key, gumbel
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
    """Base class of layers of quantized latents; a subclass computes the logits.

    With members, every attribute below has a leading axis M.

    Args:
        in_features: Number of inputs.
        out_features: Number of latents K.
        bins: Number of bins C, at least 2.
        spacing: Initial bin values: "linear", "gaussian", or C increasing values.
        limit: Largest bin value of linear spacing.
        prior: Fixed prior r(z): "uniform", "gaussian", or C positive weights.
        learn_values: How bin values are learned: "per_layer", "per_neuron", or "fixed" (not learned).
        members: Number of members M; None for a layer without members.
        sampling: Sampling mode in eval mode; None for the first of ``samplings``.
        dtype: Dtype of the parameters; None for torch's default.

    Attributes:
        values: Bin values, shape (C,), or (C, K) with ``learn_values="per_neuron"``.
        log_prior: Fixed log prior log r(z), shape (C,).
        temperature: Temperature of relaxed samples, shape (), saved with the layer; see :func:`set_temperature`.
        backend: Implementation of the sampling operation, see :func:`squad.ops.sample_with_kl`; "auto" by default.
    """

    samplings = ("relaxed", "hard", "mean")
    structure = (*StochasticModule.structure, "bins", "learn_values")
    float32_buffers = ("log_prior", "temperature")

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
        with torch.device("cpu"):  # their contents are checked, whatever device the layer is created on
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
        """Compute the logits, bins before neurons: (..., in) -> (..., C, K); with members (M, ..., C, K)."""

    def forward(self, x: Tensor) -> Tensor:
        """Draw z: (..., in) -> (..., K), a relaxed sample in training, by ``sampling`` in eval mode."""
        if self.training:
            z, kl = self.sample_with_kl(x)
        else:
            z, kl = self.predict_with_kl(x)
        report_kl(kl)
        return z

    def posterior(self, x: Tensor) -> Quantized:
        """Return p(z | x), batch shape (..., K); with members (M, ..., K)."""
        logits = self.logits(x).mT
        values = self.values.mT if self.learn_values == "per_neuron" else self.values
        return Quantized(logits, self.expand_rank(values, logits.dim()))

    @property
    def prior(self) -> Quantized:
        """Prior r(z) on the current values.

        Batch shape (), or (K,) with values per neuron; with members (M, 1, 1 or K).
        """
        per_neuron = self.learn_values == "per_neuron"
        values = self.expand_rank(self.values.mT if per_neuron else self.values, 4)
        log_prior = self.expand_rank(self.log_prior.unsqueeze(-2) if per_neuron else self.log_prior, 4)
        return Quantized(log_prior.expand_as(values), values)

    def sample_with_kl(
        self,
        x: Tensor,
        temperature: float | Tensor | None = None,
        *,
        seed: int | Tensor | None = None,
        step: int | Tensor = 0,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Draw a relaxed sample and compute its KL to the prior, in one fused operation; used in training steps.

        Args:
            x: Input of shape (..., in); with members (M or 1, ..., in).
            temperature: Temperature τ: a number, or a tensor of shape () or (M,); the layer's own if None.
            seed: Seed of the noise, which is independent for every row: an integer, or an integer tensor of shape () or
                (M,).  If None, drawn from torch's generator, one seed per member.
            step: Counter combined with the seed, so that one seed serves a whole training run; same shapes as ``seed``.
            noise: Explicit Gumbel noise that broadcasts to (..., C, K), instead of a seed.

        Returns:
            z of shape (..., K), and the KL in nats summed over the K latents, shape (...,).

        Raises:
            ArgumentError: If shapes do not match, a temperature is not positive, or both noise and seed are given.
        """
        self.check_input(x)
        if isinstance(temperature, Tensor):
            self.check_per_member("temperature", temperature)
        if noise is not None and seed is not None:
            raise ArgumentError("Pass either `noise` or `seed`, not both.")
        temperature = self.temperature if temperature is None else temperature
        key = self.row_key(x, seed, step) if noise is None else None
        return self._relaxed_with_kl(x, temperature, key, noise)

    def _relaxed_with_kl(
        self, x: Tensor, temperature: float | Tensor, key: Key | None, noise: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return z (..., K) and the KL per row (...,), with noise from a key or explicit noise."""
        return self._apply_operation(self.logits(x), None, temperature, key, noise)

    def _apply_operation(
        self,
        logits: Tensor,
        bias: Tensor | None,
        temperature: float | Tensor,
        key: Key | None,
        noise: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Call :func:`squad.ops.sample_with_kl` with the values, prior and backend of this layer."""
        seed, step = (None, 0) if key is None else key
        return sample_with_kl(
            logits,
            self.op_values(logits.dim()),
            self.op_log_prior(logits.dim()),
            temperature,
            seed=seed,
            step=step,
            noise=noise,
            bias=bias,
            total=True,
            backend=self.backend,
        )

    def predict_with_kl(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output of eval mode, z of shape (..., K), and the KL per row, shape (...,)."""
        logits = self.logits(x)
        rank = logits.dim()
        values, log_prior = self.op_values(rank), self.op_log_prior(rank)
        wide = logits.to(categorical.working_dtype(logits))
        _, index = self.eval_key()
        if self.sampling == "relaxed":
            gumbels = self.expand_rank(self.gumbels(1, index, wide.dtype).squeeze(-3), rank)
            z, kl = sample_with_kl(logits, values, log_prior, self.temperature, noise=gumbels, backend=self.backend)
            return z, kl.sum(-1)
        kl = categorical.kl_divergence(categorical.log_softmax(wide, -2), log_prior, -2)
        if self.sampling == "mean":
            z = sampling_modes.mean(wide, values)
        else:
            gumbels = self.expand_rank(self.gumbels(1, index, wide.dtype).squeeze(-3), rank)
            z = sampling_modes.hard(wide, values, gumbels)
        return z.to(logits.dtype), kl.sum(-1)

    def gumbels(self, samples: int, first: int | Tensor = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the Gumbel noise of eval mode, shared by all rows.

        Args:
            samples: Number of samples T.
            first: Index of the first sample, an integer or a tensor of shape ().
            dtype: float32 or float64.

        Returns:
            Tensor of shape (samples, C, K); with members (M, samples, C, K).
        """
        key, _ = self.eval_key()
        return gumbel(key, samples, self.bins, self.out_features, first_row=first, dtype=dtype)

    def levels(self, samples: int) -> Tensor:
        """Return the quantile levels of T stratified samples in eval mode, shared by all rows.

        Returns:
            Tensor of shape (T, K); with members (M, T, K).  See :class:`~squad.layers.sampling_modes.Strata`.
        """
        key, _ = self.eval_key()
        return sampling_modes.levels(key, samples, self.out_features)

    def strata(self, at: Tensor, first: int = 0, dtype: torch.dtype = torch.float32) -> sampling_modes.Strata:
        """Return the noise of stratified samples in eval mode, shared by all rows.

        Args:
            at: Quantile levels of these samples, a slice of :meth:`levels`.
            first: Index of the first sample.
            dtype: Dtype of the noise.

        Returns:
            Noise of as many samples as ``at`` has levels.
        """
        key, _ = self.eval_key()
        return sampling_modes.strata(key, at, first, self.bins, dtype)

    def op_values(self, rank: int) -> Tensor:
        """Return the values in the shape that the operation takes: (C, 1 or K), with members in the rank of logits."""
        return self.expand_rank(self.values if self.learn_values == "per_neuron" else self.values.unsqueeze(-1), rank)

    def op_log_prior(self, rank: int) -> Tensor:
        """Return the log prior in the shape that the operation takes: (C, 1), with members in the rank of logits."""
        return self.expand_rank(self.log_prior.unsqueeze(-1), rank)


class SquadLinear(SquadLayer):
    r"""Linear layer of quantized latents, :math:`p(z_k = v_c | x) = \mathrm{softmax}(W x + b)_c`.

    A drop-in replacement for a hidden layer.  In training, ``layer(x)`` is a relaxed (Gumbel-softmax) sample of z.  In
    eval mode it depends on ``sampling``, with noise that is fixed by ``layer.seed`` and shared by all rows, so that the
    result is a function of x.  The output lies within the range of the bin values, so that networks of two such layers
    train without batch normalization; deeper ones lose coverage.

    Args:
        in_features: Number of input features.
        out_features: Number of latent variables K.
        bins: Number of bins C per latent.
        spacing: Initial bin values: "linear" over [-limit, limit]; "gaussian", of equal mass under a standard normal;
            or C increasing numbers.
        limit: Largest bin value of linear spacing.
        prior: Fixed prior r(z): "uniform"; "gaussian", the mass of a standard normal around the initial values; or C
            positive weights.
        learn_values: How bin values are learned: "per_layer" (shared by all neurons), "per_neuron", or "fixed" (not
            learned).
        init_scale: Scale of the initial weights, whose std is sqrt(init_scale / in_features); one number, or one per
            member.
        members: Number of members M, batched in one layer; None for a layer without members.
        sampling: Sampling mode in eval mode: "relaxed" (the default), "hard" (samples on the bin values), or "mean"
            (the expectation of each latent).
        device: Device of the parameters, as in torch's layers.
        dtype: Dtype of the parameters, as in torch's layers; prior and temperature are kept in float32 or better.

    Shape:
        x (..., in) -> (..., K); with members (M or 1, ..., in) -> (M, ..., K).
        ``weight`` (in, C * K), ``bias`` (C * K,); with members both have a leading axis M.

    Raises:
        ArgumentError: If an argument is invalid.

    See Also:
        FactorizedSquadLinear: Low-rank variant for many bins.
        collect_kl: Collects the KL terms of the loss.
        set_temperature: Sets the temperature of relaxed samples.
        Quantized: Distribution of the posterior and the prior.

    References:
        Veeling, van den Berg, Welling. "Predictive Uncertainty through Quantization", 2018. arXiv:1810.05500.
        Jang, Gu, Poole. "Categorical Reparameterization with Gumbel-Softmax", 2017.
        Maddison, Mnih, Teh. "The Concrete Distribution: A Continuous Relaxation of Discrete Random Variables", 2017.

    Examples:
        >>> import torch
        >>> import squad
        >>> layer = squad.SquadLinear(784, 32, bins=15)
        >>> x = torch.zeros(5, 784)
        >>> layer(x).shape
        torch.Size([5, 32])
        >>> layer.posterior(x).probs.shape
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
        self._finish_init(device, dtype)

    def logits(self, x: Tensor) -> Tensor:
        """Compute the logits: (..., in) -> (..., C, K)."""
        out = self.affine(self.check_input(x), self.weight, self.bias)
        return out.view(*out.shape[:-1], self.bins, self.out_features)

    def _relaxed_with_kl(
        self, x: Tensor, temperature: float | Tensor, key: Key | None, noise: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Like the base class; on a GPU the operation adds the bias, which saves a pass over the logits."""
        if not x.is_cuda or torch.is_autocast_enabled("cuda"):
            return super()._relaxed_with_kl(x, temperature, key, noise)
        out = self.affine(self.check_input(x), self.weight, None)
        logits = out.view(*out.shape[:-1], self.bins, self.out_features)
        bias = self.expand_rank(self.bias.unflatten(-1, (self.bins, self.out_features)), logits.dim())
        return self._apply_operation(logits, bias, temperature, key, noise)


@torch.no_grad()
def set_temperature(module: nn.Module, temperature: float | Sequence[float] | Tensor) -> None:
    """Set the temperature of relaxed samples in every SQUAD layer of a module.

    The temperature is stored in a buffer: changing it does not recompile a network or recapture a CUDA graph, and eval
    mode and saved models use the temperature that training ended with.

    Args:
        module: Layer or network.
        temperature: Positive temperature τ: one number, or one per member.

    Raises:
        ArgumentError: If the module has no SQUAD layer, or a temperature is not positive and finite.

    See Also:
        SquadLinear: Layer with a temperature.

    References:
        Jang, Gu, Poole. "Categorical Reparameterization with Gumbel-Softmax", 2017.
        Maddison, Mnih, Teh. "The Concrete Distribution: A Continuous Relaxation of Discrete Random Variables", 2017.

    Examples:
        >>> import squad
        >>> layer = squad.SquadLinear(4, 8)
        >>> squad.set_temperature(layer, 0.7)
        >>> layer.temperature
        tensor(0.7000)
    """
    layers = [layer for layer in module.modules() if isinstance(layer, SquadLayer)]
    if not layers:
        raise ArgumentError.of("module", type(module).__name__, "a network with at least one SQUAD layer")
    temperatures = [per_member("temperature", temperature, layer.members) for layer in layers]
    for layer, new in zip(layers, temperatures, strict=True):
        check_temperature(new)
        layer.temperature.copy_(new)


def _initial_values(spacing: Spacing, bins: int, limit: float, dtype: torch.dtype) -> Tensor:
    """Return the initial bin values, shape (C,)."""
    if isinstance(spacing, str):
        check_choice("spacing", spacing, ("linear", "gaussian"))
        return linear_bins(bins, limit, dtype=dtype) if spacing == "linear" else gaussian_bins(bins, dtype=dtype)
    values = increasing_values(spacing, name="spacing").to("cpu", dtype)
    if values.shape != (bins,):
        allowed = f"'linear', 'gaussian' or {bins} values, one per bin"
        raise ArgumentError.of("spacing", f"shape {tuple(values.shape)}", allowed)
    return values


def _log_prior(prior: Prior, values: Tensor) -> Tensor:
    """Return the log prior, shape (C,), in the dtype of ``values``; the user's weights are normalized."""
    bins = values.shape[0]
    allowed = f"'uniform', 'gaussian' or {bins} positive weights, one per bin"
    if isinstance(prior, str):
        check_choice("prior", prior, ("uniform", "gaussian"))
        return uniform_log_weights(bins, dtype=values.dtype) if prior == "uniform" else gaussian_log_weights(values)
    try:
        weights = torch.as_tensor(prior, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError.of("prior", repr(prior), allowed) from None
    check_finite("prior", weights)
    if weights.shape != (bins,) or not bool((weights > 0).all()):
        raise ArgumentError.of("prior", weights.tolist(), allowed)
    return weights.log().log_softmax(-1).to(values.dtype)
