"""The generator of :mod:`squad.core.noise` for Triton kernels: the same bits, and exponential numbers from them.

A Gumbel number is ``-log E`` with E exponential, ``E = -log u``.  Kernels take log2 E, which they need anyway.
"""

# Kernels have no Python types.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, ANN202
import triton
import triton.language as tl

from squad.ops.triton_launch import INTERPRETED

__all__ = ["bin_word", "keys", "log2", "log2_exponential", "row_word", "uniform"]

_FIRST = tl.constexpr(0x7FEB352D)
_SECOND = tl.constexpr(0x846CA68B)
_GOLDEN = tl.constexpr(0x9E3779B9)
_GOLDEN3 = tl.constexpr(3 * 0x9E3779B9 & 0xFFFFFFFF)
_LN2 = tl.constexpr(0.6931471805599453)
#: Whether the GPU's own instructions can be asked for.
_FAST = tl.constexpr(not INTERPRETED)


@triton.jit
def _churn(x):
    """The mixer without its last line; x is uint32."""
    x = (x ^ (x >> 16)) * _FIRST
    return (x ^ (x >> 15)) * _SECOND


@triton.jit
def _mix(x):
    x = _churn(x)
    return x ^ (x >> 16)


@triton.jit
def keys(seed, step):
    """key_1 and key_2 of an int64 seed and step."""
    low = _mix(seed.to(tl.uint32) ^ _GOLDEN)
    high = _mix((seed >> 32).to(tl.uint32) ^ _GOLDEN3) ^ step.to(tl.uint32)
    return _mix(low ^ (high * _GOLDEN)), _mix(low ^ (high * _GOLDEN3))


@triton.jit
def row_word(counter, first):
    """What the bins of a latent variable share: counter is row * neurons + neuron.

    Without the mixer's last line, x ^= x >> 16, which the first line of the next round would undo: done twice it is
    nothing, and it is linear over xor.  So it is for :func:`bin_word`, and :func:`uniform` begins a line later.
    """
    return _churn(counter.to(tl.uint32) ^ first)


@triton.jit
def bin_word(index, second):
    """What the rows share."""
    return _churn(tl.cast(index, tl.uint32) ^ second)


@triton.jit
def log2(x):
    """The binary logarithm of a normal positive number by one instruction; its error is 2^-22 near 1, absolutely."""
    if _FAST:
        out = tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        out = tl.log2(x)
    return out


@triton.jit
def log2_apart(x):
    """The same with its error the same everywhere: the exponent is taken off beforehand."""
    bits = x.to(tl.int32, bitcast=True)
    # 2^23 + exponent as a float, from its bits.
    exponent = ((bits >> 23) | 0x4B000000).to(tl.float32, bitcast=True) - 8388735.0
    return log2(((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)) + exponent


@triton.jit
def uniform(row, column):
    """The uniform number of two words, exact."""
    # 23 bits, the highest one flipped, as the fraction of a number in [1, 2).
    x = (row ^ column) * _FIRST
    x = (x ^ (x >> 15)) * _SECOND
    return ((x >> 9) ^ 0x3FC00000).to(tl.float32, bitcast=True) - 0.99999994


@triton.jit
def log2_exponential(row, column):
    """log2(-log u), which is minus a Gumbel number in binary units."""
    u = uniform(row, column)
    w = 1 - u
    # Near 1 the instruction has no relative precision, and there the largest Gumbel numbers come from:
    # -log(1 - w) / w by a polynomial, fitted for w within [0, .25] to 3e-9.
    near = 0.3324417319326884
    near = near * w + 0.09061494823370972
    near = near * w + 0.21394663700524433
    near = near * w + 0.24872951017521222
    near = near * w + 0.3333874745482676
    near = near * w + 0.4999991450913309
    near = (near * w + 1.000000002182199) * w
    return log2_apart(tl.where(w < 0.25, near, log2(u) * -_LN2))
