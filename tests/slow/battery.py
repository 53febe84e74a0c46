"""A statistical battery for streams of random 23-bit words; each test returns a p-value.

Classical tests (Knuth, volume 2, section 3.3.2; Marsaglia's birthday spacings and binary ranks).  A good stream gives
p-values that are uniform on (0, 1); a bad one gives some that are practically 0.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Words = NDArray[np.int64]
BITS = 23


def chi_square(counts: NDArray[np.int64], expected: NDArray[np.float64] | float) -> float:
    """Two-sided chi-square test: counts that fit too well are as suspect as counts that do not fit."""
    statistic = float(((counts - expected) ** 2 / expected).sum())
    upper = float(stats.chi2.sf(statistic, counts.size - 1))
    return min(1.0, 2 * min(upper, 1 - upper))


def two_sided(z: float) -> float:
    return float(2 * stats.norm.sf(abs(z)))


def frequencies(words: Words) -> Iterator[tuple[str, float]]:
    """Frequencies of 8-bit groups at both ends and in the middle, and of every single bit."""
    for name, shift in (("high", BITS - 8), ("middle", 8), ("low", 0)):
        counts = np.bincount(words >> shift & 255, minlength=256)
        yield f"{name} byte", chi_square(counts, words.size / 256)
    for bit in range(BITS):
        ones = int((words >> bit & 1).sum())
        yield f"bit {bit}", two_sided((2 * ones - words.size) / words.size**0.5)


def neighbours(words: Words) -> Iterator[tuple[str, float]]:
    """Frequencies of pairs, triples and quadruples of neighbours, in high and low bits."""
    for name, size, each in (("pairs", 2, 6), ("triples", 3, 4), ("quadruples", 4, 3)):
        for end, shift in (("high", BITS - each), ("low", 0)):
            parts = (words[: words.size // size * size] >> shift & (1 << each) - 1).reshape(-1, size)
            cells = (parts << each * np.arange(size)).sum(1)
            yield (
                f"{end} {name}",
                chi_square(np.bincount(cells, minlength=1 << each * size), cells.size / (1 << each * size)),
            )


def correlations(words: Words) -> Iterator[tuple[str, float]]:
    """Autocorrelation at lags 1 to 64 together (chi-square), and the xor of neighbours bit by bit."""
    u = (words + 0.5) / (1 << BITS) - 0.5
    scores = [12 * float(u[lag:] @ u[:-lag]) / (u.size - lag) ** 0.5 for lag in range(1, 65)]
    upper = float(stats.chi2.sf(sum(z * z for z in scores), len(scores)))
    yield "autocorrelation", min(1.0, 2 * min(upper, 1 - upper))
    for lag in (1, 2, 15, 32):
        xor = words[lag:] ^ words[:-lag]
        ones = np.array([(xor >> bit & 1).sum() for bit in range(BITS)])
        z = (2 * ones - xor.size) / xor.size**0.5
        yield f"xor at lag {lag}", float(stats.chi2.sf((z * z).sum(), BITS))


def birthday_spacings(words: Words) -> float:
    """Repeated spacings between 256 birthdays in a year of 2^23 days: Poisson, mean 256^3 / 4 / 2^23 = 0.5."""
    days = np.sort(words[: words.size // 256 * 256].reshape(-1, 256), 1)
    gaps = np.sort(np.diff(days, axis=1, prepend=0), 1)
    repeats = (np.diff(gaps, axis=1) == 0).sum(1)
    mean = 256**3 / 4 / (1 << BITS)
    expected = stats.poisson.pmf(np.arange(4), mean)
    expected = np.append(expected, 1 - expected.sum()) * repeats.size
    return chi_square(np.bincount(np.minimum(repeats, 4), minlength=5), expected)


def binary_rank(words: Words) -> float:
    """Rank over GF(2) of 23 x 23 matrices of bits."""
    rows = words[: words.size // BITS * BITS].reshape(-1, BITS).copy()[:20_000]
    rank = np.zeros(len(rows), np.int64)
    for bit in range(BITS):
        has = (rows >> bit & 1).astype(bool)
        pivot = has.argmax(1)
        found = has.any(1)
        chosen = np.where(found, rows[np.arange(len(rows)), pivot], 0)
        rows ^= np.where(has, chosen[:, None], 0)  # the pivot row itself becomes 0 and is used up
        rank += found

    def probability(d: int) -> float:  # P(rank = n - d) for a random square matrix over GF(2)
        i, j = np.arange(d + 1, BITS + 1), np.arange(1, BITS - d + 1)
        return float(2.0 ** -(d * d) * np.prod(1 - 2.0**-i) ** 2 / np.prod(1 - 2.0**-j))

    expected = np.array([probability(0), probability(1), 1 - probability(0) - probability(1)]) * len(rows)
    counts = np.array([(rank == BITS).sum(), (rank == BITS - 1).sum(), (rank < BITS - 1).sum()])
    return chi_square(counts, expected)


def runs(words: Words) -> float:
    """Number of up-down runs: normal with mean (2n - 1) / 3 and variance (16n - 29) / 90."""
    signs = np.diff(words)
    signs = signs[signs != 0] > 0
    count = 1 + int((signs[1:] != signs[:-1]).sum())
    n = signs.size + 1
    return two_sided((count - (2 * n - 1) / 3) / ((16 * n - 29) / 90) ** 0.5)


def battery(words: Words) -> dict[str, float]:
    """Return the p-value of every test."""
    results = dict(frequencies(words)) | dict(neighbours(words)) | dict(correlations(words))
    return results | {
        "birthday spacings": birthday_spacings(words),
        "binary rank": binary_rank(words),
        "runs": runs(words),
    }
