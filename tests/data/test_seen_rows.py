"""Rows the model has seen: stable hashes, and exact lookups."""

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from squad.data.seen_rows import LeakError, SeenRows, check_groups, group_hashes, row_hashes, rows_digest
from squad.errors import ArgumentError, DataError

Rows = NDArray[np.float32]


def rows(count: int, features: int = 5, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).normal(size=(count, features)).astype(np.float32)


# ---- hashes


def test_hashes_are_the_same_on_every_machine() -> None:
    x = np.array([[1.5, -2.0, 0.0], [0.0, 0.0, 0.0]], dtype=np.float32)
    assert row_hashes(x).tolist() == [0x10DFECDD89D224FE, 0xDC55A0F1DCECEB0E]
    assert group_hashes(["patient 1"]).tolist() == [0x2C091128F540AA79]
    assert row_hashes(x).dtype == np.uint64


def test_a_hash_is_that_of_the_rows_bytes() -> None:
    x = rows(10_000, 3)  # more than one block
    expected = [
        int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8, person=b"squad row").digest(), "little")
        for row in x.astype("<f4")
    ]
    np.testing.assert_array_equal(row_hashes(x), np.array(expected, dtype=np.uint64))


@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45]), min_size=2, max_size=2), st.integers(0, 3))
def test_equal_rows_have_equal_hashes_and_others_not(row: list[float], other: int) -> None:
    x = np.array([row, [0.0, -0.0], [1.0, 1.0], [-1.0, 0.0], [1e-45, 0.0]], dtype=np.float32)
    found = row_hashes(x)
    assert (found[0] == found[1 + other]) == bool((x[0] == x[1 + other]).all())


def test_hashes_do_not_depend_on_memory_layout() -> None:
    x = rows(40, 6)
    expected = row_hashes(x)
    for same in (np.asfortranarray(x), x.astype(">f4"), np.repeat(x, 2, axis=0)[::2], np.flip(np.flip(x, 1).copy(), 1)):
        np.testing.assert_array_equal(row_hashes(same), expected)
    np.testing.assert_array_equal(row_hashes(x[::-1]), expected[::-1])
    assert len(set(expected.tolist())) == 40
    assert row_hashes(x[:0]).shape == (0,)
    assert len(row_hashes(x[:3, :0])) == 3


def test_hashes_depend_on_the_order_of_features() -> None:
    one, other = row_hashes(np.array([[1, 2], [2, 1]], dtype=np.float32))
    assert one != other


@pytest.mark.parametrize(
    ("x", "got"),
    [
        (np.zeros((2, 2)), r"float64 of shape \(2, 2\)"),
        (np.zeros(3, dtype=np.float32), r"float32 of shape \(3,\)"),
        ([[1.0]], "list"),
        (np.array([[1, 2], [np.nan, 0]], dtype=np.float32), r"NaN or infinity in row 2 "),
        (np.full((1, 1), np.inf, dtype=np.float32), "NaN or infinity in row 1"),
    ],
)
def test_invalid_rows_are_refused(x: Any, got: str) -> None:
    with pytest.raises(ArgumentError, match=f"x must be .*, got {got}"):
        row_hashes(x)


def test_group_hashes_are_sorted_distinct_and_differ_from_row_hashes() -> None:
    found = group_hashes(["b", "a", "b", "ü", "\udcff", ""])
    assert len(found) == 5
    assert (np.diff(found.astype(object)) > 0).all()
    np.testing.assert_array_equal(found, group_hashes(["", "\udcff", "ü", "a", "b"]))
    assert group_hashes([]).shape == (0,)
    assert group_hashes([]).dtype == np.uint64
    zeros = np.zeros((1, 1), dtype=np.float32)
    assert row_hashes(zeros)[0] != group_hashes(["\0\0\0\0"])[0]
    with pytest.raises(ArgumentError, match=r"groups must be texts, got 3\..*str\(group\)"):
        group_hashes([3])  # type: ignore[list-item]


# ---- lookups


@given(st.lists(st.integers(0, 12), max_size=30), st.lists(st.integers(0, 12), max_size=30))
def test_repeats_equal_those_of_sets(seen: list[int], new: list[int]) -> None:
    def encoded(values: list[int]) -> Rows:
        return np.array(values, dtype=np.float32).reshape(-1, 1)

    seen_rows = SeenRows.of(encoded(seen))
    assert seen_rows.repeats(row_hashes(encoded(new))) == sum(value in seen for value in new)
    both = seen_rows.with_rows(row_hashes(encoded(new)))
    assert both.repeats(row_hashes(encoded(new))) == len(new)
    assert len(both.rows) == len({*seen, *new})
    assert len(seen_rows.rows) == len(set(seen))  # it is left as it was


def test_groups_that_were_seen() -> None:
    seen_rows = SeenRows.of(rows(3), ["anna", "bert", "anna"])
    assert seen_rows.seen_groups(["carl", "bert", "anna", "bert"]) == ["bert", "anna"]
    assert seen_rows.seen_groups([]) == []
    assert SeenRows.of(rows(3)).seen_groups(["anna"]) == []
    assert seen_rows.with_rows(row_hashes(rows(4, seed=1))).seen_groups(["anna"]) == ["anna"]
    assert repr(seen_rows) == "SeenRows(3 rows, 2 groups)"


def test_groups_that_were_seen_are_refused() -> None:
    seen_rows = SeenRows.of(rows(3), [f"patient {i}" for i in range(9)])
    check_groups(seen_rows, ["patient 9", "patient 10"])
    check_groups(seen_rows, [])
    with pytest.raises(LeakError, match=r"seen 2 of the 3 .*: 'patient 1', 'patient 2'\. .*squad split --group"):
        check_groups(seen_rows, ["patient 1", "patient 2", "patient 1", "new"])
    with pytest.raises(LeakError, match="'patient 4' and 4 more"):
        check_groups(seen_rows, [f"patient {i}" for i in range(9)])


def test_saving_and_loading() -> None:
    from safetensors.torch import load, save

    for seen_rows in (SeenRows.of(rows(500), ["a", "b"]), SeenRows.of(rows(1)), SeenRows.of(rows(0))):
        again = SeenRows.from_tensors(load(save(seen_rows.to_tensors())))
        np.testing.assert_array_equal(again.rows, seen_rows.rows)
        np.testing.assert_array_equal(again.groups, seen_rows.groups)
        assert again.rows.dtype == again.groups.dtype == np.uint64
    assert (SeenRows.of(rows(500)).to_tensors()["rows"] < 0).any()  # hashes of more than 63 bits are among them


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": None}, "must have 'rows' and 'groups'.* got 'cells"),
        ({"more": torch.zeros(1)}, "must have 'rows' and 'groups'.*'more'"),
        ({"rows": torch.zeros(2)}, r"'rows' .*int64, got torch.float32 of shape \(2,\)"),
        ({"groups": torch.zeros(2, 1, dtype=torch.int64)}, r"'groups' .* got torch.int64 of shape \(2, 1\)"),
        ({"rows": torch.tensor([2, 1])}, "rows must be distinct hashes in ascending order"),
        ({"rows": torch.tensor([1, 1])}, "rows must be distinct hashes in ascending order"),
        ({"rows": torch.tensor([-1, 1])}, "rows must be distinct hashes in ascending order"),  # -1: the largest uint64
    ],
)
def test_invalid_saved_hashes(change: dict[str, torch.Tensor | None], message: str) -> None:
    tensors = {**SeenRows.of(rows(3), ["a"]).to_tensors(), **change}
    with pytest.raises(DataError, match=message):
        SeenRows.from_tensors({name: tensor for name, tensor in tensors.items() if tensor is not None})
    with pytest.raises(DataError, match=r"rows must be .*uint64.* got list"):
        SeenRows([1, 2], np.empty(0, dtype=np.uint64))  # type: ignore[arg-type]


def test_a_digest_is_that_of_rows_in_any_order() -> None:
    hashes = np.array([5, 7, 7, 5, 9], dtype=np.uint64)
    assert rows_digest(hashes[::-1]) == rows_digest(hashes)
    assert rows_digest(hashes[:4]) != rows_digest(hashes)


def test_files_of_earlier_versions() -> None:
    """They have hashes of rows and groups only, by which rows are looked up."""
    new = SeenRows.of(rows(50), ["a"])
    old = SeenRows.from_tensors({name: new.to_tensors()[name] for name in ("rows", "groups")})
    assert old.near is None
    assert old.distinct is None
    assert old.cells(rows(5)) is None
    assert old.seen(row_hashes(rows(60))).sum() == 50
    assert set(old.to_tensors()) == {"rows", "groups"}
    more = old.with_rows(row_hashes(rows(3, seed=1)))
    assert (len(more.rows), more.near) == (53, None)


@pytest.mark.parametrize(
    "change",
    [
        {"cells.3": None},
        {"widths": torch.zeros(7, 3, dtype=torch.int64)},
        {"widths": torch.full((7, 16), 60)},
        {"widths": torch.zeros(7, 16)},
        {"near": torch.zeros(2, 3, dtype=torch.int64)},
        {"near": torch.arange(16).reshape(2, 8)},
        {"near": torch.full((2, 8), -1)},
        {"digests": torch.zeros(7, 3, dtype=torch.int64)},
        {"cells.0": torch.tensor([2, 1])},
        {"cells.0": torch.zeros(2, 2, dtype=torch.int64)},
        {"distinct": torch.zeros(4, dtype=torch.int64)},
        {"distinct": torch.full((5,), -1)},
    ],
)
def test_invalid_saved_cells(change: dict[str, torch.Tensor | None]) -> None:
    tensors = {**SeenRows.of(rows(20), ["a"]).to_tensors(), **change}
    with pytest.raises(DataError):
        SeenRows.from_tensors({name: tensor for name, tensor in tensors.items() if tensor is not None})
