"""Backend of two Triton kernels: logits are read once forward and once backward, and nothing of size C is saved.

A program handles a tile of rows x neurons and loops over the bins, so that neighbouring lanes read neighbouring words.
The forward kernel keeps a running maximum and sums relative to it for both softmaxes.  It processes four bins at a
time, so that four loads are in flight and a new maximum costs one exponential in four.  The backward kernel regenerates
the noise and uses the saved maxima and sums.  :mod:`squad.ops.triton_bins` has the parts shared with
:mod:`squad.ops.triton_factorized`.
"""

# Kernels have no Python types, and their compile-time constants are in capitals, as in Triton itself.

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from squad.core.noise import Key
from squad.ops import eager, reference
from squad.ops.triton_bins import (
    FLOOR,
    LN2,
    LOG2E,
    bin_of,
    finish,
    floored,
    four_bins,
    has_bin,
    slopes,
    start,
    tile_size,
)
from squad.ops.triton_launch import (
    INTERPRETED,
    MAX_MEMBERS,
    differentiable_gradients,
    have_storage,
    on_device,
    strides,
    vmap_by_loop,
)
from squad.ops.triton_noise import bin_word, keys, log2_exponential, row_word
from squad.ops.triton_sums import sum_rows

__all__ = ["is_supported", "sample_with_kl"]

#: Numbers per tile, i.e. per warp.  The interpreter's time is proportional to the number of tiles.
TILE = 8192 if INTERPRETED else 128
#: Number of programs that keeps a GPU busy: if rows and neurons give fewer, the backward kernel splits the bins, too.
PROGRAMS = 1 if INTERPRETED else 2048


@triton.jit
def logit_of(at, bias, c, k, K, inside, C: tl.constexpr, BIASED: tl.constexpr):
    """Load the logits of bin c; beyond the last bin there is no mass."""
    exists = has_bin(inside, c, C)
    out = tl.load(at + c * K, exists, FLOOR).to(tl.float32)
    if BIASED:
        out += tl.load(bias + c * K + k, exists, 0.0)
    return tl.where(exists, floored(out), 4 * FLOOR)


@triton.jit
def gumbel_of(noise_at, noise_c, row, second, c, inside, C: tl.constexpr, GIVEN: tl.constexpr):
    """Return the Gumbel numbers of bin c in binary units: explicit noise, or generated."""
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
    """Process R rows x KB neurons of one member; ``rows_out`` (M, N, columns) is the KL summed over its neurons."""
    member = tl.program_id(1).to(tl.int64)
    n = (tl.program_id(0) // columns) * R + tl.arange(0, R)[:, None]
    neuron = (tl.program_id(0) % columns) * KB + tl.arange(0, KB)[None, :]
    # Repeated for every row of the tile: values loaded for one row of neurons would have to be moved between lanes.
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
        i = tl.cast(index, tl.int32)  # a Python number in the interpreter
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
    """Process R rows x KB neurons of one member, and PART of the bins.

    Each tile writes its partial sums of the gradient of values to ``value_parts``: (M, row blocks, C, K) if values are
    per neuron, (M, tiles, C) otherwise.  ``grad_rows`` is the gradient of ``rows_out``.
    """
    member = tl.program_id(1).to(tl.int64)
    n = (tl.program_id(0) // columns) * R + tl.arange(0, R)[:, None]
    neuron = (tl.program_id(0) % columns) * KB + tl.arange(0, KB)[None, :]
    # Repeated for every row of the tile: values loaded for one row of neurons would have to be moved between lanes.
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
    # Outside the tile p and y are 0.
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
        # The same in all columns of the forward pass, because their sum is returned.
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
                exists = has_bin(neuron < K, c, C)
                tl.store(value_parts + (row_block * C + c) * K + neuron, tl.sum(weight, 0)[None, :], exists)
            else:
                tl.store(value_parts + block * C + c, tl.sum(weight), c < C)


class _Call(NamedTuple):
    """Arguments of the kernels for one call.

    Attributes:
        logits: Logits of shape (M, N, C, K), contiguous.
        bias: Bias of shape (M or 1, C, K), contiguous per member; or None.
        values: Bin values, shape (M or 1, C, K or 1).
        log_prior: Log prior, same shapes as values.
        temperature: Temperature, shape (M or 1,).
        seed: Seed of the noise, int64 of shape (M or 1,); or None.
        step: Step of the noise, same shapes as seed; or None.
        noise: Explicit noise, shape (M, N, C, K) with any strides; or None.
        rows_m: Offset of row numbers from one member to the next: 0, unless all members share one seed.
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
        """Return the tensors in the order of the kernels' arguments."""
        return [self.logits, self.bias, self.values, self.log_prior, self.temperature, self.seed, self.step, self.noise]

    def strides(self) -> list[int]:
        """Return the strides in the order of the kernels' arguments; 0 along axes that broadcast."""
        result = [0 if self.bias is None else strides(self.bias)[0]]
        result += [stride for x in (self.values, self.log_prior) for stride in strides(x)]
        result += [strides(x)[0] if x is not None else 0 for x in (self.temperature, self.seed, self.step)]
        return result + (strides(self.noise) if self.noise is not None else [0, 0, 0, 0])

    def options(self) -> dict[str, Any]:
        """Return the compile-time constants of the kernels."""
        return {
            "C": self.logits.shape[2],
            "BIASED": self.bias is not None,
            "NEURON_VALUES": self.values.shape[-1] > 1,
            "NEURON_PRIOR": self.log_prior.shape[-1] > 1,
            "GIVEN": self.noise is not None,
        }


def tile_shape(rows: int, neurons: int, numbers: int) -> tuple[int, int]:
    """Return rows and neurons of a tile of ``numbers`` numbers: powers of 2, with little padding."""
    if INTERPRETED:  # its time is proportional to the number of tiles
        return min(triton.next_power_of_2(rows), numbers), triton.next_power_of_2(neurons)
    widths = [width for width in (16, 32, 64, 128) if width <= numbers]
    padded = {width: -(-neurons // width) * width for width in widths}
    width = max(width for width in widths if padded[width] <= 1.25 * min(padded.values()))
    return min(max(1, numbers // width), triton.next_power_of_2(rows)), width


def is_supported(logits: Tensor, values: Tensor, log_prior: Tensor, bias: Tensor | None = None) -> bool:
    """Return whether the kernels support these tensors.

    They must be in single or half precision; values, prior and bias must not have an axis of rows; and the number of
    members must not exceed the limit of a CUDA grid.

    Args:
        logits: Logits, shape (..., C, K).
        values: Bin values, broadcastable to the shape of ``logits``.
        log_prior: Log prior, broadcastable to the shape of ``logits``.
        bias: Added to the logits; None for none.

    Returns:
        False if :func:`sample_with_kl` would use the eager backend.
    """
    tables = [values, log_prior] if bias is None else [values, log_prior, bias]
    return (
        (logits.is_cuda or INTERPRETED)
        and logits.numel() > 0
        and (logits.dim() < 3 or logits.shape[0] <= MAX_MEMBERS or all(x.dim() < 3 or x.shape[0] == 1 for x in tables))
        and all(x.dtype == torch.float32 for x in tables)
        and all(x.dim() < 4 or x.shape[1:-2].numel() == 1 for x in tables)
        and all(x.dim() < 3 or x.shape[0] in (1, logits.shape[0]) for x in tables)
    )


def _contiguous_per_member(x: Tensor) -> Tensor:
    """Return ``x`` (M, C, K) contiguous within each member, with any stride between members."""
    return x if x[0].is_contiguous() else x.contiguous()


def _make_call(
    logits: Tensor, bias: Tensor | None, values: Tensor, log_prior: Tensor, temperature: Tensor, seed: Tensor | None,
    step: Tensor | None, noise: Tensor | None,
) -> _Call:  # fmt: skip
    """View the leading axes as members and rows; one member if nothing differs between members."""
    *lead, bins, neurons = logits.shape
    member_sizes = [x.shape[0] for x in (bias, values, log_prior, temperature) if x is not None and x.dim() > 2]
    keyed = seed is not None and seed.dim() == 1
    members = lead[0] if lead and (keyed or max(member_sizes, default=1) > 1) else 1
    rows = torch.Size(lead).numel() // members
    shape = members, rows, bins, neurons
    return _Call(
        logits.reshape(shape).contiguous(),
        None if bias is None else _contiguous_per_member(bias.reshape(-1, *bias.shape[-2:]).expand(-1, -1, neurons)),
        values.reshape(-1, *values.shape[-2:]),
        log_prior.reshape(-1, *log_prior.shape[-2:]),
        temperature.reshape(-1),
        None if seed is None else seed.reshape(-1),
        None if step is None else step.reshape(-1),
        None if noise is None else noise.expand(logits.shape).reshape(shape),
        0 if keyed else rows,
    )


class _SampleWithKL(Function):
    """Autograd function of the kernels.

    Returns z, kl, kl summed over each tile's neurons (..., columns), and the tensors that the backward pass needs.
    """

    @staticmethod
    def forward(
        logits: Tensor, bias: Tensor | None, values: Tensor, log_prior: Tensor, temperature: Tensor,
        seed: Tensor | None, step: Tensor | None, noise: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        call = _make_call(logits, bias, values, log_prior, temperature, seed, step, noise)
        members, rows, _, neurons = call.logits.shape
        height, width = tile_shape(rows, neurons, tile_size(members * rows * neurons, TILE, neurons))
        columns = triton.cdiv(neurons, width)
        lead = logits.shape[:-2]
        z, kl, *saved = (values.new_empty((*lead, neurons)) for _ in range(5))
        totals = values.new_empty((*lead, columns))
        with on_device(logits.device):
            forward_kernel[(triton.cdiv(rows, height) * columns, members)](
                *call.tensors(), z, kl, totals, *saved, rows, neurons, columns, call.rows_m, *call.strides(),
                **call.options(), R=height, KB=width, num_warps=1,
            )  # fmt: skip
        return z, kl, totals, *saved

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        z, kl, _, *extra = output
        ctx.mark_non_differentiable(*extra)
        ctx.set_materialize_grads(False)
        # With save_for_backward torch detects changes of a tensor before the backward pass.
        ctx.save_for_backward(*inputs, z, kl, *extra)

    @staticmethod
    def backward(
        ctx: Any, grad_z: Tensor | None, grad_kl: Tensor | None, grad_rows: Tensor | None, *_: Any
    ) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once: activation checkpointing returns each saved tensor only once
        inputs, output = saved[:8], saved[8:]
        if grad_z is None and grad_kl is None and grad_rows is None:
            return (None,) * 8
        if torch.is_grad_enabled() or not have_storage(grad_z, grad_kl, grad_rows):
            return *_differentiable(inputs, ctx.needs_input_grad[:3], grad_z, grad_kl, grad_rows), *[None] * 5
        call = _make_call(*inputs)
        logits, bias, values = inputs[:3]
        members, rows, bins, neurons = call.logits.shape
        max_parts = triton.cdiv(bins, 4)  # of the bins
        height, width = tile_shape(rows, neurons, tile_size(members * rows * neurons * max_parts, TILE, neurons))
        columns = triton.cdiv(neurons, width)
        blocks = triton.cdiv(rows, height)
        grads = [None if g is None else g.reshape(members, rows, -1) for g in (grad_z, grad_kl, grad_rows)]
        # The gradient of a bias is the sum of the gradients of the logits, before these are rounded.
        wants_bias = call.bias is not None and ctx.needs_input_grad[1]
        grad_logits = torch.empty_like(call.logits, dtype=torch.float32 if wants_bias else None)
        value_parts = None
        if ctx.needs_input_grad[2] and grad_z is not None:
            shape = (blocks, bins, neurons) if call.values.shape[-1] > 1 else (blocks * columns, bins, 1)
            value_parts = values.new_empty(members, *shape)
        parts = min(max_parts, triton.cdiv(PROGRAMS, blocks * columns * members))
        with on_device(values.device):
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
    """Compute differentiable gradients of logits, bias and values by the reference, for second derivatives."""
    *leaves, log_prior, temperature, seed, step, noise = inputs
    noise_or_key = Key(seed, step) if noise is None else noise

    def plain(logits: Tensor, bias: Tensor | None, values: Tensor) -> tuple[Tensor, Tensor]:
        biased = logits.to(values.dtype) if bias is None else logits.to(values.dtype) + bias
        return reference.sample_with_kl(biased, values, log_prior, temperature, noise_or_key)

    if grad_rows is not None:  # the same in all columns, because their sum is returned
        per_row = grad_rows.mean(-1, keepdim=True) if grad_rows.shape[-1] > 1 else grad_rows
        per_row = per_row.expand(*leaves[0].shape[:-2], leaves[0].shape[-1])
        grad_kl = per_row if grad_kl is None else grad_kl + per_row
    return differentiable_gradients(plain, tuple(leaves), needed, (grad_z, grad_kl))


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
    """Compute :func:`squad.ops.sample_with_kl` for validated tensors.

    Inputs that the kernels do not support are passed to the eager backend.

    Args:
        logits: Logits, shape (..., C, K).
        values: Bin values, broadcastable to the shape of ``logits``.
        log_prior: Log prior, broadcastable to the shape of ``logits``.
        temperature: Temperature: a number, or a tensor broadcastable to the shape of ``logits``.
        noise: Gumbel numbers, broadcastable to the shape of ``logits``, or the key that generates them.
        bias: Added to the logits, broadcastable to their shape; None for none.
        total: Whether to sum the KL over the latents.

    Returns:
        z of shape (..., K), and the KL in nats of the same shape, or (...) with ``total``.
    """
    too_many_seeds = isinstance(noise, Key) and noise.seed.dim() == 1 and len(noise.seed) > MAX_MEMBERS
    if too_many_seeds or not is_supported(logits, values, log_prior, bias):
        biased = logits if bias is None else logits.to(values.dtype) + bias
        z, kl = eager.sample_with_kl(biased, values, log_prior, temperature, noise)
        return z, kl.sum(-1) if total else kl
    if not isinstance(temperature, Tensor):
        temperature = torch.full((), temperature, dtype=torch.float32, device=logits.device)
    seed_step_noise = (None, None, noise) if isinstance(noise, Tensor) else (noise.seed, noise.step, None)
    z, kl, tile_totals, *_ = _SampleWithKL.apply(logits, bias, values, log_prior, temperature, *seed_step_noise)
    if not total:
        return z, kl
    return z, tile_totals.squeeze(-1) if tile_totals.shape[-1] == 1 else tile_totals.sum(-1)
