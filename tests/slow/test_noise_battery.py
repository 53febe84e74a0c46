"""Statistics of the random number generator: along every axis of counters and keys, and when one bit flips."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from squad.core.noise import Key, bits, gumbel, make_key, normal
from tests.slow.battery import BITS, Words, battery, two_sided

COUNT = 1 << 20


def words(drawn: torch.Tensor) -> Words:
    """Return the 23 bits that are used."""
    return (drawn.numpy().astype(np.int64) >> 9 & (1 << BITS) - 1).ravel()


def in_memory(neurons: int, bins: int) -> Callable[[], Words]:
    rows = -(-COUNT // (neurons * bins))
    return lambda: words(bits(make_key(1, 5), rows, bins, neurons))


def one_per_key(seeds: Callable[[torch.Tensor], torch.Tensor], step: bool = False) -> Callable[[], Words]:
    def draw() -> Words:
        index = seeds(torch.arange(COUNT))
        zero = torch.zeros_like(index)
        return words(bits(Key(zero + 3, index) if step else Key(index, zero), 1, 1, 1))

    return draw


STREAMS: dict[str, Callable[[], Words]] = {
    "memory, K = 32, C = 15": in_memory(32, 15),
    "memory, K = 256, C = 37": in_memory(256, 37),
    "memory, K = 1, C = 2": in_memory(1, 2),
    "bins of a latent": lambda: words(bits(make_key(2), COUNT // 512, 16, 32).movedim(1, -1).contiguous()),
    "rows of a latent": lambda: words(bits(make_key(2), COUNT, 1, 1)),
    "rows, far apart": lambda: words(bits(make_key(2), COUNT // 16, 1, 4096)[..., ::256].contiguous()),
    "many bins": lambda: words(bits(make_key(6), 1, COUNT, 1)),
    "seeds": one_per_key(lambda i: i),
    "seeds, high word": one_per_key(lambda i: i << 32),
    "seeds, every 2^11th": one_per_key(lambda i: i << 11),
    "steps": one_per_key(lambda i: i, step=True),
    "steps of a row": lambda: words(bits(Key(torch.full((4096,), 9), torch.arange(4096)), 1, 8, 32)),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_pass_the_battery(name: str) -> None:
    results = battery(STREAMS[name]())
    bad = {test: p for test, p in results.items() if p < 1e-3 / len(results) / len(STREAMS)}
    assert not bad


def biased(index: Words) -> Words:
    rng = np.random.default_rng(0)
    return rng.integers(0, 1 << BITS, index.size) | (rng.random(index.size) < 0.01).astype(np.int64)


@pytest.mark.parametrize(
    ("name", "weak"),
    [
        ("a counter", lambda i: i),
        ("Weyl's sequence", lambda i: i * 0x9E3779B9 >> 9),
        ("a linear congruential generator", lambda i: np.cumprod(np.full(i.size, 1664525, np.uint32)) >> 9),
        ("one round without the folds", lambda i: ((i * 0x7FEB352D & 0xFFFFFFFF) * 0x846CA68B & 0xFFFFFFFF) >> 9),
        ("a good generator whose lowest bit is 1 too often, by 1 in 200", biased),
    ],
)  # fmt: skip
def test_the_battery_rejects_weak_generators(name: str, weak: Callable[[Words], Words]) -> None:
    results = battery(weak(np.arange(COUNT)).astype(np.int64) & (1 << BITS) - 1)
    assert min(results.values()) < 1e-6, name


def test_the_battery_accepts_a_good_generator() -> None:
    """numpy's PCG64, to check the battery itself: its p-values are uniform."""
    p = [v for seed in range(4) for v in battery(np.random.default_rng(seed).integers(0, 1 << 23, COUNT)).values()]
    assert stats.kstest(p, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("what", ["row", "bin", "seed", "step"])
def test_every_flipped_bit_flips_half_of_the_others(what: str) -> None:
    """Avalanche: each of the 23 used bits flips with probability 1/2, whichever bit of a key or counter is flipped."""
    rng = np.random.default_rng(5)
    count = 4096
    width = {"row": 16, "bin": 7, "seed": 62, "step": 31}[what]
    scores = []
    for flipped in range(width):
        seed = torch.from_numpy(rng.integers(0, 1 << 62, count))
        step = torch.from_numpy(rng.integers(0, 1 << 31, count))
        row, bin_ = int(rng.integers(0, 1 << 16)), int(rng.integers(0, 1 << 7))
        after: dict[str, Any] = {"row": row, "bin": bin_, "seed": seed, "step": step}
        after[what] = after[what] ^ (1 << flipped)
        drawn = [
            words(bits(Key(s, t), 1, 128, 1, first_row=r)[:, :, b, :])
            for s, t, r, b in (
                (seed, step, row, bin_),
                (after["seed"], after["step"], after["row"], after["bin"]),
            )
        ]
        xor = drawn[0] ^ drawn[1]
        scores += [(2 * int((xor >> bit & 1).sum()) - count) / count**0.5 for bit in range(BITS)]
    assert min(two_sided(z) for z in scores) > 1e-3 / len(scores)
    assert stats.kstest(scores, "norm").pvalue > 1e-4


def test_pairs_and_triples_of_bins_are_independent() -> None:
    """The bins of a latent share a word, which must not make their numbers dependent."""
    drawn = bits(make_key(12), 1 << 14, 15, 32).movedim(1, 0).reshape(15, -1)
    n = drawn.shape[1]
    w = drawn.numpy().astype(np.int64) >> 9 & (1 << BITS) - 1
    u = (w + 0.5) / (1 << BITS) - 0.5
    correlation = 12 * (u @ u.T) / n**0.5
    pairs = correlation[np.triu_indices(15, 1)]
    assert stats.kstest(pairs, "norm").pvalue > 1e-3
    p = []
    for a in range(15):
        for b in range(a):
            cells = (w[a] >> BITS - 4) * 16 + (w[b] >> BITS - 4)
            p.append(stats.chisquare(np.bincount(cells, minlength=256)).pvalue)
            for c in range(b):
                ones = np.array([((w[a] ^ w[b] ^ w[c]) >> bit & 1).sum() for bit in (0, 11, 22)])
                p.append(stats.chi2.sf((((2 * ones - n) / n**0.5) ** 2).sum(), 3))
    assert min(p) > 1e-3 / len(p)
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_gumbel_and_normal_follow_their_laws() -> None:
    g = gumbel(make_key(20), 1 << 13, 4, 32, dtype=torch.float64).numpy().ravel()
    assert stats.kstest(g, "gumbel_r").pvalue > 1e-3
    n = normal(make_key(21), 1 << 15, 32, dtype=torch.float64).numpy().ravel()
    assert stats.kstest(n, "norm").pvalue > 1e-3
