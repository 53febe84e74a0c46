"""Whether equal rows were removed before fit: then how often rows repeat by chance cannot be counted in training rows.

Two facts about the training rows are noted.  If two halves of the columns were independent, so many pairs of rows would
be equal in both, as the pairs that are equal in either tell; where there are far fewer, equal rows were removed, since
columns that depend on each other repeat more often still.  And whether every column has few values, or steps like those
of whole numbers.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.data.near_copy_grid import drawn, halves
from squad.errors import DataError

__all__ = ["Distinct", "equal_pairs"]

#: That rows were removed is taken for shown where chance has so few equal pairs less often than this.
LEVEL = 1e-3

#: A column is discrete if each of its values occurs so often on average, or if all of its steps are multiples of the
#: smallest one, to this part of it.
OFTEN, STRAY = 3, 0.1

#: Columns that depend on each other repeat more often than independent ones, by this factor at least.
LEEWAY = 3.0

#: More pairs are as good as so many.
MOST = 2.0**52

#: Numbers of a :class:`Distinct`.
FIELDS = 5


class Distinct(NamedTuple):
    """Equal pairs among the rows of a fit.

    Attributes:
        rows: how many rows there are.
        distinct: how many different ones.
        pairs: how many pairs are equal.
        expected: how many would be if halves of the columns were independent, rounded up; 0 if columns are continuous.
        discrete: 1 if all columns are, else 0.
    """

    rows: int
    distinct: int
    pairs: int
    expected: int
    discrete: int

    @classmethod
    def of(cls, x: NDArray[np.float32], hashes: NDArray[np.uint64]) -> "Distinct":
        """Of encoded rows (N, features) and their hashes."""
        count, features = x.shape
        total = max(count * (count - 1) / 2, 1.0)
        x = np.ascontiguousarray(x + np.float32(0))
        bits, different = x.view(np.uint32), len(np.unique(hashes))
        room = [_room(x[:, column], different) for column in range(features)]
        if features > 1:
            both = ((equal_pairs(_mixed(bits[:, a])), equal_pairs(_mixed(bits[:, b]))) for a, b in halves(features))
            expected = max(one * other / total for one, other in both)
        else:
            expected = total / room[0] if features and room[0] else 0.0
        pairs, expected = min(equal_pairs(hashes), MOST), min(expected, MOST)
        return cls(count, different, int(pairs), int(np.ceil(expected)), int(all(room)))

    @property
    def removed(self) -> bool:
        """Whether equal rows were removed, as the training rows alone tell."""
        return too_few(self.pairs, self.expected)

    def removed_from(self, rows: int, pairs: float) -> bool:
        """Whether they were removed from other rows of the same source too, which have so many equal pairs."""
        return too_few(pairs, self._expected_of(rows * (rows - 1) / 2))

    def explains(self, pairs: float, equal: float) -> bool:
        """Whether the columns of fit take so few values that so many of these pairs are equal by chance.

        Args:
            pairs: of two rows each, both new or one of fit.
            equal: how many of them are equal.
        """
        from scipy.special import pdtrc

        expected = self._expected_of(pairs)
        return 0 < equal <= LEEWAY * expected or (expected > 0 and float(pdtrc(equal - 1, expected)) >= LEVEL)

    def _expected_of(self, pairs: float) -> float:
        return 2 * self.expected * pairs / max(self.rows * (self.rows - 1), 1)

    @classmethod
    def from_tensor(cls, counts: Tensor) -> "Distinct":
        """From what was saved; a :class:`DataError` if it is something else."""
        if counts.dtype != torch.int64 or counts.shape != (FIELDS,) or bool((counts < 0).any()):
            raise DataError(f"Counts of equal pairs must be {FIELDS} whole numbers >= 0; they are not.")
        return cls(*counts.tolist())


def too_few(pairs: float, expected: float) -> bool:
    """Whether chance gives so few equal pairs less than once in a thousand times, and less than half of them."""
    from scipy.special import pdtr

    return 2 * pairs < expected and float(pdtr(pairs, expected)) < LEVEL


def _room(column: NDArray[np.float32], rows: int) -> float:
    """How many values a column has room for, if it is discrete: between its ends, in its smallest steps; else 0."""
    values = np.unique(column).astype(np.float64)
    if len(values) < 2:
        return 1.0
    steps = np.diff(values)
    smallest = float(steps.min())
    room = float(values[-1] - values[0]) / smallest + 1
    if OFTEN * len(values) <= rows:
        return room
    # Of numbers in float32, which are themselves multiples of something tiny.
    rounding = float(np.abs(values).max()) * np.finfo(np.float32).eps / smallest
    stray = float(np.abs(steps / smallest - np.round(steps / smallest)).max())
    return room if rounding < STRAY / 4 and stray < STRAY + rounding else 0.0


def _mixed(bits: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """A number for each row, equal for equal rows and hardly ever for others."""
    odd = np.frombuffer(drawn("columns", 8 * bits.shape[1]), dtype="<u8").astype(np.uint64) | np.uint64(1)
    mixed = np.zeros(len(bits), dtype=np.uint64)
    for column, factor in enumerate(odd):
        mixed = (mixed ^ (mixed >> np.uint64(31)) ^ bits[:, column]) * factor
    return mixed


def equal_pairs(values: NDArray[Any]) -> float:
    """How many pairs of them are equal."""
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())
