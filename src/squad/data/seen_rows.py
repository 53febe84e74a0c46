"""Which rows a model was made from, as hashes: a guarantee is worth nothing if it was made with them again.

A model is surer of rows that it has seen, and more often right about them, than of new ones.  So it keeps a hash of
every row that its fit saw, and calibration rows are looked up there.  Tables with few columns repeat rows by chance;
rows are refused only where there are more repeats than chance explains.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.data.column_names import listed
from squad.data.deduplicated import Distinct
from squad.data.near_copies import NearRows, among
from squad.errors import ArgumentError, DataError

__all__ = [
    "LeakError",
    "SeenRows",
    "check_groups",
    "group_hashes",
    "row_hashes",
    "rows_digest",
]

#: Rows that are copied at once, to take the signs off their zeros.
BLOCK = 4096

#: Hashes of one kind are never those of the other.
ROW, GROUP = b"squad row", b"squad group"

#: What :attr:`Memory.distinct` is called in a file.
DISTINCT = "distinct"

Hashes = NDArray[np.uint64]


class LeakError(DataError):
    """Rows that the model has seen before, where only new ones will do."""


def row_hashes(x: NDArray[np.float32]) -> Hashes:
    """A hash of 64 bits for each row, (N,): that of its bytes, -0.0 being 0.0; the same on every machine.

    Args:
        x: (N, features), rows as a transform encodes them.  Leave out rows with a problem: they are all zeros.
    """
    if not isinstance(x, np.ndarray) or x.dtype.newbyteorder("=") != np.float32 or x.ndim != 2:
        got = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
        raise ArgumentError.of("x", got, "encoded rows, a float32 array of shape (rows, features)")
    found = bytearray()
    width = 4 * x.shape[1]
    for start in range(0, len(x), BLOCK):
        # Adding 0 turns -0.0 into 0.0 and nothing else into anything else.
        block = np.ascontiguousarray(x[start : start + BLOCK] + np.float32(0), dtype="<f4")
        if not np.isfinite(block).all():
            row = start + int(np.flatnonzero(~np.isfinite(block).all(1))[0])
            raise ArgumentError.of("x", f"NaN or infinity in row {row + 1} (from 1)", "finite")
        data = block.tobytes()
        for place in range(0, len(block) * width, width) if width else [0] * len(block):
            found += hashlib.blake2b(data[place : place + width], digest_size=8, person=ROW).digest()
    return np.frombuffer(bytes(found), dtype="<u8").astype(np.uint64)


def group_hashes(groups: Sequence[str]) -> Hashes:
    """The hashes of the groups, each once, ascending; a group is what it is called as text."""
    return np.unique(np.asarray([_group_hash(group) for group in dict.fromkeys(groups)], dtype=np.uint64))


def _group_hash(group: str) -> int:
    if not isinstance(group, str):
        raise ArgumentError.of("groups", repr(group), "texts", "Write str(group) for each.")
    # Files are read with surrogates where a byte is no character: they are text, too.
    digest = hashlib.blake2b(group.encode("utf-8", "surrogatepass"), digest_size=8, person=GROUP).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True, eq=False)
class SeenRows:
    """What a model was made from.

    Attributes:
        rows: hashes of the rows that fit saw, to train or to validate, ascending, each once.
        groups: hashes of their groups, likewise; none if rows have no groups.
        near: the cells that the rows stand in, for near copies; None in models of earlier versions.
        distinct: equal pairs among the rows; None likewise.
    """

    rows: Hashes
    groups: Hashes
    near: NearRows | None = None
    distinct: Distinct | None = None

    def __post_init__(self) -> None:
        for name in ("rows", "groups"):
            hashes = getattr(self, name)
            if not isinstance(hashes, np.ndarray) or hashes.dtype != np.uint64 or hashes.ndim != 1:
                raise DataError(f"{name} of a memory must be a list of hashes, uint64, got {_kind(hashes)}.")
            if not (hashes[1:] > hashes[:-1]).all():
                raise DataError(f"{name} of a memory must be in ascending order, each hash once; they are not.")

    @classmethod
    def of(
        cls,
        x: NDArray[np.float32],
        groups: Sequence[str] = (),
        train: NDArray[np.int64] | None = None,
        validation: NDArray[np.int64] | None = None,
        hashes: Hashes | None = None,
    ) -> "SeenRows":
        """Of encoded rows (N, features) and the groups that they belong to.

        Args:
            x: all rows that a fit saw.
            groups: of the rows.
            train: which rows it trained on; all, if left out.
            validation: which rows it validated on; none, if left out.
            hashes: of the rows, if they are known.
        """
        hashes = row_hashes(x) if hashes is None else hashes
        rows, first = np.unique(hashes, return_index=True)
        train = np.arange(len(x)) if train is None else train
        near = NearRows.of(x, first, train, train[:0] if validation is None else validation)
        return cls(rows, group_hashes(groups), near, Distinct.of(x, hashes))

    def __repr__(self) -> str:
        return f"SeenRows({len(self.rows):,} rows, {len(self.groups):,} groups)"

    def with_rows(self, hashes: Hashes, groups: Sequence[str] = (), cells: Hashes | None = None) -> "SeenRows":
        """One that knows more rows, and the groups they belong to: those that a recalibration saw, say.

        Args:
            hashes: of the rows.
            groups: of the rows.
            cells: (grids, rows), of :meth:`cells`.
        """
        near = self.near if self.near is None or cells is None else self.near.with_rows(cells)
        both = np.union1d(self.rows, hashes), np.union1d(self.groups, group_hashes(groups))
        return SeenRows(*both, near, self.distinct)

    def cells(self, x: NDArray[np.float32]) -> Hashes | None:
        """The cells of encoded rows (N, features): (grids, N); None if the model keeps none."""
        return None if self.near is None else self.near.cells_of(x)

    def repeats(self, hashes: Hashes) -> int:
        """How many of the rows (N,) fit saw."""
        return int(self.seen(hashes).sum())

    def seen(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of the rows (N,) fit saw."""
        return among(hashes, self.rows)

    def seen_groups(self, groups: Sequence[str]) -> list[str]:
        """Those of the groups that fit saw, each once, in the order they come."""
        names = list(dict.fromkeys(groups))
        seen = among(np.asarray([_group_hash(name) for name in names], dtype=np.uint64), self.groups)
        return [name for name, known in zip(names, seen.tolist(), strict=True) if known]

    def to_tensors(self) -> dict[str, Tensor]:
        """As int64 of the same bits, which every library can save."""
        found = {name: torch.from_numpy(getattr(self, name).view(np.int64).copy()) for name in ("rows", "groups")}
        if self.near is not None and self.distinct is not None:
            found |= {**self.near.to_tensors(), DISTINCT: torch.tensor(self.distinct, dtype=torch.int64)}
        return found

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "SeenRows":
        """What :meth:`to_tensors` made, here or in an earlier version, which kept hashes of rows and groups only."""
        names = set(tensors)
        more = NearRows.names() | {DISTINCT}
        if names != {"rows", "groups"} and names != {"rows", "groups"} | more:
            held = listed(sorted(tensors)) or "nothing"
            raise DataError(
                f"A saved memory must hold 'rows' and 'groups', and cells in full or none; it holds {held}."
            )
        for name in ("rows", "groups"):
            if tensors[name].dtype != torch.int64 or tensors[name].ndim != 1:
                raise DataError(f"{name} of a saved memory must be a list of int64, got {_kind(tensors[name])}.")
        rows, groups = (tensors[name].cpu().contiguous().numpy().view(np.uint64) for name in ("rows", "groups"))
        if DISTINCT not in names:
            return cls(rows, groups)
        return cls(rows, groups, NearRows.from_tensors(tensors), Distinct.from_tensor(tensors[DISTINCT]))


def rows_digest(hashes: Hashes) -> str:
    """A hash of a set of rows, in whatever order they stand."""
    return hashlib.sha256(np.sort(hashes).astype("<u8").tobytes()).hexdigest()


def check_groups(seen_rows: SeenRows, groups: Sequence[str]) -> None:
    """That no group of the calibration rows is one that fit saw; a :class:`LeakError` if one is."""
    seen = seen_rows.seen_groups(groups)
    if seen:
        raise LeakError(
            f"The groups of the calibration rows must be new to the model; fit saw {len(seen):,} of these"
            f" {len(set(groups)):,}: {listed(seen, 5)}. Rows of one group are alike, so a guarantee made with them"
            " would be false for new groups. Split by group before fit (squad split --group)."
        )


def _kind(value: Any) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if hasattr(value, "dtype") else type(value).__name__
