"""The distribution that everything is built from: a scalar that lives on C bin values."""

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
    """Equal to one of the bin values."""

    is_discrete = True

    def __init__(self, values: Tensor) -> None:
        self.values = values
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        return (value.unsqueeze(-1) == self.values).any(-1)


class Quantized(Distribution):
    r"""A scalar z with :math:`p(z = v_c) = \mathrm{softmax}(\mathrm{logits})_c` (the paper's equation for p(z | x)).

    Args:
        logits: (..., C), any floating dtype; the batch shape is what stands before C.  A logit of -inf is a bin
            without mass.  Arithmetic is done in float32 or better.
        values: where the bins stand: (C,); or (K, C), one row a neuron, K being the last batch axis; or of the rank
            of ``logits``, each axis but the last being 1 or equal to that of ``logits``.  Any other shape is an error.
            Any finite values will do, in any order and with repetitions.
        validate_args: look at the content of the arguments as well as at their shapes; torch's default.

    Two bins may have the same value (learned values cross).  ``log_prob``, ``cdf``, ``icdf`` and ``mode`` are those
    of z, and add up the mass of equal values.  ``entropy``, like the KL in the paper's loss, is that of the bin index
    s: it is the same wherever no two values are equal, and an upper bound otherwise.

    >>> q = Quantized(torch.tensor([0.0, 1.0, 0.0]), torch.tensor([-1.0, 0.0, 1.0]))
    >>> q.mean, q.mode
    (tensor(0.), tensor(0.))
    >>> q.probs
    tensor([0.2119, 0.5761, 0.2119])
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
        # torch would check the constraints with messages of its own, so it is told not to.
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
            raise ArgumentError.of("logits", "a row with every bin at -inf", "finite for at least one bin of each row")

    @classmethod
    def uniform(cls, values: Tensor) -> Self:
        """The same mass on every bin: a prior for latents on ``values``, (C,) or (K, C)."""
        values = _floating("values", values)
        return cls(torch.zeros_like(values), values)

    @classmethod
    def gaussian(cls, values: Tensor) -> Self:
        """The standard normal's mass in the cell of each value; ``values`` (C,) or (K, C), increasing."""
        return cls(gaussian_log_weights(_floating("values", values)), values)

    @property
    def bins(self) -> int:
        """C, the number of bins."""
        return self.logits.shape[-1]

    @property
    def support(self) -> Constraint:
        """The bin values."""
        return _OnValues(self.values)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> "Quantized":
        """The same distribution with a larger batch shape; nothing is copied."""
        new: Quantized = self._get_checked_instance(Quantized, _instance)  # type: ignore[no-untyped-call]
        new.logits = self.logits.expand(*batch_shape, self.bins)
        # A (K, C) that was aligned with the last batch axis stays so: it becomes of the rank of logits.
        lead = new.logits.dim() - self.values.dim()
        new.values = self.values if self.values.dim() == 1 else self.values[(None,) * lead]
        Distribution.__init__(new, new.logits.shape[:-1], Size(), validate_args=False)
        new._validate_args = self._validate_args
        return new

    @lazy_property
    def log_probs(self) -> Tensor:
        """Log p of each bin, (..., C)."""
        return categorical.log_softmax(self.logits, -1)

    @lazy_property
    def probs(self) -> Tensor:
        """P of each bin, (..., C)."""
        return self.log_probs.exp()

    @property
    def mean(self) -> Tensor:
        """E z, of the batch shape."""
        return (self.probs * self.values).sum(-1)

    @property
    def variance(self) -> Tensor:
        """Var z, of the batch shape."""
        return (self.probs * (self.values - self.mean.unsqueeze(-1)).square()).sum(-1)

    @property
    def mode(self) -> Tensor:
        """The value of largest mass (the lowest of several), of the batch shape."""
        values, mass = self._merged()
        return values.gather(-1, mass.argmax(-1, keepdim=True)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy of the bin index in nats, of the batch shape."""
        return categorical.entropy(self.log_probs, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log of the mass at ``value``; -inf off the bins (an error while arguments are validated)."""
        value = self._outcome(value)
        here = value.unsqueeze(-1) == self.values
        if self._validate_args and not bool(here.any(-1).all()):
            stray = value[~here.any(-1).expand_as(value)].flatten()[0].item()
            raise ArgumentError.of(
                "value",
                stray,
                "one of the bin values",
                "Relaxed samples are not: use cdf, or validate_args=False.",
            )
        mass = torch.where(here, self.log_probs, -float("inf"))
        some = (mass > -float("inf")).any(-1, keepdim=True)
        # logsumexp of nothing but -inf has a NaN gradient: it is given zeros there and overruled below.
        return torch.where(some, mass, 0).logsumexp(-1).masked_fill(~some.squeeze(-1), -float("inf"))

    def cdf(self, value: Tensor) -> Tensor:
        """P(z <= value); NaN where value is."""
        value = self._outcome(value)
        below = torch.where(self.values <= value.unsqueeze(-1), self.probs, 0).sum(-1).clamp(max=1)
        return below.masked_fill(value.isnan(), float("nan"))

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest bin value v of positive mass with P(z <= v) >= value; value in [0, 1]."""
        value = self._outcome(value)
        within = (value >= 0) & (value <= 1)
        if self._validate_args and not bool(within.all()):
            raise ArgumentError.of("value", value[~within].flatten()[0].item(), "probabilities within [0, 1]")
        values, probs = self._sorted()
        cumulative = probs.cumsum(-1)
        cumulative = cumulative / cumulative[..., -1:]
        # Bins without mass are passed over at both ends: by a level above 0 below, by the exact 1 above.
        level = value.clamp_min(torch.finfo(value.dtype).tiny).unsqueeze(-1)
        index = (cumulative < level).sum(-1, keepdim=True).clamp_max(self.bins - 1)
        return values.expand(*index.shape[:-1], -1).gather(-1, index).squeeze(-1)

    @torch.no_grad()
    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Values drawn by torch's generator, of shape ``sample_shape + batch_shape``; no gradient."""
        shape = self._extended_shape(_shape(sample_shape))
        if shape.numel() == 0:
            return self.logits.new_empty(shape)
        draws = _shape(sample_shape).numel()
        rows = self.probs.reshape(-1, self.bins)
        index = torch.multinomial(rows, draws, replacement=True).T.reshape(shape)
        return self.values.expand(*shape, self.bins).gather(-1, index.unsqueeze(-1)).squeeze(-1)

    def relaxed(self, sample_shape: Sequence[int] = (), *, temperature: float | Tensor = 0.5) -> Tensor:
        r"""Differentiable samples :math:`v \cdot \mathrm{softmax}((\mathrm{logits} + g) / \tau)`, g being Gumbel.

        They lie between the values, not on them, which is why this is not called rsample; as the temperature falls
        they converge in law to :meth:`sample`.  Gradients reach logits and values.  A tensor of temperatures goes with
        the batch shape.
        """
        check_temperature(temperature)
        if isinstance(temperature, Tensor):
            if not broadcasts_to(temperature.shape, self.batch_shape):
                allowed = f"one number, or of a shape that broadcasts to the batch {tuple(self.batch_shape)}"
                raise ArgumentError.of("temperature", f"shape {tuple(temperature.shape)}", allowed)
            temperature = temperature.unsqueeze(-1)
        shape = self._extended_shape(_shape(sample_shape))
        key = noise.make_key(noise.draw_seed(device=self.logits.device))
        drawn = noise.gumbel(key, shape.numel(), self.bins, 1, dtype=self.logits.dtype).view(*shape, self.bins)
        return (categorical.relaxed_one_hot(self.logits, drawn, temperature, -1) * self.values).sum(-1)

    def _outcome(self, value: Tensor) -> Tensor:
        """``value`` as a tensor that goes with the batch shape, or an error."""
        value = torch.as_tensor(value, dtype=self.logits.dtype, device=self.logits.device)
        shape = common_shape(value.shape, self.batch_shape)
        if shape is None:
            raise ArgumentError.of(
                "value",
                f"shape {tuple(value.shape)}",
                f"of a shape that goes with the batch {tuple(self.batch_shape)}",
            )
        return value.expand(shape)

    def _sorted(self) -> tuple[Tensor, Tensor]:
        """Values in increasing order and the probabilities beside them, both (..., C)."""
        values, order = self.values.sort(stable=True, dim=-1)
        return values.expand_as(self.probs), self.probs.gather(-1, order.expand_as(self.probs))

    def _merged(self) -> tuple[Tensor, Tensor]:
        """As ``_sorted``, with the mass of equal values gathered on the first of them."""
        values, probs = self._sorted()
        fresh = torch.ones_like(values, dtype=torch.bool)
        fresh[..., 1:] = values.diff(dim=-1) != 0
        first = torch.where(fresh, torch.arange(self.bins, device=values.device), 0).cummax(-1).values
        return values, torch.zeros_like(probs).scatter_add(-1, first, probs)


def _floating(name: str, tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ArgumentError.of(name, got, "a floating-point tensor")
    return tensor


def _shape(sample_shape: Sequence[int]) -> Size:
    try:
        return Size(sample_shape)
    except TypeError:
        raise ArgumentError.of("sample_shape", repr(sample_shape), "a shape, such as (5,)") from None


def _check_shapes(logits: Size, values: Size) -> None:
    """The three shapes that values may have, and no silent broadcast beyond them."""
    if len(logits) < 1 or logits[-1] < 2:
        raise ArgumentError.of("logits", f"shape {tuple(logits)}", "of shape (..., C) with C, the bins, at least 2")
    if len(values) == 1:
        good = values[0] == logits[-1]
    elif len(values) == len(logits):
        good = values[-1] == logits[-1] and all(v in (1, n) for v, n in zip(values[:-1], logits[:-1], strict=True))
    else:
        good = len(values) == 2 and values == logits[-2:]
    if not good:
        bins = logits[-1]
        neurons = f", ({logits[-2]}, {bins})" if len(logits) > 2 else ""
        raise ArgumentError.of(
            "values",
            f"shape {tuple(values)}",
            f"of shape ({bins},){neurons} or, axis by axis, 1 or that of logits {tuple(logits)}",
        )
