"""Sampling modes as Triton kernels: :mod:`squad.layers.sampling_modes` without tensors of size T x C.

A program handles a tile of samples x lanes, where a lane is one latent variable of one row, and loops over the bins:
neighbouring lanes read neighbouring words, logits shared by the samples are read once, and sums stay in registers.
:func:`linear` also computes the logits, so that a latent layer after another one does not write them.

Axes as in :mod:`squad.layers.sampling_modes`: logits (M, S, N, C, K), values (M, 1, 1, C, 1 or K), noise (M, T, ...)
whose last two axes are contiguous.  Computations are in the dtype of the result; winners are selected in the dtype of
the logits.
"""

# Kernels have no Python types, and their compile-time constants are in capitals, as in Triton itself.
# Compile-time branches stay if statements: the branch not taken need not compile.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803, SIM108
import torch
import triton
import triton.language as tl
from torch import Tensor

from squad.ops.triton_launch import INTERPRETED, on_device

__all__ = ["add_predictions", "hard", "linear", "mean", "relaxed", "stratified", "supports_linear"]

#: Samples per tile, lanes per tile and warps per program.  The interpreter's time is proportional to the tiles.
SAMPLES = 32
LANES = 4096 if INTERPRETED else 128
WARPS = 4
#: Samples per tile of stratified and hard samples; stratified ones have twice the state.
STRATA = 16
#: Numbers per tile of x in :func:`linear` (rows times inputs), neurons per tile, warps and pipeline stages.
INPUT_TILE = 4096
NEURONS = 32
LINEAR_WARPS = 4
LINEAR_STAGES = 2
#: Precision of matrix products in kernels.  Three tensor-core products, which keep 21 bits, are as accurate as one in
#: float32, whose sums round as much; "ieee" is float32 without tensor cores.
PRECISION = "tf32x3"
#: Maximum number of inputs of :func:`linear`: beyond, a tile of x does not fit, and a separate product is worthwhile.
MAX_INPUTS = 64
#: Rows per tile of :func:`add_predictions`, and warps per program.
ANSWER_ROWS = 1024 if INTERPRETED else 32
ANSWER_WARPS = 2

#: Finite stand-in for -inf, so that differences are never between two infinities.
_FLOOR = tl.constexpr(-1e30)
#: Kinds of noise: none; added to logits / temperature; or a factor of their exponential.
_NONE, _ADDED, _FACTOR = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
_NOISE_KINDS = {"none": 0, "added": 1, "factor": 2}


@triton.jit
def _one_bin(top, total, sums, a, noise, v, NOISE: tl.constexpr):
    """Update the running softmax with one more bin; a is logit / temperature.

    One exponential suffices, whether or not the maximum changes.  With noise as a factor, the maximum is that of a
    alone and is shared by all samples.
    """
    if NOISE == _ADDED:
        a = a + noise
    d = a - top
    e = tl.exp(-tl.abs(d))
    higher = d > 0
    old, new = tl.where(higher, e, 1.0), tl.where(higher, 1.0, e)
    if NOISE == _FACTOR:
        new = new * noise
    total = total * old + new
    sums = sums * old + new * v
    return tl.where(higher, a, top), total, sums


@triton.jit
def _tile(samples, count, SAMPLES: tl.constexpr, LANES: tl.constexpr):
    """Return the samples (SAMPLES, 1) and lanes (1, LANES) of this program; neighbouring programs share lanes."""
    tiles = tl.cdiv(samples, SAMPLES)
    program = tl.program_id(0)
    sample = (program % tiles) * SAMPLES + tl.arange(0, SAMPLES)
    lane = (program // tiles) * LANES + tl.arange(0, LANES)
    return sample[:, None], lane[None, :]


@triton.jit(do_not_specialize=["samples", "rows", "bins"])
def _relaxed(
    logits_at, values_at, noise_at, inverse_at, out_at, samples, rows, bins, neurons,
    noise_member, value_member, value_bin, value_neuron,
    NOISE: tl.constexpr, SHARED: tl.constexpr, SAMPLES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    number = out_at.dtype.element_ty
    count = rows * neurons
    sample, lane = _tile(samples, count, SAMPLES, LANES)
    member = tl.program_id(1).to(tl.int64)
    row, neuron = lane // neurons, lane % neurons
    inside = lane < count
    drawn = inside & (sample < samples)
    inverse = tl.load(inverse_at + member)
    noise_at += member * noise_member + sample * (bins * neurons) + neuron
    values_at += member * value_member + neuron * value_neuron
    if SHARED:
        known = inside
        logits_at += member * count * bins + (row.to(tl.int64) * (bins * neurons) + neuron)
    else:
        known = drawn
        logits_at += (member * samples + sample) * count * bins + (row.to(tl.int64) * (bins * neurons) + neuron)
    if NOISE == _FACTOR:
        top = tl.full((1, LANES), _FLOOR, number)
    else:
        top = tl.full((SAMPLES, LANES), _FLOOR, number)
    total = tl.zeros((SAMPLES, LANES), number)
    sums = tl.zeros((SAMPLES, LANES), number)
    for index in range(bins):
        a = tl.load(logits_at + index * neurons, mask=known, other=0.0) * inverse
        v = tl.load(values_at + index * value_bin, mask=inside, other=0.0)
        if NOISE == _NONE:
            top, total, sums = _one_bin(top, total, sums, a, 0.0, v, NOISE)
        else:
            noise = tl.load(noise_at + index * neurons, mask=drawn, other=1.0)
            top, total, sums = _one_bin(top, total, sums, a, noise, v, NOISE)
    tl.store(out_at + (member * samples + sample) * count + lane, sums / total, mask=drawn)


@triton.jit(do_not_specialize=["samples", "rows", "bins"])
def _stratified(
    logits_at, values_at, levels_at, first_at, others_at, inverse_at, out_at, samples, rows, bins, neurons,
    levels_member, first_member, first_sample, others_member, others_sample, value_member, value_bin, value_neuron,
    SQUARES: tl.constexpr, SHARED: tl.constexpr, SAMPLES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    number = out_at.dtype.element_ty
    exact = logits_at.dtype.element_ty
    count = rows * neurons
    sample, lane = _tile(samples, count, SAMPLES, LANES)
    member = tl.program_id(1).to(tl.int64)
    row, neuron = lane // neurons, lane % neurons
    inside = lane < count
    drawn = inside & (sample < samples)
    inverse = tl.load(inverse_at + member)
    values_at += member * value_member + neuron * value_neuron
    if SHARED:
        known = inside
        logits_at += member * count * bins + (row.to(tl.int64) * (bins * neurons) + neuron)
        zero = tl.zeros((1, LANES), exact)
    else:
        known = drawn
        logits_at += (member * samples + sample) * count * bins + (row.to(tl.int64) * (bins * neurons) + neuron)
        zero = tl.zeros((SAMPLES, LANES), exact)
    level = tl.load(levels_at + member * levels_member + sample * neurons + neuron, mask=drawn, other=0.0)
    first = tl.load(first_at + member * first_member + sample * first_sample + neuron, mask=drawn, other=1.0)
    others_at += member * others_member + sample * others_sample + neuron
    # First the normalizer; the second loop finds the logits of this tile in the cache.
    top, whole = zero + _FLOOR, zero
    for index in range(bins):
        a = tl.load(logits_at + index * neurons, mask=known, other=0.0)
        d = a - top
        e = tl.exp(-tl.abs(d))
        higher = d > 0
        whole = tl.where(higher, whole * e + 1.0, whole + e)
        top = tl.where(higher, a, top)
    below = zero
    total = tl.zeros((SAMPLES, LANES), number)
    sums = tl.zeros((SAMPLES, LANES), number)
    for index in range(bins):
        a = tl.load(logits_at + index * neurons, mask=known, other=0.0)
        v = tl.load(values_at + index * value_bin, mask=inside, other=0.0).to(number)
        others = tl.load(others_at + index * neurons, mask=drawn, other=1.0)
        p = tl.exp(a - top) / whole
        above = below + p
        # The winner is the first bin whose distribution function exceeds the level; for the last bin it is 1, exactly.
        won = (level >= below) & ((level < above) | (index == bins - 1))
        below = above
        ahead = first * p.to(number)
        weight = tl.where(won, 1.0, ahead / (ahead + others))
        if SQUARES:
            weight = weight * weight
        else:
            weight = tl.exp2(tl.log2(weight) * inverse)
        total += weight
        sums += weight * v
    tl.store(out_at + (member * samples + sample) * count + lane, sums / total, mask=drawn)


@triton.jit(do_not_specialize=["samples", "rows", "bins"])
def _hard(
    logits_at, values_at, noise_at, out_at, samples, rows, bins, neurons,
    noise_member, value_member, value_bin, value_neuron,
    SHARED: tl.constexpr, SAMPLES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    count = rows * neurons
    sample, lane = _tile(samples, count, SAMPLES, LANES)
    member = tl.program_id(1).to(tl.int64)
    row, neuron = lane // neurons, lane % neurons
    inside = lane < count
    drawn = inside & (sample < samples)
    noise_at += member * noise_member + sample * (bins * neurons) + neuron
    values_at += member * value_member + neuron * value_neuron
    if SHARED:
        known = inside
        logits_at += member * count * bins + (row.to(tl.int64) * (bins * neurons) + neuron)
    else:
        known = drawn
        logits_at += (member * samples + sample) * count * bins + (row.to(tl.int64) * (bins * neurons) + neuron)
    best = tl.full((SAMPLES, LANES), float("-inf"), out_at.dtype.element_ty)
    z = tl.zeros((SAMPLES, LANES), out_at.dtype.element_ty) + tl.load(values_at, mask=inside, other=0.0)
    for index in range(bins):
        a = tl.load(logits_at + index * neurons, mask=known, other=0.0)
        noisy = a + tl.load(noise_at + index * neurons, mask=drawn, other=0.0)
        v = tl.load(values_at + index * value_bin, mask=inside, other=0.0)
        better = noisy > best
        z = tl.where(better, v, z)
        best = tl.where(better, noisy, best)
    tl.store(out_at + (member * samples + sample) * count + lane, z, mask=drawn)


@triton.jit(do_not_specialize=["samples", "rows", "bins"])
def _linear(
    x_at, weight_at, bias_at, values_at, noise_at, inverse_at, out_at, samples, rows, inputs, bins, neurons,
    x_member, noise_member, value_member, value_bin, value_neuron,
    NOISE: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, INPUTS: tl.constexpr, NEURONS: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(neurons, NEURONS)
    sample, tile = tl.program_id(0) % samples, tl.program_id(0) // samples
    row = ((tile // columns) * ROWS + tl.arange(0, ROWS))[:, None]
    neuron = ((tile % columns) * NEURONS + tl.arange(0, NEURONS))[None, :]
    member = tl.program_id(1).to(tl.int64)
    wide = bins * neurons
    across, down = tl.arange(0, INPUTS)[None, :], tl.arange(0, INPUTS)[:, None]
    inside = neuron < neurons
    x_at += member * x_member + (sample * rows).to(tl.int64) * inputs
    x = tl.load(x_at + row * inputs + across, mask=(row < rows) & (across < inputs), other=0.0)
    weight_at += member * inputs * wide + down * wide + neuron
    bias_at += member * wide + neuron
    values_at += member * value_member + neuron * value_neuron
    noise_at += member * noise_member + sample * wide + neuron
    inverse = tl.load(inverse_at + member)
    top = tl.full((ROWS, NEURONS), _FLOOR, tl.float32)
    total = tl.zeros((ROWS, NEURONS), tl.float32)
    sums = tl.zeros((ROWS, NEURONS), tl.float32)
    for index in range(bins):
        weight = tl.load(weight_at + index * neurons, mask=(down < inputs) & inside, other=0.0)
        bias = tl.load(bias_at + index * neurons, mask=inside, other=0.0)
        v = tl.load(values_at + index * value_bin, mask=inside, other=0.0)
        a = (tl.dot(x, weight, input_precision=PRECISION) + bias) * inverse
        if NOISE == _NONE:
            top, total, sums = _one_bin(top, total, sums, a, 0.0, v, NOISE)
        else:
            noise = tl.load(noise_at + index * neurons, mask=inside, other=0.0)
            top, total, sums = _one_bin(top, total, sums, a, noise, v, NOISE)
    out_at += (member * samples + sample) * rows * neurons
    tl.store(out_at + row * neurons + neuron, sums / total, mask=(row < rows) & inside)


@triton.jit(do_not_specialize=["all_samples", "samples", "rows", "count"])
def _add_answers(
    logits_at, probabilities_at, entropy_at, all_samples, samples, rows, count, classes,
    probability_member, entropy_member,
    ROWS: tl.constexpr, CLASSES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    member = tl.program_id(1).to(tl.int64)
    label = tl.arange(0, CLASSES)[None, :]
    inside = (row < count)[:, None] & (label < classes)
    logits_at += member * samples * rows * classes + row[:, None] * classes + label
    means = tl.zeros((ROWS, CLASSES), tl.float64)
    entropy = tl.zeros((ROWS,), tl.float64)
    for _sample in range(samples):
        y = tl.load(logits_at, mask=inside, other=0.0).to(tl.float64)
        y = y - tl.max(tl.where(label < classes, y, float("-inf")), 1)[:, None]
        e = tl.where(label < classes, tl.exp(y), 0.0)
        total = tl.sum(e, 1)
        p = e / total[:, None]
        means += p
        # -sum p log p with log p = y - log(total).
        entropy += tl.log(total) - tl.sum(tl.where(label < classes, p * y, 0.0), 1)
        logits_at += rows * classes
    probabilities_at += member * probability_member + row[:, None] * classes + label
    entropy_at += member * entropy_member + row
    tl.store(probabilities_at, tl.load(probabilities_at, mask=inside) + means / all_samples, mask=inside)
    tl.store(entropy_at, tl.load(entropy_at, mask=row < count) + entropy / all_samples, mask=row < count)


def mean(logits: Tensor, values: Tensor, ones: Tensor) -> Tensor:
    """Compute the expectation of each latent.

    Args:
        logits: Logits, shape (M, S, N, C, K).
        values: Bin values, shape (M, 1, 1, C, 1 or K).
        ones: Ones, shape (M,), in place of 1 / temperature.

    Returns:
        Expectations, shape (M, S, N, K).
    """
    return _softmax_average(logits, values, None, "none", ones)


def relaxed(logits: Tensor, values: Tensor, scaled: Tensor | None, factors: Tensor | None, inverse: Tensor) -> Tensor:
    """Draw T relaxed samples.

    Args:
        logits: Logits of shape (M, S, N, C, K).
        values: Bin values, shape (M, 1, 1, C, 1 or K).
        scaled: Gumbel numbers divided by the temperature, shape (M, T, 1, C, K); not used if ``factors`` is given.
        factors: Exponentials of ``scaled``, if S = 1 and the noise can be separated from the logits.
        inverse: 1 / temperature, shape (M,).

    Returns:
        Samples, shape (M, T, N, K).
    """
    if factors is not None:
        return _softmax_average(logits, values, factors, "factor", inverse)
    return _softmax_average(logits, values, scaled, "added", inverse)


def _softmax_average(logits: Tensor, values: Tensor, noise: Tensor | None, kind: str, inverse: Tensor) -> Tensor:
    """Compute the average of the values under softmax(logits / temperature, combined with noise of ``kind``)."""
    members, logit_samples, rows, bins, neurons = logits.shape
    samples = logit_samples if noise is None else noise.shape[1]
    out = logits.new_empty(members, samples, rows, neurons)
    logits = logits.contiguous()
    noise = logits if noise is None else _contiguous_per_member(noise)
    # Logits that samples do not share are read once anyway, and small tiles allow more programs.
    shared = logit_samples == 1 and samples > 1
    tile = _samples_per_tile(samples, SAMPLES) if shared else 1
    with on_device(logits.device):
        _relaxed[_grid(samples, tile, rows * neurons, members)](
            logits, values, noise, inverse, out, samples, rows, bins, neurons,
            noise.stride(0), *_value_strides(values),
            NOISE=_NOISE_KINDS[kind], SHARED=logit_samples == 1, SAMPLES=tile, LANES=LANES, num_warps=WARPS,
        )  # fmt: skip
    return out


def stratified(
    logits: Tensor, values: Tensor, levels: Tensor, first: Tensor, others: Tensor, inverse: Tensor, squares: bool
) -> Tensor:
    """Draw T stratified relaxed samples.

    Args:
        logits: Logits of shape (M, S, N, C, K).
        values: Bin values, shape (M, 1, 1, C, 1 or K).
        levels: Quantile levels, shape (M, T, K); see :class:`squad.layers.sampling_modes.Strata`.
        first: Exponential numbers of the winners, shape (M, T, K).
        others: Exponential numbers of the other bins, shape (M, T, C, K).
        inverse: 1 / temperature, shape (M,).
        squares: Whether ``inverse`` is 2 for all members.

    Returns:
        Samples, shape (M, T, N, K), in the dtype of ``first``.
    """
    members, logit_samples, rows, bins, neurons = logits.shape
    samples = levels.shape[1]
    out = first.new_empty(members, samples, rows, neurons)
    logits, levels = logits.contiguous(), _contiguous_per_member(levels)
    tile = _samples_per_tile(samples, STRATA) if logit_samples == 1 else 1
    with on_device(logits.device):
        _stratified[_grid(samples, tile, rows * neurons, members)](
            logits, values, levels, first, others, inverse, out, samples, rows, bins, neurons,
            levels.stride(0), first.stride(0), first.stride(1), others.stride(0), others.stride(1),
            *_value_strides(values),
            SQUARES=squares, SHARED=logit_samples == 1, SAMPLES=tile, LANES=LANES, num_warps=WARPS,
        )  # fmt: skip
    return out


def hard(logits: Tensor, values: Tensor, gumbels: Tensor) -> Tensor:
    """Draw T samples on the bin values by the Gumbel-max trick.

    Args:
        logits: Logits, shape (M, S, N, C, K).
        values: Bin values, shape (M, 1, 1, C, 1 or K).
        gumbels: Gumbel numbers, shape (M, T, 1, C, K).

    Returns:
        Samples, shape (M, T, N, K).
    """
    members, logit_samples, rows, bins, neurons = logits.shape
    samples = gumbels.shape[1]
    out = logits.new_empty(members, samples, rows, neurons)
    logits, gumbels = logits.contiguous(), _contiguous_per_member(gumbels)
    tile = _samples_per_tile(samples, STRATA) if logit_samples == 1 else 1
    with on_device(logits.device):
        _hard[_grid(samples, tile, rows * neurons, members)](
            logits, values, gumbels, out, samples, rows, bins, neurons, gumbels.stride(0), *_value_strides(values),
            SHARED=logit_samples == 1, SAMPLES=tile, LANES=LANES, num_warps=WARPS,
        )  # fmt: skip
    return out


def supports_linear(inputs: int, dtype: torch.dtype) -> bool:
    """Return whether :func:`linear` supports a layer with this number of inputs and dtype."""
    return inputs <= MAX_INPUTS and dtype == torch.float32


def linear(x: Tensor, weight: Tensor, bias: Tensor, values: Tensor, scaled: Tensor | None, inverse: Tensor) -> Tensor:
    """Compute a linear layer of latents in one kernel, without writing its logits x W + b.

    Args:
        x: Input of shape (M or 1, S, N, in), with S = T.
        weight: Weights, shape (M, in, C * K).
        bias: Bias, shape (M, C * K).
        values: Bin values, shape (M, 1, 1, C, 1 or K).
        scaled: Gumbel numbers divided by the temperature, shape (M, T, 1, C, K), for relaxed samples; None for means.
        inverse: 1 / temperature, shape (M,); ones for means.

    Returns:
        Samples or means, shape (M, S, N, K).
    """
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    members, inputs, wide = weight.shape
    samples, rows = x.shape[1:3]
    bins = values.shape[-2]
    neurons = wide // bins
    out = x.new_empty(members, samples, rows, neurons)
    noise = out if scaled is None else _contiguous_per_member(scaled)
    block = max(16, triton.next_power_of_2(inputs))
    height, width = max(16, INPUT_TILE // block), min(NEURONS, max(16, triton.next_power_of_2(neurons)))
    grid = (triton.cdiv(rows, height) * triton.cdiv(neurons, width) * samples, members)
    with on_device(x.device):
        _linear[grid](
            x, weight, bias, values, noise, inverse, out, samples, rows, inputs, bins, neurons,
            0 if x.shape[0] == 1 else x.stride(0), noise.stride(0), *_value_strides(values),
            NOISE=_NOISE_KINDS["none" if scaled is None else "added"], PRECISION=PRECISION,
            ROWS=height, INPUTS=block, NEURONS=width, num_warps=LINEAR_WARPS, num_stages=LINEAR_STAGES,
        )  # fmt: skip
    return out


def add_predictions(logits: Tensor, probabilities: Tensor, entropy: Tensor, all_samples: int) -> None:
    """Add the predictions of T samples to running means over ``all_samples`` samples, in place and in one kernel.

    Args:
        logits: Output of the network, shape (M, T, rows, classes); the last rows may be padding.
        probabilities: Mean class probabilities, shape (M, N, classes) with N <= rows.
        entropy: Mean entropies in nats, shape (M, N).
        all_samples: Total number of samples in the means.
    """
    members, samples, rows, classes = logits.shape
    count = probabilities.shape[1]
    with on_device(logits.device):
        _add_answers[(triton.cdiv(count, ANSWER_ROWS), members)](
            logits.contiguous(), probabilities, entropy, all_samples, samples, rows, count, classes,
            probabilities.stride(0), entropy.stride(0),
            ROWS=ANSWER_ROWS, CLASSES=triton.next_power_of_2(classes), num_warps=ANSWER_WARPS,
        )  # fmt: skip


def _grid(samples: int, tile: int, lanes: int, members: int) -> tuple[int, int]:
    return triton.cdiv(lanes, LANES) * triton.cdiv(samples, tile), members


def _samples_per_tile(samples: int, maximum: int) -> int:
    return int(min(maximum, triton.next_power_of_2(samples)))


def _contiguous_per_member(table: Tensor) -> Tensor:
    """Return a table (M, T, ...), or a slice of its samples, contiguous within each member."""
    return table if table[0].is_contiguous() else table.contiguous()


def _value_strides(values: Tensor) -> tuple[int, int, int]:
    """Return the strides of the values along members, bins and neurons; 0 for values shared by neurons."""
    return values.stride(0), values.stride(-2), values.stride(-1) if values.shape[-1] > 1 else 0
