"""The generator of :mod:`squad.core.noise` for Triton kernels: the same bits, converted to exponential numbers.

A Gumbel number is ``-log E`` with E = -log u exponential.  Kernels use log2 E, which they need anyway.
"""

# Kernels have no Python types.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, ANN202
import triton
import triton.language as tl

from squad.ops.triton_launch import INTERPRETED

__all__ = ["bin_word", "keys", "log2", "log2_exponential", "row_word", "uniform"]

_MULTIPLIER_1 = tl.constexpr(0x7FEB352D)
_MULTIPLIER_2 = tl.constexpr(0x846CA68B)
_GOLDEN = tl.constexpr(0x9E3779B9)
_GOLDEN_3 = tl.constexpr(3 * 0x9E3779B9 & 0xFFFFFFFF)
_LN2 = tl.constexpr(0.6931471805599453)
#: Whether to use instructions of the GPU, which the interpreter does not support.
_USE_GPU_INSTRUCTIONS = tl.constexpr(not INTERPRETED)


@triton.jit
def _mix_but_last(x):
    """Apply the mixer without its last operation; x is uint32."""
    x = (x ^ (x >> 16)) * _MULTIPLIER_1
    return (x ^ (x >> 15)) * _MULTIPLIER_2


@triton.jit
def _mix(x):
    x = _mix_but_last(x)
    return x ^ (x >> 16)


@triton.jit
def keys(seed, step):
    """Return key_1 and key_2 of an int64 seed and step.

    Args:
        seed: int64 seed.
        step: int64 step.
    """
    low = _mix(seed.to(tl.uint32) ^ _GOLDEN)
    high = _mix((seed >> 32).to(tl.uint32) ^ _GOLDEN_3) ^ step.to(tl.uint32)
    return _mix(low ^ (high * _GOLDEN)), _mix(low ^ (high * _GOLDEN_3))


@triton.jit
def row_word(counter, first):
    """Return the word shared by the bins of a latent variable.

    The mixer's last operation, x ^= x >> 16, is omitted here and in :func:`bin_word`: it distributes over xor, and the
    first operation of the next round would undo it.  :func:`uniform` omits that operation, too.

    Args:
        counter: Number of the latent variable, row * neurons + neuron.
        first: key_1.
    """
    return _mix_but_last(counter.to(tl.uint32) ^ first)


@triton.jit
def bin_word(index, second):
    """Return the word of a bin, shared by all rows.

    Args:
        index: Index of the bin.
        second: key_2.
    """
    return _mix_but_last(tl.cast(index, tl.uint32) ^ second)


@triton.jit
def log2(x):
    """Compute log2 of a normal positive number in one instruction; its absolute error near 1 is 2^-22."""
    if _USE_GPU_INSTRUCTIONS:
        out = tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        out = tl.log2(x)
    return out


@triton.jit
def log2_uniform_error(x):
    """Compute log2 with the same absolute error everywhere, by separating exponent and mantissa."""
    bits = x.to(tl.int32, bitcast=True)
    # 2^23 + exponent as a float, assembled from its bits.
    exponent = ((bits >> 23) | 0x4B000000).to(tl.float32, bitcast=True) - 8388735.0
    return log2(((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)) + exponent


@triton.jit
def uniform(row, column):
    """Return the uniform number of a row word and a bin word, exactly.

    Args:
        row: Word of the row, from :func:`row_word`.
        column: Word of the bin, from :func:`bin_word`.
    """
    # 23 bits, the highest one flipped, as the mantissa of a number in [1, 2).
    x = (row ^ column) * _MULTIPLIER_1
    x = (x ^ (x >> 15)) * _MULTIPLIER_2
    return ((x >> 9) ^ 0x3FC00000).to(tl.float32, bitcast=True) - 0.99999994


@triton.jit
def log2_exponential(row, column):
    """Compute log2(-log u), which is minus a Gumbel number in binary units (times log2 e).

    Args:
        row: Word of the row, from :func:`row_word`.
        column: Word of the bin, from :func:`bin_word`.
    """
    u = uniform(row, column)
    w = 1 - u
    # For u near 1, where the largest Gumbel numbers come from, log2 has no relative precision:
    # -log(1 - w) / w by a polynomial, fitted for w in [0, 0.25] to 3e-9.
    near = 0.3324417319326884
    near = near * w + 0.09061494823370972
    near = near * w + 0.21394663700524433
    near = near * w + 0.24872951017521222
    near = near * w + 0.3333874745482676
    near = near * w + 0.4999991450913309
    near = (near * w + 1.000000002182199) * w
    return log2_uniform_error(tl.where(w < 0.25, near, log2(u) * -_LN2))
