"""The operation as two Triton kernels: logits are read once forward and once backward, and nothing of size C is kept.

A program has a tile of rows x neurons and walks along the bins, so that neighbouring lanes read neighbouring words.
Forward keeps, for both softmaxes, a running maximum and sums relative to it; four bins at a time, so that four loads
are under way at once and a moved maximum costs one more exponential in four.  Backward draws the noise again, and needs
no maximum: maxima and sums were saved.  Arithmetic is in float32 and in binary units, in which a machine's exponential
is.
"""

# Kernels have no Python types, and their compile-time constants are in capitals, as in Triton itself.
# Arguments that come four at a time are described together.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, D417, N803
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from squad.core.noise import Key
from squad.ops import eager, reference
from squad.ops.triton_launch import INTERPRETED, MAX_MEMBERS, have_storage, gradients, on, vmap_by_loop, strides
from squad.ops.triton_noise import bin_word, keys, log2_exponential, row_word
from squad.ops.triton_sums import sum_rows

__all__ = ["sample_with_kl", "serves"]

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
#: Below what has mass; its exponential is 0, and 0 times a finite number is 0.
FLOOR = tl.constexpr(-1e30)

#: Numbers of a tile, which is one warp's.  The interpreter's time goes by the number of tiles.
TILE = 8192 if INTERPRETED else 128
#: Programs that keep a GPU busy: where rows and neurons make fewer tiles, backward shares out the bins as well.
PROGRAMS = 1 if INTERPRETED else 2048


@triton.jit
def floored(x):
    """``x`` with a low number for -inf; NaN stays, as it would not in a maximum."""
    return tl.where(x < FLOOR, FLOOR, x)


@triton.jit
def start(zero):
    """The state of a walk along the bins: maximum, sum and sum of ratios of p; maximum, sum and sum of values of y."""
    low = zero + 10 * FLOOR
    return low, zero, zero, low, zero, zero


@triton.jit
def four_bins(
    top, total, ratios, top_y, total_y, sums, inverse, a, b, c, d, e, f, g, h, va, vb, vc, vd, ra, rb, rc, rd
):
    """Four further bins.

    Args:
        top, ..., sums: the state.
        inverse: 1 / temperature.
        a, b, c, d: logits.
        e, f, g, h: their Gumbel numbers, in binary units.
        va, ..., vd: values.
        ra, ..., rd: log prior, in binary units.
    """
    higher = tl.maximum(top, tl.maximum(tl.maximum(a, b), tl.maximum(c, d)))
    moved = (top - higher) * LOG2E
    scale = tl.exp2(moved)
    # Ratios are relative to the maximum, so they move with it.
    ratios, total = scale * (ratios + moved * total), scale * total
    # Scaled after the subtraction, where little is left to round; so it is with the temperature below.
    a2, b2, c2, d2 = (a - higher) * LOG2E, (b - higher) * LOG2E, (c - higher) * LOG2E, (d - higher) * LOG2E
    pa, pb, pc, pd = tl.exp2(a2), tl.exp2(b2), tl.exp2(c2), tl.exp2(d2)
    total += (pa + pb) + (pc + pd)
    ratios += (pa * (a2 - ra) + pb * (b2 - rb)) + (pc * (c2 - rc) + pd * (d2 - rd))
    # What y is made of is relative to the maximum of p, too: large logits round nothing away.
    e, f, g, h = a2 + e, b2 + f, c2 + g, d2 + h
    top_y += moved
    higher_y = tl.maximum(top_y, tl.maximum(tl.maximum(e, f), tl.maximum(g, h)))
    scale = tl.exp2((top_y - higher_y) * inverse)
    e, f = tl.exp2((e - higher_y) * inverse), tl.exp2((f - higher_y) * inverse)
    g, h = tl.exp2((g - higher_y) * inverse), tl.exp2((h - higher_y) * inverse)
    total_y = scale * total_y + ((e + f) + (g + h))
    sums = scale * sums + ((e * va + f * vb) + (g * vc + h * vd))
    return higher, total, ratios, higher_y, total_y, sums


@triton.jit
def finish(top, total, ratios, top_y, total_y, sums, inverse):
    """z, kl in nats, and what backward needs.

    That is the maximum of the logits, and relative to it log2 of the sums of p and of y.  Where no bin has mass,
    there is nothing to say.
    """
    log_total = tl.log2(total)
    kl = (ratios / total - log_total) * LN2
    # Rounding errors below zero; what is further below is none, and stays to be seen.
    kl = tl.where((kl < 0) & (kl > -1e-3), 0.0, kl)
    z, kl = tl.where(top > FLOOR, sums / total_y, float("nan")), tl.where(top > FLOOR, kl, float("nan"))
    return z, kl, top, log_total, top_y * inverse + tl.log2(total_y)


@triton.jit
def slopes(a, gumbel, v, r, inverse, top, log_total, level, z, kl, grad_z, grad_kl):
    """The gradient of a logit, and y times that of z.

    v and z are divided by the temperature, kl and r are in binary units, ``grad_kl`` is times log 2.
    """
    a2 = (a - top) * LOG2E
    log_p = a2 - log_total
    weight = tl.exp2((a2 + gumbel) * inverse - level) * grad_z
    return tl.exp2(log_p) * (log_p - r - kl) * grad_kl + weight * (v - z), weight


@triton.jit
def has_bin(inside, c, C: tl.constexpr):
    """``inside``, if there is a bin c.  (The interpreter cannot join a mask and a single truth.)"""
    return inside & (c + tl.zeros_like(inside).to(tl.int32) < C)


@triton.jit
def bin_of(table, c, stride_c, k, stride_k, inside, C: tl.constexpr, A_NEURON: tl.constexpr):
    """The number of bin c in a table (C, K or 1); 0 beyond the last bin."""
    if A_NEURON:
        out = tl.load(table + c * stride_c + k * stride_k, has_bin(inside, c, C), 0.0)
    else:
        out = tl.load(table + c * stride_c, c < C, 0.0)
    return out


@triton.jit
def logit_of(at, bias, c, k, K, inside, C: tl.constexpr, BIASED: tl.constexpr):
    """The logits of bin c; none beyond the last bin."""
    exists = has_bin(inside, c, C)
    out = tl.load(at + c * K, exists, FLOOR).to(tl.float32)
    if BIASED:
        out += tl.load(bias + c * K + k, exists, 0.0)
    return tl.where(exists, floored(out), 4 * FLOOR)


@triton.jit
def gumbel_of(noise_at, noise_c, row, second, c, inside, C: tl.constexpr, GIVEN: tl.constexpr):
    """The Gumbel numbers of bin c in binary units: given, or drawn."""
    if GIVEN:
        out = tl.load(noise_at + tl.cast(c, tl.int64) * noise_c, has_bin(inside, c, C), 0.0).to(tl.float32) * LOG2E
    else:
        out = -log2_exponential(row, bin_word(c, second))
    return out


@triton.jit
def forward_kernel(
    logits, bias, values, log_prior, temperature, seed, step, noise, z_out, kl_out, rows_out,
    top_out, log_total_out, level_out,
    N, K, columns, rows_m, bias_m,
    values_m, values_c, values_k, prior_m, prior_c, prior_k, temperature_m, seed_m, step_m,
    noise_m, noise_n, noise_c, noise_k,
    C: tl.constexpr, BIASED: tl.constexpr, NEURON_VALUES: tl.constexpr, NEURON_PRIOR: tl.constexpr,
    GIVEN: tl.constexpr,
    R: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """A tile of R rows x KB neurons of one member; ``rows_out`` (M, N, columns) has the KLs of its rows."""
    member = tl.program_id(1).to(tl.int64)
    n = (tl.program_id(0) // columns) * R + tl.arange(0, R)[:, None]
    neuron = (tl.program_id(0) % columns) * KB + tl.arange(0, KB)[None, :]
    # For every row of the tile: what is loaded for a line of neurons would have to be moved between lanes.
    k = neuron + 0 * n
    inside = (n < N) & (k < K)
    lane = (member * N + n) * K + k
    at = logits + (member * N + n) * (C * K) + k
    inverse = 1 / tl.load(temperature + member * temperature_m)
    if BIASED:
        bias += member * bias_m
    values += member * values_m
    log_prior += member * prior_m
    row, second, noise_at = n, n, noise
    if GIVEN:
        noise_at = noise + member * noise_m + n.to(tl.int64) * noise_n + k.to(tl.int64) * noise_k
    else:
        first, second = keys(tl.load(seed + member * seed_m), tl.load(step + member * step_m))
        row = row_word((tl.program_id(1) * rows_m + n) * K + k, first)
    top, total, ratios, top_y, total_y, sums = start(tl.zeros((R, KB), tl.float32))
    for index in range(0, C, 4):
        i = tl.cast(index, tl.int32)  # the interpreter's is a Python number
        # Beyond the last bin there is no mass.
        a = logit_of(at, bias, i, k, K, inside, C, BIASED)
        b = logit_of(at, bias, i + 1, k, K, inside, C, BIASED)
        c = logit_of(at, bias, i + 2, k, K, inside, C, BIASED)
        d = logit_of(at, bias, i + 3, k, K, inside, C, BIASED)
        top, total, ratios, top_y, total_y, sums = four_bins(
            top, total, ratios, top_y, total_y, sums, inverse, a, b, c, d,
            gumbel_of(noise_at, noise_c, row, second, i, inside, C, GIVEN),
            gumbel_of(noise_at, noise_c, row, second, i + 1, inside, C, GIVEN),
            gumbel_of(noise_at, noise_c, row, second, i + 2, inside, C, GIVEN),
            gumbel_of(noise_at, noise_c, row, second, i + 3, inside, C, GIVEN),
            bin_of(values, i, values_c, k, values_k, inside, C, NEURON_VALUES),
            bin_of(values, i + 1, values_c, k, values_k, inside, C, NEURON_VALUES),
            bin_of(values, i + 2, values_c, k, values_k, inside, C, NEURON_VALUES),
            bin_of(values, i + 3, values_c, k, values_k, inside, C, NEURON_VALUES),
            floored(bin_of(log_prior, i, prior_c, k, prior_k, inside, C, NEURON_PRIOR) * LOG2E),
            floored(bin_of(log_prior, i + 1, prior_c, k, prior_k, inside, C, NEURON_PRIOR) * LOG2E),
            floored(bin_of(log_prior, i + 2, prior_c, k, prior_k, inside, C, NEURON_PRIOR) * LOG2E),
            floored(bin_of(log_prior, i + 3, prior_c, k, prior_k, inside, C, NEURON_PRIOR) * LOG2E),
        )  # fmt: skip
    z, kl, top, log_total, level = finish(top, total, ratios, top_y, total_y, sums, inverse)
    tl.store(z_out + lane, z, inside)
    tl.store(kl_out + lane, kl, inside)
    total_kl = tl.sum(tl.where(inside, kl, 0.0), 1)[:, None]  # of this tile's neurons
    tl.store(rows_out + (member * N + n) * columns + tl.program_id(0) % columns, total_kl, n < N)
    tl.store(top_out + lane, top, inside)
    tl.store(log_total_out + lane, log_total, inside)
    tl.store(level_out + lane, level, inside)


@triton.jit
def backward_kernel(
    logits, bias, values, log_prior, temperature, seed, step, noise, z_in, kl_in,
    top_in, log_total_in, level_in,
    grad_z, grad_kl, grad_rows, grad_logits, value_parts,
    N, K, columns, rows_m, bias_m,
    values_m, values_c, values_k, prior_m, prior_c, prior_k, temperature_m, seed_m, step_m,
    noise_m, noise_n, noise_c, noise_k, grad_z_m, grad_z_n, grad_z_k, grad_kl_m, grad_kl_n, grad_kl_k,
    grad_rows_m, grad_rows_n,
    C: tl.constexpr, BIASED: tl.constexpr, NEURON_VALUES: tl.constexpr, NEURON_PRIOR: tl.constexpr,
    GIVEN: tl.constexpr,
    HAS_Z: tl.constexpr, HAS_KL: tl.constexpr, HAS_ROWS: tl.constexpr, WANTS_VALUES: tl.constexpr,
    PART: tl.constexpr, R: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """A tile of R rows x KB neurons of one member, and PART of its bins.

    Of the gradient of values each tile writes its own sums to ``value_parts``, as (M, row blocks, C, K) where values
    are per neuron, and (M, tiles, C) where they are not.  ``grad_rows`` is that of ``rows_out``.
    """
    member = tl.program_id(1).to(tl.int64)
    n = (tl.program_id(0) // columns) * R + tl.arange(0, R)[:, None]
    neuron = (tl.program_id(0) % columns) * KB + tl.arange(0, KB)[None, :]
    # For every row of the tile: what is loaded for a line of neurons would have to be moved between lanes.
    k = neuron + 0 * n
    inside = (n < N) & (k < K)
    lane = (member * N + n) * K + k
    offset = (member * N + n) * (C * K) + k
    inverse = 1 / tl.load(temperature + member * temperature_m)
    if BIASED:
        bias += member * bias_m
    values += member * values_m
    log_prior += member * prior_m
    row, second, noise_at = n, n, noise
    if GIVEN:
        noise_at = noise + member * noise_m + n.to(tl.int64) * noise_n + k.to(tl.int64) * noise_k
    else:
        first, second = keys(tl.load(seed + member * seed_m), tl.load(step + member * step_m))
        row = row_word((tl.program_id(1) * rows_m + n) * K + k, first)
    z, kl = tl.load(z_in + lane, inside, 0.0) * inverse, tl.load(kl_in + lane, inside, 0.0) * LOG2E
    # Beyond the edge p and y are 0.
    top, log_total = tl.load(top_in + lane, inside, 1e30), tl.load(log_total_in + lane, inside, 0.0)
    level = tl.load(level_in + lane, inside, 1e30)
    gz, gkl = tl.zeros((R, KB), tl.float32), tl.zeros((R, KB), tl.float32)
    if HAS_Z:
        at = grad_z + member * grad_z_m + n.to(tl.int64) * grad_z_n + k.to(tl.int64) * grad_z_k
        gz = tl.load(at, inside, 0.0).to(tl.float32)
    if HAS_KL:
        at = grad_kl + member * grad_kl_m + n.to(tl.int64) * grad_kl_n + k.to(tl.int64) * grad_kl_k
        gkl = tl.load(at, inside, 0.0).to(tl.float32) * LN2
    if HAS_ROWS:
        at = grad_rows + member * grad_rows_m + n.to(tl.int64) * grad_rows_n
        # In all of forward's columns the same, since their sum is what is returned.
        gkl += tl.load(at, n < N, 0.0).to(tl.float32) * LN2
    row_block = member * (tl.num_programs(0) // columns) + tl.program_id(0) // columns
    block = member * tl.num_programs(0) + tl.program_id(0)
    for index in range(PART):
        c = tl.program_id(2) * PART + index
        a = logit_of(logits + offset, bias, c, k, K, inside, C, BIASED)
        gumbel = gumbel_of(noise_at, noise_c, row, second, c, inside, C, GIVEN)
        v = bin_of(values, c, values_c, k, values_k, inside, C, NEURON_VALUES) * inverse
        r = floored(bin_of(log_prior, c, prior_c, k, prior_k, inside, C, NEURON_PRIOR) * LOG2E)
        grad, weight = slopes(a, gumbel, v, r, inverse, top, log_total, level, z, kl, gz, gkl)
        tl.store(grad_logits + offset + c * K, grad, has_bin(inside, c, C))
        if WANTS_VALUES:
            if NEURON_VALUES:
                there = has_bin(neuron < K, c, C)
                tl.store(value_parts + (row_block * C + c) * K + neuron, tl.sum(weight, 0)[None, :], there)
            else:
                tl.store(value_parts + block * C + c, tl.sum(weight), c < C)


class _Call(NamedTuple):
    """The tensors of a call as the kernels take them, and how to walk through them.

    Attributes:
        logits: (M, N, C, K), contiguous.
        bias: (M or 1, C, K), each of the M contiguous; or None.
        values, log_prior: (M or 1, C, K or 1).
        temperature: (M or 1,).
        seed, step: (M or 1,), int64; or None.
        noise: (M, N, C, K), of any strides; or None.
        rows_m: how far a member's rows are counted from the first one's: 0, unless all members draw by one seed.
    """

    logits: Tensor
    bias: Tensor | None
    values: Tensor
    log_prior: Tensor
    temperature: Tensor
    seed: Tensor | None
    step: Tensor | None
    noise: Tensor | None
    rows_m: int

    def tensors(self) -> list[Tensor | None]:
        """In the order of the kernels' arguments."""
        return [self.logits, self.bias, self.values, self.log_prior, self.temperature, self.seed, self.step, self.noise]

    def strides(self) -> list[int]:
        """In the order of the kernels' arguments; 0 along an axis that is shared."""
        found = [0 if self.bias is None else strides(self.bias)[0]]
        found += [stride for x in (self.values, self.log_prior) for stride in strides(x)]
        found += [strides(x)[0] if x is not None else 0 for x in (self.temperature, self.seed, self.step)]
        return found + (strides(self.noise) if self.noise is not None else [0, 0, 0, 0])

    def options(self) -> dict[str, Any]:
        """What a kernel is compiled for."""
        return {
            "C": self.logits.shape[2],
            "BIASED": self.bias is not None,
            "NEURON_VALUES": self.values.shape[-1] > 1,
            "NEURON_PRIOR": self.log_prior.shape[-1] > 1,
            "GIVEN": self.noise is not None,
        }


def lanes(latents: int, numbers: int, least: int) -> int:
    """Numbers of a tile, ``numbers`` at the most: fewer where there would be too few tiles to keep a GPU busy."""
    while not INTERPRETED and numbers > max(least, 32) and latents < 1024 * numbers:
        numbers //= 2
    return numbers


def tile(rows: int, neurons: int, numbers: int) -> tuple[int, int]:
    """Rows and neurons of a tile of so many numbers: powers of 2, with few beyond the last row and neuron."""
    if INTERPRETED:  # whose time goes by the number of tiles
        return min(triton.next_power_of_2(rows), numbers), triton.next_power_of_2(neurons)
    widths = [width for width in (16, 32, 64, 128) if width <= numbers]
    wasted = {width: -(-neurons // width) * width for width in widths}
    width = max(width for width in widths if wasted[width] <= 1.25 * min(wasted.values()))
    return min(max(1, numbers // width), triton.next_power_of_2(rows)), width


def serves(logits: Tensor, values: Tensor, log_prior: Tensor, bias: Tensor | None = None) -> bool:
    """Whether the kernels can take these tensors: single or half precision, nothing but noise with an axis of rows.

    Of a first axis that may be members' there are no more than a grid of CUDA's can have.
    """
    fixed = [values, log_prior] if bias is None else [values, log_prior, bias]
    return (
        (logits.is_cuda or INTERPRETED)
        and logits.numel() > 0
        and (logits.dim() < 3 or logits.shape[0] <= MAX_MEMBERS or all(x.dim() < 3 or x.shape[0] == 1 for x in fixed))
        and all(x.dtype == torch.float32 for x in fixed)
        and all(x.dim() < 4 or x.shape[1:-2].numel() == 1 for x in fixed)
        and all(x.dim() < 3 or x.shape[0] in (1, logits.shape[0]) for x in fixed)
    )


def _rows(x: Tensor) -> Tensor:
    """``x`` (M, C, K), each of the M contiguous: how far they are apart does not matter."""
    return x if x[0].is_contiguous() else x.contiguous()


def _call(
    logits: Tensor, bias: Tensor | None, values: Tensor, log_prior: Tensor, temperature: Tensor, seed: Tensor | None,
    step: Tensor | None, noise: Tensor | None,
) -> _Call:  # fmt: skip
    """Any leading axes as members and rows: members only where something differs between them, one otherwise."""
    *lead, bins, neurons = logits.shape
    of_members = [x.shape[0] for x in (bias, values, log_prior, temperature) if x is not None and x.dim() > 2]
    keyed = seed is not None and seed.dim() == 1
    members = lead[0] if lead and (keyed or max(of_members, default=1) > 1) else 1
    rows = torch.Size(lead).numel() // members
    shape = members, rows, bins, neurons
    return _Call(
        logits.reshape(shape).contiguous(),
        None if bias is None else _rows(bias.reshape(-1, *bias.shape[-2:]).expand(-1, -1, neurons)),
        values.reshape(-1, *values.shape[-2:]),
        log_prior.reshape(-1, *log_prior.shape[-2:]),
        temperature.reshape(-1),
        None if seed is None else seed.reshape(-1),
        None if step is None else step.reshape(-1),
        None if noise is None else noise.expand(logits.shape).reshape(shape),
        0 if keyed else rows,
    )


class _SampleWithKL(Function):
    """z, kl, kl sum_rows over each tile's neurons (..., columns), and what backward needs, as ``eager`` does."""

    @staticmethod
    def forward(
        logits: Tensor, bias: Tensor | None, values: Tensor, log_prior: Tensor, temperature: Tensor,
        seed: Tensor | None, step: Tensor | None, noise: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        call = _call(logits, bias, values, log_prior, temperature, seed, step, noise)
        members, rows, _, neurons = call.logits.shape
        height, width = tile(rows, neurons, lanes(members * rows * neurons, TILE, neurons))
        columns = triton.cdiv(neurons, width)
        lead = logits.shape[:-2]
        z, kl, *kept = (values.new_empty((*lead, neurons)) for _ in range(5))
        totals = values.new_empty((*lead, columns))
        with on(logits.device):
            forward_kernel[(triton.cdiv(rows, height) * columns, members)](
                *call.tensors(), z, kl, totals, *kept, rows, neurons, columns, call.rows_m, *call.strides(),
                **call.options(), R=height, KB=width, num_warps=1,
            )  # fmt: skip
        return z, kl, totals, *kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        z, kl, _, *kept = output
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)
        # A tensor is saved as one, so that torch notices if it is changed before the backward pass.
        ctx.save_for_backward(*inputs, z, kl, *kept)

    @staticmethod
    def backward(
        ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, grad_rows: Tensor | None, *_: Any
    ) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # asked for once: what is recomputed in a backward pass is given out once
        inputs, output = saved[:8], saved[8:]
        if grad_z is None and grad_kl is None and grad_rows is None:
            return (None,) * 8
        if torch.is_grad_enabled() or not have_storage(grad_z, grad_kl, grad_rows):
            return *_differentiable(inputs, ctx.needs_input_grad[:3], grad_z, grad_kl, grad_rows), *[None] * 5
        call = _call(*inputs)
        logits, bias, values = inputs[:3]
        members, rows, bins, neurons = call.logits.shape
        most = triton.cdiv(bins, 4)  # parts that the bins can be shared out in
        height, width = tile(rows, neurons, lanes(members * rows * neurons * most, TILE, neurons))
        columns = triton.cdiv(neurons, width)
        blocks = triton.cdiv(rows, height)
        grads = [None if g is None else g.reshape(members, rows, -1) for g in (grad_z, grad_kl, grad_rows)]
        # A bias' gradient is sum_rows from that of the logits: not from rounded numbers.
        wants_bias = call.bias is not None and ctx.needs_input_grad[1]
        grad_logits = torch.empty_like(call.logits, dtype=torch.float32 if wants_bias else None)
        value_parts = None
        if ctx.needs_input_grad[2] and grad_z is not None:
            own = (blocks, bins, neurons) if call.values.shape[-1] > 1 else (blocks * columns, bins, 1)
            value_parts = values.new_empty(members, *own)
        parts = min(most, triton.cdiv(PROGRAMS, blocks * columns * members))
        with on(values.device):
            backward_kernel[(blocks * columns, members, parts)](
                *call.tensors(), *output, *grads, grad_logits, value_parts, rows, neurons, columns, call.rows_m,
                *call.strides(), *[s for g in grads for s in ([0, 0, 0] if g is None else strides(g))][:-1],
                **call.options(), HAS_Z=grad_z is not None, HAS_KL=grad_kl is not None, HAS_ROWS=grad_rows is not None,
                WANTS_VALUES=value_parts is not None, PART=triton.cdiv(bins, parts), R=height, KB=width, num_warps=1,
            )  # fmt: skip
        grad_bias = grad_values = None
        sums = iter(sum_rows(*([grad_logits] if wants_bias else []), *([] if value_parts is None else [value_parts])))
        if call.bias is not None and wants_bias:
            grad_bias = next(sums).sum_to_size(len(call.bias), *bias.shape[-2:]).view(bias.shape)
        if value_parts is not None:
            grad_values = next(sums).sum_to_size(call.values.shape).view(values.shape)
        return grad_logits.view(logits.shape).to(logits.dtype), grad_bias, grad_values, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """Map by a loop."""
        return vmap_by_loop(_SampleWithKL, info.batch_size, in_dims, inputs)


def _differentiable(
    inputs: tuple[Any, ...], needed: tuple[bool, ...], grad_z: Tensor | None, grad_kl: Tensor | None,
    grad_rows: Tensor | None,
) -> list[Tensor | None]:  # fmt: skip
    """Gradients of logits, bias and values as functions of them, for gradients of gradients: the reference's."""
    *leaves, log_prior, temperature, seed, step, noise = inputs
    drawn = Key(seed, step) if noise is None else noise

    def plain(logits: Tensor, bias: Tensor | None, values: Tensor) -> tuple[Tensor, Tensor]:
        whole = logits.to(values.dtype) if bias is None else logits.to(values.dtype) + bias
        return reference.sample_with_kl(whole, values, log_prior, temperature, drawn)

    if grad_rows is not None:  # the same in all columns, since their sum is what is returned
        share = grad_rows.mean(-1, keepdim=True) if grad_rows.shape[-1] > 1 else grad_rows
        share = share.expand(*leaves[0].shape[:-2], leaves[0].shape[-1])
        grad_kl = share if grad_kl is None else grad_kl + share
    return gradients(plain, tuple(leaves), needed, (grad_z, grad_kl))


def sample_with_kl(
    logits: Tensor,
    values: Tensor,
    log_prior: Tensor,
    temperature: Tensor | float,
    noise: Tensor | Key,
    *,
    bias: Tensor | None = None,
    total: bool = False,
) -> tuple[Tensor, Tensor]:
    """As :func:`squad.ops.sample_with_kl`, on checked tensors (..., C, K).  What kernels cannot take goes to eager."""
    keyed = isinstance(noise, Key) and noise.seed.dim() == 1 and len(noise.seed) > MAX_MEMBERS
    if keyed or not serves(logits, values, log_prior, bias):
        whole = logits if bias is None else logits.to(values.dtype) + bias
        z, kl = eager.sample_with_kl(whole, values, log_prior, temperature, noise)
        return z, kl.sum(-1) if total else kl
    if not isinstance(temperature, Tensor):
        temperature = torch.full((), temperature, dtype=torch.float32, device=logits.device)
    drawn = (None, None, noise) if isinstance(noise, Tensor) else (noise.seed, noise.step, None)
    z, kl, rows, *_ = _SampleWithKL.apply(logits, bias, values, log_prior, temperature, *drawn)
    if not total:
        return z, kl
    return z, rows.squeeze(-1) if rows.shape[-1] == 1 else rows.sum(-1)
