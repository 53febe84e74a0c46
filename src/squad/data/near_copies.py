"""Grid cells of the rows of a fit, to find near copies, and how often rows share cells by chance."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.data.near_copy_grid import AXES, GRIDS, UNUSED, cell_hashes, choose_widths
from squad.errors import DataError

__all__ = ["NearRows", "contained_in", "count_at_least", "shares_cell"]

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int64]

#: Largest exponent of a cell width: sums of features are below 2**53, so an axis then has a single cell.
MAX_WIDTH = 53

#: Names of the tensors in a file.
CELLS, WIDTHS, COUNTS, DIGESTS = "cells", "widths", "near", "digests"


@dataclass(frozen=True, eq=False)
class NearRows:
    """Grid cells of the rows of a fit.

    Attributes:
        widths: (grids, 16), exponents of the cell widths, from :func:`~squad.data.near_copy_grid.choose_widths`.
        cells: Per grid, the distinct hashes of the occupied cells, ascending.
        validation_counts: (grids + 1,), number of validation rows that share a cell with another row of fit in at least
            1, 2, ... grids; the last entry is the number of validation rows.
        all_counts: (grids + 1,), the same for all rows of fit.
        digests: (grids, 4), SHA-256 of the sorted cells of all rows of fit, as int64.
    """

    widths: Integers
    cells: tuple[Hashes, ...]
    validation_counts: Integers
    all_counts: Integers
    digests: Integers

    def __post_init__(self) -> None:
        if self.widths.shape != (GRIDS, AXES) or self.widths.min() < UNUSED or self.widths.max() > MAX_WIDTH:
            raise DataError(f"Widths of saved cells must be {GRIDS} x {AXES} exponents from {UNUSED} to {MAX_WIDTH}.")
        for counts in (self.validation_counts, self.all_counts):
            if counts.shape != (GRIDS + 1,) or (np.diff(counts[:-1]) > 0).any() or not 0 <= counts[0] <= counts[-1]:
                raise DataError(
                    "Counts of saved cells must not increase with the number of grids, nor exceed the number of rows."
                )
            if counts[GRIDS - 1] < 0:
                raise DataError("Counts of saved cells must not be negative.")
        if self.digests.shape != (GRIDS, 4):
            raise DataError(f"Digests of saved cells must have shape ({GRIDS}, 4), got {self.digests.shape}.")
        if len(self.cells) != GRIDS or not all((one[1:] > one[:-1]).all() for one in self.cells):
            raise DataError(f"Saved cells must be {GRIDS} lists of distinct hashes in ascending order.")

    @classmethod
    def of(cls, x: NDArray[np.float32], first: Integers, train: Integers, validation: Integers) -> "NearRows":
        """Compute the cells of all rows of a fit.

        Args:
            x: (N, features), encoded rows.
            first: Positions of the first occurrence of each distinct row.
            train: Positions of the training rows.
            validation: Positions of the validation rows.

        Returns:
            The cells of the rows, with the counts that the leakage check needs.
        """
        widths = choose_widths(x[first])
        cells = cell_hashes(x, widths)
        used = widths[:, 0] != UNUSED
        shared = shares_cell(cells[:, validation], used)
        for grid in np.flatnonzero(used):
            known = np.unique(cells[grid, train])
            shared[grid] |= contained_in(cells[grid, validation], known)
        shared_by_all = shares_cell(cells, used)
        occupied = tuple(np.unique(one) if on else one[:0] for one, on in zip(cells, used, strict=True))
        return cls(widths, occupied, _counts(shared), _counts(shared_by_all), _digests(cells))

    @property
    def used(self) -> NDArray[np.bool_]:
        """(grids,), which grids are used."""
        return np.asarray(self.widths[:, 0] != UNUSED)

    @property
    def axes(self) -> int:
        """Number of axes of the largest grid."""
        return int((self.widths != UNUSED).sum(1).max())

    def cells_of(self, x: NDArray[np.float32]) -> Hashes:
        """Return the cells of encoded rows (N, features): (grids, N)."""
        return cell_hashes(x, self.widths)

    def matches(self, cells: Hashes) -> Integers:
        """Count the grids in which rows share a cell with a row of fit: (N,)."""
        matches = [contained_in(one, known) for one, known in zip(cells, self.cells, strict=True)]
        return np.asarray(np.sum(np.asarray(matches), axis=0, dtype=np.int64))

    def matches_within(self, cells: Hashes) -> Integers:
        """Count the grids in which rows share a cell with another row of the same set: (N,)."""
        return np.asarray(shares_cell(cells, self.used).sum(0, dtype=np.int64))

    def is_training_set(self, cells: Hashes) -> bool:
        """Return whether these are all rows of fit, in any order, according to at least one grid."""
        return bool((self.used & (_digests(cells) == self.digests).all(1)).any())

    def with_rows(self, cells: Hashes) -> "NearRows":
        """Return a copy with the cells of rows that the model had not seen; they are evidence about chance as well."""
        shared = shares_cell(cells, self.used)
        for grid, known in enumerate(self.cells):
            shared[grid] |= contained_in(cells[grid], known)
        more = _counts(shared)
        both = tuple(
            np.union1d(known, one) if on else known for known, one, on in zip(self.cells, cells, self.used, strict=True)
        )
        validation_counts, all_counts = self.validation_counts + more, self.all_counts + more
        return replace(self, cells=both, validation_counts=validation_counts, all_counts=all_counts)

    def to_tensors(self) -> dict[str, Tensor]:
        """Return tensors to be saved; hashes are reinterpreted as int64, which all formats support."""
        cells = {f"{CELLS}.{grid}": torch.from_numpy(one.view(np.int64).copy()) for grid, one in enumerate(self.cells)}
        return {
            **cells,
            WIDTHS: torch.from_numpy(self.widths.copy()),
            COUNTS: torch.from_numpy(np.stack([self.validation_counts, self.all_counts])),
            DIGESTS: torch.from_numpy(self.digests.copy()),
        }

    @staticmethod
    def names() -> set[str]:
        """Names of the tensors returned by :meth:`to_tensors`."""
        return {*(f"{CELLS}.{grid}" for grid in range(GRIDS)), WIDTHS, COUNTS, DIGESTS}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "NearRows":
        """Restore from the output of :meth:`to_tensors`.

        Raises:
            DataError: The tensors are not valid.
        """
        for name in cls.names():
            dims = 1 if name.startswith(CELLS) else 2
            if tensors[name].dtype != torch.int64 or tensors[name].ndim != dims:
                got = f"{tensors[name].dtype} of shape {tuple(tensors[name].shape)}"
                raise DataError(f"{name!r} of a saved model must be int64 with {dims} axes, got {got}.")
        arrays = {name: tensors[name].cpu().contiguous().numpy() for name in cls.names()}
        if arrays[COUNTS].shape != (2, GRIDS + 1):
            shape = arrays[COUNTS].shape
            raise DataError(f"{COUNTS!r} of a saved model must have shape (2, {GRIDS + 1}), got {shape}.")
        cells = tuple(arrays[f"{CELLS}.{grid}"].view(np.uint64) for grid in range(GRIDS))
        validation_counts, all_counts = arrays[COUNTS]
        return cls(arrays[WIDTHS], cells, validation_counts, all_counts, arrays[DIGESTS])


def contained_in(hashes: Hashes, known: Hashes) -> NDArray[np.bool_]:
    """Return which hashes are known.

    Args:
        hashes: (N,), hashes to look up.
        known: Known hashes, in ascending order.

    Returns:
        (N,), True where the hash occurs in ``known``.
    """
    if not len(known):
        return np.zeros(len(hashes), dtype=np.bool_)
    position = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.asarray(known[position] == hashes, dtype=np.bool_)


def shares_cell(cells: Hashes, used: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows share their cell with another row.

    Args:
        cells: (grids, N), hashes of the cells.
        used: (grids,), which grids are used.

    Returns:
        (grids, N); False in unused grids.
    """
    shared = np.zeros(cells.shape, dtype=np.bool_)
    for grid in np.flatnonzero(used):
        _, inverse, counts = np.unique(cells[grid], return_inverse=True, return_counts=True)
        shared[grid] = counts[inverse] > 1
    return shared


def count_at_least(matches: Integers) -> Integers:
    """Count the rows that match in at least 1, 2, ... grids: (grids,)."""
    return np.asarray(np.bincount(matches, minlength=GRIDS + 1)[::-1].cumsum()[::-1][1:], dtype=np.int64)


def _counts(shared: NDArray[np.bool_]) -> Integers:
    return np.append(count_at_least(shared.sum(0, dtype=np.int64)), shared.shape[1])


def _digests(cells: Hashes) -> Integers:
    digests = [hashlib.sha256(np.sort(one).astype("<u8").tobytes()).digest() for one in cells]
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64).reshape(-1, 4)
