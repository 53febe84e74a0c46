"""The random number generator in kernels: the bits of ``core.noise``, and accurate logarithms of its numbers."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# ruff: noqa: ANN001, ANN202, N803
import numpy as np
import numpy.typing as npt
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from squad.core.noise import Key, make_key, uniform
from squad.ops import triton_noise
from squad.ops.triton_noise import bin_word, keys, log2_exponential, row_word

Words = npt.NDArray[np.uint32]


@triton.jit
def _drawn(counters, seed, step, out, count, C: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    member = tl.program_id(0)
    counter = tl.load(counters + at, at < count, 0)
    first, second = keys(tl.load(seed + member), tl.load(step + member))
    row = row_word(counter, first)
    for index in range(C):
        c = tl.cast(index, tl.int32)
        number = triton_noise.uniform(row, bin_word(c, second))
        tl.store(out + (member * C + c) * count + at, number, at < count)


@triton.jit
def _logarithms(words, u_out, log_out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(words + at).to(tl.uint32, bitcast=True)
    tl.store(u_out + at, triton_noise.uniform(row, row ^ row))
    tl.store(log_out + at, log2_exponential(row, row ^ row))


@pytest.mark.parametrize("first_row", [0, 3 * 2**28], ids=["from the first row", "beyond 32 bits"])
def test_uniform_numbers_are_the_same_to_the_bit(first_row: int) -> None:
    rows, bins, neurons = 9, 6, 7
    key = make_key(torch.tensor([0, 5, -1, 2**62 + 12345]), torch.tensor([0, 7, 2**32 - 1, 10**6]))
    # row * neurons + neuron modulo 2^32, as an int32: kernels let it overflow.
    counters = (first_row * neurons + torch.arange(rows * neurons)).to(torch.int32)
    out = torch.empty(4, bins, rows * neurons)
    _drawn[(4,)](counters, *key, out, rows * neurons, C=bins, BLOCK=64)
    want = uniform(Key(*key), rows, bins, neurons, first_row=first_row)  # (M, rows, C, K)
    assert torch.equal(out.view(4, bins, rows, neurons).transpose(1, 2), want)


def words_of(numbers: npt.NDArray[np.int64]) -> Tensor:
    """Words (row xor column) whose uniform numbers are (number + 1/2) / 2^23: the inverse of the last round."""
    first, second = (pow(factor, -1, 2**32) for factor in (0x7FEB352D, 0x846CA68B))
    word = ((numbers ^ 0x400000) << 9) * second & 0xFFFFFFFF
    word ^= word >> 15
    word ^= word >> 30
    word = word * first & 0xFFFFFFFF
    return torch.from_numpy(word.astype(np.uint32).view(np.int32).copy())


def test_logarithms_of_exponential_numbers() -> None:
    """At both ends of (0, 1), around 3/4 where the formula changes, and at random numbers."""
    count, block = 2**23, 2**12
    random = np.random.default_rng(0).integers(0, count, 5 * block)
    middle = 3 * count // 4 + np.arange(-block // 2, block // 2)
    numbers = np.concatenate([np.arange(block), middle, np.arange(count - block, count), random])
    u, found = torch.empty(2, len(numbers))
    _logarithms[(len(numbers) // block,)](words_of(numbers), u, found, BLOCK=block)
    exact = (torch.from_numpy(numbers).double() + 0.5) / count
    assert torch.equal(u.double(), exact)
    assert u.min() == 2.0**-24
    assert u.max() == 1 - 2.0**-24
    want = (-torch.log(exact)).log2()
    # The relative error of E, or that of log2 E where it is large: as accurate as float32.
    assert ((found.double() - want).abs() <= 2e-7 * want.abs().clamp(min=1)).all()
