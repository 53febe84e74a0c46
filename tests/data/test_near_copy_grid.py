"""Grid cells: identical on every machine, shared by near copies and hardly ever by other rows."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from squad.data.near_copies import NearRows
from squad.data.near_copy_grid import AXES, GRIDS, UNUSED, cell_hashes, choose_widths, grids, halves

Rows = NDArray[np.float32]


def rows(count: int, features: int = 5, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).normal(size=(count, features)).astype(np.float32)


def near_rows(x: Rows, validation: int = 0) -> NearRows:
    places = np.arange(len(x))
    first = np.unique(x, axis=0, return_index=True)[1]
    return NearRows.of(x, first, places[validation:], places[:validation])


def test_cells_are_the_same_on_every_machine() -> None:
    x = np.array([[1.5, -2.0, 0.25], [0.0, 3.0, -1.0]], dtype=np.float32)
    widths = np.full((GRIDS, AXES), 22)
    assert cell_hashes(x, widths)[[0, 3, 6], 0].tolist() == VECTORS
    wide = np.tile(x, 20)  # sums of features with signs
    assert cell_hashes(wide, widths)[[0, 6], 1].tolist() == WIDE


VECTORS = [0x3DF6AE7FEAF505BA, 0xF5692B0E2D7FD4A8, 0x546DE3434DC4AA0B]
WIDE = [0x942CB367698DDC6B, 0xE4266DB7C9FE67CA]


@given(st.integers(1, 40))
@settings(max_examples=20)
def test_every_feature_is_in_one_of_two_halves(features: int) -> None:
    for one, other in halves(features):
        assert sorted([*one, *other]) == list(range(features))
        assert 0 <= len(one) - len(other) <= 1
    assert all(len(grid.part) for grid in grids(features))


@given(st.integers(0, 2**32), st.sampled_from([1, 3, 40]))
@settings(max_examples=20, deadline=None)
def test_cells_do_not_depend_on_other_rows(seed: int, features: int) -> None:
    x = rows(30, features, seed)
    x[x < -1] = -0.0
    widths = choose_widths(rows(200, features))
    cells = cell_hashes(x, widths)
    order = np.random.default_rng(seed).permutation(30)
    np.testing.assert_array_equal(cell_hashes(x[order], widths), cells[:, order])
    np.testing.assert_array_equal(cell_hashes(x[7:8], widths)[:, 0], cells[:, 7])
    np.testing.assert_array_equal(cell_hashes(np.asfortranarray(x + np.float32(0)), widths), cells)  # -0.0 is 0.0


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_sums_do_not_depend_on_the_order_of_their_terms(seed: int) -> None:
    """Sums are integers below 2**53, and exact in any order of addition."""
    x = np.clip(rows(4, 300, seed) * np.float32(30), -127, 127)
    for grid in grids(300):
        assert grid.signs is not None
        whole = [[int(np.floor(float(value) * 2**24)) for value in row] for row in x[:, grid.part]]
        expected = np.array(whole, dtype=object) @ grid.signs.astype(np.int64).astype(object)
        assert (grid.axes(x) == expected).all()


def test_extreme_numbers_have_a_cell() -> None:
    x = np.array([[3e38, -3e38], [1e-45, -1e-45], [0, 0]], dtype=np.float32)
    widths = choose_widths(rows(100, 2))
    assert (cell_hashes(x, widths)[:, 0] != cell_hashes(x, widths)[:, 2]).all()
    assert choose_widths(x).min() >= UNUSED


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_rows(count: int) -> None:
    x = rows(count)
    near = near_rows(x)
    assert near.matches(near.cells_of(x)).tolist() == [GRIDS if count > 1 else 0] * count
    assert near_rows(rows(10, 0)).used.sum() == 0


def test_few_distinct_rows_have_cells_of_their_own() -> None:
    x = np.random.default_rng(0).integers(4, size=(500, 3)).astype(np.float32)
    near = near_rows(x)
    whole = [one for one, grid in zip(near.cells, near.widths, strict=True) if (grid[:3] >= 0).all()]
    assert len(whole) == GRIDS
    assert {len(one) for one in whole} == {len(np.unique(x, axis=0))}


CHANGES: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "float32": lambda x: x.astype(np.float32).astype(np.float64),
    "6 digits": lambda x: np.array([[float(f"{v:.6g}") for v in row] for row in x]),
    "3 digits": lambda x: np.array([[float(f"{v:.3g}") for v in row] for row in x]),
    "noise": lambda x: x * (1 + 1e-7 * np.random.default_rng(1).normal(size=x.shape)),
}

#: With three digits of one or two features, new rows are as close to training rows as copies.
CASES = [(name, count) for name in CHANGES for count in (1, 2, 5, 20, 300) if name != "3 digits" or count > 2]


@pytest.mark.parametrize(("change", "features"), CASES)
def test_near_copies_share_cells_and_others_do_not(change: str, features: int) -> None:
    random = np.random.default_rng(0)
    x, new = 5 + random.normal(size=(2, 400, features))

    def encoded(values: NDArray[np.float64]) -> Rows:
        return np.asarray((values - x.mean(0)) / x.std(0), dtype=np.float32)

    near = near_rows(encoded(x), 80)
    found = near.matches(near.cells_of(encoded(CHANGES[change](x))))
    assert (found >= 2).mean() > 0.9
    assert (found >= 1).mean() > 0.95
    others = near.matches(near.cells_of(encoded(new)))
    assert (others >= 1).mean() < 0.06
    assert (others >= 4).mean() < 0.015


def test_a_column_rounded_to_nothing_does_not_hide_copies() -> None:
    x = rows(400, 10)
    near = near_rows(x)
    x[:, 3] = 0
    assert (near.matches(near.cells_of(x)) >= 1).mean() > 0.95


def test_added_rows_are_found_and_counted() -> None:
    x, more = rows(100, 4), rows(50, 4, 1)
    near = near_rows(x, 20)
    both = near.with_rows(near.cells_of(np.r_[more, more[:10]]))
    assert (both.matches(both.cells_of(np.r_[x, more])) == GRIDS).all()
    assert near.matches(near.cells_of(more)).max() < GRIDS
    assert (both.validation_counts[-1], both.all_counts[-1]) == (80, 160)
    assert both.all_counts[GRIDS - 1] == near.all_counts[GRIDS - 1] + 20  # each of the ten rows twice


@given(st.integers(0, 2**32), st.integers(2, 40))
@settings(max_examples=30, deadline=None)
def test_counts_equal_a_plain_loop(seed: int, count: int) -> None:
    x = np.random.default_rng(seed).integers(3, size=(count, 2)).astype(np.float32)
    near = near_rows(x, count // 2)
    cells = near.cells_of(x)

    def counted(rows: range) -> list[int]:
        shared = [
            sum(
                any(cells[grid, row] == cells[grid, other] for other in range(count) if other != row)
                for grid in np.flatnonzero(near.used)
            )
            for row in rows
        ]
        return [*(sum(one >= least for one in shared) for least in range(1, GRIDS + 1)), len(rows)]

    assert near.all_counts.tolist() == counted(range(count))
    assert near.validation_counts.tolist() == counted(range(count // 2))
