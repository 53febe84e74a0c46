"""The central distribution: a scalar random variable on C bin values."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.constraints import Constraint
from torch.distributions.utils import lazy_property

from squad.core import categorical, noise
from squad.core.bins import gaussian_log_weights
from squad.core.checks import broadcasts_to, check_finite, check_temperature, common_shape
from squad.errors import ArgumentError

__all__ = ["Quantized"]


class _OnValues(Constraint):
    """Constraint satisfied by elements that equal one of the bin values."""

    is_discrete = True

    def __init__(self, values: Tensor) -> None:
        self.values = values
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        return (value.unsqueeze(-1) == self.values).any(-1)


class Quantized(Distribution):
    r"""Distribution of a quantized scalar z on C bin values, a ``torch.distributions.Distribution``.

    .. math:: p(z = v_c) = \mathrm{softmax}(\mathrm{logits})_c

    This is p(z | x) in the paper.  Two bins may have the same value, because learned values can cross.  ``log_prob``,
    ``cdf``, ``icdf`` and ``mode`` refer to z and add up the mass of equal values.  ``entropy``, like the KL term in
    the paper's loss, refers to the bin index s: the two agree if all values differ, and it is an upper bound
    otherwise.

    Args:
        logits: Unnormalized log probabilities of the bins, shape (..., C), any floating-point dtype; the leading axes
            are the batch shape.  A logit of -inf is a bin without mass.  Computations are done in float32 or better.
        values: Bin values: shape (C,); or (K, C), one row per neuron, where K is the last batch axis; or the rank of
            ``logits``, each axis except the last being 1 or equal to that of ``logits``.  Any other shape is an error.
            Values must be finite; they may be in any order and repeated.
        validate_args: Whether to check the contents of the arguments as well as their shapes; torch's default if None.

    Raises:
        ArgumentError: If shapes do not match or, when validating, if logits or values are not valid.

    See Also:
        js_divergence: Jensen-Shannon divergence of two such distributions.
        mutual_information: Information about the input in a batch of such distributions.
        SquadLinear: Layer whose posterior is such a distribution.

    References:
        Veeling, van den Berg, Welling. "Predictive Uncertainty through Quantization", 2018. arXiv:1810.05500.

    Examples:
        >>> import torch
        >>> import squad
        >>> q = squad.Quantized(torch.tensor([0.0, 1.0, 0.0]), torch.tensor([-1.0, 0.0, 1.0]))
        >>> q.mean, q.mode
        (tensor(0.), tensor(0.))
        >>> q.probs
        tensor([0.2119, 0.5761, 0.2119])
        >>> prior = squad.Quantized.uniform(q.values)
        >>> torch.distributions.kl_divergence(q, prior)
        tensor(0.1233)
    """

    arg_constraints = {  # noqa: RUF012 - torch reads it as a class attribute, and mypy knows its type
        "logits": constraints.real_vector,
        "values": constraints.real_vector,
    }

    logits: Tensor
    values: Tensor

    def __init__(self, logits: Tensor, values: Tensor, validate_args: bool | None = None) -> None:
        _floating("logits", logits)
        _floating("values", values)
        _check_shapes(logits.shape, values.shape)
        dtype = categorical.working_dtype(logits, values)
        self.logits = logits.to(dtype)
        self.values = values.to(dtype)
        # torch's own validation has less specific messages; it is switched off.
        super().__init__(logits.shape[:-1], Size(), validate_args=False)
        self._validate_args = Distribution._validate_args if validate_args is None else validate_args
        if self._validate_args:
            self._check_content()

    def _check_content(self) -> None:
        check_finite("values", self.values)
        bad = self.logits.isnan() | (self.logits == float("inf"))
        if bool(bad.any()):
            got = self.logits.detach()[bad].flatten()[0].item()
            raise ArgumentError.of("logits", got, "finite, or -inf for a bin without mass")
        if bool((self.logits == -float("inf")).all(-1).any()):
            raise ArgumentError.of("logits", "a row of only -inf", "finite for at least one bin of each row")

    @classmethod
    def uniform(cls, values: Tensor) -> Self:
        """Return the distribution with equal mass on every bin, a common prior.

        Args:
            values: Bin values, shape (C,) or (K, C).
        """
        values = _floating("values", values)
        return cls(torch.zeros_like(values), values)

    @classmethod
    def gaussian(cls, values: Tensor) -> Self:
        """Return a discretized standard normal distribution: each bin has the normal's mass in its cell.

        Args:
            values: Bin values in increasing order, shape (C,) or (K, C).
        """
        return cls(gaussian_log_weights(_floating("values", values)), values)

    @property
    def bins(self) -> int:
        """Number of bins C."""
        return self.logits.shape[-1]

    @property
    def support(self) -> Constraint:
        """Constraint satisfied by the bin values."""
        return _OnValues(self.values)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "Quantized":
        """Return the same distribution with a larger batch shape, without copying.

        Args:
            batch_shape: New batch shape, to which the old one must broadcast.
            _instance: Instance to fill in, of a subclass; see ``torch.distributions``.

        Returns:
            The distribution; its tensors are views.
        """
        new: Quantized = self._get_checked_instance(Quantized, _instance)  # type: ignore[no-untyped-call]
        new.logits = self.logits.expand(*batch_shape, self.bins)
        # Values of shape (K, C) stay aligned with the last batch axis: they take the rank of the logits.
        lead = new.logits.dim() - self.values.dim()
        new.values = self.values if self.values.dim() == 1 else self.values[(None,) * lead]
        Distribution.__init__(new, new.logits.shape[:-1], Size(), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @lazy_property
    def log_probs(self) -> Tensor:
        """Log probability of each bin, shape (..., C)."""
        return categorical.log_softmax(self.logits, -1)

    @lazy_property
    def probs(self) -> Tensor:
        """Probability of each bin, shape (..., C)."""
        return self.log_probs.exp()

    @property
    def mean(self) -> Tensor:
        """Mean of z, in the batch shape."""
        return (self.probs * self.values).sum(-1)

    @property
    def variance(self) -> Tensor:
        """Variance of z, in the batch shape."""
        return (self.probs * (self.values - self.mean.unsqueeze(-1)).square()).sum(-1)

    @property
    def mode(self) -> Tensor:
        """Value of largest mass, the lowest one in case of ties, in the batch shape."""
        values, mass = self._merged()
        return values.gather(-1, mass.argmax(-1, keepdim=True)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of the bin index in nats, in the batch shape."""
        return categorical.entropy(self.log_probs, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log mass at ``value``.

        Elsewhere than on the bin values it is -inf; if arguments are validated, that is an error.
        """
        value = self._check_value(value)
        matches = value.unsqueeze(-1) == self.values
        if self._validate_args and not bool(matches.any(-1).all()):
            bad = value[~matches.any(-1).expand_as(value)].flatten()[0].item()
            raise ArgumentError.of(
                "value",
                bad,
                "one of the bin values",
                "Relaxed samples lie between the values: use cdf, or pass validate_args=False.",
            )
        log_mass = torch.where(matches, self.log_probs, -float("inf"))
        has_mass = (log_mass > -float("inf")).any(-1, keepdim=True)
        # logsumexp of a row of only -inf has a NaN gradient: such rows get zeros, and -inf afterwards.
        return torch.where(has_mass, log_mass, 0).logsumexp(-1).masked_fill(~has_mass.squeeze(-1), -float("inf"))

    def cdf(self, value: Tensor) -> Tensor:
        """Return P(z <= value); NaN where ``value`` is NaN."""
        value = self._check_value(value)
        below = torch.where(self.values <= value.unsqueeze(-1), self.probs, 0).sum(-1).clamp(max=1)
        return below.masked_fill(value.isnan(), float("nan"))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the smallest bin value v of positive mass with P(z <= v) >= value, for value in [0, 1]."""
        value = self._check_value(value)
        within = (value >= 0) & (value <= 1)
        if self._validate_args and not bool(within.all()):
            raise ArgumentError.of("value", value[~within].flatten()[0].item(), "probabilities within [0, 1]")
        values, probs = self._sorted()
        cumulative = probs.cumsum(-1)
        cumulative = cumulative / cumulative[..., -1:]
        # Skip bins without mass at both ends: at the low end by a level above 0, at the high end by an exact 1.
        level = value.clamp_min(torch.finfo(value.dtype).tiny).unsqueeze(-1)
        index = (cumulative < level).sum(-1, keepdim=True).clamp_max(self.bins - 1)
        return values.expand(*index.shape[:-1], -1).gather(-1, index).squeeze(-1)

    @torch.no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw bin values with torch's generator, without gradient; shape ``sample_shape + batch_shape``."""
        shape = self._extended_shape(_size(sample_shape))
        if shape.numel() == 0:
            return self.logits.new_empty(shape)
        draws = _size(sample_shape).numel()
        rows = self.probs.reshape(-1, self.bins)
        index = torch.multinomial(rows, draws, replacement=True).T.reshape(shape)
        return self.values.expand(*shape, self.bins).gather(-1, index.unsqueeze(-1)).squeeze(-1)

    def relaxed(self, sample_shape: Sequence[int] = (), *, temperature: float | Tensor = 0.5) -> Tensor:
        r"""Draw differentiable samples :math:`v \cdot \mathrm{softmax}((\mathrm{logits} + g) / \tau)`, g Gumbel noise.

        Relaxed samples lie between the bin values, which is why this method is not called ``rsample``.  As the
        temperature falls they converge in distribution to :meth:`sample`.  Gradients flow to logits and values.

        Args:
            sample_shape: Leading shape of the result.
            temperature: Temperature τ: a positive number, or a tensor that broadcasts to the batch shape.

        Returns:
            Samples of shape ``sample_shape + batch_shape``.

        References:
            Jang, Gu, Poole. "Categorical Reparameterization with Gumbel-Softmax", 2017.
            Maddison, Mnih, Teh. "The Concrete Distribution", 2017.
        """
        check_temperature(temperature)
        if isinstance(temperature, Tensor):
            if not broadcasts_to(temperature.shape, self.batch_shape):
                allowed = f"a number, or of a shape that broadcasts to the batch shape {tuple(self.batch_shape)}"
                raise ArgumentError.of("temperature", f"shape {tuple(temperature.shape)}", allowed)
            temperature = temperature.unsqueeze(-1)
        shape = self._extended_shape(_size(sample_shape))
        key = noise.make_key(noise.draw_seed(device=self.logits.device))
        gumbels = noise.gumbel(key, shape.numel(), self.bins, 1, dtype=self.logits.dtype).view(*shape, self.bins)
        return (categorical.relaxed_one_hot(self.logits, gumbels, temperature, -1) * self.values).sum(-1)

    def _check_value(self, value: Tensor) -> Tensor:
        """Return ``value`` expanded to the batch shape, or raise an error if the shapes are incompatible."""
        value = torch.as_tensor(value, dtype=self.logits.dtype, device=self.logits.device)
        shape = common_shape(value.shape, self.batch_shape)
        if shape is None:
            raise ArgumentError.of(
                "value",
                f"shape {tuple(value.shape)}",
                f"of a shape that broadcasts with the batch shape {tuple(self.batch_shape)}",
            )
        return value.expand(shape)

    def _sorted(self) -> tuple[Tensor, Tensor]:
        """Return the values in increasing order and their probabilities, both of shape (..., C)."""
        values, order = self.values.sort(stable=True, dim=-1)
        return values.expand_as(self.probs), self.probs.gather(-1, order.expand_as(self.probs))

    def _merged(self) -> tuple[Tensor, Tensor]:
        """Like ``_sorted``, but with the mass of equal values collected on the first of them."""
        values, probs = self._sorted()
        is_new = torch.ones_like(values, dtype=torch.bool)
        is_new[..., 1:] = values.diff(dim=-1) != 0
        first = torch.where(is_new, torch.arange(self.bins, device=values.device), 0).cummax(-1).values
        return values, torch.zeros_like(probs).scatter_add(-1, first, probs)


def _floating(name: str, tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ArgumentError.of(name, got, "a floating-point tensor")
    return tensor


def _size(sample_shape: Sequence[int]) -> Size:
    try:
        return Size(sample_shape)
    except TypeError:
        raise ArgumentError.of("sample_shape", repr(sample_shape), "a shape, such as (5,)") from None


def _check_shapes(logits: Size, values: Size) -> None:
    """Raise unless ``values`` has one of the three shapes allowed; nothing else is broadcast silently."""
    if len(logits) < 1 or logits[-1] < 2:
        raise ArgumentError.of("logits", f"shape {tuple(logits)}", "of shape (..., C) with C >= 2 bins")
    if len(values) == 1:
        fits = values[0] == logits[-1]
    elif len(values) == len(logits):
        fits = values[-1] == logits[-1] and all(v in (1, n) for v, n in zip(values[:-1], logits[:-1], strict=True))
    else:
        fits = len(values) == 2 and values == logits[-2:]
    if not fits:
        bins = logits[-1]
        neurons = f", ({logits[-2]}, {bins})" if len(logits) > 2 else ""
        raise ArgumentError.of(
            "values",
            f"shape {tuple(values)}",
            f"of shape ({bins},){neurons} or, axis by axis, 1 or the size in logits {tuple(logits)}",
        )
