"""Counter-based random number generator, defined to the bit.

Every random number of a layer depends only on (seed, step, row, neuron, bin) and on the number of neurons: not on the
device, the number of threads, rows, bins or members, or the position of a member.  A model certified on one machine
is therefore the same function on another, and a kernel can regenerate its noise in the backward pass instead of
storing it.

The generator hashes counters with a 32-bit mixer (``lowbias32`` of Chris Wellons' hash-prospector, public domain).  All
arithmetic is modulo 2^32, and ``>>`` fills with zeros::

    mix(x):    x ^= x >> 16;  x *= 0x7feb352d;  x ^= x >> 15;  x *= 0x846ca68b;  x ^= x >> 16
    g_1, g_2 = 0x9e3779b9, 3 * 0x9e3779b9
    m_1, m_2 = mix(low word of seed ^ g_1), mix(high word of seed ^ g_2)
    key_j    = mix(m_1 ^ g_j * (m_2 ^ step))                           j = 1, 2
    a        = mix((row * neurons + neuron) ^ key_1)
    b        = mix(bin ^ key_2)
    bits     = a ^ b, then as in mix, but without its last operation
    uniform  = (bits >> 9  with its highest bit flipped  + 1/2) / 2^23

``a`` is shared by the bins of a latent variable and ``b`` by its rows, so a number costs one round instead of two.  The
mixer's last operation is omitted because it changes only the low 16 bits, and the lowest 9 are dropped anyway.  The
uniform number is exact in float32 and never 0 or 1.  ``benchmarks/noise.py`` compares its speed with Philox and torch's
generator; ``tests/slow/test_noise_battery.py`` tests its statistics.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from squad.errors import ArgumentError

__all__ = ["Key", "bits", "draw_seed", "gumbel", "gumbel_from_bits", "hashed_seeds", "make_key", "normal", "uniform"]

#: Multipliers of the mixer, the golden-ratio constant that separates keys, and the mask of a 32-bit word.
_MULTIPLIER_1, _MULTIPLIER_2, _GOLDEN, _WORD = 0x7FEB352D, 0x846CA68B, 0x9E3779B9, 0xFFFFFFFF
_GOLDEN_3 = 3 * _GOLDEN & _WORD

#: Largest number of counters (over all members) that numpy mixes on one core; torch mixes more than that.
MAX_NUMPY_COUNTERS = 1 << 16

Words: TypeAlias = npt.NDArray[np.uint32]


class Key(NamedTuple):
    """Key of a stream of random numbers.

    Attributes:
        seed: int64 tensor of shape () or (M,).
        step: int64 tensor of the shape of ``seed``; in training, the number of the step.
    """

    seed: Tensor
    step: Tensor


def make_key(seed: int | Tensor, step: int | Tensor = 0, device: torch.device | str | None = None) -> Key:
    """Make a Key from integers or integer tensors.

    Args:
        seed: Integer of 64 bits, or an integer tensor of shape () or (M,).
        step: Integer of 32 bits, or an integer tensor of shape () or that of ``seed``.
        device: Device of the key; that of the tensors if None.

    Returns:
        Key of int64 tensors of equal shape.

    Raises:
        ArgumentError: If seed or step are not integers, are out of range, or have incompatible shapes.

    Examples:
        >>> make_key(7).seed.shape
        torch.Size([])
    """
    if _is_key_already(seed, step, device):
        return Key(seed, step)  # type: ignore[arg-type]
    pair = []
    for name, value in (("seed", seed), ("step", step)):
        if not isinstance(value, Tensor):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ArgumentError.of(name, repr(value), "an integer or an integer tensor")
            low, high = (-(2**63), 2**63 - 1) if name == "seed" else (0, 2**32 - 1)
            if not low <= value <= high:
                raise ArgumentError.of(name, value, f"between {low} and {high}")
            # torch.full, not torch.tensor: a copy from the host could not be captured in a CUDA graph.
            value = torch.full((), value, dtype=torch.int64, device=device)
        elif value.is_floating_point() or value.is_complex() or value.dtype == torch.bool or value.dim() > 1:
            raise ArgumentError.of(
                name,
                f"{value.dtype} of shape {tuple(value.shape)}",
                "an integer tensor of shape () or (members,)",
            )
        pair.append(value.to(device=device, dtype=torch.int64))
    if pair[0].dim() == pair[1].dim() == 1 and pair[0].shape != pair[1].shape:
        raise ArgumentError.of(
            "step", f"shape {tuple(pair[1].shape)}", f"of shape () or that of seed, {tuple(pair[0].shape)}"
        )
    return Key(*(pair if pair[0].shape == pair[1].shape else torch.broadcast_tensors(*pair)))


def _is_key_already(seed: int | Tensor, step: int | Tensor, device: torch.device | str | None) -> bool:
    """Return whether both tensors can be used in a Key unchanged, as when a layer passes on its own key."""
    if not isinstance(seed, Tensor) or not isinstance(step, Tensor) or seed.dim() > 1 or seed.shape != step.shape:
        return False
    return seed.dtype == step.dtype == torch.int64 and (device is None or seed.device == step.device == device)


def draw_seed(shape: tuple[int, ...] = (), device: torch.device | str | None = None) -> Tensor:
    """Draw an int64 seed of the given shape from torch's generator, which ``torch.manual_seed`` controls.

    Args:
        shape: Shape of the seed: () for one, (M,) for one per member.
        device: Device of the seed; torch's default device if None.

    Returns:
        int64 tensor of this shape, with values from 0 to 2^62 - 1.
    """
    return torch.randint(2**62, shape, dtype=torch.int64, device=device)


def _to_signed(word: int) -> int:
    """Return the int32 with the same bits as an unsigned 32-bit word."""
    return word - (1 << 32) if word >> 31 else word


# torch converts a Python number to a tensor in every call, which is half the time of an operation on a few numbers.
_CONSTANTS = {
    word: torch.tensor(_to_signed(word), dtype=torch.int32, device="cpu")
    for word in (15, 16, 0xFFFF, 0x1FFFF, 0xFFFFFE00, _MULTIPLIER_1, _MULTIPLIER_2)
}


def _constant(word: int, x: Tensor) -> Tensor | int:
    """Return ``word`` as an operand for x: a prepared tensor if x is a plain CPU tensor, else a number."""
    plain = type(x) is Tensor and x.is_cpu and not torch.compiler.is_compiling()
    return _CONSTANTS[word] if plain else _to_signed(word)


def _overflow_is_undefined(x: Tensor) -> bool:
    """Return whether torch.compile generates C++ code, where overflow of signed products is undefined behaviour.

    A 64-bit product in an earlier version was compiled to 0; this has not been observed for the 32-bit products here.
    """
    return torch.compiler.is_compiling() and x.device.type == "cpu"


def _multiply(x: Tensor, factor: int) -> Tensor:
    """Compute ``x * factor`` modulo 2^32, in place if possible."""
    if _overflow_is_undefined(x):
        wide = x.to(torch.int64) & _WORD
        return (wide * (factor & 0xFFFF) + ((wide * (factor >> 16) & 0xFFFF) << 16)).to(torch.int32)
    return x.mul_(_constant(factor, x))


def _xor_shift(x: Tensor, shift: int) -> Tensor:
    """Compute ``x ^= x >> shift`` in place, filling with zeros (torch shifts arithmetically, hence the mask)."""
    return x.bitwise_xor_((x >> _constant(shift, x)).bitwise_and_(_constant((1 << (32 - shift)) - 1, x)))


def _mix_inner(x: Tensor) -> Tensor:
    """Apply the mixer without its first and last operation, in place."""
    return _multiply(_xor_shift(_multiply(x, _MULTIPLIER_1), 15), _MULTIPLIER_2)


def _mix_but_last(x: Tensor) -> Tensor:
    """Apply the mixer without its last operation, in place."""
    return _mix_inner(_xor_shift(x, 16))


def _mix(x: Tensor) -> Tensor:
    """Apply the mixer, in place."""
    return _xor_shift(_mix_but_last(x), 16)


def _mix_but_last_numpy(x: Words) -> Words:
    """Apply the mixer without its last operation to 32-bit words in numpy, in place."""
    x ^= x >> 16
    x *= _MULTIPLIER_1
    x ^= x >> 15
    x *= _MULTIPLIER_2
    return x


def _mix_int(x: int) -> int:
    """Apply the mixer to one 32-bit word as a Python int."""
    x = (x ^ x >> 16) * _MULTIPLIER_1 & _WORD
    x = (x ^ x >> 15) * _MULTIPLIER_2 & _WORD
    return x ^ x >> 16


def _keys_int(seed: int, step: int) -> tuple[int, int]:
    """Return key_1 and key_2 of one member as Python ints."""
    first, second = _mix_int(seed & _WORD ^ _GOLDEN), _mix_int(seed >> 32 & _WORD ^ _GOLDEN_3)
    second ^= step & _WORD
    return _mix_int(first ^ _GOLDEN * second & _WORD), _mix_int(first ^ _GOLDEN_3 * second & _WORD)


def _read(key: Key) -> tuple[list[int], list[int]] | None:
    """Return seeds and steps as Python ints, or None if they cannot be read (not on the CPU, or being traced)."""
    if type(key.seed) is not Tensor or key.seed.device.type != "cpu":
        return None
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return None
    try:
        # One by one: item() raises under vmap and torch.fx tracing, whereas a trace would not notice tolist().
        seeds, steps = (
            [parts.item()] if parts.numel() == 1 else [part.item() for part in parts.unbind()] for parts in key
        )
    except RuntimeError:
        return None
    return [int(seed) for seed in seeds], [int(step) for step in steps]


def _tables_numpy(key: Key, counters: int, bins: int, first: int) -> Tensor | None:
    """Compute :func:`_tables` with numpy for a small layer on the CPU, in a third of torch's time; else return None."""
    if torch.compiler.is_compiling() or key.seed.numel() > 16 or key.seed.numel() * counters > MAX_NUMPY_COUNTERS:
        return None
    seeds_and_steps = _read(key)
    if seeds_and_steps is None:
        return None
    # For a few words Python's ints are faster than numpy calls.
    keys = np.array([_keys_int(*each) for each in zip(*seeds_and_steps, strict=True)], dtype=np.uint32)
    tables = np.empty((len(keys), counters + bins), dtype=np.uint32)
    counter = np.arange(counters, dtype=np.uint32)
    np.bitwise_xor(counter + np.uint32(first) if first else counter, keys[:, :1], out=tables[:, :counters])
    np.bitwise_xor(np.arange(bins, dtype=np.uint32), keys[:, 1:], out=tables[:, counters:])
    return torch.from_numpy(_mix_but_last_numpy(tables).view(np.int32)).view(*key.seed.shape, counters + bins)


def _keys(key: Key) -> Tensor:
    """Return key_1 and key_2, int32 of shape (..., 2)."""
    # g_1 and g_2 as a linear function whose parts fit into 32 bits: torch.compile folds such products as constants.
    index = torch.arange(2, dtype=torch.int32, device=key.seed.device)
    g = index * _to_signed(2 * _GOLDEN & _WORD) + _to_signed(_GOLDEN)
    words = torch.stack([key.seed, key.seed >> 32], -1).to(torch.int32)
    first, second = _mix(words ^ g).split(1, -1)
    second = second ^ key.step.to(torch.int32).unsqueeze(-1)
    if _overflow_is_undefined(second):
        factors = torch.cat([_multiply(second, _GOLDEN), _multiply(second, _GOLDEN_3)], -1)
    else:
        factors = second * g
    return _mix(first ^ factors)


def _tables(key: Key, counters: int, bins: int, first: int | Tensor) -> Tensor:
    """Return ``a`` of ``counters`` counters from ``first`` on and ``b`` of the bins, concatenated.

    The mixer's last operation is omitted.  Both are mixed together: in a small layer the number of operations dominates
    the cost.
    """
    one, two = _keys(key).split(1, -1)
    counter = torch.arange(counters, dtype=torch.int32, device=one.device)
    if isinstance(first, Tensor):
        counter = counter + first.to(torch.int32)
    elif first:
        counter = counter + _to_signed(first)
    index = torch.arange(bins, dtype=torch.int32, device=one.device)
    return _mix_but_last(torch.cat([counter ^ one, index ^ two], -1))


def bits(key: Key, rows: int, bins: int, neurons: int, *, first_row: int | Tensor = 0) -> Tensor:
    """Generate the raw 32 bits of each random number.

    Args:
        key: Seed and step, each of shape () or (M,).
        rows: Number of rows.
        bins: Number of bins.
        neurons: Number of neurons.
        first_row: Index of the first row.  A tensor of shape () avoids recompilation for each of its values.

    Returns:
        int32 tensor of shape (rows, bins, neurons), or (M, rows, bins, neurons) for a key of M members.
    """
    counters, tables = rows * neurons, None
    if isinstance(first_row, Tensor):
        tables = _tables(key, counters, bins, first_row * neurons)
    else:
        first = first_row * neurons & _WORD
        tables = _tables_numpy(key, counters, bins, first)
        tables = _tables(key, counters, bins, first) if tables is None else tables
    # The xor-shift by 16 at the end of a mix is undone by the one that begins the next round (2 * 16 = 32, and the
    # shift distributes over xor).  Both are omitted, which leaves the inner operations of one round per number.
    a, b = tables.split([counters, bins], -1)
    lead = key.seed.shape
    return _mix_inner(a.view(*lead, rows, 1, neurons) ^ b.view(*lead, 1, bins, 1))


def hashed_seeds(key: Key, count: int = 1) -> Tensor:
    """Derive well-mixed 62-bit seeds from a key, so that consecutive seeds and steps share no noise.

    Args:
        key: Seed and step, each of shape () or (M,).
        count: Number of seeds to derive from each key.

    Returns:
        int64 tensor of shape (count,), or (M, count) for a key of M members.
    """
    low, high = bits(key, count, 2, 1).long().squeeze(-1).unbind(-1)
    return (high & 0x3FFFFFFF) << 32 | low & _WORD


def _uniform_from_bits(words: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert raw bits to uniform numbers."""
    # Signed integers and an offset of 2^31 amount to flipping the highest bit; the 23 bits that the mask keeps are
    # exact in float32, and so is the sum.
    x = (words & _constant(0xFFFFFE00, words)).to(dtype)
    return torch.add(x.new_full((), 0.5 + 2.0**-24), x, alpha=2.0**-32)


def uniform(
    key: Key, rows: int, bins: int, neurons: int, *, first_row: int | Tensor = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Generate uniform numbers on (0, 1), multiples of 2^-24.

    Args:
        key: Seed and step, each of shape () or (M,).
        rows: Number of rows.
        bins: Number of bins.
        neurons: Number of neurons.
        first_row: Index of the first row, an integer or a tensor of shape ().
        dtype: float32 or float64.

    Returns:
        Tensor of shape (rows, bins, neurons), or (M, rows, bins, neurons) for a key of M members.

    See Also:
        bits: The raw bits of these numbers.

    Examples:
        >>> key = make_key(7)
        >>> all_rows, last_row = uniform(key, 3, 2, 4), uniform(key, 1, 2, 4, first_row=2)
        >>> bool((all_rows[2:] == last_row).all())
        True
    """
    return _uniform_from_bits(bits(key, rows, bins, neurons, first_row=first_row), dtype)


def gumbel_from_bits(words: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Convert the raw bits of :func:`bits` to standard Gumbel numbers.

    Args:
        words: int32 tensor of raw bits, any shape.
        dtype: float32 or float64.

    Returns:
        Gumbel numbers of the same shape.
    """
    return _uniform_from_bits(words, dtype).log_().neg_().log_().neg_()


def gumbel(
    key: Key, rows: int, bins: int, neurons: int, *, first_row: int | Tensor = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Generate standard Gumbel numbers -log(-log u), between -2.82 and 16.64.

    A backend must preserve the relative precision of log u for u near 1, where the largest numbers come from.

    Args:
        key: Seed and step, each of shape () or (M,).
        rows: Number of rows.
        bins: Number of bins.
        neurons: Number of neurons.
        first_row: Index of the first row, an integer or a tensor of shape ().
        dtype: float32 or float64.

    Returns:
        Tensor of shape (rows, bins, neurons), or (M, rows, bins, neurons) for a key of M members.

    Examples:
        >>> gumbel(make_key(torch.tensor([7, 8])), rows=3, bins=2, neurons=4).shape
        torch.Size([2, 3, 2, 4])
    """
    return gumbel_from_bits(bits(key, rows, bins, neurons, first_row=first_row), dtype)


@torch.no_grad()
def normal(
    key: Key, rows: int, neurons: int, *, first_row: int | Tensor = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Generate standard normal numbers within ±5.3 by the inverse distribution function.

    Args:
        key: Seed and step, each of shape () or (M,).
        rows: Number of rows.
        neurons: Number of neurons.
        first_row: Index of the first row, an integer or a tensor of shape ().
        dtype: float32 or float64.

    Returns:
        Tensor of shape (rows, neurons), or (M, rows, neurons) for a key of M members.

    Examples:
        >>> normal(make_key(7), rows=3, neurons=4).shape
        torch.Size([3, 4])
    """
    u = uniform(key, rows, 1, neurons, first_row=first_row, dtype=dtype).squeeze(-2)
    return u.mul_(2).sub_(1).erfinv_().mul_(2**0.5)
