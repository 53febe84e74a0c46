"""Sampling and KL of a layer of quantized latents: one operation with several backends, chosen per call.

A backend is a function (logits, values, log_prior, temperature, noise) -> (z, kl) of validated tensors of equal rank.
The logits may be in half precision; the other tensors have the dtype of the computation.  A backend is correct if its
outputs and all gradients satisfy ``|backend - ref64| <= 2 |ref32 - ref64| + atol``, which
``tests/contracts/backends.py`` checks.
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


def _compile_backend(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor | Key
) -> tuple[Tensor, Tensor]:
    from squad.ops import compiled  # imports much of torch's compiler

    return compiled.sample_with_kl(logits, values, log_prior, temperature, noise)


def _triton_backend(
    logits: Tensor,
    values: Tensor,
    log_prior: Tensor,
    temperature: Tensor | float,
    noise: Tensor | Key,
    *,
    bias: Tensor | None = None,
    total: bool = False,
) -> tuple[Tensor, Tensor]:
    from squad.ops import triton_sample  # needs Triton, which is not installed everywhere

    return triton_sample.sample_with_kl(logits, values, log_prior, temperature, noise, bias=bias, total=total)


BACKENDS: dict[str, Backend] = {
    "compile": _compile_backend,
    "eager": eager.sample_with_kl,
    "reference": reference.sample_with_kl,
    "triton": _triton_backend,
}


@functools.cache
def has_triton() -> bool:
    """Return whether Triton can be imported, by importing it: call this function only where kernels are needed.

    torch installs Triton together with CUDA.  If it is installed but broken, a warning is issued.

    Examples:
        >>> isinstance(has_triton(), bool)
        True
    """
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        import triton.language  # noqa: F401
    except Exception as error:  # a broken installation may raise anything
        warnings.warn(f"Triton cannot be imported ({error}); using plain torch instead.", RuntimeWarning, stacklevel=2)
        return False
    return True


def choose_backend(name: BackendName, device: torch.device) -> Backend:
    """Return the backend for a call; "auto" is the fastest one that needs no compilation by torch.compile."""
    check_choice("backend", name, ("auto", *BACKENDS))
    if name in ("auto", "triton") and torch.compiler.is_compiling():
        # torch.compile fuses the plain formulas and derives their gradient better than custom autograd functions.
        return BACKENDS["reference"]
    if name == "auto":
        return BACKENDS["triton" if device.type == "cuda" and has_triton() else "eager"]
    if name == "triton" and not has_triton():
        raise ArgumentError(f'backend="{name}" needs Triton. Run `pip install triton`, or use backend="auto".')
    return BACKENDS[name]


def serves_factorized(x: Tensor, weight: Tensor, values: Tensor, backend: BackendName) -> bool:
    """Return whether :func:`sample_factorized` supports an input and a layer.

    Args:
        x: Input of the layer, any shape; its device and dtype decide.
        weight: W'', shape (M, K, B, C).
        values: Bin values, shape (M or 1, C, K or 1).
        backend: Backend that the user chose, such as "auto".

    Returns:
        True if the backend resolves to the Triton kernels on this device, and these handle the sizes and dtypes.

    Examples:
        >>> import torch
        >>> serves_factorized(torch.ones(2, 5), torch.ones(1, 3, 4, 7), torch.ones(1, 7, 1), "eager")
        False
    """
    if choose_backend(backend, x.device) is not _triton_backend or x.numel() == 0:
        return False
    from squad.ops import triton_factorized, triton_launch

    members, _, rank, _ = weight.shape
    is_float32 = working_dtype(x, weight, values) == torch.float32
    fits = members <= triton_launch.MAX_MEMBERS and rank <= triton_factorized.MAX_RANK
    return is_float32 and fits and (x.is_cuda or triton_launch.INTERPRETED)


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
    """Compute :func:`sample_with_kl` for factorized logits W'' (inner + b') + b'', without materializing them.

    Args:
        inner: W' x, shape (M, N, K or 1, B).
        inner_bias: b', shape (M, K or 1, B).
        weight: W'', shape (M, K, B, C).
        bias: b'', shape (M, K, C).
        values: Bin values, shape (M or 1, C, K or 1).
        log_prior: Log prior, same shapes as ``values``.
        temperature: Temperature: a number, or a tensor of shape () or (M,).
        key: Key of the noise, shape () or (M,).
        total: Whether to sum the KL over the latents.

    Returns:
        z of shape (M, N, K), and the KL of the same shape, or (M, N) with ``total``; both in float32.

    Raises:
        ArgumentError: If :func:`serves_factorized` is false for these tensors.
    """
    _check_no_grad(log_prior=log_prior, temperature=temperature)
    check_temperature(temperature)
    if not serves_factorized(inner, weight, values, "triton") or len(inner) != len(weight):
        got = f"{inner.dtype} of shape {tuple(inner.shape)} on {inner.device} for weights {tuple(weight.shape)}"
        hint = "Compute the logits and call sample_with_kl."
        raise ArgumentError.of("inner", got, "supported by the kernels (see serves_factorized)", hint)
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
    r"""Draw relaxed samples of quantized latents, and compute their KL to a prior on the same bins.

    .. math:: z_k = v \cdot \mathrm{softmax}_c((\mathrm{logits} + g) / \tau), \qquad
              \mathrm{kl}_k = \sum_c p_{ck} (\log p_{ck} - \log r_{ck}), \quad p = \mathrm{softmax}_c(\mathrm{logits})

    g is Gumbel noise; z is a Gumbel-softmax (Concrete) relaxation of a sample of the bin values.

    Args:
        logits: Logits of shape (..., C, K), bins before neurons; with members (M, ..., C, K).  A logit of -inf is a bin
            without mass.
        values: Bin values, shape (C, 1) or (C, K), or the rank of logits with leading axes of 1 or those of logits.
        log_prior: Log prior log r, same shapes as ``values``; finite wherever a logit is.
        temperature: Temperature τ: a positive number, or a tensor of shape () or (M,).
        seed: Seed of the noise (``squad.core.noise``): an integer, or an integer tensor of shape () or (M,).  With (M,)
            the first axis of logits enumerates the members, and each uses its own seed.  Rows are numbered over the
            axes in between.
        step: Counter combined with the seed, so that one seed serves a whole training run; same shapes as ``seed``.
        noise: Gumbel noise instead of a seed: (C, K) for all rows, or the rank of logits, where axes of 1 broadcast.
        bias: Added to the logits: (C, K), or the rank of logits with leading axes of 1 or M.  A fused kernel adds it
            while reading the logits.
        total: Whether to sum the KL over the latents.
        backend: "auto", "eager", "reference", "triton" (fused kernels for a GPU), or "compile" (torch.compile, for long
            runs with fixed shapes).

    Returns:
        z of shape (..., K) in the dtype of logits, and the KL in nats, in float32 or better: shape (..., K), or (...,)
        with ``total``.  Gradients flow to logits, bias and values.

    Raises:
        ArgumentError: If shapes or dtypes do not match, a temperature is not positive, not exactly one of ``seed`` and
            ``noise`` is given, or the backend is not available.

    See Also:
        SquadLinear.sample_with_kl: The same as a method of a layer.
        squad.Quantized.relaxed: Relaxed samples of a distribution.

    References:
        Veeling, van den Berg, Welling. "Predictive Uncertainty through Quantization", 2018. arXiv:1810.05500.
        Jang, Gu, Poole. "Categorical Reparameterization with Gumbel-Softmax", 2017.
        Maddison, Mnih, Teh. "The Concrete Distribution: A Continuous Relaxation of Discrete Random Variables", 2017.

    Examples:
        >>> import torch
        >>> from squad.ops import sample_with_kl
        >>> values = torch.linspace(-1, 1, 3).unsqueeze(-1)
        >>> log_prior = torch.full((3, 1), 1 / 3).log()
        >>> z, kl = sample_with_kl(torch.zeros(5, 3, 2), values, log_prior, temperature=0.5, seed=1)
        >>> z.shape, kl.shape  # 5 rows, 2 latents
        (torch.Size([5, 2]), torch.Size([5, 2]))
        >>> bool((kl < 1e-6).all())  # equal logits are the uniform prior
        True
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
        allowed = f"a floating-point tensor on {logits.device}, the device of logits"
        raise ArgumentError.of("bias", f"{bias.dtype} on {bias.device}", allowed)
    if logits.dim() < 2 or not logits.is_floating_point() or logits.shape[-2] < 2:
        got = f"{logits.dtype} of shape {tuple(logits.shape)}"
        raise ArgumentError.of("logits", got, "a floating-point tensor of shape (..., C, K) with C >= 2")
    _check_no_grad(log_prior=log_prior, temperature=temperature, noise=noise)
    check_temperature(temperature)
    dtype = working_dtype(logits, values)
    chosen = choose_backend(backend, logits.device)
    rest = (
        _align("values", values, logits).to(dtype),
        _align("log_prior", log_prior, logits).to(dtype),
        _align_temperature(temperature, logits, dtype),
        _noise_or_key(noise, seed, step, logits),
    )
    bias = None if bias is None else _align("bias", bias, logits).to(dtype)
    if chosen is _triton_backend:
        z, kl = _triton_backend(logits, *rest, bias=bias, total=total)
        return z.to(logits.dtype), kl
    z, kl = chosen(logits if bias is None else logits.to(dtype) + bias, *rest)
    return z.to(logits.dtype), kl.sum(-1) if total else kl


def _check_no_grad(**tensors: Tensor | float | None) -> None:
    """Raise if one of the tensors requires a gradient, which only some backends would compute."""
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and tensor.requires_grad and torch.is_grad_enabled():
            raise ArgumentError(
                f"{name} must not require a gradient: gradients flow only to logits, bias and values. Detach it."
            )


def _align(name: str, tensor: Tensor, logits: Tensor) -> Tensor:
    """Return ``tensor``, of shape (C, 1 or K) or the rank of logits, with the rank of logits."""
    *lead, bins, neurons = logits.shape
    if tensor.dim() == 2:
        tensor = tensor[(None,) * len(lead)]
    fits = tensor.dim() == logits.dim() and tensor.shape[-2] == bins and broadcasts_to(tensor.shape, logits.shape)
    if not fits:
        shape = tuple(logits.shape)
        allowed = f"of shape ({bins}, 1), ({bins}, {neurons}) or, axis by axis, 1 or the size in logits {shape}"
        raise ArgumentError.of(name, f"shape {tuple(tensor.shape)}", allowed)
    return tensor


def _align_temperature(temperature: float | Tensor, logits: Tensor, dtype: torch.dtype) -> float | Tensor:
    """Return a number, a tensor of shape (), or one temperature per member with the rank of logits."""
    if not isinstance(temperature, Tensor):
        return float(temperature)
    if temperature.dim() and (logits.dim() < 3 or temperature.shape != logits.shape[:1]):
        per_member = f", or of shape ({logits.shape[0]},), one per member" if logits.dim() > 2 else ""
        raise ArgumentError.of("temperature", f"shape {tuple(temperature.shape)}", f"a single number{per_member}")
    temperature = temperature.to(device=logits.device, dtype=dtype)
    return temperature.view(-1, *(1,) * (logits.dim() - 1)) if temperature.dim() else temperature


def _noise_or_key(noise: Tensor | None, seed: int | Tensor | None, step: int | Tensor, logits: Tensor) -> Tensor | Key:
    """Return the explicit noise, or the key made from seed and step."""
    if noise is not None and seed is not None:
        raise ArgumentError("Pass either `noise` or `seed`, not both.")
    if noise is None and seed is None:
        raise ArgumentError("Pass `noise` or `seed`, got neither.")
    if noise is not None:
        if noise.dim() not in (0, 1, 2, logits.dim()) or not broadcasts_to(noise.shape, logits.shape):
            allowed = f"broadcastable to {tuple(logits.shape)}, and of the same rank or at most 2-dimensional"
            raise ArgumentError.of("noise", f"shape {tuple(noise.shape)}", allowed)
        return noise
    assert seed is not None
    key = make_key(seed, step, logits.device)
    if key.seed.dim() and (logits.dim() < 3 or logits.shape[0] != len(key.seed)):
        got = f"shape {tuple(key.seed.shape)} for logits {tuple(logits.shape)}"
        raise ArgumentError.of("seed", got, "a single integer, or one per member")
    return key
