"""Sampling and KL of a factorized layer as two Triton kernels that never write its logits.

A logit is B multiply-adds from the B numbers of its neuron, so it is cheaper to compute it again than to read it.  The
walk along the bins is that of :mod:`squad.ops.triton_sample`; backward sums the gradients of W'' over the rows of a
tile as it goes.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803, N806
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from squad.core.noise import Key
from squad.ops.triton_noise import INTERPRETED, bin_word, keys, log2_exponential, row_word
from squad.ops.triton_sample import FLOOR, LN2, LOG2E, bin_of, finish, floored, four_bins, on, slopes, start, strides

__all__ = ["RANKS", "sample_with_kl"]

#: The largest B the kernels are written for.
RANKS = 8
#: Rows and neurons of a tile: (forward, backward).  A tile is one warp's.  Backward has few neurons and many rows: its
#: sums over the rows are then few, and stay within a lane and its neighbours.
ROWS = (256, 256) if INTERPRETED else (4, 64)
WIDTHS = (64, 64) if INTERPRETED else (32, 4)
WARPS = (1, 1)


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
    return out


# What K is a multiple of is kept from the compiler: it would give a lane four neighbouring neurons instead of rows, and
# sums over rows would then go through other lanes.
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
def _add2(a, b, c, d):
    return a + c, b + d


@triton.jit
def _add4(a, b, c, d, e, f, g, h):
    return a + e, b + f, c + g, d + h


@triton.jit
def pass_on(at, c, k, K, grad, d, B: tl.constexpr, b: tl.constexpr, exists):
    """What the gradient of a logit adds to that of number b."""
    if b < B:
        d += grad * tl.load(at + b * K, exists, 0.0)
    return d


@triton.jit(do_not_specialize=["K", "inner_n"])
def backward_kernel(
    inner, weights, values, log_prior, temperature, seed, step, z_in, kl_in,
    top_in, log_total_in, level_in, grad_z, grad_kl, grad_inner, parts,
    N, K, columns, rows_m, inner_m, inner_n, inner_k, inner_b,
    weights_m, values_m, values_c, values_k, prior_m, prior_c, prior_k, temperature_m, seed_m, step_m,
    grad_z_m, grad_z_n, grad_z_k, grad_kl_m, grad_kl_n, grad_kl_k,
    C: tl.constexpr, B: tl.constexpr, NEURON_VALUES: tl.constexpr, NEURON_PRIOR: tl.constexpr,
    HAS_Z: tl.constexpr, HAS_KL: tl.constexpr, R: tl.constexpr, KB: tl.constexpr,
):  # fmt: skip
    """A tile of R rows x KB neurons; ``parts`` has its sums over the rows: (M, row blocks, C, B + 2, K).

    Of B + 2 the first B belong to W'', then come b'' and the values.
    """
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
    lane = (member.to(tl.int64) * N + n) * K + k
    z, kl = tl.load(z_in + lane, inside, 0.0) * inverse, tl.load(kl_in + lane, inside, 0.0) * LOG2E
    # Beyond the edge p and y are 0.
    top, log_total = tl.load(top_in + lane, inside, 1e30), tl.load(log_total_in + lane, inside, 0.0)
    level = tl.load(level_in + lane, inside, 1e30)
    gz, gkl = tl.zeros((R, KB), tl.float32), tl.zeros((R, KB), tl.float32)
    if HAS_Z:
        from_z = grad_z + member.to(tl.int64) * grad_z_m + n.to(tl.int64) * grad_z_n + k * grad_z_k
        gz = tl.load(from_z, inside, 0.0).to(tl.float32)
    if HAS_KL:
        from_kl = grad_kl + member.to(tl.int64) * grad_kl_m + n.to(tl.int64) * grad_kl_n + k * grad_kl_k
        gkl = tl.load(from_kl, inside, 0.0).to(tl.float32) * LN2
    d0, d1, d2, d3 = gz * 0, gz * 0, gz * 0, gz * 0
    d4, d5, d6, d7 = gz * 0, gz * 0, gz * 0, gz * 0
    parts += (member.to(tl.int64) * (tl.num_programs(0) // columns) + tl.program_id(0) // columns) * (C * (B + 2) * K)
    for index in range(C):
        c = tl.cast(index, tl.int32)
        a = logit_of(weights, c, k, K, h0, h1, h2, h3, h4, h5, h6, h7, C, B)
        v = bin_of(values, c, values_c, k, values_k, k < K, C, NEURON_VALUES)
        r = floored(bin_of(log_prior, c, prior_c, k, prior_k, k < K, C, NEURON_PRIOR) * LOG2E)
        gumbel = -log2_exponential(row, bin_word(c, second))
        grad, weight = slopes(a, gumbel, v * inverse, r, inverse, top, log_total, level, z, kl, gz, gkl)
        w = weights + c * ((B + 1) * K) + k
        d0, d1 = pass_on(w, c, k, K, grad, d0, B, 0, k < K), pass_on(w, c, k, K, grad, d1, B, 1, k < K)
        d2, d3 = pass_on(w, c, k, K, grad, d2, B, 2, k < K), pass_on(w, c, k, K, grad, d3, B, 3, k < K)
        d4, d5 = pass_on(w, c, k, K, grad, d4, B, 4, k < K), pass_on(w, c, k, K, grad, d5, B, 5, k < K)
        d6, d7 = pass_on(w, c, k, K, grad, d6, B, 6, k < K), pass_on(w, c, k, K, grad, d7, B, 7, k < K)
        part = parts + c * ((B + 2) * K) + k
        s0, s1 = tl.reduce((grad, weight), 0, _add2)
        tl.store(part + B * K, s0[None, :], k < K)
        tl.store(part + (B + 1) * K, s1[None, :], k < K)
        if B == 1:
            tl.store(part, tl.sum(grad * h0, 0)[None, :], k < K)
        elif B == 2:
            s0, s1 = tl.reduce((grad * h0, grad * h1), 0, _add2)
            tl.store(part, s0[None, :], k < K)
            tl.store(part + K, s1[None, :], k < K)
        else:
            s0, s1, s2, s3 = tl.reduce((grad * h0, grad * h1, grad * h2, grad * h3), 0, _add4)
            tl.store(part, s0[None, :], k < K)
            tl.store(part + K, s1[None, :], k < K)
            tl.store(part + 2 * K, s2[None, :], k < K)
            if B > 3:
                tl.store(part + 3 * K, s3[None, :], k < K)
            if B > 4:
                s0, s1, s2, s3 = tl.reduce((grad * h4, grad * h5, grad * h6, grad * h7), 0, _add4)
                tl.store(part + 4 * K, s0[None, :], k < K)
                if B > 5:
                    tl.store(part + 5 * K, s1[None, :], k < K)
                if B > 6:
                    tl.store(part + 6 * K, s2[None, :], k < K)
                if B > 7:
                    tl.store(part + 7 * K, s3[None, :], k < K)
    # (M, N, K, B), whatever the inner numbers' own axes are.
    out = grad_inner + lane * B
    tl.store(out, d0, inside)
    if B > 1:
        tl.store(out + 1, d1, inside)
    if B > 2:
        tl.store(out + 2, d2, inside)
    if B > 3:
        tl.store(out + 3, d3, inside)
    if B > 4:
        tl.store(out + 4, d4, inside)
    if B > 5:
        tl.store(out + 5, d5, inside)
    if B > 6:
        tl.store(out + 6, d6, inside)
    if B > 7:
        tl.store(out + 7, d7, inside)


class _SampleWithKL(Function):
    """inner (M, N, K or 1, B), weights (M, C, B + 1, K), values and log_prior (M or 1, C, K or 1), ..."""

    @staticmethod
    def forward(
        inner: Tensor, weights: Tensor, values: Tensor, log_prior: Tensor, temperature: Tensor, seed: Tensor,
        step: Tensor, rows_m: int,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        members, rows, _, rank = inner.shape
        bins, neurons = weights.shape[1], weights.shape[3]
        height, width = min(ROWS[0], triton.next_power_of_2(rows)), WIDTHS[0]
        columns = triton.cdiv(neurons, width)
        out = [values.new_empty(members, rows, neurons) for _ in range(5)]
        with on(inner.device):
            forward_kernel[(triton.cdiv(rows, height) * columns, members)](
                inner, weights, values, log_prior, temperature, seed, step, *out, rows, neurons, columns, rows_m,
                *_walks(inner, weights, values, log_prior, temperature, seed, step),
                C=bins, B=rank, NEURON_VALUES=values.shape[-1] > 1, NEURON_PRIOR=log_prior.shape[-1] > 1,
                R=height, KB=width, num_warps=WARPS[0],
            )  # fmt: skip
        return tuple(out)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        ctx.rows_m = inputs[-1]
        ctx.save_for_backward(*inputs[:-1], *output)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad_z is None and grad_kl is None:
            return (None,) * 8
        inputs, output = ctx.saved_tensors[:7], ctx.saved_tensors[7:]
        inner, weights, values, log_prior, *_ = inputs
        members, rows, _, rank = inner.shape
        bins, neurons = weights.shape[1], weights.shape[3]
        height, width = min(ROWS[1], triton.next_power_of_2(rows)), WIDTHS[1]
        columns = triton.cdiv(neurons, width)
        blocks = triton.cdiv(rows, height)
        grad_inner = values.new_empty(members, rows, neurons, rank)
        parts = values.new_empty(members, blocks, bins, rank + 2, neurons)
        grads = [None if g is None else g.reshape(members, rows, neurons) for g in (grad_z, grad_kl)]
        with on(inner.device):
            backward_kernel[(blocks * columns, members)](
                *inputs, *output, *grads, grad_inner, parts, rows, neurons, columns, ctx.rows_m,
                *_walks(*inputs), *(s for g in grads for s in ([0, 0, 0] if g is None else strides(g))),
                C=bins, B=rank, NEURON_VALUES=values.shape[-1] > 1, NEURON_PRIOR=log_prior.shape[-1] > 1,
                HAS_Z=grad_z is not None, HAS_KL=grad_kl is not None, R=height, KB=width, num_warps=WARPS[1],
            )  # fmt: skip
        sums = parts.sum(1)
        grad_values = sums[:, :, rank + 1].sum_to_size(values.shape)
        return (
            grad_inner.sum_to_size(inner.shape).to(inner.dtype), sums[:, :, : rank + 1].sum_to_size(weights.shape),
            grad_values, None, None, None, None, None,
        )  # fmt: skip


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
        values, log_prior: (M or 1, C, K or 1), float32.
        temperature: (M,) or (1,).
        key: of one seed for all members, whose rows are then counted through, or (M,).
    """
    weights = torch.cat([weight, bias.unsqueeze(-2)], -2).float().permute(0, 3, 2, 1).contiguous()
    rows_m = 0 if key.seed.dim() else inner.shape[1]
    seed, step = (part.reshape(-1) for part in key)
    z, kl, *_ = _SampleWithKL.apply(
        inner, weights, values, log_prior, temperature, seed, step, rows_m
    )  # type: ignore[no-untyped-call]
    return z, kl
