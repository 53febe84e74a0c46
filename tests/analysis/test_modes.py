"""Modes are counted as a slow and plain reference counts them."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import find_peaks

from squad.analysis import count_modes, mode_shares
from squad.errors import ArgumentError


def by_scipy(probs: list[float], prominence: float) -> int:
    """Peaks of the distribution with nothing around it; the highest one always counts."""
    padded = np.array([0.0, *probs, 0.0])
    peaks, found = find_peaks(padded, prominence=0)
    stands_out = found["prominences"] >= prominence
    return max(1, int(stands_out.sum())) if len(peaks) else 1


def by_flooding(probs: list[float], prominence: float) -> int:
    """Islands in falling water: where two meet, the lower one's summit is told how far it stood out."""
    summits: dict[int, int] = {}  # of each bin above the water: the summit of its island
    count = 1
    for index in sorted(range(len(probs)), key=lambda index: (-probs[index], index)):
        beside = sorted(
            {summits[at] for at in (index - 1, index + 1) if at in summits},
            key=lambda top: (-probs[top], top),
        )
        for lower in beside[1:]:
            count += probs[lower] - probs[index] >= prominence
        top = beside[0] if beside else index
        summits[index] = top
        summits = {at: top if island in beside else island for at, island in summits.items()}
    return count


heights = st.lists(st.floats(0, 1), min_size=1, max_size=12)
few_heights = st.lists(st.integers(0, 5).map(lambda height: height / 8), min_size=1, max_size=12)


@given(few_heights | heights, st.floats(0.01, 0.5))
def test_against_flooding(probs: list[float], prominence: float) -> None:
    assert count_modes(probs, prominence) == by_flooding(probs, prominence)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=15, unique=True), st.floats(0.001, 0.5))
def test_against_scipy_where_no_two_are_equal(numbers: list[int], prominence: float) -> None:
    probs = [number / 1000 for number in numbers]
    assert count_modes(probs, prominence) == by_scipy(probs, prominence)


@given(few_heights, st.integers(1, 3), st.floats(0.01, 0.5))
def test_plateaus_count_once(probs: list[float], times: int, prominence: float) -> None:
    assert count_modes(np.repeat(probs, times), prominence) == count_modes(probs, prominence)


@given(heights, st.floats(0.01, 0.5))
def test_mirrored_it_is_the_same(probs: list[float], prominence: float) -> None:
    assert count_modes(probs[::-1], prominence) == count_modes(probs, prominence)


@pytest.mark.parametrize(
    ("probs", "modes"),
    [
        ([1.0], 1),
        ([0.25, 0.25, 0.25, 0.25], 1),
        ([0.5, 0.0, 0.5], 2),
        ([0.34, 0.32, 0.34], 1),  # equal, but the valley is shallow
        ([0.3, 0.1, 0.3, 0.1, 0.2], 3),
        ([0.5, 0.2, 0.24, 0.06], 1),
        ([0.5, 0.19, 0.25, 0.06], 2),
        ([0.0, 0.0, 1.0], 1),
    ],
)
def test_by_hand(probs: list[float], modes: int) -> None:
    assert count_modes(probs) == modes


def test_many_at_once_and_quickly() -> None:
    probs = np.random.default_rng(0).dirichlet(np.full(15, 0.5), (2000, 32))
    start = time.perf_counter()
    counts = count_modes(probs)
    assert time.perf_counter() - start < 2  # a fifth of what is asked for takes a tenth of a second here
    assert counts.shape == (2000, 32)
    for row, unit in ((0, 0), (999, 31), (1999, 7)):
        assert counts[row, unit] == by_flooding(probs[row, unit].tolist(), 0.05)
    shares = mode_shares(probs)
    np.testing.assert_allclose(shares.sum(), 1)
    np.testing.assert_allclose(shares @ np.arange(1, len(shares) + 1), counts.mean())
    assert shares[-1] > 0


def test_what_is_refused() -> None:
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ArgumentError, match="prominence"):
            count_modes([0.5, 0.5], bad)
    with pytest.raises(ArgumentError, match="finite"):
        count_modes([0.5, float("nan")])
    with pytest.raises(ArgumentError, match="at least one bin"):
        count_modes(np.empty((3, 0)))
    with pytest.raises(ArgumentError, match="at least one distribution"):
        mode_shares(np.empty((0, 4)))
