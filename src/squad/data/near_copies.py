"""The cells that the rows of a fit stand in, and how many of them other rows share by chance."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.data.near_copy_grid import AXES, GRIDS, UNUSED, cell_hashes, choose_widths
from squad.errors import DataError

__all__ = ["NearRows", "among", "at_least", "shared_among"]

Hashes = NDArray[np.uint64]
Whole = NDArray[np.int64]

#: An axis of cells so wide has but one: 2**53 is the largest sum of features.
WIDEST = 53

#: How the parts of it are called in a file.
CELLS, WIDTHS, COUNTS, DIGESTS = "cells", "widths", "near", "digests"


@dataclass(frozen=True, eq=False)
class NearRows:
    """The cells of the rows that a fit saw.

    Attributes:
        widths: (grids, 16), how wide cells are, of :func:`~squad.data.near_copy_grid.choose_widths`.
        cells: for each grid the hashes of the cells that have a row, ascending, each once.
        chance: (grids + 1,), how many validation rows have a cell in common with another row in at least 1, 2, ...
            grids; and how many validation rows there are.
        every: the same of all rows of fit.
        digests: (grids, 4), the SHA-256 of the cells of all rows of fit in any order, as whole numbers.
    """

    widths: Whole
    cells: tuple[Hashes, ...]
    chance: Whole
    every: Whole
    digests: Whole

    def __post_init__(self) -> None:
        if self.widths.shape != (GRIDS, AXES) or self.widths.min() < UNUSED or self.widths.max() > WIDEST:
            raise DataError("Widths of saved cells must be 7 x 16 exponents from -1 to 53; they are not.")
        for counts in (self.chance, self.every):
            if counts.shape != (GRIDS + 1,) or (np.diff(counts[:-1]) > 0).any() or not 0 <= counts[0] <= counts[-1]:
                raise DataError("Counts of saved cells must fall from one to the next, and be no more than rows.")
            if counts[GRIDS - 1] < 0:
                raise DataError("Counts of saved cells must not be negative.")
        if self.digests.shape != (GRIDS, 4):
            raise DataError(f"Digests of saved cells must be {GRIDS} x 4, got {self.digests.shape}.")
        if len(self.cells) != GRIDS or not all((one[1:] > one[:-1]).all() for one in self.cells):
            raise DataError("Saved cells must be 7 lists of hashes in ascending order, each once; they are not.")

    @classmethod
    def of(cls, x: NDArray[np.float32], first: Whole, train: Whole, validation: Whole) -> "NearRows":
        """Of all rows that a fit saw, encoded.

        Args:
            x: (N, features).
            first: where each different row stands first.
            train: which of the rows it trained on.
            validation: which of them it validated on.
        """
        widths = choose_widths(x[first])
        cells = cell_hashes(x, widths)
        used = widths[:, 0] != UNUSED
        found = shared_among(cells[:, validation], used)
        for grid in np.flatnonzero(used):
            known = np.unique(cells[grid, train])
            found[grid] |= among(cells[grid, validation], known)
        every = shared_among(cells, used)
        kept = tuple(np.unique(one) if on else one[:0] for one, on in zip(cells, used, strict=True))
        return cls(widths, kept, _counted(found), _counted(every), _digests(cells))

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which grids are used."""
        return np.asarray(self.widths[:, 0] != UNUSED)

    @property
    def axes(self) -> int:
        """How many axes the largest grid has."""
        return int((self.widths != UNUSED).sum(1).max())

    def cells_of(self, x: NDArray[np.float32]) -> Hashes:
        """The cells of encoded rows (N, features): (grids, N)."""
        return cell_hashes(x, self.widths)

    def matches(self, cells: Hashes) -> Whole:
        """In how many grids rows stand in a cell that a row of fit has, (N,)."""
        found = [among(one, known) for one, known in zip(cells, self.cells, strict=True)]
        return np.asarray(np.sum(np.asarray(found), axis=0, dtype=np.int64))

    def own(self, cells: Hashes) -> Whole:
        """In how many grids rows share their cell with another of the same set, (N,)."""
        return np.asarray(shared_among(cells, self.used).sum(0, dtype=np.int64))

    def very_rows(self, cells: Hashes) -> bool:
        """Whether these are the very rows of fit, in any order, as one of the grids has it."""
        return bool((self.used & (_digests(cells) == self.digests).all(1)).any())

    def with_rows(self, cells: Hashes) -> "NearRows":
        """With the cells of more rows, which were new to it: they tell about chance as well."""
        found = shared_among(cells, self.used)
        for grid, known in enumerate(self.cells):
            found[grid] |= among(cells[grid], known)
        more = _counted(found)
        both = tuple(
            np.union1d(known, one) if on else known for known, one, on in zip(self.cells, cells, self.used, strict=True)
        )
        return replace(self, cells=both, chance=self.chance + more, every=self.every + more)

    def to_tensors(self) -> dict[str, Tensor]:
        """As int64, which every library can save."""
        found = {f"{CELLS}.{grid}": torch.from_numpy(one.view(np.int64).copy()) for grid, one in enumerate(self.cells)}
        return {
            **found,
            WIDTHS: torch.from_numpy(self.widths.copy()),
            COUNTS: torch.from_numpy(np.stack([self.chance, self.every])),
            DIGESTS: torch.from_numpy(self.digests.copy()),
        }

    @staticmethod
    def names() -> set[str]:
        """What :meth:`to_tensors` calls its parts."""
        return {*(f"{CELLS}.{grid}" for grid in range(GRIDS)), WIDTHS, COUNTS, DIGESTS}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "NearRows":
        """What :meth:`to_tensors` made; a :class:`DataError` if it is something else."""
        for name in cls.names():
            dims = 1 if name.startswith(CELLS) else 2
            if tensors[name].dtype != torch.int64 or tensors[name].ndim != dims:
                raise DataError(f"{name} of a saved model must be int64 with {dims} axes, got {tensors[name].dtype}.")
        arrays = {name: tensors[name].cpu().contiguous().numpy() for name in cls.names()}
        if arrays[COUNTS].shape != (2, GRIDS + 1):
            raise DataError(f"{COUNTS} of a saved model must be 2 x {GRIDS + 1}, got {arrays[COUNTS].shape}.")
        cells = tuple(arrays[f"{CELLS}.{grid}"].view(np.uint64) for grid in range(GRIDS))
        chance, every = arrays[COUNTS]
        return cls(arrays[WIDTHS], cells, chance, every, arrays[DIGESTS])


def among(hashes: Hashes, known: Hashes) -> NDArray[np.bool_]:
    """Which of the hashes are in ``known``, which is ascending."""
    if not len(known):
        return np.zeros(len(hashes), dtype=np.bool_)
    place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.asarray(known[place] == hashes, dtype=np.bool_)


def shared_among(cells: Hashes, used: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows share their cell with another of them, (grids, N); none in grids that are not used."""
    found = np.zeros(cells.shape, dtype=np.bool_)
    for grid in np.flatnonzero(used):
        _, place, counts = np.unique(cells[grid], return_inverse=True, return_counts=True)
        found[grid] = counts[place] > 1
    return found


def at_least(matches: Whole) -> Whole:
    """How many rows match in at least 1, 2, ... grids, (grids,)."""
    return np.asarray(np.bincount(matches, minlength=GRIDS + 1)[::-1].cumsum()[::-1][1:], dtype=np.int64)


def _counted(found: NDArray[np.bool_]) -> Whole:
    return np.append(at_least(found.sum(0, dtype=np.int64)), found.shape[1])


def _digests(cells: Hashes) -> Whole:
    found = [hashlib.sha256(np.sort(one).astype("<u8").tobytes()).digest() for one in cells]
    return np.frombuffer(b"".join(found), dtype="<i8").astype(np.int64).reshape(-1, 4)
