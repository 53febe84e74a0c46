"""The operation as two Triton kernels: logits are read once forward and once backward, and nothing of size C is kept.

A program has a tile of rows x neurons and walks along the bins, so that neighbouring lanes read neighbouring words.
Forward keeps, for both softmaxes, a running maximum and sums relative to it; four bins at a time, so that four loads are
under way at once and a moved maximum costs one more exponential in four.  Backward draws the noise again, and needs no
maximum: maxima and sums were saved.  Arithmetic is in float32 and in binary units, in which a machine's exponential is.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803, N806
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from squad.core.noise import Key
from squad.ops import eager, reference
from squad.ops.triton_noise import INTERPRETED, bin_word, keys, log2_exponential, row_word

__all__ = ["sample_with_kl", "serves"]

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
#: Below what has mass; its exponential is 0, and 0 times a finite number is 0.
FLOOR = tl.constexpr(-1e30)

#: Numbers of a tile, and warps for it: (forward, backward).  The interpreter's time goes by the number of tiles.
TILES = (8192, 8192) if INTERPRETED else (128, 128)
WARPS = (1, 1)
#: Bins at a time, backward.
UNROLL = 1


@triton.jit
def floored(x):
    """``x`` with a low number for -inf; NaN stays, as it would not in a maximum."""
    return tl.where(x < FLOOR, FLOOR, x)


@triton.jit
def start(R: tl.constexpr, KB: tl.constexpr):
    """The state of a walk along the bins: maximum, sum and sum of ratios of p; maximum, sum and sum of values of y."""
    low = tl.full((R, KB), 10 * FLOOR, tl.float32)
    zero = tl.zeros((R, KB), tl.float32)
    return low, zero, zero, low, zero, zero


@triton.jit
def four_bins(top, total, ratios, top_y, total_y, sums, inverse, a, b, c, d, e, f, g, h, va, vb, vc, vd, ra, rb, rc, rd):
    """Four further bins.

    Args:
        top, ..., sums: the state.
        inverse: 1 / temperature.
        a, b, c, d: logits.
        e, f, g, h: their Gumbel numbers, in binary units.
        va, ..., vd: values.
        ra, ..., rd: log prior, in binary units.
    """
    higher = tl.maximum(top, tl.maximum(tl.maximum(a, b), tl.maximum(c, d)) * LOG2E)
    moved = top - higher
    scale = tl.exp2(moved)
    # Ratios are relative to the maximum, so they move with it.
    ratios, total = scale * (ratios + moved * total), scale * total
    a2, b2, c2, d2 = a * LOG2E - higher, b * LOG2E - higher, c * LOG2E - higher, d * LOG2E - higher
    pa, pb, pc, pd = tl.exp2(a2), tl.exp2(b2), tl.exp2(c2), tl.exp2(d2)
    total += (pa + pb) + (pc + pd)
    ratios += (pa * (a2 - ra) + pb * (b2 - rb)) + (pc * (c2 - rc) + pd * (d2 - rd))
    e, f, g, h = a * LOG2E + e, b * LOG2E + f, c * LOG2E + g, d * LOG2E + h
    higher_y = tl.maximum(top_y, tl.maximum(tl.maximum(e, f), tl.maximum(g, h)))
    scale = tl.exp2((top_y - higher_y) * inverse)
    # Scaled by the temperature after the subtraction, where little is left to round.
    e, f = tl.exp2((e - higher_y) * inverse), tl.exp2((f - higher_y) * inverse)
    g, h = tl.exp2((g - higher_y) * inverse), tl.exp2((h - higher_y) * inverse)
    total_y = scale * total_y + ((e + f) + (g + h))
    sums = scale * sums + ((e * va + f * vb) + (g * vc + h * vd))
    return higher, total, ratios, higher_y, total_y, sums


@triton.jit
def finish(top, total, ratios, top_y, total_y, sums, inverse):
    """z, kl in nats, and what backward needs.

    For p the maximum and log2 of the sum relative to it, apart, as their sum would round large logits; for y log2 of
    the whole sum, which is rounded no more than (logits + noise) / temperature is.
    """
    log_total = tl.log2(total)
    kl = (ratios / total - log_total) * LN2
    # Rounding errors below zero; what is further below is none, and stays to be seen.
    kl = tl.where((kl < 0) & (kl > -1e-3), 0.0, kl)
    return sums / total_y, kl, top, log_total, top_y * inverse + tl.log2(total_y)


@triton.jit
def slopes(a, gumbel, v, r, inverse, top, log_total, level, z, kl, grad_z, grad_kl):
    """The gradient of a logit, and y times that of z.

    v and z are divided by the temperature, kl and r are in binary units, ``grad_kl`` is times log 2.
    """
    log_p = (a * LOG2E - top) - log_total
    weight = tl.exp2((a * LOG2E + gumbel) * inverse - level) * grad_z
    return tl.exp2(log_p) * (log_p - r - kl) * grad_kl + weight * (v - z), weight


@triton.jit
def where(inside, c, C: tl.constexpr):
    """``inside``, if there is a bin c.  (The interpreter cannot join a mask and a single truth.)"""
    return inside & (c + tl.zeros_like(inside).to(tl.int32) < C)


@triton.jit
def bin_of(table, c, stride_c, k, stride_k, inside, C: tl.constexpr, A_NEURON: tl.constexpr):
    """The number of bin c in a table (C, K or 1); 0 beyond the last bin."""
    if A_NEURON:
        out = tl.load(table + c * stride_c + k * stride_k, where(inside, c, C), 0.0)
    else:
        out = tl.load(table + c * stride_c, c < C, 0.0)
    return out


@triton.jit
def gumbel_of(noise_at, noise_c, row, second, c, inside, C: tl.constexpr, GIVEN: tl.constexpr):
    """The Gumbel numbers of bin c in binary units: given, or drawn."""
    if GIVEN:
        out = tl.load(noise_at + c * noise_c, where(inside, c, C), 0.0).to(tl.float32) * LOG2E
    else:
        out = -log2_exponential(row, bin_word(c, second))
    return out


@triton.jit
def forward_kernel(
    logits, values, log_prior, temperature, seed, step, noise, z_out, kl_out,
    top_out, log_total_out, level_out,
    N, K, columns, rows_m,
    values_m, values_c, values_k, prior_m, prior_c, prior_k, temperature_m, seed_m, step_m,
    noise_m, noise_n, noise_c, noise_k,
    C: tl.constexpr, NEURON_VALUES: tl.constexpr, NEURON_PRIOR: tl.constexpr, GIVEN: tl.constexpr,
    R: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """A tile of R rows x KB neurons of one member."""
    member = tl.program_id(1)
    n = (tl.program_id(0) // columns) * R + tl.arange(0, R)[:, None]
    k = (tl.program_id(0) % columns) * KB + tl.arange(0, KB)[None, :]
    inside = (n < N) & (k < K)
    lane = (member.to(tl.int64) * N + n) * K + k
    at = logits + (member.to(tl.int64) * N + n) * (C * K) + k
    inverse = 1 / tl.load(temperature + member * temperature_m)
    values += member * values_m
    log_prior += member * prior_m
    row, second, noise_at = n, member, noise
    if GIVEN:
        noise_at = noise + member.to(tl.int64) * noise_m + n.to(tl.int64) * noise_n + k * noise_k
    else:
        first, second = keys(tl.load(seed + member * seed_m), tl.load(step + member * step_m))
        row = row_word((member * rows_m + n) * K + k, first)
    top, total, ratios, top_y, total_y, sums = start(R, KB)
    for index in range(0, C, 4):
        i = tl.cast(index, tl.int32)  # the interpreter's is a Python number
        # Beyond the last bin there is no mass.
        a = floored(tl.load(at + i * K, inside, 0.0).to(tl.float32))
        b = floored(tl.load(at + (i + 1) * K, where(inside, i + 1, C), FLOOR).to(tl.float32))
        c = floored(tl.load(at + (i + 2) * K, where(inside, i + 2, C), FLOOR).to(tl.float32))
        d = floored(tl.load(at + (i + 3) * K, where(inside, i + 3, C), FLOOR).to(tl.float32))
        top, total, ratios, top_y, total_y, sums = four_bins(
            top, total, ratios, top_y, total_y, sums, inverse, a, b, c, d,
            gumbel_of(noise_at, noise_c, row, second, i, inside, C, GIVEN),
            gumbel_of(noise_at, noise_c, row, second, i + 1, inside, C, GIVEN),
            gumbel_of(noise_at, noise_c, row, second, i + 2, inside, C, GIVEN),
            gumbel_of(noise_at, noise_c, row, second, i + 3, inside, C, GIVEN),
            bin_of(values, i, values_c, k, values_k, k < K, C, NEURON_VALUES),
            bin_of(values, i + 1, values_c, k, values_k, k < K, C, NEURON_VALUES),
            bin_of(values, i + 2, values_c, k, values_k, k < K, C, NEURON_VALUES),
            bin_of(values, i + 3, values_c, k, values_k, k < K, C, NEURON_VALUES),
            floored(bin_of(log_prior, i, prior_c, k, prior_k, k < K, C, NEURON_PRIOR) * LOG2E),
            floored(bin_of(log_prior, i + 1, prior_c, k, prior_k, k < K, C, NEURON_PRIOR) * LOG2E),
            floored(bin_of(log_prior, i + 2, prior_c, k, prior_k, k < K, C, NEURON_PRIOR) * LOG2E),
            floored(bin_of(log_prior, i + 3, prior_c, k, prior_k, k < K, C, NEURON_PRIOR) * LOG2E),
        )  # fmt: skip
    z, kl, top, log_total, level = finish(top, total, ratios, top_y, total_y, sums, inverse)
    tl.store(z_out + lane, z, inside)
    tl.store(kl_out + lane, kl, inside)
    tl.store(top_out + lane, top, inside)
    tl.store(log_total_out + lane, log_total, inside)
    tl.store(level_out + lane, level, inside)


@triton.jit
def backward_kernel(
    logits, values, log_prior, temperature, seed, step, noise, z_in, kl_in,
    top_in, log_total_in, level_in,
    grad_z, grad_kl, grad_logits, grad_values,
    N, K, columns, rows_m,
    values_m, values_c, values_k, prior_m, prior_c, prior_k, temperature_m, seed_m, step_m,
    noise_m, noise_n, noise_c, noise_k, grad_z_m, grad_z_n, grad_z_k, grad_kl_m, grad_kl_n, grad_kl_k,
    C: tl.constexpr, NEURON_VALUES: tl.constexpr, NEURON_PRIOR: tl.constexpr, GIVEN: tl.constexpr,
    HAS_Z: tl.constexpr, HAS_KL: tl.constexpr, WANTS_VALUES: tl.constexpr, UNROLL: tl.constexpr,
    R: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """A tile of R rows x KB neurons of one member; ``grad_values`` has a part of its own for each tile."""
    member = tl.program_id(1)
    n = (tl.program_id(0) // columns) * R + tl.arange(0, R)[:, None]
    k = (tl.program_id(0) % columns) * KB + tl.arange(0, KB)[None, :]
    inside = (n < N) & (k < K)
    lane = (member.to(tl.int64) * N + n) * K + k
    offset = (member.to(tl.int64) * N + n) * (C * K) + k
    inverse = 1 / tl.load(temperature + member * temperature_m)
    values += member * values_m
    log_prior += member * prior_m
    row, second, noise_at = n, member, noise
    if GIVEN:
        noise_at = noise + member.to(tl.int64) * noise_m + n.to(tl.int64) * noise_n + k * noise_k
    else:
        first, second = keys(tl.load(seed + member * seed_m), tl.load(step + member * step_m))
        row = row_word((member * rows_m + n) * K + k, first)
    z, kl = tl.load(z_in + lane, inside, 0.0) * inverse, tl.load(kl_in + lane, inside, 0.0) * LOG2E
    top, log_total = tl.load(top_in + lane, inside, 0.0), tl.load(log_total_in + lane, inside, 0.0)
    level = tl.load(level_in + lane, inside, 1e30)  # beyond the edge y is 0
    gz, gkl = tl.zeros((R, KB), tl.float32), tl.zeros((R, KB), tl.float32)
    if HAS_Z:
        at = grad_z + member.to(tl.int64) * grad_z_m + n.to(tl.int64) * grad_z_n + k * grad_z_k
        gz = tl.load(at, inside, 0.0).to(tl.float32)
    if HAS_KL:
        at = grad_kl + member.to(tl.int64) * grad_kl_m + n.to(tl.int64) * grad_kl_n + k * grad_kl_k
        gkl = tl.load(at, inside, 0.0).to(tl.float32) * LN2
    for index in range(0, C, UNROLL):
        for j in tl.static_range(UNROLL):
            c = tl.cast(index + j, tl.int32)
            exists = where(inside, c, C)
            a = floored(tl.load(logits + offset + c * K, exists, FLOOR).to(tl.float32))
            gumbel = gumbel_of(noise_at, noise_c, row, second, c, inside, C, GIVEN)
            v = bin_of(values, c, values_c, k, values_k, k < K, C, NEURON_VALUES)
            r = floored(bin_of(log_prior, c, prior_c, k, prior_k, k < K, C, NEURON_PRIOR) * LOG2E)
            grad, weight = slopes(a, gumbel, v * inverse, r, inverse, top, log_total, level, z, kl, gz, gkl)
            tl.store(grad_logits + offset + c * K, grad, exists)
            if WANTS_VALUES:
                if NEURON_VALUES:  # (M, row blocks, C, K)
                    block = member.to(tl.int64) * (tl.num_programs(0) // columns) + tl.program_id(0) // columns
                    part = grad_values + (block * C + c) * K + k
                    tl.store(part, tl.sum(weight, 0)[None, :], where(k < K, c, C))
                else:  # (M, tiles, C)
                    block = member.to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
                    tl.store(grad_values + block * C + c, tl.sum(weight), c < C)


class _Call(NamedTuple):
    """The tensors of a call as the kernels take them, and how to walk through them.

    Attributes:
        logits: (M, N, C, K), contiguous.
        values, log_prior: (M or 1, C, K or 1).
        temperature: (M or 1,).
        seed, step: (M or 1,), int64; or None.
        noise: (M, N, C, K), of any strides; or None.
        rows_m: how far a member's rows are counted from the first one's: 0, unless all members draw by one seed.
    """

    logits: Tensor
    values: Tensor
    log_prior: Tensor
    temperature: Tensor
    seed: Tensor | None
    step: Tensor | None
    noise: Tensor | None
    rows_m: int

    def tensors(self) -> list[Tensor | None]:
        """In the order of the kernels' arguments."""
        return [self.logits, self.values, self.log_prior, self.temperature, self.seed, self.step, self.noise]

    def strides(self) -> list[int]:
        """In the order of the kernels' arguments; 0 along an axis that is shared."""
        found = [stride for x in (self.values, self.log_prior) for stride in strides(x)]
        found += [strides(x)[0] if x is not None else 0 for x in (self.temperature, self.seed, self.step)]
        return found + (strides(self.noise) if self.noise is not None else [0, 0, 0, 0])

    def options(self) -> dict[str, Any]:
        """What a kernel is compiled for."""
        return {
            "C": self.logits.shape[2],
            "NEURON_VALUES": self.values.shape[-1] > 1,
            "NEURON_PRIOR": self.log_prior.shape[-1] > 1,
            "GIVEN": self.noise is not None,
        }


def strides(x: Tensor) -> list[int]:
    return [0 if size == 1 else stride for size, stride in zip(x.shape, x.stride(), strict=True)]


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Triton launches on torch's current GPU, which need not be the tensors'."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def tile(rows: int, neurons: int, numbers: int) -> tuple[int, int]:
    """Rows and neurons of a tile of so many numbers: powers of 2, with few beyond the last row and neuron."""
    if INTERPRETED:  # by the number of tiles, too
        return min(triton.next_power_of_2(rows), numbers), triton.next_power_of_2(neurons)
    widths = [16, 32, 64, 128]
    wasted = {width: -(-neurons // width) * width for width in widths}
    width = max(width for width in widths if wasted[width] <= 1.25 * min(wasted.values()))
    return min(max(1, numbers // width), triton.next_power_of_2(rows)), width


def serves(logits: Tensor, values: Tensor, log_prior: Tensor, noise: Tensor | Key) -> bool:
    """Whether the kernels can take these tensors: single or half precision, nothing but noise with an axis of rows."""
    return (
        (logits.is_cuda or INTERPRETED)
        and logits.numel() > 0
        and values.dtype == log_prior.dtype == torch.float32
        and all(x.dim() < 4 or x.shape[1:-2].numel() == 1 for x in (values, log_prior))
        and all(x.dim() < 3 or x.shape[0] in (1, logits.shape[0]) for x in (values, log_prior))
    )


def _call(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor, seed: Tensor | None, step: Tensor | None,
    noise: Tensor | None,
) -> _Call:  # fmt: skip
    *lead, bins, neurons = logits.shape
    of_members = [x.shape[0] for x in (values, log_prior, temperature) if x.dim() > 2]
    keyed = seed is not None and seed.dim() == 1
    members = lead[0] if lead and (keyed or max(of_members, default=1) > 1) else 1
    rows = torch.Size(lead).numel() // members
    shape = members, rows, bins, neurons
    return _Call(
        logits.reshape(shape).contiguous(),
        values.reshape(-1, *values.shape[-2:]),
        log_prior.reshape(-1, *log_prior.shape[-2:]),
        temperature.reshape(-1),
        None if seed is None else seed.reshape(-1),
        None if step is None else step.reshape(-1),
        None if noise is None else noise.expand(logits.shape).reshape(shape),
        0 if keyed else rows,
    )


class _SampleWithKL(Function):
    """Returns what its backward needs as further outputs, as ``eager`` does."""

    @staticmethod
    def forward(
        logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor, seed: Tensor | None,
        step: Tensor | None, noise: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        call = _call(logits, values, log_prior, temperature, seed, step, noise)
        members, rows, _, neurons = call.logits.shape
        height, width = tile(rows, neurons, TILES[0])
        columns = triton.cdiv(neurons, width)
        out = [logits.new_empty((*logits.shape[:-2], neurons), dtype=torch.float32) for _ in range(5)]
        with on(logits.device):
            forward_kernel[(triton.cdiv(rows, height) * columns, members)](
                *call.tensors(), *out, rows, neurons, columns, call.rows_m, *call.strides(),
                **call.options(), R=height, KB=width, num_warps=WARPS[0],
            )  # fmt: skip
        return tuple(out)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        # A tensor is saved as one, so that torch notices if it is changed before the backward pass.
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        inputs, output = ctx.saved_tensors[:7], ctx.saved_tensors[7:]
        if torch.is_grad_enabled():
            return *_differentiable(inputs, grad_z, grad_kl, ctx.needs_input_grad), *[None] * 5
        if grad_z is None and grad_kl is None:
            return (None,) * 7
        call = _call(*inputs)
        values = inputs[1]
        members, rows, bins, neurons = call.logits.shape
        height, width = tile(rows, neurons, TILES[1])
        columns = triton.cdiv(neurons, width)
        blocks = triton.cdiv(rows, height)
        grads = [None if g is None else g.reshape(members, rows, neurons) for g in (grad_z, grad_kl)]
        grad_logits = torch.empty_like(call.logits)
        wanted = ctx.needs_input_grad[1] and grad_z is not None
        parts = None
        if wanted:
            own = (blocks, bins, neurons) if call.values.shape[-1] > 1 else (blocks * columns, bins, 1)
            parts = values.new_empty(members, *own)
        with on(values.device):
            backward_kernel[(blocks * columns, members)](
                *call.tensors(), *output, *grads, grad_logits, parts, rows, neurons, columns, call.rows_m,
                *call.strides(), *(s for g in grads for s in ([0, 0, 0] if g is None else strides(g))),
                **call.options(), HAS_Z=grad_z is not None, HAS_KL=grad_kl is not None, WANTS_VALUES=wanted,
                UNROLL=UNROLL, R=height, KB=width, num_warps=WARPS[1],
            )  # fmt: skip
        grad_values = None if parts is None else parts.sum(1).sum_to_size(call.values.shape).view(values.shape)
        return grad_logits.view(inputs[0].shape), grad_values, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """One call after the other: a mapped axis may be any, and kernels know of members alone."""
        each = [
            _SampleWithKL.apply(*(x if d is None else x.select(d, i) for x, d in zip(inputs, in_dims, strict=True)))
            for i in range(info.batch_size)
        ]
        return tuple(torch.stack(parts) for parts in zip(*each, strict=True)), (0,) * 5


def _differentiable(
    inputs: tuple[Tensor, ...], grad_z: Tensor | None, grad_kl: Tensor | None, needed: tuple[bool, ...]
) -> list[Tensor | None]:
    """Gradients for logits and values as functions of them, for gradients of gradients: those of the reference."""
    logits, values, log_prior, temperature, seed, step, noise = inputs
    drawn = noise if noise is not None else Key(seed, step)
    pairs = zip(reference.sample_with_kl(logits, values, log_prior, temperature, drawn), (grad_z, grad_kl), strict=True)
    given = [(out, grad) for out, grad in pairs if grad is not None]
    wanted = [x for x, needs in zip((logits, values), needed, strict=False) if needs]
    outputs, grads = zip(*given, strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, grads, create_graph=True, allow_unused=True))
    return [next(found) if needs else None for needs in needed[:2]]


def sample_with_kl(
    logits: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor | float, noise: Tensor | Key
) -> tuple[Tensor, Tensor]:
    """As :func:`squad.ops.sample_with_kl`, on checked tensors (..., C, K); what the kernels cannot take goes to eager."""
    if not serves(logits, values, log_prior, noise):
        return eager.sample_with_kl(logits, values, log_prior, temperature, noise)
    if not isinstance(temperature, Tensor):
        temperature = torch.full((), temperature, dtype=torch.float32, device=logits.device)
    drawn = (None, None, noise) if isinstance(noise, Tensor) else (noise.seed, noise.step, None)
    z, kl, *_ = _SampleWithKL.apply(logits, values, log_prior, temperature, *drawn)
    return z, kl
