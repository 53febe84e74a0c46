"""The random number generator, against its definition in Python integers, and its properties."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from squad.core import noise
from squad.core.noise import Key, bits, draw_seed, gumbel, make_key, normal, uniform
from squad.errors import SquadError

WORD = 0xFFFFFFFF


def mix_but_last(x: int) -> int:
    x ^= x >> 16
    x = x * 0x7FEB352D & WORD
    x ^= x >> 15
    return x * 0x846CA68B & WORD


def mix(x: int) -> int:
    x = mix_but_last(x)
    return x ^ x >> 16


def expected(seed: int, step: int, row: int, bin_: int, neuron: int, neurons: int) -> int:
    """The definition in the docstring of squad.core.noise."""
    g = [0x9E3779B9, 3 * 0x9E3779B9 & WORD]
    m = [mix(seed & WORD ^ g[0]), mix(seed >> 32 & WORD ^ g[1])]
    keys = [mix(m[0] ^ g[j] * (m[1] ^ step & WORD) & WORD) for j in (0, 1)]
    a = mix((row * neurons + neuron & WORD) ^ keys[0])
    return mix_but_last(a ^ mix(bin_ ^ keys[1]))


# Known answers: a change of the definition would change every certified model.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0, 0, 1), 0x57BFDFD8),
    ((1, 0, 0, 0, 0, 32), 0xBF343B0F),
    ((1, 2, 3, 4, 5, 32), 0x730DCCEB),
    ((-1, 7, 243, 14, 31, 32), 0x0813C011),
    ((2**62 + 12345, 10**6, 8191, 36, 255, 256), 0x10116E66),
]


@pytest.mark.parametrize(("arguments", "word"), KNOWN_ANSWERS)
def test_known_answers(arguments: tuple[int, ...], word: int) -> None:
    seed, step, row, bin_, neuron, neurons = arguments
    drawn = bits(make_key(seed, step), 1, bin_ + 1, neurons, first_row=row)
    assert drawn.dtype == torch.int32
    assert int(drawn[0, bin_, neuron]) & WORD == word
    assert expected(*arguments) == word


words = st.integers(-(2**63), 2**63 - 1)


@given(
    words,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**33),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 7),
)
def test_bits_follow_the_definition(seed: int, step: int, first: int, rows: int, bins: int, neurons: int) -> None:
    drawn = bits(make_key(seed, step), rows, bins, neurons, first_row=first)
    assert drawn.shape == (rows, bins, neurons)
    for r in range(rows):
        for b in range(bins):
            for n in range(neurons):
                assert int(drawn[r, b, n]) & WORD == expected(seed, step, first + r, b, n, neurons)


def test_members_generate_the_same_bits_as_alone() -> None:
    seeds, steps = torch.tensor([5, -6, 2**61]), torch.tensor([0, 9, 3])
    together = bits(Key(seeds, steps), 4, 6, 8)
    for i in range(3):
        assert torch.equal(together[i], bits(Key(seeds[i], steps[i]), 4, 6, 8))


def test_more_rows_or_bins_change_nothing_before() -> None:
    small, large = bits(make_key(3), 5, 7, 9), bits(make_key(3), 11, 13, 9)
    assert torch.equal(large[:5, :7], small)
    for first in (4, torch.tensor(4)):
        assert torch.equal(large[4:], bits(make_key(3), 7, 13, 9, first_row=first))


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    key = make_key(3, 1)
    drawn = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        drawn.append(bits(key, 2000, 15, 32))
    assert torch.equal(*drawn)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_is_exact_and_excludes_the_ends(dtype: torch.dtype) -> None:
    key = make_key(4)
    raw = bits(key, 300, 15, 32).to(torch.int64)
    # The definition: drop 9 bits, flip the highest of the remaining 23, add one half.
    exact = ((raw >> 9 & 0x7FFFFF ^ 0x400000).double() + 0.5) / 2**23
    u = uniform(key, 300, 15, 32, dtype=dtype)
    assert u.dtype == dtype
    assert torch.equal(u.double(), exact)


def test_extreme_words_give_finite_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest and the largest word, which are too rare to occur in a sample."""
    ends = torch.tensor([-(2**31), 2**31 - 1], dtype=torch.int32).view(1, 2, 1)
    monkeypatch.setattr(noise, "bits", lambda *_, **__: ends)
    for dtype in (torch.float32, torch.float64):
        assert uniform(make_key(0), 1, 2, 1, dtype=dtype).flatten().tolist() == [2.0**-24, 1 - 2.0**-24]
        low, high = gumbel(make_key(0), 1, 2, 1, dtype=dtype).flatten().tolist()
        assert low == pytest.approx(-math.log(24 * math.log(2)), rel=1e-6)
        assert high == pytest.approx(24 * math.log(2), rel=1e-6)


def test_gumbel_and_normal_have_their_moments() -> None:
    g = gumbel(make_key(8), 4000, 15, 32, dtype=torch.float64)
    count = g.numel()
    assert g.mean().item() == pytest.approx(0.5772156649, abs=4 * (math.pi**2 / 6 / count) ** 0.5)
    assert g.var().item() == pytest.approx(math.pi**2 / 6, rel=4 * (4.4 / count) ** 0.5)
    n = normal(make_key(8), 4000, 480, dtype=torch.float64)
    assert n.mean().item() == pytest.approx(0, abs=4 / count**0.5)
    assert n.var().item() == pytest.approx(1, abs=4 * (2 / count) ** 0.5)


def test_float32_gumbel_is_accurate_in_the_tail() -> None:
    narrow, wide = (gumbel(make_key(9), 20_000, 15, 8, dtype=d) for d in (torch.float32, torch.float64))
    assert (narrow - wide).abs().max() < 2e-5
    largest = wide.argmax()
    assert narrow.flatten()[largest].item() == pytest.approx(wide.max().item(), rel=1e-6)


def test_seeds_come_from_torch() -> None:
    torch.manual_seed(3)
    first = draw_seed((4,))
    torch.manual_seed(3)
    assert torch.equal(draw_seed((4,)), first)
    assert first.unique().numel() == 4


@pytest.mark.parametrize("seed", [1.5, True, "1", torch.ones(2, 2, dtype=torch.int64), torch.tensor([0.5])])
def test_invalid_seeds_are_rejected(seed: object) -> None:
    with pytest.raises(SquadError, match=r"seed must be .*integer"):
        make_key(seed)  # type: ignore[arg-type]
