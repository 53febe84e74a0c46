"""Sampling and KL of a factorized layer in two Triton kernels that never write the logits.

A logit takes B multiply-adds from the B inner numbers of its neuron, so recomputing it is cheaper than reading it.  A
program handles one neuron and a block of rows: its weights are scalars, and sums over rows stay within a warp.  Hence
rows are contiguous in memory in all tensors here.  The loop over the bins is that of :mod:`squad.ops.triton_bins`;
the backward kernel accumulates the gradients of the weights over its rows.
"""

# Kernels have no Python types, and their compile-time constants are in capitals, as in Triton itself.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from squad.core.noise import Key
from squad.ops import reference
from squad.ops.triton_bins import FLOOR, LN2, LOG2E, bin_of, finish, floored, four_bins, slopes, start, tile_size
from squad.ops.triton_launch import (
    INTERPRETED,
    differentiable_gradients,
    have_storage,
    on_device,
    strides,
    vmap_by_loop,
)
from squad.ops.triton_noise import bin_word, keys, log2_exponential, row_word
from squad.ops.triton_sums import MAX_ROWS, sum_rows

__all__ = ["MAX_RANK", "sample_with_kl"]

#: Largest rank B that the kernels support.
MAX_RANK = 8
#: Rows per program, i.e. per warp: (forward, backward).
TILES = (8192, 512) if INTERPRETED else (128, 256)
#: Number of programs that keeps a GPU busy: if rows and neurons give fewer, the backward kernel splits the bins, too.
PROGRAMS = 1 if INTERPRETED else 1024


@triton.jit
def inner_of(at, bias, b: tl.constexpr, stride_b, bias_b, inside, B: tl.constexpr):
    """Load inner number b of a neuron's rows and add its bias; beyond B the result is not used."""
    which: tl.constexpr = b if b < B else 0
    return tl.load(at + tl.cast(stride_b, tl.int64) * which, inside, 0.0).to(tl.float32) + tl.load(
        bias + which * bias_b
    ).to(tl.float32)


@triton.jit
def weight_of(at, b: tl.constexpr, K, exists, B: tl.constexpr):
    """Load weight b; weight 0 beyond B, where the result is not used."""
    return tl.load(at + (b if b < B else 0) * K, exists, 0.0)


@triton.jit
def weights_of(weights, c, K, C: tl.constexpr, B: tl.constexpr):
    """Load a neuron's weights and bias of bin c from (C, B + 1, K); beyond the last bin the bias leaves no mass."""
    exists = c < C
    at = weights + c * ((B + 1) * K)
    return (
        weight_of(at, 0, K, exists, B), weight_of(at, 1, K, exists, B), weight_of(at, 2, K, exists, B),
        weight_of(at, 3, K, exists, B), weight_of(at, 4, K, exists, B), weight_of(at, 5, K, exists, B),
        weight_of(at, 6, K, exists, B), weight_of(at, 7, K, exists, B), tl.load(at + B * K, exists, 4 * FLOOR),
    )  # fmt: skip


@triton.jit
def product(h0, h1, h2, h3, h4, h5, h6, h7, w0, w1, w2, w3, w4, w5, w6, w7, bias, B: tl.constexpr):
    """Compute the logits of a bin."""
    out = h0 * w0 + bias
    if B > 1:
        out += h1 * w1
    if B > 2:
        out += h2 * w2
    if B > 3:
        out += h3 * w3
    if B > 4:
        out += h4 * w4
    if B > 5:
        out += h5 * w5
    if B > 6:
        out += h6 * w6
    if B > 7:
        out += h7 * w7
    return out


@triton.jit
def logit_of(weights, c, K, h0, h1, h2, h3, h4, h5, h6, h7, C: tl.constexpr, B: tl.constexpr):
    """Compute the logits of bin c; beyond the last bin there is no mass."""
    w0, w1, w2, w3, w4, w5, w6, w7, bias = weights_of(weights, c, K, C, B)
    out = floored(product(h0, h1, h2, h3, h4, h5, h6, h7, w0, w1, w2, w3, w4, w5, w6, w7, bias, B))
    return tl.where(c < C, out, 4 * FLOOR)


@triton.jit
def forward_kernel(
    inner, inner_bias, weights, values, log_prior, temperature, seed, step, out,
    z_out, kl_out, top_out, log_total_out, level_out,
    N, K, rows_m, inner_m, inner_n, inner_k, inner_b, bias_m, bias_k, bias_b,
    weights_m, values_m, values_c, values_k, prior_m, prior_c, prior_k, temperature_m, seed_m, step_m,
    C: tl.constexpr, B: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Process R rows of one neuron of one member; ``out`` is z as (M, N, K), saved tensors are (M, K, N)."""
    member = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) % K
    n = (tl.program_id(0) // K) * R + tl.arange(0, R)
    inside = n < N
    at = inner + member * inner_m + n.to(tl.int64) * inner_n + k.to(tl.int64) * inner_k
    own = inner_bias + member * bias_m + k * bias_k
    h0, h1 = inner_of(at, own, 0, inner_b, bias_b, inside, B), inner_of(at, own, 1, inner_b, bias_b, inside, B)
    h2, h3 = inner_of(at, own, 2, inner_b, bias_b, inside, B), inner_of(at, own, 3, inner_b, bias_b, inside, B)
    h4, h5 = inner_of(at, own, 4, inner_b, bias_b, inside, B), inner_of(at, own, 5, inner_b, bias_b, inside, B)
    h6, h7 = inner_of(at, own, 6, inner_b, bias_b, inside, B), inner_of(at, own, 7, inner_b, bias_b, inside, B)
    inverse = 1 / tl.load(temperature + member * temperature_m)
    weights += member * weights_m + k
    values += member * values_m + k * values_k
    log_prior += member * prior_m + k * prior_k
    first, second = keys(tl.load(seed + member * seed_m), tl.load(step + member * step_m))
    row = row_word((tl.program_id(1) * rows_m + n) * K + k, first)
    top, total, ratios, top_y, total_y, sums = start(tl.zeros((R,), tl.float32))
    for index in range(0, C, 4):
        i = tl.cast(index, tl.int32)
        top, total, ratios, top_y, total_y, sums = four_bins(
            top, total, ratios, top_y, total_y, sums, inverse,
            logit_of(weights, i, K, h0, h1, h2, h3, h4, h5, h6, h7, C, B),
            logit_of(weights, i + 1, K, h0, h1, h2, h3, h4, h5, h6, h7, C, B),
            logit_of(weights, i + 2, K, h0, h1, h2, h3, h4, h5, h6, h7, C, B),
            logit_of(weights, i + 3, K, h0, h1, h2, h3, h4, h5, h6, h7, C, B),
            -log2_exponential(row, bin_word(i, second)),
            -log2_exponential(row, bin_word(i + 1, second)),
            -log2_exponential(row, bin_word(i + 2, second)),
            -log2_exponential(row, bin_word(i + 3, second)),
            bin_of(values, i, values_c, k, 0, inside, C, False),
            bin_of(values, i + 1, values_c, k, 0, inside, C, False),
            bin_of(values, i + 2, values_c, k, 0, inside, C, False),
            bin_of(values, i + 3, values_c, k, 0, inside, C, False),
            floored(bin_of(log_prior, i, prior_c, k, 0, inside, C, False) * LOG2E),
            floored(bin_of(log_prior, i + 1, prior_c, k, 0, inside, C, False) * LOG2E),
            floored(bin_of(log_prior, i + 2, prior_c, k, 0, inside, C, False) * LOG2E),
            floored(bin_of(log_prior, i + 3, prior_c, k, 0, inside, C, False) * LOG2E),
        )  # fmt: skip
    z, kl, top, log_total, level = finish(top, total, ratios, top_y, total_y, sums, inverse)
    lane = (member * K + k) * N + n
    tl.store(out + (member * N + n) * K + k, z, inside)
    tl.store(z_out + lane, z, inside)
    tl.store(kl_out + lane, kl, inside)
    tl.store(top_out + lane, top, inside)
    tl.store(log_total_out + lane, log_total, inside)
    tl.store(level_out + lane, level, inside)


@triton.jit
def store_sum(at, b: tl.constexpr, numbers, c, most: tl.constexpr, C: tl.constexpr):
    """Store the sum over rows as bin c of line b of ``at`` (..., C), if that line and bin exist."""
    if b < most:
        tl.store(at + b * C + c, tl.sum(numbers), c < C)


@triton.jit
def store_inner(out, bias_part, b: tl.constexpr, d, inside, N, B: tl.constexpr):
    """Store the gradient of inner number b and its sum over the rows, if b < B."""
    if b < B:
        tl.store(out + tl.cast(N, tl.int64) * b, d, inside)
        tl.store(bias_part + b, tl.sum(d))


@triton.jit
def backward_kernel(
    inner, inner_bias, weights, values, log_prior, temperature, seed, step, z_in, kl_in,
    top_in, log_total_in, level_in, grad_z, grad_kl,
    inner_parts, inner_bias_parts, weight_parts, bias_parts, value_parts,
    N, K, rows_m, inner_m, inner_n, inner_k, inner_b, bias_m, bias_k, bias_b,
    weights_m, values_m, values_c, values_k, prior_m, prior_c, prior_k, temperature_m, seed_m, step_m,
    grad_z_m, grad_z_n, grad_z_k, grad_kl_m, grad_kl_n, grad_kl_k,
    C: tl.constexpr, B: tl.constexpr, HAS_Z: tl.constexpr, HAS_KL: tl.constexpr, WANTS_VALUES: tl.constexpr,
    PART: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Process R rows and PART bins of one neuron of one member.

    Partial sums are written to ``inner_parts`` (parts, M, K, B, N), over bins; ``inner_bias_parts`` (M, parts, row
    blocks, K, B), over bins and rows; ``weight_parts`` (M, row blocks, K, B, C), ``bias_parts`` and ``value_parts``
    (M, row blocks, K, C), over rows.
    """
    member, part = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    k, block = tl.program_id(0) % K, tl.program_id(0) // K
    blocks = tl.num_programs(0) // K
    n = block * R + tl.arange(0, R)
    inside = n < N
    at = inner + member * inner_m + n.to(tl.int64) * inner_n + k.to(tl.int64) * inner_k
    own = inner_bias + member * bias_m + k * bias_k
    h0, h1 = inner_of(at, own, 0, inner_b, bias_b, inside, B), inner_of(at, own, 1, inner_b, bias_b, inside, B)
    h2, h3 = inner_of(at, own, 2, inner_b, bias_b, inside, B), inner_of(at, own, 3, inner_b, bias_b, inside, B)
    h4, h5 = inner_of(at, own, 4, inner_b, bias_b, inside, B), inner_of(at, own, 5, inner_b, bias_b, inside, B)
    h6, h7 = inner_of(at, own, 6, inner_b, bias_b, inside, B), inner_of(at, own, 7, inner_b, bias_b, inside, B)
    inverse = 1 / tl.load(temperature + member * temperature_m)
    weights += member * weights_m + k
    values += member * values_m + k * values_k
    log_prior += member * prior_m + k * prior_k
    first, second = keys(tl.load(seed + member * seed_m), tl.load(step + member * step_m))
    row = row_word((tl.program_id(1) * rows_m + n) * K + k, first)
    neuron = member * K + k
    lane = neuron * N + n
    z, kl = tl.load(z_in + lane, inside, 0.0) * inverse, tl.load(kl_in + lane, inside, 0.0) * LOG2E
    # Beyond the last row p and y are 0.
    top, log_total = tl.load(top_in + lane, inside, 1e30), tl.load(log_total_in + lane, inside, 0.0)
    level = tl.load(level_in + lane, inside, 1e30)
    gz, gkl = tl.zeros((R,), tl.float32), tl.zeros((R,), tl.float32)
    if HAS_Z:
        from_z = grad_z + member * grad_z_m + n.to(tl.int64) * grad_z_n + k.to(tl.int64) * grad_z_k
        gz = tl.load(from_z, inside, 0.0).to(tl.float32)
    if HAS_KL:
        from_kl = grad_kl + member * grad_kl_m + n.to(tl.int64) * grad_kl_n + k.to(tl.int64) * grad_kl_k
        gkl = tl.load(from_kl, inside, 0.0).to(tl.float32) * LN2
    d0, d1, d2, d3 = gz * 0, gz * 0, gz * 0, gz * 0
    d4, d5, d6, d7 = gz * 0, gz * 0, gz * 0, gz * 0
    offset = (member * blocks + block) * K + k
    weight_parts += offset * (B * C)
    bias_parts += offset * C
    if WANTS_VALUES:
        value_parts += offset * C
    begin = tl.program_id(2) * PART
    w0, w1, w2, w3, w4, w5, w6, w7, bias = weights_of(weights, begin, K, C, B)
    v = bin_of(values, begin, values_c, k, 0, inside, C, False)
    r = bin_of(log_prior, begin, prior_c, k, 0, inside, C, False)
    for index in range(PART):
        c = begin + index
        # Load the next bin's weights before this bin's stores, which a later load could not overtake.
        n0, n1, n2, n3, n4, n5, n6, n7, next_bias = weights_of(weights, c + 1, K, C, B)
        next_v = bin_of(values, c + 1, values_c, k, 0, inside, C, False)
        next_r = bin_of(log_prior, c + 1, prior_c, k, 0, inside, C, False)
        a = floored(product(h0, h1, h2, h3, h4, h5, h6, h7, w0, w1, w2, w3, w4, w5, w6, w7, bias, B))
        gumbel = -log2_exponential(row, bin_word(c, second))
        grad, weight = slopes(
            a, gumbel, v * inverse, floored(r * LOG2E), inverse, top, log_total, level, z, kl, gz, gkl
        )
        d0 += grad * w0
        if B > 1:
            d1 += grad * w1
        if B > 2:
            d2 += grad * w2
        if B > 3:
            d3 += grad * w3
        if B > 4:
            d4 += grad * w4
        if B > 5:
            d5 += grad * w5
        if B > 6:
            d6 += grad * w6
        if B > 7:
            d7 += grad * w7
        w0, w1, w2, w3, w4, w5, w6, w7, bias = n0, n1, n2, n3, n4, n5, n6, n7, next_bias
        v, r = next_v, next_r
        store_sum(weight_parts, 0, grad * h0, c, B, C)
        store_sum(weight_parts, 1, grad * h1, c, B, C)
        store_sum(weight_parts, 2, grad * h2, c, B, C)
        store_sum(weight_parts, 3, grad * h3, c, B, C)
        store_sum(weight_parts, 4, grad * h4, c, B, C)
        store_sum(weight_parts, 5, grad * h5, c, B, C)
        store_sum(weight_parts, 6, grad * h6, c, B, C)
        store_sum(weight_parts, 7, grad * h7, c, B, C)
        store_sum(bias_parts, 0, grad, c, 1, C)
        if WANTS_VALUES:
            store_sum(value_parts, 0, weight, c, 1, C)
    out = inner_parts + (part * (tl.num_programs(1) * K) + neuron) * B * N + n
    bias_part = inner_bias_parts + ((member * tl.num_programs(2) + part) * blocks + block) * (K * B) + k * B
    store_inner(out, bias_part, 0, d0, inside, N, B)
    store_inner(out, bias_part, 1, d1, inside, N, B)
    store_inner(out, bias_part, 2, d2, inside, N, B)
    store_inner(out, bias_part, 3, d3, inside, N, B)
    store_inner(out, bias_part, 4, d4, inside, N, B)
    store_inner(out, bias_part, 5, d5, inside, N, B)
    store_inner(out, bias_part, 6, d6, inside, N, B)
    store_inner(out, bias_part, 7, d7, inside, N, B)


@triton.jit
def pack_kernel(
    weight, bias, out, K, weight_m, bias_m, C: tl.constexpr, B: tl.constexpr, KB: tl.constexpr, L: tl.constexpr
):
    """Pack W'' (M, K, B, C) and b'' (M, K, C), with any stride along M, as (M, C, B + 1, K)."""
    member = tl.program_id(1).to(tl.int64)
    line = tl.program_id(0) % (B + 1)
    k = (tl.program_id(0) // (B + 1)) * KB + tl.arange(0, KB)[:, None]
    out += member * (C * (B + 1) * K) + line * K
    for begin in range(0, C, L):
        c = begin + tl.arange(0, L)[None, :]
        inside = (k < K) & (c < C)
        b = tl.load(bias + member * bias_m + k * C + c, inside & (line == B), 0.0).to(tl.float32)
        at = weight + member * weight_m + (k * B + line) * C + c
        w = tl.load(at, inside & (line < B), 0.0).to(tl.float32)
        tl.store(out + c * ((B + 1) * K) + k, b + w, inside)


def _pack(weight: Tensor, bias: Tensor) -> Tensor:
    """Return W'' and b'' in the layout of the kernels, with contiguous neurons: (M, C, B + 1, K)."""
    members, neurons, rank, bins = weight.shape
    if not weight[0].is_contiguous() or not bias[0].is_contiguous():
        weight, bias = weight.contiguous(), bias.contiguous()
    out = torch.empty(members, bins, rank + 1, neurons, device=weight.device)
    width = 1024 if INTERPRETED else 32
    with on_device(weight.device):
        pack_kernel[(triton.cdiv(neurons, width) * (rank + 1), members)](
            weight, bias, out, neurons, strides(weight)[0], strides(bias)[0],
            C=bins, B=rank, KB=width, L=min(64, triton.next_power_of_2(bins)),
        )  # fmt: skip
    return out


class _SampleWithKL(Function):
    """Autograd function of the kernels; shapes as in :func:`sample_with_kl`.

    Returns z (M, N, K), kl (M, N, K), or (M, N) with ``total``, and the tensors that the backward pass needs.
    """

    @staticmethod
    def forward(
        inner: Tensor, inner_bias: Tensor, weight: Tensor, bias: Tensor, values: Tensor, log_prior: Tensor,
        temperature: Tensor, seed: Tensor, step: Tensor, rows_m: int, total: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        members, rows, _, rank = inner.shape
        _, neurons, _, bins = weight.shape
        weights = _pack(weight, bias)
        height = min(tile_size(members * rows * neurons, TILES[0], 64), max(32, triton.next_power_of_2(rows)))
        out = values.new_empty(members, rows, neurons)
        z, top, log_total, level = (values.new_empty(members, neurons, rows) for _ in range(4))
        # The shape of z in the memory order of the others; not a view, so that callers may write into it.
        kl = values.new_empty_strided((members, rows, neurons), (neurons * rows, 1, rows))
        with on_device(inner.device):
            forward_kernel[(triton.cdiv(rows, height) * neurons, members)](
                inner, inner_bias, weights, values, log_prior, temperature, seed, step, out, z, kl, top,
                log_total, level, rows, neurons, rows_m,
                *_strides(inner, inner_bias, weights, values, log_prior, temperature, seed, step),
                C=bins, B=rank, R=height, num_warps=1,
            )  # fmt: skip
        saved = z, top, log_total, level, weights
        return (out, sum_rows(kl.mT)[0], *saved, kl) if total else (out, kl, *saved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        *tensors, ctx.rows_m, total = inputs
        ctx.save_for_backward(*tensors, *output[2:7], output[7 if total else 1])

    @staticmethod
    def backward(ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad_z is None and grad_kl is None:
            return (None,) * 11
        inner, inner_bias, weight, bias, values, log_prior, temperature, seed, step, *saved = ctx.saved_tensors
        z, top, log_total, level, weights, kl = saved
        members, rows, _, rank = inner.shape
        _, neurons, _, bins = weight.shape
        if grad_kl is not None and grad_kl.dim() == 2:  # the gradient of the sum over neurons
            grad_kl = grad_kl.unsqueeze(-1).expand(-1, -1, neurons)
        if torch.is_grad_enabled() or not have_storage(grad_z, grad_kl):
            plain = partial(
                _plain, log_prior=log_prior, temperature=temperature, seed=seed, step=step, rows_m=ctx.rows_m
            )
            leaves = inner, inner_bias, weight, bias, values
            grads = differentiable_gradients(plain, leaves, ctx.needs_input_grad[:5], (grad_z, grad_kl))
            return *grads, *[None] * 6
        height = min(TILES[1], max(32, triton.next_power_of_2(rows)))
        blocks = triton.cdiv(rows, height)
        parts = min(triton.cdiv(bins, 4), triton.cdiv(PROGRAMS, blocks * neurons * members))
        inner_parts = values.new_empty(parts, members, neurons, rank, rows)
        inner_bias_parts = values.new_empty(members, parts * blocks, neurons, rank)
        weight_parts = values.new_empty(members, blocks, neurons, rank, bins)
        bias_parts = values.new_empty(members, blocks, neurons, bins)
        wants_values = ctx.needs_input_grad[4] and grad_z is not None
        value_parts = torch.empty_like(bias_parts) if wants_values else None
        output_grads = grad_z, grad_kl
        with on_device(inner.device):
            backward_kernel[(blocks * neurons, members, parts)](
                inner, inner_bias, weights, values, log_prior, temperature, seed, step,
                z, kl.mT.contiguous(), top, log_total, level, *output_grads,
                inner_parts, inner_bias_parts, weight_parts, bias_parts, value_parts, rows, neurons, ctx.rows_m,
                *_strides(inner, inner_bias, weights, values, log_prior, temperature, seed, step),
                *(s for g in output_grads for s in ([0, 0, 0] if g is None else strides(g))),
                C=bins, B=rank, HAS_Z=grad_z is not None, HAS_KL=grad_kl is not None, WANTS_VALUES=wants_values,
                PART=triton.cdiv(bins, parts), R=height, num_warps=1,
            )  # fmt: skip
        jobs = [inner_bias_parts, weight_parts, bias_parts]
        if parts > 1:
            jobs.append(inner_parts.view(1, parts, -1))
        # Shared values have one gradient for all neurons: summed in the same launch, unless there are too many rows.
        per_neuron, at_once = values.shape[-1] > 1, blocks * neurons <= MAX_ROWS
        if value_parts is not None:
            jobs.append(value_parts if per_neuron or not at_once else value_parts.flatten(1, 2))
        grad_inner_bias, grad_weight, grad_bias, *rest = sum_rows(*jobs)
        grad_inner = rest.pop(0).view(inner_parts.shape[1:]) if parts > 1 else inner_parts[0]
        grad_values = None
        for total in rest:
            grad_values = total.mT if per_neuron else (total if at_once else sum_rows(total)[0]).unsqueeze(-1)
            grad_values = grad_values.sum_to_size(values.shape)
        return (
            grad_inner.permute(0, 3, 1, 2).sum_to_size(inner.shape).to(inner.dtype),
            grad_inner_bias.sum_to_size(inner_bias.shape).to(inner_bias.dtype), grad_weight.to(weight.dtype),
            grad_bias.to(bias.dtype), grad_values, *[None] * 6,
        )  # fmt: skip

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """Map by a loop."""
        return vmap_by_loop(_SampleWithKL, info.batch_size, in_dims, inputs)


def _plain(
    inner: Tensor, inner_bias: Tensor, weight: Tensor, bias: Tensor, values: Tensor, *, log_prior: Tensor,
    temperature: Tensor, seed: Tensor, step: Tensor, rows_m: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute z and kl by the reference, with materialized logits."""
    wide = (inner.float() + inner_bias.float().unsqueeze(1)).expand(-1, -1, weight.shape[1], -1)
    logits = torch.einsum("mnkb,mkbc->mnck", wide, weight.float()) + bias.float().mT.unsqueeze(1)
    # A single seed numbers the rows of all members consecutively.
    key = Key(seed[0], step[0]) if rows_m else Key(seed, step)
    return reference.sample_with_kl(
        logits, values.unsqueeze(1), log_prior.unsqueeze(1), temperature.view(-1, 1, 1, 1), key
    )


def _strides(
    inner: Tensor, inner_bias: Tensor, weights: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor,
    seed: Tensor, step: Tensor,
) -> list[int]:  # fmt: skip
    """Return the strides in the order of the kernels' arguments."""
    return [
        *strides(inner),
        *strides(inner_bias),
        strides(weights)[0],
        *strides(values),
        *strides(log_prior),
        *(strides(x)[0] for x in (temperature, seed, step)),
    ]


def sample_with_kl(
    inner: Tensor, inner_bias: Tensor, weight: Tensor, bias: Tensor, values: Tensor, log_prior: Tensor,
    temperature: Tensor, key: Key, *, total: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute z and kl of a factorized layer.

    Args:
        inner: W' x, shape (M, N, K or 1, B), in single or half precision, B <= 8; fastest if rows are contiguous.
        inner_bias: b', shape (M, K or 1, B).
        weight: W'', shape (M, K, B, C).
        bias: b'', shape (M, K, C).
        values: Bin values, shape (M or 1, C, K or 1), float32.
        log_prior: Log prior, same shapes as ``values``.
        temperature: Temperature, shape (M,) or (1,).
        key: Key of the noise: shape (M,), or () for one seed that numbers the rows of all members consecutively.
        total: Whether to sum kl over the neurons.

    Returns:
        z and kl in float32, shape (M, N, K) each; kl of shape (M, N) with ``total``.
    """
    rows_m = 0 if key.seed.dim() else inner.shape[1]
    seed, step = (part.reshape(-1) for part in key)
    z, kl, *_ = _SampleWithKL.apply(
        inner, inner_bias, weight, bias, values, log_prior, temperature, seed, step, rows_m, total
    )
    return z, kl
