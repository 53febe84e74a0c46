"""Training rows the model has seen, as hashes: a certificate made with the same rows would be invalid.

A model is more confident, and more often right, on rows it has seen than on new ones.  It therefore stores a hash of
every row that was used to fit it, and the leakage check looks calibration rows up there.  Tables with few columns
repeat rows by chance; rows are refused only if there are more repeats than expected by chance.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.data.column_names import format_names
from squad.data.deduplicated import Distinct
from squad.data.near_copies import NearRows, contained_in
from squad.errors import ArgumentError, DataError

__all__ = [
    "LeakError",
    "SeenRows",
    "check_groups",
    "group_hashes",
    "row_hashes",
    "rows_digest",
]

#: Rows per block; bounds the memory for the copy that removes signs of zeros.
BLOCK_ROWS = 4096

#: Personalization strings of the hash function, so that hashes of rows and groups never coincide.
ROW, GROUP = b"squad row", b"squad group"

#: Name of :attr:`SeenRows.distinct` in a file.
DISTINCT = "distinct"

Hashes = NDArray[np.uint64]


class LeakError(DataError):
    """Calibration rows that the model has seen, where new rows are required."""


def row_hashes(x: NDArray[np.float32]) -> Hashes:
    """Hash rows: 64 bits of BLAKE2b of their bytes, with -0.0 replaced by 0.0; identical on every machine.

    Args:
        x: (N, features), float32, rows encoded by a transform.  Exclude rows with a problem: they are all zeros.

    Returns:
        (N,), uint64.

    Examples:
        >>> hashes = row_hashes(np.array([[0, 1], [-0.0, 1], [1, 1]], dtype=np.float32))
        >>> bool(hashes[0] == hashes[1]), bool(hashes[0] == hashes[2])
        (True, False)
    """
    if not isinstance(x, np.ndarray) or x.dtype.newbyteorder("=") != np.float32 or x.ndim != 2:
        got = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
        raise ArgumentError.of("x", got, "encoded rows, a float32 array of shape (rows, features)")
    digests = bytearray()
    width = 4 * x.shape[1]
    for start in range(0, len(x), BLOCK_ROWS):
        # Adding 0 turns -0.0 into 0.0 and changes no other number.
        block = np.ascontiguousarray(x[start : start + BLOCK_ROWS] + np.float32(0), dtype="<f4")
        if not np.isfinite(block).all():
            row = start + int(np.flatnonzero(~np.isfinite(block).all(1))[0])
            raise ArgumentError.of("x", f"NaN or infinity in row {row + 1} (counted from 1)", "finite")
        data = block.tobytes()
        for offset in range(0, len(block) * width, width) if width else [0] * len(block):
            digests += hashlib.blake2b(data[offset : offset + width], digest_size=8, person=ROW).digest()
    return np.frombuffer(bytes(digests), dtype="<u8").astype(np.uint64)


def group_hashes(groups: Sequence[str]) -> Hashes:
    """Hash the names of groups.

    Returns:
        Distinct hashes, in ascending order.
    """
    return np.unique(np.asarray([_group_hash(group) for group in dict.fromkeys(groups)], dtype=np.uint64))


def _group_hash(group: str) -> int:
    if not isinstance(group, str):
        raise ArgumentError.of("groups", repr(group), "texts", "Convert each with str(group).")
    # Text may contain surrogates, which stand for bytes that could not be decoded.
    digest = hashlib.blake2b(group.encode("utf-8", "surrogatepass"), digest_size=8, person=GROUP).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Training and validation rows the model has seen, as hashes.

    Attributes:
        rows: Distinct hashes of the rows of fit, for training or validation, ascending.
        groups: Distinct hashes of their groups, ascending; empty if rows have no groups.
        near: Grid cells of the rows, to find near copies; None in models of earlier versions.
        distinct: Counts of equal pairs among the rows; None in models of earlier versions.

    Examples:
        >>> x = np.arange(40, dtype=np.float32).reshape(20, 2)
        >>> SeenRows.of(x).repeats(row_hashes(x[:3]))
        3
    """

    rows: Hashes
    groups: Hashes
    near: NearRows | None = None
    distinct: Distinct | None = None

    def __post_init__(self) -> None:
        for name in ("rows", "groups"):
            hashes = getattr(self, name)
            if not isinstance(hashes, np.ndarray) or hashes.dtype != np.uint64 or hashes.ndim != 1:
                raise DataError(f"{name} must be a one-dimensional array of uint64 hashes, got {_describe(hashes)}.")
            if not (hashes[1:] > hashes[:-1]).all():
                raise DataError(f"{name} must be distinct hashes in ascending order, got another order.")

    @classmethod
    def of(
        cls,
        x: NDArray[np.float32],
        groups: Sequence[str] = (),
        train: NDArray[np.int64] | None = None,
        validation: NDArray[np.int64] | None = None,
        hashes: Hashes | None = None,
    ) -> "SeenRows":
        """Hash the rows of a fit.

        Args:
            x: (N, features), all encoded rows of the fit.
            groups: Groups of the rows.
            train: Positions of the training rows; by default all rows.
            validation: Positions of the validation rows; by default none.
            hashes: (N,), hashes of the rows, if already computed.

        Returns:
            The hashes of rows and groups, and the cells of near copies.
        """
        hashes = row_hashes(x) if hashes is None else hashes
        rows, first = np.unique(hashes, return_index=True)
        train = np.arange(len(x)) if train is None else train
        near = NearRows.of(x, first, train, train[:0] if validation is None else validation)
        return cls(rows, group_hashes(groups), near, Distinct.of(x, hashes))

    def __repr__(self) -> str:
        return f"SeenRows({len(self.rows):,} rows, {len(self.groups):,} groups)"

    def with_rows(self, hashes: Hashes, groups: Sequence[str] = (), cells: Hashes | None = None) -> "SeenRows":
        """Return a copy with additional rows, such as those used to recalibrate.

        Args:
            hashes: (N,), hashes of the rows.
            groups: Groups of the rows.
            cells: (grids, N), from :meth:`cells`.

        Returns:
            The copy.
        """
        near = self.near if self.near is None or cells is None else self.near.with_rows(cells)
        both = np.union1d(self.rows, hashes), np.union1d(self.groups, group_hashes(groups))
        return SeenRows(*both, near, self.distinct)

    def cells(self, x: NDArray[np.float32]) -> Hashes | None:
        """Return the grid cells of encoded rows (N, features): (grids, N); None if the model has no grids."""
        return None if self.near is None else self.near.cells_of(x)

    def repeats(self, hashes: Hashes) -> int:
        """Count the rows (N,) that the model has seen."""
        return int(self.seen(hashes).sum())

    def seen(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return which rows (N,) the model has seen."""
        return contained_in(hashes, self.rows)

    def seen_groups(self, groups: Sequence[str]) -> list[str]:
        """Return the distinct groups that the model has seen, in their order in ``groups``."""
        names = list(dict.fromkeys(groups))
        seen = contained_in(np.asarray([_group_hash(name) for name in names], dtype=np.uint64), self.groups)
        return [name for name, known in zip(names, seen.tolist(), strict=True) if known]

    def to_tensors(self) -> dict[str, Tensor]:
        """Return tensors to be saved; hashes are reinterpreted as int64, which all formats support."""
        tensors = {name: torch.from_numpy(getattr(self, name).view(np.int64).copy()) for name in ("rows", "groups")}
        if self.near is not None and self.distinct is not None:
            tensors |= {**self.near.to_tensors(), DISTINCT: torch.tensor(self.distinct, dtype=torch.int64)}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "SeenRows":
        """Restore from the output of :meth:`to_tensors`, also of earlier versions, which had only rows and groups.

        Raises:
            DataError: The tensors are not valid.
        """
        names = set(tensors)
        more = NearRows.names() | {DISTINCT}
        if names != {"rows", "groups"} and names != {"rows", "groups"} | more:
            got = format_names(sorted(tensors)) or "nothing"
            raise DataError(f"Saved row hashes must have 'rows' and 'groups', and all cells or none, got {got}.")
        for name in ("rows", "groups"):
            if tensors[name].dtype != torch.int64 or tensors[name].ndim != 1:
                raise DataError(
                    f"{name!r} of saved row hashes must be one-dimensional int64, got {_describe(tensors[name])}."
                )
        rows, groups = (tensors[name].cpu().contiguous().numpy().view(np.uint64) for name in ("rows", "groups"))
        if DISTINCT not in names:
            return cls(rows, groups)
        return cls(rows, groups, NearRows.from_tensors(tensors), Distinct.from_tensor(tensors[DISTINCT]))


def rows_digest(hashes: Hashes) -> str:
    """Return a hash of a set of rows that does not depend on their order."""
    return hashlib.sha256(np.sort(hashes).astype("<u8").tobytes()).hexdigest()


def check_groups(seen_rows: SeenRows, groups: Sequence[str]) -> None:
    """Check that the model has seen no group of the calibration rows.

    Args:
        seen_rows: Rows and groups the model has seen.
        groups: Groups of the calibration rows.

    Raises:
        LeakError: The model has seen groups; the message names them.
    """
    seen = seen_rows.seen_groups(groups)
    if seen:
        raise LeakError(
            f"The model has seen {len(seen):,} of the {len(set(groups)):,} groups of the calibration rows:"
            f" {format_names(seen, 5)}. Rows of one group are alike, so the guarantee would not hold for new groups."
            " Split by group before fitting (squad split --group)."
        )


def _describe(value: Any) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if hasattr(value, "dtype") else type(value).__name__
