"""The operation through torch.compile, for long runs with fixed shapes: seconds for each shape, then fewer passes.

torch.compile makes a few loops of the formulas, forward and backward; everything else is eager's: the raw bits of the
noise, whose products overflow, which C++ leaves undefined; what is kept; the gradient of the gradient.  It needs a C++
compiler.  Without one, or if anything else fails, or the compiled numbers are not eager's, eager serves from then on,
and one warning says so.
"""

import itertools
import threading
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from squad.core import categorical
from squad.core.noise import Key, gumbel_of
from squad.core.noise import bits as noise_bits
from squad.ops import eager, reference
from squad.ops.triton_launch import all_in_memory

__all__ = ["sample_with_kl"]

#: Shapes to be compiled at the most in a process; what comes after is left to eager.
SHAPES = 32
#: A batch smaller than a compiled one is the rest of an epoch, and is filled up; one that comes so often is no rest.
IN_A_ROW = 64

Shape: TypeAlias = tuple[object, ...]


def sample_with_kl(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor | Key
) -> tuple[Tensor, Tensor]:
    """As :func:`squad.ops.sample_with_kl`, on checked tensors (..., C, K)."""
    if torch.compiler.is_compiling():
        return reference.sample_with_kl(logits, values, log_prior, temperature, noise)
    wide = logits.to(values.dtype)
    if not _serves(wide, values, temperature, noise):
        return eager.sample_with_kl(logits, values, log_prior, temperature, noise)
    if not isinstance(temperature, Tensor):
        temperature = torch.full((), temperature, dtype=wide.dtype, device=wide.device)
    drawn = noise.to(wide.dtype) if isinstance(noise, Tensor) else _bits(noise, wide)
    # Memory in one order: torch.compile would compile anew for every other.
    inputs = Inputs(*(x.contiguous() for x in (wide, values, log_prior, temperature, drawn)))
    with _lock:
        found = _find(inputs)
    if found is None:
        return eager.sample_with_kl(logits, values, log_prior, temperature, noise)
    size, kernels = found
    rows = inputs.rows
    try:
        z, kl, *_ = _Compiled.apply(*inputs.padded(size - rows).tensors, kernels)  # type: ignore[no-untyped-call]
    except Exception as error:  # it may want to compile anew, for a reason of its own
        _state.fail(error)
        return eager.sample_with_kl(logits, values, log_prior, temperature, noise)
    return (z, kl) if size == rows else (z[..., :rows, :], kl[..., :rows, :])


def _bits(key: Key, logits: Tensor) -> Tensor:
    """The raw bits of the noise for ``logits``."""
    *lead, bins, neurons = logits.shape
    rows = torch.Size(lead[key.seed.dim() :]).numel()
    return noise_bits(key, rows, bins, neurons).view(logits.shape)


def _serves(logits: Tensor, values: Tensor, temperature: Tensor | float, noise: Tensor | Key) -> bool:
    """Whether this call is one to compile: float32, with rows, nothing that torch.func or others have wrapped."""
    if _state.failed or logits.dtype != torch.float32 or logits.dim() < 3 or logits.numel() == 0:
        return False
    tensors = [logits, values, temperature, *(noise if isinstance(noise, Key) else [noise])]
    try:  # what vmap or grad of torch.func wraps has no memory of its own
        return all(type(x) in (Tensor, nn.Parameter) and x.data_ptr() != 0 for x in tensors if isinstance(x, Tensor))
    except RuntimeError:
        return False


@dataclass(frozen=True)
class Inputs:
    """What a kernel takes: ``drawn`` is the Gumbel noise, or its raw bits."""

    logits: Tensor
    values: Tensor
    log_prior: Tensor
    temperature: Tensor
    drawn: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """In the order of the operation."""
        return self.logits, self.values, self.log_prior, self.temperature, self.drawn

    @property
    def rows(self) -> int:
        """The axis that may be filled up."""
        return self.logits.shape[-3]

    @property
    def shape(self) -> Shape:
        """What must agree for one compiled kernel to serve, the number of rows aside."""
        parts: list[object] = [self.logits.device]
        for x in self.tensors:
            whole = self.has_rows(x)
            # torch.compile looks at strides even along axes of 1.
            sizes = [None if whole and axis == x.dim() - 3 else size for axis, size in enumerate(x.shape)]
            parts.append((tuple(sizes), x.dtype, () if whole else x.stride()))
        return tuple(parts)

    def has_rows(self, x: Tensor) -> bool:
        """Whether x has a row for each of those of the logits."""
        if x is self.logits or not x.is_floating_point():  # raw bits have all
            return True
        return x.dim() == self.logits.dim() and x.shape[-3] > 1

    def padded(self, more: int) -> "Inputs":
        """With so many rows of zeros added; their results are cut off, so that what they add to any gradient is 0."""
        if not more:
            return self
        pad = (0, 0, 0, 0, 0, more)
        # A temperature of 0 would make a NaN of them.
        values = (1.0 if x is self.temperature else 0.0 for x in self.tensors)
        return Inputs(
            *(F.pad(x, pad, value=v) if self.has_rows(x) else x for x, v in zip(self.tensors, values, strict=True))
        )


@dataclass(frozen=True)
class Kernels:
    """One compiled shape."""

    forward: Callable[..., tuple[Tensor, ...]]
    backward: Callable[..., tuple[Tensor, Tensor]]


@dataclass
class _State:
    """What was compiled, and what was said.

    Attributes:
        kernels: for each shape those by the number of rows.
        smaller: for each shape the last number of rows that was filled up, and how many times in a row.
        failed: whether eager serves everything.
        said: the warnings there were.
    """

    kernels: dict[Shape, dict[int, Kernels]] = field(default_factory=dict)
    smaller: dict[Shape, tuple[int, int]] = field(default_factory=dict)
    failed: bool = False
    said: set[str] = field(default_factory=set)

    def warn(self, reason: str) -> None:
        """Once a process and reason."""
        if reason not in self.said:
            self.said.add(reason)
            warnings.warn(f'backend="compile": {reason}; "eager" serves instead.', RuntimeWarning, stacklevel=6)

    def fail(self, error: Exception) -> None:
        """From now on eager serves."""
        self.failed = True
        self.warn(f"torch.compile failed ({type(error).__name__}: {str(error).strip().partition(chr(10))[0]})")


_state = _State()
#: Threads that ask for one shape compile it once.
_lock = threading.RLock()
_numbers = itertools.count()


def _find(inputs: Inputs) -> tuple[int, Kernels] | None:
    """Kernels for these inputs, and their number of rows; compiled if need be, None if they cannot be had."""
    shape = inputs.shape
    compiled = _state.kernels.get(shape, {})
    rows = inputs.rows
    if rows in compiled:
        _state.smaller.pop(shape, None)
        return rows, compiled[rows]
    larger = min((size for size in compiled if size > rows), default=None)
    if larger is not None:
        last, times = _state.smaller.get(shape, (rows, 0))
        times = times + 1 if last == rows else 1
        _state.smaller[shape] = rows, times
        if times <= IN_A_ROW:
            return larger, compiled[larger]
    if sum(map(len, _state.kernels.values())) >= SHAPES:
        _state.warn(f"{SHAPES} shapes were compiled, and no more are")
        return None
    try:
        compiled[rows] = _compile(inputs)
        _state.kernels[shape] = compiled
    except Exception as error:  # whatever a compiler may fail with
        _state.fail(error)
        return None
    return rows, compiled[rows]


def _compile(inputs: Inputs) -> Kernels:
    """Kernels for these inputs, tried out against eager."""
    raw = not inputs.drawn.is_floating_point()
    kernels = Kernels(_compiled(_forward_of_bits if raw else _forward), _compiled(_backward))
    logits, values, log_prior, temperature, drawn = (x.detach() for x in inputs.tensors)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch about itself, while its compiler starts
        plain = eager.forward(logits, values, log_prior, temperature, gumbel_of(drawn) if raw else drawn)
        z, kl, y, slope = kernels.forward(logits, values, log_prior, temperature, drawn)
        kernels.backward(values, temperature, z, y, slope, torch.ones_like(z), torch.ones_like(kl))
    same = (torch.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True) for a, b in zip((z, kl), plain, strict=False))
    if not all(same):
        raise ArithmeticError("the compiled numbers are not those of eager")
    return kernels


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile of a function by another name: it counts by code how often something was compiled, and gives up."""
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(_numbers)}")
    return torch.compile(types.FunctionType(code, function.__globals__), fullgraph=True, dynamic=False)


def _forward(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor, noise: Tensor
) -> tuple[Tensor, ...]:
    """As eager.forward, in sums without normalization: a compiler works out exponentials anew in every loop."""
    shifted = categorical.floored(logits - logits.amax(-2, keepdim=True))
    weights = shifted.exp()
    total = weights.sum(-2, keepdim=True)
    ratio = shifted - categorical.floored(log_prior)
    mean = (weights * ratio).sum(-2, keepdim=True) / total
    kl = (mean - total.log()).squeeze(-2)
    slope = weights * (ratio - mean) / total
    noisy = (logits + noise) * (1 / temperature)
    relaxed = (noisy - noisy.amax(-2, keepdim=True)).exp()
    total = relaxed.sum(-2, keepdim=True)
    z = ((relaxed * values).sum(-2, keepdim=True) / total).squeeze(-2)
    return z, categorical.nonnegative(kl), relaxed / total, slope


def _forward_of_bits(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor, drawn: Tensor
) -> tuple[Tensor, ...]:
    """The same, with noise from its raw bits."""
    return _forward(logits, values, log_prior, temperature, gumbel_of(drawn))


def _backward(
    values: Tensor, temperature: Tensor, z: Tensor, y: Tensor, slope: Tensor, grad_z: Tensor, grad_kl: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of logits and values."""
    weighted = y * grad_z.unsqueeze(-2)
    grad_logits = eager.grad_of_logits(values, temperature, z, slope, weighted, grad_kl)
    return grad_logits, eager.sum_to(weighted, values.shape)


class _Compiled(eager.SampleWithKL):
    """Eager's, with compiled kernels where they serve: for both gradients at once, once."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        *tensors, kernels = inputs
        # Detached: torch.compile would compile anew for a tensor that requires a gradient.
        return tuple(kernels.forward(*(x.detach() for x in tensors)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        eager.SampleWithKL.setup_context(ctx, inputs, output)
        ctx.kernels = inputs[-1]

    @staticmethod
    def backward(ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        both = ctx.needs_input_grad[0] and ctx.needs_input_grad[1]
        plain = torch.is_grad_enabled() or not all_in_memory(grad_z, grad_kl)  # a compiler cannot see what is mapped
        if grad_z is None or grad_kl is None or not both or plain:
            return eager.SampleWithKL.backward(ctx, grad_z, grad_kl)
        _, values, _, z, y, slope, temperature = ctx.saved_tensors
        saved = (x.detach() for x in (values, temperature, z, y, slope))
        try:
            grads = ctx.kernels.backward(*saved, grad_z.contiguous(), grad_kl.contiguous())
        except Exception as error:
            _state.fail(error)
            return eager.SampleWithKL.backward(ctx, grad_z, grad_kl)
        return *grads, None, None, None, None
