"""Sampling and KL of a factorized layer as two Triton kernels that never write its logits.

A logit is B multiply-adds from the B numbers of its neuron, so it is cheaper to compute it again than to read it.  The
walk along the bins is that of :mod:`squad.ops.triton_sample`; backward sums the gradients of W'' over the rows of a
tile as it goes.
"""

# Kernels have no Python types, and what they are compiled for is written in capitals, as Triton's own are.
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
from squad.ops.triton_launch import INTERPRETED, all_in_memory, gradients, on, one_by_one, strides
from squad.ops.triton_noise import bin_word, keys, log2_exponential, row_word
from squad.ops.triton_sample import FLOOR, LN2, LOG2E, bin_of, finish, floored, four_bins, lanes, slopes, start
from squad.ops.triton_sums import summed

__all__ = ["RANKS", "sample_with_kl"]

#: The largest B the kernels are written for.
RANKS = 8
#: Numbers of a tile, which is one warp's: (forward, backward).  Forward has 32 neurons in it, backward one.
TILES = (8192, 512) if INTERPRETED else (128, 128)
WIDTH = 32
#: Bins at a time, backward: where tiles are many, and where they are few and lanes would wait.
BINS_AT_ONCE = (1, 2)


@triton.jit
def inner_of(at, b: tl.constexpr, stride_b, inside, B: tl.constexpr):
    """Number b of B in a tile of neurons; what stands for those that are not there does not matter."""
    return tl.load(at + (b if b < B else 0) * stride_b, inside, 0.0).to(tl.float32)


@triton.jit
def logit_of(weights, c, k, K, h0, h1, h2, h3, h4, h5, h6, h7, C: tl.constexpr, B: tl.constexpr):
    """The logits of bin c from weights (C, B + 1, K), the last of B + 1 being the bias; none beyond the last bin."""
    exists = (k < K) & (c + tl.zeros_like(k) < C)
    at = weights + c * ((B + 1) * K) + k
    out = h0 * tl.load(at, exists, 0.0) + tl.load(at + B * K, exists, FLOOR)
    if B > 1:
        out += h1 * tl.load(at + K, exists, 0.0)
    if B > 2:
        out += h2 * tl.load(at + 2 * K, exists, 0.0)
    if B > 3:
        out += h3 * tl.load(at + 3 * K, exists, 0.0)
    if B > 4:
        out += h4 * tl.load(at + 4 * K, exists, 0.0)
    if B > 5:
        out += h5 * tl.load(at + 5 * K, exists, 0.0)
    if B > 6:
        out += h6 * tl.load(at + 6 * K, exists, 0.0)
    if B > 7:
        out += h7 * tl.load(at + 7 * K, exists, 0.0)
    return tl.where(exists, floored(out), 4 * FLOOR)


# What K is a multiple of is kept from the compiler: it would give a lane four neighbouring neurons instead of rows.
@triton.jit(do_not_specialize=["K", "inner_n"])
def forward_kernel(
    inner, weights, values, log_prior, temperature, seed, step, z_out, kl_out,
    top_out, log_total_out, level_out,
    N, K, columns, rows_m, inner_m, inner_n, inner_k, inner_b,
    weights_m, values_m, values_c, values_k, prior_m, prior_c, prior_k, temperature_m, seed_m, step_m,
    C: tl.constexpr, B: tl.constexpr, NEURON_VALUES: tl.constexpr, NEURON_PRIOR: tl.constexpr,
    R: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """A tile of R rows x KB neurons of one member."""
    member = tl.program_id(1)
    n = (tl.program_id(0) // columns) * R + tl.arange(0, R)[:, None]
    k = (tl.program_id(0) % columns) * KB + tl.arange(0, KB)[None, :]
    inside = (n < N) & (k < K)
    at = inner + member.to(tl.int64) * inner_m + n.to(tl.int64) * inner_n + k * inner_k
    h0, h1 = inner_of(at, 0, inner_b, inside, B), inner_of(at, 1, inner_b, inside, B)
    h2, h3 = inner_of(at, 2, inner_b, inside, B), inner_of(at, 3, inner_b, inside, B)
    h4, h5 = inner_of(at, 4, inner_b, inside, B), inner_of(at, 5, inner_b, inside, B)
    h6, h7 = inner_of(at, 6, inner_b, inside, B), inner_of(at, 7, inner_b, inside, B)
    inverse = 1 / tl.load(temperature + member * temperature_m)
    weights += member * weights_m
    values += member * values_m
    log_prior += member * prior_m
    first, second = keys(tl.load(seed + member * seed_m), tl.load(step + member * step_m))
    row = row_word((member * rows_m + n) * K + k, first)
    top, total, ratios, top_y, total_y, sums = start(R, KB)
    for index in range(0, C, 4):
        i = tl.cast(index, tl.int32)
        top, total, ratios, top_y, total_y, sums = four_bins(
            top, total, ratios, top_y, total_y, sums, inverse,
            logit_of(weights, i, k, K, h0, h1, h2, h3, h4, h5, h6, h7, C, B),
            logit_of(weights, i + 1, k, K, h0, h1, h2, h3, h4, h5, h6, h7, C, B),
            logit_of(weights, i + 2, k, K, h0, h1, h2, h3, h4, h5, h6, h7, C, B),
            logit_of(weights, i + 3, k, K, h0, h1, h2, h3, h4, h5, h6, h7, C, B),
            -log2_exponential(row, bin_word(i, second)),
            -log2_exponential(row, bin_word(i + 1, second)),
            -log2_exponential(row, bin_word(i + 2, second)),
            -log2_exponential(row, bin_word(i + 3, second)),
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
    lane = (member.to(tl.int64) * N + n) * K + k
    tl.store(z_out + lane, z, inside)
    tl.store(kl_out + lane, kl, inside)
    tl.store(top_out + lane, top, inside)
    tl.store(log_total_out + lane, log_total, inside)
    tl.store(level_out + lane, level, inside)


@triton.jit
def store_sum(part, b: tl.constexpr, numbers, c, most: tl.constexpr, C: tl.constexpr):
    """The sum over rows as bin c of line b of ``part`` (..., C), if there is such a line and bin."""
    if b < most:
        tl.store(part + b * C, tl.sum(numbers), c < C)


@triton.jit
def weight_of(at, b: tl.constexpr, K, B: tl.constexpr):
    """Number b of B + 1; the first for one that is not there."""
    return tl.load(at + (b if b < B else 0) * K)


@triton.jit
def weights_of(at, K, B: tl.constexpr):
    """A neuron's weights of one bin, and its bias."""
    return (
        weight_of(at, 0, K, B), weight_of(at, 1, K, B), weight_of(at, 2, K, B), weight_of(at, 3, K, B),
        weight_of(at, 4, K, B), weight_of(at, 5, K, B), weight_of(at, 6, K, B), weight_of(at, 7, K, B),
        tl.load(at + B * K),
    )  # fmt: skip


@triton.jit
def store_inner(out, b: tl.constexpr, d, inside, B: tl.constexpr):
    """The gradient of inner number b, if there is such a number."""
    if b < B:
        tl.store(out + b, d, inside)


@triton.jit
def backward_kernel(
    inner, weights, values, log_prior, temperature, seed, step, z_in, kl_in,
    top_in, log_total_in, level_in, grad_z, grad_kl, grad_inner, parts,
    N, K, rows_m, inner_m, inner_n, inner_k, inner_b,
    weights_m, values_m, values_c, values_k, prior_m, prior_c, prior_k, temperature_m, seed_m, step_m,
    grad_z_m, grad_z_n, grad_z_k, grad_kl_m, grad_kl_n, grad_kl_k,
    C: tl.constexpr, B: tl.constexpr, NEURON_VALUES: tl.constexpr, NEURON_PRIOR: tl.constexpr,
    HAS_Z: tl.constexpr, HAS_KL: tl.constexpr, UNROLL: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """R rows of one neuron; ``parts`` has their sums: (M, row blocks, K, B + 2, C).

    Of B + 2 the first B belong to W'', then come b'' and the values.  With one neuron its weights are single numbers,
    and sums over rows are a warp's own.
    """
    member = tl.program_id(1)
    # Neighbouring programs have neighbouring neurons of the same rows, which lie in the same sectors of memory.
    k = tl.program_id(0) % K
    n = (tl.program_id(0) // K) * R + tl.arange(0, R)
    inside = n < N
    at = inner + member.to(tl.int64) * inner_m + n.to(tl.int64) * inner_n + k * inner_k
    h0, h1 = inner_of(at, 0, inner_b, inside, B), inner_of(at, 1, inner_b, inside, B)
    h2, h3 = inner_of(at, 2, inner_b, inside, B), inner_of(at, 3, inner_b, inside, B)
    h4, h5 = inner_of(at, 4, inner_b, inside, B), inner_of(at, 5, inner_b, inside, B)
    h6, h7 = inner_of(at, 6, inner_b, inside, B), inner_of(at, 7, inner_b, inside, B)
    inverse = 1 / tl.load(temperature + member * temperature_m)
    weights += member * weights_m + k
    values += member * values_m + k * values_k
    log_prior += member * prior_m + k * prior_k
    first, second = keys(tl.load(seed + member * seed_m), tl.load(step + member * step_m))
    row = row_word((member * rows_m + n) * K + k, first)
    lane = (member.to(tl.int64) * N + n) * K + k
    z, kl = tl.load(z_in + lane, inside, 0.0) * inverse, tl.load(kl_in + lane, inside, 0.0) * LOG2E
    # Beyond the edge p and y are 0.
    top, log_total = tl.load(top_in + lane, inside, 1e30), tl.load(log_total_in + lane, inside, 0.0)
    level = tl.load(level_in + lane, inside, 1e30)
    gz, gkl = tl.zeros((R,), tl.float32), tl.zeros((R,), tl.float32)
    if HAS_Z:
        from_z = grad_z + member.to(tl.int64) * grad_z_m + n.to(tl.int64) * grad_z_n + k * grad_z_k
        gz = tl.load(from_z, inside, 0.0).to(tl.float32)
    if HAS_KL:
        from_kl = grad_kl + member.to(tl.int64) * grad_kl_m + n.to(tl.int64) * grad_kl_n + k * grad_kl_k
        gkl = tl.load(from_kl, inside, 0.0).to(tl.float32) * LN2
    d0, d1, d2, d3 = gz * 0, gz * 0, gz * 0, gz * 0
    d4, d5, d6, d7 = gz * 0, gz * 0, gz * 0, gz * 0
    parts += (member.to(tl.int64) * tl.num_programs(0) + tl.program_id(0)) * (C * (B + 2))
    w0, w1, w2, w3, w4, w5, w6, w7, bias = weights_of(weights, K, B)
    v, r = tl.load(values), tl.load(log_prior)
    for index in range(0, C, UNROLL):
        for j in tl.static_range(UNROLL):
            c = tl.cast(index + j, tl.int32)
            # What the next bin needs is asked for before this one stores anything, which a load could not overtake.
            following = tl.minimum(c + 1, C - 1)
            n0, n1, n2, n3, n4, n5, n6, n7, next_bias = weights_of(weights + following * ((B + 1) * K), K, B)
            next_v, next_r = tl.load(values + following * values_c), tl.load(log_prior + following * prior_c)
            a = h0 * w0 + bias
            if B > 1:
                a += h1 * w1
            if B > 2:
                a += h2 * w2
            if B > 3:
                a += h3 * w3
            if B > 4:
                a += h4 * w4
            if B > 5:
                a += h5 * w5
            if B > 6:
                a += h6 * w6
            if B > 7:
                a += h7 * w7
            a = floored(a)
            gumbel = -log2_exponential(row, bin_word(c, second))
            r = floored(r * LOG2E)
            grad, weight = slopes(a, gumbel, v * inverse, r, inverse, top, log_total, level, z, kl, gz, gkl)
            if UNROLL > 1:  # there may be no such bin
                grad, weight = tl.where(c < C, grad, 0.0), tl.where(c < C, weight, 0.0)
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
            part = parts + c
            store_sum(part, 0, grad * h0, c, B, C)
            store_sum(part, 1, grad * h1, c, B, C)
            store_sum(part, 2, grad * h2, c, B, C)
            store_sum(part, 3, grad * h3, c, B, C)
            store_sum(part, 4, grad * h4, c, B, C)
            store_sum(part, 5, grad * h5, c, B, C)
            store_sum(part, 6, grad * h6, c, B, C)
            store_sum(part, 7, grad * h7, c, B, C)
            store_sum(part, B, grad, c, B + 1, C)
            store_sum(part, B + 1, weight, c, B + 2, C)
    # (M, N, K, B), whatever the inner numbers' own axes are.
    out = grad_inner + lane * B
    store_inner(out, 0, d0, inside, B)
    store_inner(out, 1, d1, inside, B)
    store_inner(out, 2, d2, inside, B)
    store_inner(out, 3, d3, inside, B)
    store_inner(out, 4, d4, inside, B)
    store_inner(out, 5, d5, inside, B)
    store_inner(out, 6, d6, inside, B)
    store_inner(out, 7, d7, inside, B)


class _SampleWithKL(Function):
    """inner (M, N, K or 1, B), weight (M, K, B, C), bias (M, K, C), values and log_prior (M or 1, C, K or 1), ..."""

    @staticmethod
    def forward(
        inner: Tensor, weight: Tensor, bias: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor,
        seed: Tensor, step: Tensor, rows_m: int,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        members, rows, _, rank = inner.shape
        _, neurons, _, bins = weight.shape
        # As the kernels read them, neighbouring neurons side by side: (M, C, B + 1, K).
        weights = torch.cat([weight, bias.unsqueeze(-2)], -2).float().permute(0, 3, 2, 1).contiguous()
        numbers = max(lanes(members * rows * neurons, TILES[0], WIDTH), WIDTH)
        height = min(numbers // WIDTH, triton.next_power_of_2(rows))
        columns = triton.cdiv(neurons, WIDTH)
        out = [values.new_empty(members, rows, neurons) for _ in range(5)]
        with on(inner.device):
            forward_kernel[(triton.cdiv(rows, height) * columns, members)](
                inner, weights, values, log_prior, temperature, seed, step, *out, rows, neurons, columns, rows_m,
                *_walks(inner, weights, values, log_prior, temperature, seed, step),
                C=bins, B=rank, NEURON_VALUES=values.shape[-1] > 1, NEURON_PRIOR=log_prior.shape[-1] > 1,
                R=height, KB=WIDTH, num_warps=1,
            )  # fmt: skip
        return *out, weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        ctx.rows_m = inputs[-1]
        ctx.save_for_backward(*inputs[:-1], *output)

    @staticmethod
    def backward(ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad_z is None and grad_kl is None:
            return (None,) * 9
        inner, weight, bias, values, log_prior, temperature, seed, step, *output, weights = ctx.saved_tensors
        if torch.is_grad_enabled() or not all_in_memory(grad_z, grad_kl):
            plain = partial(
                _plain, log_prior=log_prior, temperature=temperature, seed=seed, step=step, rows_m=ctx.rows_m
            )
            leaves = inner, weight, bias, values
            return *gradients(plain, leaves, ctx.needs_input_grad[:4], (grad_z, grad_kl)), *[None] * 5
        members, rows, _, rank = inner.shape
        _, neurons, _, bins = weight.shape
        numbers = lanes(members * rows * neurons, TILES[1], 64)
        height = min(numbers, triton.next_power_of_2(rows))
        blocks = triton.cdiv(rows, height)
        grad_inner = values.new_empty(members, rows, neurons, rank)
        parts = values.new_empty(members, blocks, neurons, rank + 2, bins)
        grads = [None if g is None else g.reshape(members, rows, neurons) for g in (grad_z, grad_kl)]
        with on(inner.device):
            backward_kernel[(blocks * neurons, members)](
                inner, weights, values, log_prior, temperature, seed, step, *output, *grads, grad_inner, parts,
                rows, neurons, ctx.rows_m, *_walks(inner, weights, values, log_prior, temperature, seed, step),
                *(s for g in grads for s in ([0, 0, 0] if g is None else strides(g))),
                C=bins, B=rank, NEURON_VALUES=values.shape[-1] > 1, NEURON_PRIOR=log_prior.shape[-1] > 1,
                HAS_Z=grad_z is not None, HAS_KL=grad_kl is not None,
                UNROLL=BINS_AT_ONCE[numbers < TILES[1]], R=height, num_warps=1,
            )  # fmt: skip
        sums = summed(parts)  # (M, K, B + 2, C)
        return (
            grad_inner.sum_to_size(inner.shape).to(inner.dtype), sums[:, :, :rank].to(weight.dtype),
            sums[:, :, rank].to(bias.dtype), sums[:, :, rank + 1].mT.sum_to_size(values.shape), *[None] * 5,
        )  # fmt: skip

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """As :func:`one_by_one`."""
        return one_by_one(_SampleWithKL, info.batch_size, in_dims, inputs)


def _plain(
    inner: Tensor, weight: Tensor, bias: Tensor, values: Tensor, *, log_prior: Tensor, temperature: Tensor,
    seed: Tensor, step: Tensor, rows_m: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same by the reference, with logits written out."""
    wide = inner.float().expand(-1, -1, weight.shape[1], -1)
    logits = torch.einsum("mnkb,mkbc->mnck", wide, weight.float()) + bias.float().mT.unsqueeze(1)
    # One seed for all members counts its rows through them.
    key = Key(seed[0], step[0]) if rows_m else Key(seed, step)
    return reference.sample_with_kl(
        logits, values.unsqueeze(1), log_prior.unsqueeze(1), temperature.view(-1, 1, 1, 1), key
    )


def _walks(
    inner: Tensor, weights: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor, seed: Tensor, step: Tensor
) -> list[int]:
    """Strides in the order of the kernels' arguments."""
    return [
        *strides(inner),
        strides(weights)[0],
        *strides(values),
        *strides(log_prior),
        *(strides(x)[0] for x in (temperature, seed, step)),
    ]


def sample_with_kl(
    inner: Tensor, weight: Tensor, bias: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor, key: Key
) -> tuple[Tensor, Tensor]:
    """z and kl, (M, N, K) each, in float32.

    Args:
        inner: (M, N, K or 1, B), in single or half precision, B being 8 at the most.
        weight: W'', (M, K, B, C).
        bias: b'', (M, K, C).
        values: (M or 1, C, K or 1), float32.
        log_prior: as values.
        temperature: (M,) or (1,).
        key: of one seed for all members, whose rows are then counted through, or (M,).
    """
    rows_m = 0 if key.seed.dim() else inner.shape[1]
    seed, step = (part.reshape(-1) for part in key)
    z, kl, *_ = _SampleWithKL.apply(inner, weight, bias, values, log_prior, temperature, seed, step, rows_m)
    return z, kl
