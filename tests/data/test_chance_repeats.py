"""Repeats by chance: exact p-values, and a test that keeps its level."""

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import bdtrc

from squad.data.chance_repeats import (
    LEVEL,
    NOTHING_KNOWN,
    add_repeats,
    check_repeats,
    count_repeats,
    record_repeats,
    repeats_p_value,
)
from squad.data.seen_rows import LeakError, SeenRows
from squad.errors import ArgumentError, SquadError


@given(st.lists(st.integers(0, 8), max_size=12), st.lists(st.integers(0, 8), max_size=12))
def test_counts_of_repeats_equal_a_plain_loop(train: list[int], validation: list[int]) -> None:
    expected = sum(value in train or validation.count(value) > 1 for value in validation)
    found = count_repeats(np.array(train, dtype=np.uint64), np.array(validation, dtype=np.uint64))
    assert found == (expected, len(validation))


@given(st.data(), st.integers(0, 60), st.integers(0, 60))
def test_p_values_are_exact(data: st.DataObject, m: int, n: int) -> None:
    r, k = data.draw(st.integers(0, m)), data.draw(st.integers(0, n))
    ways = sum(comb(r + k, j) * comb(m + n - r - k, m - j) for j in range(r, min(m, r + k) + 1))
    assert repeats_p_value(r, m, k, n) == pytest.approx(float(Fraction(ways, comb(m + n, m))), rel=1e-10)


@given(st.data(), st.integers(1, 10**6), st.integers(1, 10**6))
def test_properties_of_p_values(data: st.DataObject, m: int, n: int) -> None:
    r, k = data.draw(st.integers(1, m)), data.draw(st.integers(0, min(n, 10**4)))
    p = repeats_p_value(r, m, k, n)
    assert 0 <= p <= 1
    assert p <= repeats_p_value(r - 1, m, k, n) * (1 + 1e-6)  # more repeats are less likely
    assert repeats_p_value(0, m, k, n) == pytest.approx(1, abs=1e-6)
    assert repeats_p_value(r, m, n, n) == pytest.approx(1, abs=1e-6)  # everything repeats, by chance too


@pytest.mark.parametrize(("m", "k", "n"), [(1000, 0, 200), (1000, 37, 100), (20, 0, 4), (5000, 900, 1000), (300, 0, 1)])
def test_the_boundary(m: int, k: int, n: int) -> None:
    """The smallest refused number of repeats is the first with an exact p-value below 0.001."""

    def exact(r: int) -> Fraction:
        ways = sum(comb(r + k, j) * comb(m + n - r - k, m - j) for j in range(r, min(m, r + k) + 1))
        return Fraction(ways, comb(m + n, m))

    low, high = 0, m + 1  # exact(low) >= LEVEL > exact(high)
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (mid, high) if exact(mid) >= Fraction(1, 1000) else (low, mid)
    check_repeats(low, m, k, n)
    if high <= m:
        with pytest.raises(LeakError):
            check_repeats(high, m, k, n)


def test_the_message_of_a_leak() -> None:
    with pytest.raises(LeakError, match=r"1,200 of these 2,000 rows .* about 20 are expected by chance\.") as caught:
        check_repeats(1200, 2000, 9, 1000)
    assert isinstance(caught.value, SquadError)
    assert str(caught.value).count(". ") == 1  # two sentences


@pytest.mark.parametrize("numbers", [(3, 2, 0, 5), (-1, 2, 0, 5), (1, 2, 6, 5), (0, -1, 0, 5), (1.5, 2, 0, 5)])
def test_invalid_counts(numbers: tuple[Any, ...]) -> None:
    with pytest.raises(ArgumentError, match="must be an integer"):
        check_repeats(*numbers)


def test_nothing_to_test() -> None:
    check_repeats(0, 0, 0, 0)
    check_repeats(0, 100, 0, 100)
    check_repeats(100, 100, 100, 100)
    check_repeats(5, 5, 0, 0)  # nothing is known about chance


def test_all_rows_of_fit_are_used_if_validation_rows_are_few() -> None:
    check_repeats(30, 1000, 0, 60)  # 60 rows without a repeat say little
    with pytest.raises(LeakError, match="30 of these 1,000 rows"):
        check_repeats(30, 1000, 0, 60, 0, 600)
    check_repeats(29, 1000, 0, 60, 0, 600)  # (1000 / 1600) ** 29 is above 1e-6
    check_repeats(300, 1000, 18, 60, 180, 600)


def test_counts_recorded_by_fit() -> None:
    hashes = np.array([5, 6, 7, 7, 8, 5, 9, 9], dtype=np.uint64)
    found = record_repeats(hashes, np.arange(4), np.arange(4, 8))
    assert found == {"chance_repeats": 3, "chance_rows": 4, "all_repeats": 6, "all_rows": 8}
    seen_rows = SeenRows(np.unique(hashes), np.array([], dtype=np.uint64))
    more = add_repeats(found, seen_rows, np.array([1, 2, 2, 5], dtype=np.uint64))
    assert more == {"chance_repeats": 6, "chance_rows": 8, "all_repeats": 9, "all_rows": 12}
    check_repeats(0, 5, **NOTHING_KNOWN)


def population(kinds: int, power: float) -> NDArray[np.float64]:
    weights = np.arange(1, kinds + 1) ** -power
    return np.cumsum(weights / weights.sum())


def drawn(ends: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    return np.searchsorted(ends[:-1], rng.random(count)).astype(np.uint64)


#: Tables with few distinct rows: how many kinds of rows, and how unequal they are; of new rows 16 to 100 % are repeats.
TABLES = [(3000, 1.0), (2000, 0.0), (40, 0.0), (200_000, 0.8)]


@pytest.mark.parametrize("table", TABLES[1:3])  # tests/slow has the others
def test_honest_rows_are_hardly_ever_refused(table: tuple[int, float]) -> None:
    rng, ends = np.random.default_rng(1), population(*table)
    runs, refused, naive = 1500, 0, 0
    for _ in range(runs):
        train, validation, calibration = drawn(ends, 800, rng), drawn(ends, 200, rng), drawn(ends, 600, rng)
        k, n = count_repeats(train, validation)
        r = int(np.isin(calibration, np.union1d(train, validation)).sum())
        known = record_repeats(np.r_[train, validation], np.arange(800), np.arange(800, 1000))
        try:
            check_repeats(r, 600, **known)
        except LeakError:
            refused += 1
        naive += bdtrc(r - 1, 600, (k + 1) / (n + 2)) < LEVEL
    assert refused <= 6  # 1.5 are expected at 0.001; more than 6 come once in 2,000 times
    if table[0] > 40:
        # Why this is not a binomial test with the observed rate: 200 rows do not determine that rate.
        assert naive > 30


@pytest.mark.parametrize(("part", "table"), [(1.0, (3000, 1.0)), (1.0, (10**9, 0.0)), (0.1, (10**9, 0.0))])
def test_leaked_rows_are_refused(part: float, table: tuple[int, float]) -> None:
    rng = np.random.default_rng(2)
    for leak in ("training", "validation"):
        for _ in range(50):
            if table[0] > 10**6:  # continuous: no row twice
                fresh = rng.permutation(10**5).astype(np.uint64)
            else:
                fresh = drawn(population(*table), 3000, rng)
            train, validation, calibration = fresh[:1600], fresh[1600:2000], fresh[2000:2300].copy()
            leaked = int(part * len(calibration))
            calibration[:leaked] = rng.permutation(train if leak == "training" else validation)[:leaked]
            r = int(np.isin(calibration, fresh[:2000]).sum())
            with pytest.raises(LeakError):
                check_repeats(r, len(calibration), *count_repeats(train, validation))
