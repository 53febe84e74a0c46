"""Parts of Triton kernels that loop over the bins: both softmaxes of the operation with running maxima and sums.

Computations are in float32 and in binary units (powers and logarithms to base 2), the units of the GPU's exponential.
"""

# Kernels have no Python types, and their compile-time constants are in capitals, as in Triton itself.
# Arguments that come four at a time are described together.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, D417, N803
import triton
import triton.language as tl

from squad.ops.triton_launch import INTERPRETED

__all__ = [
    "FLOOR",
    "LN2",
    "LOG2E",
    "bin_of",
    "finish",
    "floored",
    "four_bins",
    "has_bin",
    "slopes",
    "start",
    "tile_size",
]

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
#: Finite stand-in for -inf: its exponential is 0, and 0 times a finite number is 0.
FLOOR = tl.constexpr(-1e30)


@triton.jit
def floored(x):
    """Replace -inf by FLOOR; NaN is kept, which ``tl.maximum`` would not do."""
    return tl.where(x < FLOOR, FLOOR, x)


@triton.jit
def start(zero):
    """Return the initial state of the loop over bins.

    For p: the maximum logit, the sum of weights and the sum of weighted log ratios.  For y: the maximum, the sum of
    weights and the sum of weighted values.
    """
    low = zero + 10 * FLOOR
    return low, zero, zero, low, zero, zero


@triton.jit
def four_bins(
    top, total, ratios, top_y, total_y, sums, inverse, a, b, c, d, e, f, g, h, va, vb, vc, vd, ra, rb, rc, rd
):
    """Update the state with four more bins.

    Args:
        top, ..., sums: State of the loop.
        inverse: 1 / temperature.
        a, b, c, d: Logits.
        e, f, g, h: Their Gumbel numbers, in binary units.
        va, ..., vd: Bin values.
        ra, ..., rd: Log prior, in binary units.
    """
    higher = tl.maximum(top, tl.maximum(tl.maximum(a, b), tl.maximum(c, d)))
    moved = (top - higher) * LOG2E
    scale = tl.exp2(moved)
    # Log ratios are relative to the maximum, so they change with it.
    ratios, total = scale * (ratios + moved * total), scale * total
    # Scaled after the subtraction, to reduce rounding; the same holds for the temperature below.
    a2, b2, c2, d2 = (a - higher) * LOG2E, (b - higher) * LOG2E, (c - higher) * LOG2E, (d - higher) * LOG2E
    pa, pb, pc, pd = tl.exp2(a2), tl.exp2(b2), tl.exp2(c2), tl.exp2(d2)
    total += (pa + pb) + (pc + pd)
    ratios += (pa * (a2 - ra) + pb * (b2 - rb)) + (pc * (c2 - rc) + pd * (d2 - rd))
    # The logits of y are relative to the maximum of p, too, so that large logits lose no precision.
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
    """Compute z, kl in nats, and the numbers that the backward pass needs from the final state.

    These are the maximum logit and, relative to it, log2 of the sums of p and of y.  Where no bin has mass, z and kl
    are NaN.

    Args:
        top, ..., sums: State of the loop.
        inverse: 1 / temperature.
    """
    log_total = tl.log2(total)
    kl = (ratios / total - log_total) * LN2
    # Rounding errors below zero become zero; values below -1e-3 are not rounding errors and remain visible.
    kl = tl.where((kl < 0) & (kl > -1e-3), 0.0, kl)
    z, kl = tl.where(top > FLOOR, sums / total_y, float("nan")), tl.where(top > FLOOR, kl, float("nan"))
    return z, kl, top, log_total, top_y * inverse + tl.log2(total_y)


@triton.jit
def slopes(a, gumbel, v, r, inverse, top, log_total, level, z, kl, grad_z, grad_kl):
    """Compute the gradient of a logit, and y times the gradient of z.

    Args:
        a: Logit.
        gumbel: Its Gumbel number, in binary units.
        v: Bin value, divided by the temperature.
        r: Log prior, in binary units.
        inverse: 1 / temperature.
        top, log_total, level: Numbers of the forward pass, from :func:`finish`.
        z: Relaxed sample, divided by the temperature.
        kl: KL, in binary units.
        grad_z: Gradient of z.
        grad_kl: Gradient of the KL, multiplied by log 2.
    """
    a2 = (a - top) * LOG2E
    log_p = a2 - log_total
    weight = tl.exp2((a2 + gumbel) * inverse - level) * grad_z
    return tl.exp2(log_p) * (log_p - r - kl) * grad_kl + weight * (v - z), weight


@triton.jit
def has_bin(inside, c, C: tl.constexpr):
    """Return ``inside`` if bin c exists, else false.

    The interpreter cannot combine a mask and a scalar, hence this function.

    Args:
        inside: Mask of the latents in the tile.
        c: Index of the bin.
        C: Number of bins.
    """
    return inside & (c + tl.zeros_like(inside).to(tl.int32) < C)


@triton.jit
def bin_of(table, c, stride_c, k, stride_k, inside, C: tl.constexpr, PER_NEURON: tl.constexpr):
    """Load the entry of a bin from a table (C, K or 1); 0 beyond the last bin.

    Args:
        table: Pointer to the table.
        c: Index of the bin.
        stride_c: Stride of the table along its bins.
        k: Indices of the neurons.
        stride_k: Stride of the table along its neurons.
        inside: Mask of the latents in the tile.
        C: Number of bins.
        PER_NEURON: Whether the table has one column per neuron.
    """
    if PER_NEURON:
        out = tl.load(table + c * stride_c + k * stride_k, has_bin(inside, c, C), 0.0)
    else:
        out = tl.load(table + c * stride_c, c < C, 0.0)
    return out


def tile_size(latents: int, numbers: int, least: int) -> int:
    """Return the size of a tile, at most ``numbers``: smaller if there would be too few tiles to keep a GPU busy.

    Args:
        latents: Number of latents to compute.
        numbers: Largest tile, in latents; a power of two.
        least: Smallest tile; at least 32 is used.

    Returns:
        Number of latents per tile.
    """
    while not INTERPRETED and numbers > max(least, 32) and latents < 1024 * numbers:
        numbers //= 2
    return numbers
