"""Modes are counted as by slow reference implementations."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import find_peaks

from squad.analysis import count_modes, mode_shares
from squad.errors import ArgumentError


def by_scipy(probs: list[float], prominence: float) -> int:
    """Count peaks of the zero-padded distribution; the highest one always counts."""
    padded = np.array([0.0, *probs, 0.0])
    peaks, found = find_peaks(padded, prominence=0)
    stands_out = found["prominences"] >= prominence
    return max(1, int(stands_out.sum())) if len(peaks) else 1


def by_flooding(probs: list[float], prominence: float) -> int:
    """Count islands in falling water: where two meet, the lower summit's prominence is known."""
    summits: dict[int, int] = {}  # summit of the island of each bin above the water
    count = 1
    for index in sorted(range(len(probs)), key=lambda index: (-probs[index], index)):
        neighbours = sorted(
            {summits[at] for at in (index - 1, index + 1) if at in summits},
            key=lambda top: (-probs[top], top),
        )
        for lower in neighbours[1:]:
            count += probs[lower] - probs[index] >= prominence
        top = neighbours[0] if neighbours else index
        summits[index] = top
        summits = {at: top if island in neighbours else island for at, island in summits.items()}
    return count


heights = st.lists(st.floats(0, 1), min_size=1, max_size=12)
few_heights = st.lists(st.integers(0, 5).map(lambda height: height / 8), min_size=1, max_size=12)


@given(few_heights | heights, st.floats(0.01, 0.5))
def test_same_as_flooding(probs: list[float], prominence: float) -> None:
    assert count_modes(probs, prominence) == by_flooding(probs, prominence)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=15, unique=True), st.floats(0.001, 0.5))
def test_same_as_scipy_without_ties(numbers: list[int], prominence: float) -> None:
    probs = [number / 1000 for number in numbers]
    assert count_modes(probs, prominence) == by_scipy(probs, prominence)


@given(few_heights, st.integers(1, 3), st.floats(0.01, 0.5))
def test_plateaus_count_once(probs: list[float], times: int, prominence: float) -> None:
    assert count_modes(np.repeat(probs, times), prominence) == count_modes(probs, prominence)


@given(heights, st.floats(0.01, 0.5))
def test_mirroring_changes_nothing(probs: list[float], prominence: float) -> None:
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
def test_examples(probs: list[float], modes: int) -> None:
    assert count_modes(probs) == modes


def test_many_distributions_are_fast() -> None:
    probs = np.random.default_rng(0).dirichlet(np.full(15, 0.5), (2000, 32))
    start = time.perf_counter()
    counts = count_modes(probs)
    assert time.perf_counter() - start < 2  # takes about 0.1 s
    assert counts.shape == (2000, 32)
    for row, unit in ((0, 0), (999, 31), (1999, 7)):
        assert counts[row, unit] == by_flooding(probs[row, unit].tolist(), 0.05)
    shares = mode_shares(probs)
    np.testing.assert_allclose(shares.sum(), 1)
    np.testing.assert_allclose(shares @ np.arange(1, len(shares) + 1), counts.mean())
    assert shares[-1] > 0


def test_errors() -> None:
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ArgumentError, match="prominence"):
            count_modes([0.5, 0.5], bad)
    with pytest.raises(ArgumentError, match="finite"):
        count_modes([0.5, float("nan")])
    with pytest.raises(ArgumentError, match="at least one bin"):
        count_modes(np.empty((3, 0)))
    with pytest.raises(ArgumentError, match="at least one distribution"):
        mode_shares(np.empty((0, 4)))
