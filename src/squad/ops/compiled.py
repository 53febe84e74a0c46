"""Backend through torch.compile, for long runs with fixed shapes: seconds of compilation per shape, then fewer passes.

torch.compile turns the forward and backward formulas into a few loops; everything else is shared with the eager
backend: the raw bits of the noise (their products overflow, which is undefined in C++), the saved tensors, and second
derivatives.  It needs a C++ compiler.  If there is none, if anything else fails, or if the compiled results differ from
eager's, the eager backend is used from then on, and one warning is issued.
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
from squad.core.noise import Key, gumbel_from_bits
from squad.core.noise import bits as noise_bits
from squad.ops import eager, reference
from squad.ops.triton_launch import have_storage

__all__ = ["sample_with_kl"]

#: Maximum number of shapes compiled per process; further shapes use the eager backend.
MAX_SHAPES = 32
#: A batch smaller than a compiled one is taken for the last batch of an epoch and padded; after so many such batches in
#: a row their size is compiled.
MAX_PADDED_IN_A_ROW = 64

Shape: TypeAlias = tuple[object, ...]


def sample_with_kl(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor | Key
) -> tuple[Tensor, Tensor]:
    """Compute :func:`squad.ops.sample_with_kl` for validated tensors of shape (..., C, K).

    The arguments are those of :func:`squad.ops.reference.sample_with_kl`, and so are the results.
    """
    if torch.compiler.is_compiling():
        return reference.sample_with_kl(logits, values, log_prior, temperature, noise)
    wide = logits.to(values.dtype)
    if not _is_supported(wide, values, temperature, noise):
        return eager.sample_with_kl(logits, values, log_prior, temperature, noise)
    if not isinstance(temperature, Tensor):
        temperature = torch.full((), temperature, dtype=wide.dtype, device=wide.device)
    noise_or_bits = noise.to(wide.dtype) if isinstance(noise, Tensor) else _bits(noise, wide)
    # Contiguous: torch.compile would recompile for every other memory layout.
    inputs = Inputs(*(x.contiguous() for x in (wide, values, log_prior, temperature, noise_or_bits)))
    with _lock:
        match = _find_kernels(inputs)
    if match is None:
        return eager.sample_with_kl(logits, values, log_prior, temperature, noise)
    size, kernels = match
    rows = inputs.rows
    try:
        z, kl, *_ = _Compiled.apply(*inputs.padded(size - rows).tensors, kernels)  # type: ignore[no-untyped-call]
    except Exception as error:  # torch may decide to recompile, and fail
        _state.fail(error)
        return eager.sample_with_kl(logits, values, log_prior, temperature, noise)
    return (z, kl) if size == rows else (z[..., :rows, :], kl[..., :rows, :])


def _bits(key: Key, logits: Tensor) -> Tensor:
    """Return the raw bits of the noise for ``logits``."""
    *lead, bins, neurons = logits.shape
    rows = torch.Size(lead[key.seed.dim() :]).numel()
    return noise_bits(key, rows, bins, neurons).view(logits.shape)


def _is_supported(logits: Tensor, values: Tensor, temperature: Tensor | float, noise: Tensor | Key) -> bool:
    """Return whether to compile this call: float32, with rows, and no tensors wrapped by torch.func or subclasses."""
    if _state.failed or logits.dtype != torch.float32 or logits.dim() < 3 or logits.numel() == 0:
        return False
    tensors = [logits, values, temperature, *(noise if isinstance(noise, Key) else [noise])]
    try:  # tensors wrapped by vmap or grad of torch.func have no memory of their own
        return all(type(x) in (Tensor, nn.Parameter) and x.data_ptr() != 0 for x in tensors if isinstance(x, Tensor))
    except RuntimeError:
        return False


@dataclass(frozen=True)
class Inputs:
    """Inputs of a compiled kernel; ``noise_or_bits`` is Gumbel noise or its raw bits."""

    logits: Tensor
    values: Tensor
    log_prior: Tensor
    temperature: Tensor
    noise_or_bits: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, in the order of the operation's arguments."""
        return self.logits, self.values, self.log_prior, self.temperature, self.noise_or_bits

    @property
    def rows(self) -> int:
        """Size of the axis that may be padded."""
        return self.logits.shape[-3]

    @property
    def shape(self) -> Shape:
        """Properties that must be equal to reuse a compiled kernel, except the number of rows."""
        parts: list[object] = [self.logits.device]
        for x in self.tensors:
            has_rows = self.has_rows(x)
            # torch.compile specializes on strides even along axes of size 1.
            sizes = [None if has_rows and axis == x.dim() - 3 else size for axis, size in enumerate(x.shape)]
            parts.append((tuple(sizes), x.dtype, () if has_rows else x.stride()))
        return tuple(parts)

    def has_rows(self, x: Tensor) -> bool:
        """Return whether x has an entry for each row of the logits."""
        if x is self.logits or not x.is_floating_point():  # raw bits always do
            return True
        return x.dim() == self.logits.dim() and x.shape[-3] > 1

    def padded(self, count: int) -> "Inputs":
        """Append ``count`` rows of zeros; their results are cut off, so that they contribute 0 to every gradient."""
        if not count:
            return self
        pad = (0, 0, 0, 0, 0, count)
        # A temperature of 0 would give NaN.
        values = (1.0 if x is self.temperature else 0.0 for x in self.tensors)
        return Inputs(
            *(F.pad(x, pad, value=v) if self.has_rows(x) else x for x, v in zip(self.tensors, values, strict=True))
        )


@dataclass(frozen=True)
class Kernels:
    """The compiled forward and backward functions of one shape."""

    forward: Callable[..., tuple[Tensor, ...]]
    backward: Callable[..., tuple[Tensor, Tensor]]


@dataclass
class _State:
    """Compiled kernels and warnings of this process.

    Attributes:
        kernels: Compiled kernels by shape and number of rows.
        padded: For each shape, the last number of rows that was padded, and how many times in a row.
        failed: Whether the eager backend handles all calls.
        warned: Warnings issued so far.
    """

    kernels: dict[Shape, dict[int, Kernels]] = field(default_factory=dict)
    padded: dict[Shape, tuple[int, int]] = field(default_factory=dict)
    failed: bool = False
    warned: set[str] = field(default_factory=set)

    def warn(self, reason: str) -> None:
        """Issue a warning, once per process and reason."""
        if reason not in self.warned:
            self.warned.add(reason)
            warnings.warn(f'backend="compile": {reason}; using "eager" instead.', RuntimeWarning, stacklevel=6)

    def fail(self, error: Exception) -> None:
        """Use the eager backend from now on, and warn."""
        self.failed = True
        self.warn(f"torch.compile failed ({type(error).__name__}: {str(error).strip().partition(chr(10))[0]})")


_state = _State()
#: Held while kernels are looked up: threads that need the same shape compile it once.
_lock = threading.RLock()
_function_numbers = itertools.count()


def _find_kernels(inputs: Inputs) -> tuple[int, Kernels] | None:
    """Return the number of rows of suitable kernels and the kernels, compiling them if needed; None on failure."""
    shape = inputs.shape
    compiled = _state.kernels.get(shape, {})
    rows = inputs.rows
    if rows in compiled:
        _state.padded.pop(shape, None)
        return rows, compiled[rows]
    larger = min((size for size in compiled if size > rows), default=None)
    if larger is not None:
        last, times = _state.padded.get(shape, (rows, 0))
        times = times + 1 if last == rows else 1
        _state.padded[shape] = rows, times
        if times <= MAX_PADDED_IN_A_ROW:
            return larger, compiled[larger]
    if sum(map(len, _state.kernels.values())) >= MAX_SHAPES:
        _state.warn(f"the limit of {MAX_SHAPES} compiled shapes is reached")
        return None
    try:
        compiled[rows] = _compile(inputs)
        _state.kernels[shape] = compiled
    except Exception as error:  # a compiler may raise anything
        _state.fail(error)
        return None
    return rows, compiled[rows]


def _compile(inputs: Inputs) -> Kernels:
    """Compile kernels for these inputs and compare their results with the eager backend."""
    from_bits = not inputs.noise_or_bits.is_floating_point()
    kernels = Kernels(_torch_compile(_forward_from_bits if from_bits else _forward), _torch_compile(_backward))
    logits, values, log_prior, temperature, noise = (x.detach() for x in inputs.tensors)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's compiler uses deprecated parts of torch
        plain = eager.forward(logits, values, log_prior, temperature, gumbel_from_bits(noise) if from_bits else noise)
        z, kl, y, slope = kernels.forward(logits, values, log_prior, temperature, noise)
        kernels.backward(values, temperature, z, y, slope, torch.ones_like(z), torch.ones_like(kl))
    same = (torch.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True) for a, b in zip((z, kl), plain, strict=False))
    if not all(same):
        raise ArithmeticError("the compiled results differ from those of eager")
    return kernels


def _torch_compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a renamed copy of a function: torch counts recompilations per code object and stops at a limit."""
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(_function_numbers)}")
    return torch.compile(types.FunctionType(code, function.__globals__), fullgraph=True, dynamic=False)


def _forward(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor, noise: Tensor
) -> tuple[Tensor, ...]:
    """Compute eager.forward with unnormalized sums: a compiled loop would recompute exponentials."""
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


def _forward_from_bits(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor, bits: Tensor
) -> tuple[Tensor, ...]:
    """Compute ``_forward`` with the raw bits of the noise."""
    return _forward(logits, values, log_prior, temperature, gumbel_from_bits(bits))


def _backward(
    values: Tensor, temperature: Tensor, z: Tensor, y: Tensor, slope: Tensor, grad_z: Tensor, grad_kl: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of logits and values."""
    weighted = y * grad_z.unsqueeze(-2)
    grad_logits = eager.grad_of_logits(values, temperature, z, slope, weighted, grad_kl)
    return grad_logits, eager.sum_to(weighted, values.shape)


class _Compiled(eager.SampleWithKL):
    """Eager's autograd function, with compiled kernels for first derivatives of both logits and values."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        *tensors, kernels = inputs
        # Detached: torch.compile would recompile for a tensor that requires a gradient.
        return tuple(kernels.forward(*(x.detach() for x in tensors)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        eager.SampleWithKL.setup_context(ctx, inputs, output)
        ctx.kernels = inputs[-1]

    @staticmethod
    def backward(ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        needs_both = ctx.needs_input_grad[0] and ctx.needs_input_grad[1]
        plain = torch.is_grad_enabled() or not have_storage(grad_z, grad_kl)  # vmap's tensors cannot be compiled
        if grad_z is None or grad_kl is None or not needs_both or plain:
            return eager.SampleWithKL.backward(ctx, grad_z, grad_kl)
        _, values, _, z, y, slope, temperature = ctx.saved_tensors
        saved = (x.detach() for x in (values, temperature, z, y, slope))
        try:
            grads = ctx.kernels.backward(*saved, grad_z.contiguous(), grad_kl.contiguous())
        except Exception as error:
            _state.fail(error)
            return eager.SampleWithKL.backward(ctx, grad_z, grad_kl)
        return *grads, None, None, None, None
