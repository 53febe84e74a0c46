"""Sampling and KL of a layer of quantized latents: one operation, several backends, chosen here and per call.

A backend is a function (logits, values, log_prior, temperature, noise) -> (z, kl) that takes checked tensors, all of
one rank: logits as they came, which may be in half precision, the others in the dtype that is computed in.  It is right
when, on the outputs and on every gradient, ``|backend - ref64| <= 2 |ref32 - ref64| + atol``;
``tests/contracts/backends.py`` holds it to that.
"""

import functools
import importlib.util
import warnings
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from squad.core.categorical import working_dtype
from squad.core.checks import broadcasts_to, check_choice, check_temperature
from squad.core.noise import Key, make_key
from squad.errors import ArgumentError
from squad.ops import eager, reference

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendName",
    "has_triton",
    "sample_factorized",
    "sample_with_kl",
    "serves_factorized",
]

Backend: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor | float, Tensor | Key], tuple[Tensor, Tensor]]
BackendName: TypeAlias = Literal["auto", "compile", "eager", "reference", "triton"]


def _compiled(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor | Key
) -> tuple[Tensor, Tensor]:
    from squad.ops import compiled  # brings half of torch's compiler along

    return compiled.sample_with_kl(logits, values, log_prior, temperature, noise)


def _fused(
    logits: Tensor,
    values: Tensor,
    log_prior: Tensor,
    temperature: Tensor | float,
    noise: Tensor | Key,
    *,
    bias: Tensor | None = None,
    total: bool = False,
) -> tuple[Tensor, Tensor]:
    from squad.ops import triton_sample  # needs Triton, which is not on every machine

    return triton_sample.sample_with_kl(logits, values, log_prior, temperature, noise, bias=bias, total=total)


BACKENDS: dict[str, Backend] = {
    "compile": _compiled,
    "eager": eager.sample_with_kl,
    "reference": reference.sample_with_kl,
    "triton": _fused,
}


@functools.cache
def has_triton() -> bool:
    """Whether Triton can be used: torch brings it along where there is CUDA.  Imports it, so ask where it is needed."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        import triton.language  # noqa: F401
    except Exception as error:  # whatever a broken installation may raise
        warnings.warn(f"Triton cannot be imported ({error}); plain torch serves instead.", RuntimeWarning, stacklevel=2)
        return False
    return True


def choose_backend(name: BackendName, device: torch.device) -> Backend:
    """The backend of a call; "auto" is the fastest that serves it without a compiler's seconds."""
    check_choice("backend", name, ("auto", *BACKENDS))
    if name in ("auto", "triton") and torch.compiler.is_compiling():
        # torch.compile fuses the plain formulas and derives their gradient; a hand-written one is in its way.
        return BACKENDS["reference"]
    if name == "auto":
        return BACKENDS["triton" if device.type == "cuda" and has_triton() else "eager"]
    if name == "triton" and not has_triton():
        raise ArgumentError.of(
            "backend", name, "one that is installed and can be imported", 'pip install triton, or take "auto".'
        )
    return BACKENDS[name]


def serves_factorized(x: Tensor, weight: Tensor, values: Tensor, backend: BackendName) -> bool:
    """Whether :func:`sample_factorized` serves a layer with these W'' and values, asked for ``x``."""
    if choose_backend(backend, x.device) is not _fused or x.numel() == 0:
        return False
    from squad.ops import triton_factorized, triton_launch

    members, _, rank, _ = weight.shape
    single = working_dtype(x, weight, values) == torch.float32
    small = members <= triton_launch.MEMBERS and rank <= triton_factorized.RANKS
    return single and small and (x.is_cuda or triton_launch.INTERPRETED)


def sample_factorized(
    inner: Tensor,
    inner_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    values: Tensor,
    log_prior: Tensor,
    temperature: float | Tensor,
    key: Key,
    total: bool = False,
) -> tuple[Tensor, Tensor]:
    """As :func:`sample_with_kl` for logits W'' (inner + b') + b'' that are not written: by kernels, where they serve.

    Args:
        inner: W' x, (M, N, K or 1, B).
        inner_bias: b', (M, K or 1, B).
        weight: W'', (M, K, B, C).
        bias: b'', (M, K, C).
        values: (M or 1, C, K or 1).
        log_prior: as values.
        temperature: a number, or a tensor () or (M,).
        key: () or (M,).
        total: as there.

    Returns:
        z, (M, N, K), and kl, the same or (M, N), in float32.
    """
    _check_fixed(log_prior=log_prior, temperature=temperature)
    check_temperature(temperature)
    if not serves_factorized(inner, weight, values, "triton") or len(inner) != len(weight):
        got = f"{inner.dtype} of shape {tuple(inner.shape)} on {inner.device} for weights {tuple(weight.shape)}"
        raise ArgumentError.of("inner", got, "what serves_factorized takes", "Write the logits, for sample_with_kl.")
    from squad.ops import triton_factorized

    if not isinstance(temperature, Tensor):
        temperature = torch.full((), temperature, device=inner.device)
    return triton_factorized.sample_with_kl(
        inner,
        inner_bias,
        weight,
        bias,
        values.float(),
        log_prior.float(),
        temperature.to(device=inner.device, dtype=torch.float32).reshape(-1),
        key,
        total=total,
    )


def sample_with_kl(
    logits: Tensor,
    values: Tensor,
    log_prior: Tensor,
    temperature: float | Tensor,
    *,
    seed: int | Tensor | None = None,
    step: int | Tensor = 0,
    noise: Tensor | None = None,
    bias: Tensor | None = None,
    total: bool = False,
    backend: BackendName = "auto",
) -> tuple[Tensor, Tensor]:
    r"""Relaxed samples of quantized latents, and their KL to a prior on the same bins.

    .. math:: z_k = v \cdot \mathrm{softmax}_c((\mathrm{logits} + g) / \tau), \qquad
              \mathrm{kl}_k = \sum_c p_{ck} (\log p_{ck} - \log r_{ck}), \quad p = \mathrm{softmax}_c(\mathrm{logits})

    Args:
        logits: (..., C, K), bins before neurons; with members (M, ..., C, K).  -inf is a bin without mass.
        values: (C, 1) or (C, K), or of the rank of logits with leading axes of 1 or those of logits.
        log_prior: log r, shaped by the same rule; finite wherever a logit is.
        temperature: a positive number, or a tensor () or (M,).
        seed: names the noise (``squad.core.noise``): a whole number or an integer tensor, () or (M,).  With (M,) the
            first axis of logits is that of the members, and each draws by its own seed.  Rows are counted over the
            axes in between.
        step: names it further, so that one seed serves a whole training run; shaped as seed.
        noise: Gumbel noise instead of a seed: (C, K) for all rows, or of the rank of logits, axes of 1 being shared.
        bias: added to the logits, (C, K), or of their rank with leading axes of 1 or members: a kernel adds it as it
            reads them.
        total: return the KL summed over the latents, (...,).
        backend: "auto", "eager", "reference", "triton" (fused kernels for a GPU), or "compile" (torch.compile, for long
            runs with fixed shapes).

    Returns:
        z of shape (..., K) in the dtype of logits, and kl of the same shape in float32 or better.  Gradients reach
        logits, bias and values.
    """
    for name, tensor in (
        ("logits", logits),
        ("values", values),
        ("log_prior", log_prior),
        ("noise", noise),
        ("bias", bias),
    ):
        if not isinstance(tensor, Tensor) and not (name in ("noise", "bias") and tensor is None):
            raise ArgumentError.of(name, type(tensor).__name__, "a tensor")
    if bias is not None and (not bias.is_floating_point() or bias.device != logits.device):
        raise ArgumentError.of("bias", f"{bias.dtype} on {bias.device}", f"floating, on {logits.device} as logits are")
    if logits.dim() < 2 or not logits.is_floating_point() or logits.shape[-2] < 2:
        got = f"{logits.dtype} of shape {tuple(logits.shape)}"
        raise ArgumentError.of("logits", got, "floating, of shape (..., C, K) with C >= 2")
    _check_fixed(log_prior=log_prior, temperature=temperature, noise=noise)
    check_temperature(temperature)
    dtype = working_dtype(logits, values)
    serve = choose_backend(backend, logits.device)
    rest = (
        _fitted("values", values, logits).to(dtype),
        _fitted("log_prior", log_prior, logits).to(dtype),
        _temperature(temperature, logits, dtype),
        _noise(noise, seed, step, logits),
    )
    bias = None if bias is None else _fitted("bias", bias, logits).to(dtype)
    if serve is _fused:
        z, kl = _fused(logits, *rest, bias=bias, total=total)
        return z.to(logits.dtype), kl
    z, kl = serve(logits if bias is None else logits.to(dtype) + bias, *rest)
    return z.to(logits.dtype), kl.sum(-1) if total else kl


def _check_fixed(**tensors: Tensor | float | None) -> None:
    """That none requires a gradient: some backends would give it, others not."""
    for name, fixed in tensors.items():
        if isinstance(fixed, Tensor) and fixed.requires_grad and torch.is_grad_enabled():
            hint = "Gradients reach logits, bias and values alone; detach it."
            raise ArgumentError.of(name, "one that requires a gradient", "fixed", hint)


def _fitted(name: str, tensor: Tensor, logits: Tensor) -> Tensor:
    """``tensor``, (C, 1 or K) or of the rank of logits, in the rank of logits."""
    *lead, bins, neurons = logits.shape
    if tensor.dim() == 2:
        tensor = tensor[(None,) * len(lead)]
    good = tensor.dim() == logits.dim() and tensor.shape[-2] == bins and broadcasts_to(tensor.shape, logits.shape)
    if not good:
        allowed = (
            f"of shape ({bins}, 1), ({bins}, {neurons}) or, axis by axis, 1 or that of logits {tuple(logits.shape)}"
        )
        raise ArgumentError.of(name, f"shape {tuple(tensor.shape)}", allowed)
    return tensor


def _temperature(temperature: float | Tensor, logits: Tensor, dtype: torch.dtype) -> float | Tensor:
    """A number, a tensor (), or one a member in the rank of logits."""
    if not isinstance(temperature, Tensor):
        return float(temperature)
    if temperature.dim() and (logits.dim() < 3 or temperature.shape != logits.shape[:1]):
        allowed = "one number" + (f", or of shape ({logits.shape[0]},), one a member" if logits.dim() > 2 else "")
        raise ArgumentError.of("temperature", f"shape {tuple(temperature.shape)}", allowed)
    temperature = temperature.to(device=logits.device, dtype=dtype)
    return temperature.view(-1, *(1,) * (logits.dim() - 1)) if temperature.dim() else temperature


def _noise(noise: Tensor | None, seed: int | Tensor | None, step: int | Tensor, logits: Tensor) -> Tensor | Key:
    """The explicit noise or the key of it, whichever was given."""
    if (noise is None) == (seed is None):
        raise ArgumentError.of(
            "noise", "both" if noise is not None else "neither", "given, or else seed: one of the two"
        )
    if noise is not None:
        if noise.dim() not in (0, 1, 2, logits.dim()) or not broadcasts_to(noise.shape, logits.shape):
            allowed = f"broadcastable to {tuple(logits.shape)}, and of its rank or of 2 at most"
            raise ArgumentError.of("noise", f"shape {tuple(noise.shape)}", allowed)
        return noise
    assert seed is not None
    key = make_key(seed, step, logits.device)
    if key.seed.dim() and (logits.dim() < 3 or logits.shape[0] != len(key.seed)):
        got = f"shape {tuple(key.seed.shape)} for logits {tuple(logits.shape)}"
        raise ArgumentError.of("seed", got, "one a member, or a single one")
    return key
