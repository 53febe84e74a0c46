"""One random number generator, defined to the bit.

Every random number of a layer is a function of (seed, step, row, neuron, bin) and of the number of neurons, and of
nothing else: not of the device, the number of threads, rows, bins or members, or a member's slot.
So a model certified on one machine is the same function on another, and a kernel may draw its numbers again in
the backward pass instead of keeping them.

The generator hashes counters with a 32-bit mixer (``lowbias32`` of Chris Wellons' hash-prospector, public domain).  All
arithmetic is modulo 2^32, and ``>>`` fills with zeros::

    mix(x):    x ^= x >> 16;  x *= 0x7feb352d;  x ^= x >> 15;  x *= 0x846ca68b;  x ^= x >> 16
    g_1, g_2 = 0x9e3779b9, 3 * 0x9e3779b9
    m_1, m_2 = mix(low word of seed ^ g_1), mix(high word of seed ^ g_2)
    key_j    = mix(m_1 ^ g_j * (m_2 ^ step))                           j = 1, 2
    a        = mix((row * neurons + neuron) ^ key_1)
    b        = mix(bin ^ key_2)
    bits     = a ^ b, then as in mix, but without its last line
    uniform  = (bits >> 9  with its highest bit flipped  + 1/2) / 2^23

``a`` is shared by the bins of a latent variable and ``b`` by its rows, so a number costs one round, not two.  The last
line of the mixer is left out because it touches only the low 16 bits, and the 9 lowest are dropped anyway.  The uniform
is exact in float32 and never 0 or 1.  ``benchmarks/noise.py`` has the time beside Philox and torch's own numbers;
``tests/slow/test_noise_battery.py`` what its statistics were held to.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from squad.errors import ArgumentError

__all__ = ["Key", "bits", "draw_seed", "gumbel", "gumbel_of", "hashed_seeds", "make_key", "normal", "uniform"]


_FIRST, _SECOND, _GOLDEN, _WORD = 0x7FEB352D, 0x846CA68B, 0x9E3779B9, 0xFFFFFFFF
_GOLDEN_3 = 3 * _GOLDEN & _WORD

#: Numbers up to which a layer's counters are mixed by numpy, on one core.
SMALL = 1 << 16

Words: TypeAlias = npt.NDArray[np.uint32]


class Key(NamedTuple):
    """What a stream of numbers depends on: ``seed`` and ``step``, int64, both of shape () or both (M,)."""

    seed: Tensor
    step: Tensor


def make_key(seed: int | Tensor, step: int | Tensor = 0, device: torch.device | str | None = None) -> Key:
    """A Key from whole numbers or integer tensors, () or one a member; 64 bits of seed and 32 of step count.

    >>> make_key(7).seed.shape
    torch.Size([])
    """
    if _is_key(seed, step, device):
        return Key(seed, step)  # type: ignore[arg-type]
    pair = []
    for name, value in (("seed", seed), ("step", step)):
        if not isinstance(value, Tensor):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ArgumentError.of(name, repr(value), "a whole number or an integer tensor")
            low, high = (-(2**63), 2**63 - 1) if name == "seed" else (0, 2**32 - 1)
            if not low <= value <= high:
                raise ArgumentError.of(name, value, f"between {low} and {high}")
            # full, not tensor: nothing is copied from the host, which a CUDA graph could not capture.
            value = torch.full((), value, dtype=torch.int64, device=device)
        elif value.is_floating_point() or value.is_complex() or value.dtype == torch.bool or value.dim() > 1:
            raise ArgumentError.of(
                name,
                f"{value.dtype} of shape {tuple(value.shape)}",
                "an integer tensor of shape () or (members,)",
            )
        pair.append(value.to(device=device, dtype=torch.int64))
    if pair[0].dim() == pair[1].dim() == 1 and pair[0].shape != pair[1].shape:
        raise ArgumentError.of("step", tuple(pair[1].shape), f"of shape () or that of seed, {tuple(pair[0].shape)}")
    return Key(*(pair if pair[0].shape == pair[1].shape else torch.broadcast_tensors(*pair)))


def _is_key(seed: int | Tensor, step: int | Tensor, device: torch.device | str | None) -> bool:
    """Whether both are what a key holds already, as when a layer hands its own on: then nothing needs to be made."""
    if not isinstance(seed, Tensor) or not isinstance(step, Tensor) or seed.dim() > 1 or seed.shape != step.shape:
        return False
    return seed.dtype == step.dtype == torch.int64 and (device is None or seed.device == step.device == device)


def draw_seed(shape: tuple[int, ...] = (), device: torch.device | str | None = None) -> Tensor:
    """A fresh seed, int64 of the given shape, from torch's own generator (so ``torch.manual_seed`` rules it)."""
    return torch.randint(2**62, shape, dtype=torch.int64, device=device)


def _signed(word: int) -> int:
    """The int32 with the bits of an unsigned word."""
    return word - (1 << 32) if word >> 31 else word


# torch makes a tensor of a number at every call, which is half the time of an operation on a few numbers.
_WORDS = {
    word: torch.tensor(_signed(word), dtype=torch.int32, device="cpu")
    for word in (15, 16, 0xFFFF, 0x1FFFF, 0xFFFFFE00, _FIRST, _SECOND)
}


def _word(word: int, x: Tensor) -> Tensor | int:
    """``word`` as an operand for x: made beforehand for a plain tensor on the CPU; a number for any other."""
    plain = type(x) is Tensor and x.is_cpu and not torch.compiler.is_compiling()
    return _WORDS[word] if plain else _signed(word)


def _overflow_is_undefined(x: Tensor) -> bool:
    """Whether torch.compile writes C++ for it, where a compiler may make anything of a signed product that overflows.

    A 64-bit product of an earlier version came out as 0; the 32-bit ones here have not been seen to.
    """
    return torch.compiler.is_compiling() and x.device.type == "cpu"


def _times(x: Tensor, factor: int) -> Tensor:
    """``x * factor`` modulo 2^32, in place where that can be."""
    if _overflow_is_undefined(x):
        wide = x.to(torch.int64) & _WORD
        return (wide * (factor & 0xFFFF) + ((wide * (factor >> 16) & 0xFFFF) << 16)).to(torch.int32)
    return x.mul_(_word(factor, x))


def _fold(x: Tensor, shift: int) -> Tensor:
    """``x ^= x >> shift`` in place, filling with zeros (torch shifts arithmetically, hence the mask)."""
    return x.bitwise_xor_((x >> _word(shift, x)).bitwise_and_(_word((1 << (32 - shift)) - 1, x)))


def _core(x: Tensor) -> Tensor:
    """The mixer without its first and its last line, in place."""
    return _times(_fold(_times(x, _FIRST), 15), _SECOND)


def _churn(x: Tensor) -> Tensor:
    """The mixer without its last line, in place."""
    return _core(_fold(x, 16))


def _mix(x: Tensor) -> Tensor:
    """The mixer, in place."""
    return _fold(_churn(x), 16)


def _churn_array(x: Words) -> Words:
    """The mixer without its last line, in place, of 32-bit words in numpy."""
    x ^= x >> 16
    x *= _FIRST
    x ^= x >> 15
    x *= _SECOND
    return x


def _mix_number(x: int) -> int:
    """The mixer of one 32-bit word as a Python number."""
    x = (x ^ x >> 16) * _FIRST & _WORD
    x = (x ^ x >> 15) * _SECOND & _WORD
    return x ^ x >> 16


def _key_numbers(seed: int, step: int) -> tuple[int, int]:
    """key_1 and key_2 of one member."""
    first, second = _mix_number(seed & _WORD ^ _GOLDEN), _mix_number(seed >> 32 & _WORD ^ _GOLDEN_3)
    second ^= step & _WORD
    return _mix_number(first ^ _GOLDEN * second & _WORD), _mix_number(first ^ _GOLDEN_3 * second & _WORD)


def _read(key: Key) -> tuple[list[int], list[int]] | None:
    """The seeds and the steps as numbers, where they can be looked at: on the CPU, and while nothing is traced."""
    if type(key.seed) is not Tensor or key.seed.device.type != "cpu":
        return None
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return None
    try:
        # One by one: item() is an error under vmap and where torch.fx traces; of tolist() a trace would not know.
        seeds, steps = (
            [parts.item()] if parts.numel() == 1 else [part.item() for part in parts.unbind()] for parts in key
        )
    except RuntimeError:
        return None
    return [int(seed) for seed in seeds], [int(step) for step in steps]


def _small_tables(key: Key, counters: int, bins: int, first: int) -> Tensor | None:
    """What :func:`_tables` gives, for a small layer on the CPU: numpy takes a third of torch's time for few numbers."""
    if torch.compiler.is_compiling() or key.seed.numel() > 16 or key.seed.numel() * counters > SMALL:
        return None
    read = _read(key)
    if read is None:
        return None
    # Of a few words numpy's calls would take longer than Python's own numbers.
    keys = np.array([_key_numbers(*each) for each in zip(*read, strict=True)], dtype=np.uint32)
    tables = np.empty((len(keys), counters + bins), dtype=np.uint32)
    counter = np.arange(counters, dtype=np.uint32)
    np.bitwise_xor(counter + np.uint32(first) if first else counter, keys[:, :1], out=tables[:, :counters])
    np.bitwise_xor(np.arange(bins, dtype=np.uint32), keys[:, 1:], out=tables[:, counters:])
    return torch.from_numpy(_churn_array(tables).view(np.int32)).view(*key.seed.shape, counters + bins)


def _keys(key: Key) -> Tensor:
    """key_1 and key_2, int32 of shape (..., 2)."""
    # g_1 and g_2 as a line whose parts fit into 32 bits: torch.compile works out such products beforehand.
    index = torch.arange(2, dtype=torch.int32, device=key.seed.device)
    g = index * _signed(2 * _GOLDEN & _WORD) + _signed(_GOLDEN)
    words = torch.stack([key.seed, key.seed >> 32], -1).to(torch.int32)
    first, second = _mix(words ^ g).split(1, -1)
    second = second ^ key.step.to(torch.int32).unsqueeze(-1)
    if _overflow_is_undefined(second):
        factors = torch.cat([_times(second, _GOLDEN), _times(second, _GOLDEN_3)], -1)
    else:
        factors = second * g
    return _mix(first ^ factors)


def _tables(key: Key, counters: int, bins: int, first: int | Tensor) -> Tensor:
    """a of ``counters`` counters from ``first`` on and b of the bins, side by side and without the mixer's last line.

    Both are mixed in one go: for a small layer the number of operations is what costs.
    """
    one, two = _keys(key).split(1, -1)
    counter = torch.arange(counters, dtype=torch.int32, device=one.device)
    if isinstance(first, Tensor):
        counter = counter + first.to(torch.int32)
    elif first:
        counter = counter + _signed(first)
    index = torch.arange(bins, dtype=torch.int32, device=one.device)
    return _churn(torch.cat([counter ^ one, index ^ two], -1))


def bits(key: Key, rows: int, bins: int, neurons: int, *, first_row: int | Tensor = 0) -> Tensor:
    """The raw 32 bits of each number.

    ``first_row`` as a tensor () keeps a compiled graph from being made anew for each of its values.

    Returns:
        int32 of shape (rows, bins, neurons), or (M, rows, bins, neurons) for a key of M members.
    """
    counters, tables = rows * neurons, None
    if isinstance(first_row, Tensor):
        tables = _tables(key, counters, bins, first_row * neurons)
    else:
        first = first_row * neurons & _WORD
        tables = _small_tables(key, counters, bins, first)
        tables = _tables(key, counters, bins, first) if tables is None else tables
    # The fold by 16 that ends a mix is undone by the one that begins the next round, since 2 * 16 = 32, and a fold of
    # a ^ b is that of a ^ that of b.  So neither is done, and what is left for each number is the core of a round.
    a, b = tables.split([counters, bins], -1)
    lead = key.seed.shape
    return _core(a.view(*lead, rows, 1, neurons) ^ b.view(*lead, 1, bins, 1))


def hashed_seeds(key: Key, count: int = 1) -> Tensor:
    """Seeds of 62 well mixed bits from a key: neighbouring seeds and steps then share no noise.

    Returns:
        int64 (count,), members first.
    """
    low, high = bits(key, count, 2, 1).long().squeeze(-1).unbind(-1)
    return (high & 0x3FFFFFFF) << 32 | low & _WORD


def _unit(words: Tensor, dtype: torch.dtype) -> Tensor:
    """Uniform numbers from raw bits."""
    # Signed numbers and an offset of 2^31 do the work of "flip the highest bit"; the 23 bits that the mask leaves are
    # exact in float32, and so is the sum.
    x = (words & _word(0xFFFFFE00, words)).to(dtype)
    return torch.add(x.new_full((), 0.5 + 2.0**-24), x, alpha=2.0**-32)


def uniform(
    key: Key, rows: int, bins: int, neurons: int, *, first_row: int | Tensor = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Uniform numbers on (0, 1), multiples of 2^-24; shape as in :func:`bits`, float32 or float64."""
    return _unit(bits(key, rows, bins, neurons, first_row=first_row), dtype)


def gumbel_of(words: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard Gumbel numbers from what :func:`bits` gave, for whoever wants to work out the rest by itself."""
    return _unit(words, dtype).log_().neg_().log_().neg_()


def gumbel(
    key: Key, rows: int, bins: int, neurons: int, *, first_row: int | Tensor = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Standard Gumbel numbers, -log(-log u), between -2.82 and 16.64; shape as in :func:`bits`.

    A backend must keep the relative precision of log u for u near 1: that is where the largest numbers come from.
    """
    return gumbel_of(bits(key, rows, bins, neurons, first_row=first_row), dtype)


@torch.no_grad()
def normal(
    key: Key, rows: int, neurons: int, *, first_row: int | Tensor = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Standard normal numbers, by the inverse distribution function, within +-5.3.

    Returns:
        Shape (rows, neurons), members first.
    """
    u = uniform(key, rows, 1, neurons, first_row=first_row, dtype=dtype).squeeze(-2)
    return u.mul_(2).sub_(1).erfinv_().mul_(2**0.5)
