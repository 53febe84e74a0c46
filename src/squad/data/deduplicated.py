"""Detect that duplicates were removed before fit: the training rows then do not show how often rows repeat by chance.

Two facts about the training rows are recorded.  First, the number of equal pairs of rows that would be expected if two
halves of the columns were independent, computed from the pairs that are equal in either half; if there are far fewer,
duplicates were removed, since dependent columns repeat even more often.  Second, whether every column is discrete: has
few values, or values on a grid like integers.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.data.near_copy_grid import fixed_random_bytes, halves
from squad.errors import DataError

__all__ = ["Distinct", "equal_pairs"]

#: Significance level: duplicates were removed if the probability of so few equal pairs is below this.
LEVEL = 1e-3

#: A column is discrete if its values occur at least this often on average, or if all differences between neighbouring
#: values are multiples of the smallest one, up to this fraction of it.
MIN_MEAN_COUNT, MAX_STEP_DEVIATION = 3, 0.1

#: Tolerated factor between observed and expected equal pairs, since dependent columns repeat more often.
DEPENDENCE_FACTOR = 3.0

#: Counts of pairs are capped at this.
MAX_PAIRS = 2.0**52

#: Number of fields of :class:`Distinct`.
FIELDS = 5


class Distinct(NamedTuple):
    """Equal pairs among the rows of a fit.

    Attributes:
        rows: Number of rows.
        distinct: Number of distinct rows.
        pairs: Number of equal pairs of rows.
        expected: Number of equal pairs expected if halves of the columns were independent, rounded up; 0 for continuous
            columns.
        discrete: 1 if all columns are discrete, otherwise 0.
    """

    rows: int
    distinct: int
    pairs: int
    expected: int
    discrete: int

    @classmethod
    def of(cls, x: NDArray[np.float32], hashes: NDArray[np.uint64]) -> "Distinct":
        """Count equal pairs.

        Args:
            x: (N, features), encoded rows.
            hashes: (N,), their hashes.

        Returns:
            The counts.
        """
        count, features = x.shape
        total = max(count * (count - 1) / 2, 1.0)
        x = np.ascontiguousarray(x + np.float32(0))
        bits, distinct = x.view(np.uint32), len(np.unique(hashes))
        grid_sizes = [_grid_size(x[:, column], distinct) for column in range(features)]
        if features > 1:
            both = (
                (equal_pairs(_hash_rows(bits[:, a])), equal_pairs(_hash_rows(bits[:, b]))) for a, b in halves(features)
            )
            expected = max(one * other / total for one, other in both)
        else:
            expected = total / grid_sizes[0] if features and grid_sizes[0] else 0.0
        pairs, expected = min(equal_pairs(hashes), MAX_PAIRS), min(expected, MAX_PAIRS)
        return cls(count, distinct, int(pairs), int(np.ceil(expected)), int(all(grid_sizes)))

    @property
    def removed(self) -> bool:
        """Whether duplicates were removed, according to the training rows alone."""
        return too_few(self.pairs, self.expected)

    def removed_from(self, rows: int, pairs: float) -> bool:
        """Return whether duplicates were removed from other rows of the same source too.

        Args:
            rows: Number of these rows.
            pairs: Number of equal pairs among them.

        Returns:
            True if there are fewer equal pairs than expected by chance.
        """
        return too_few(pairs, self._expected_of(rows * (rows - 1) / 2))

    def explains(self, pairs: float, equal: float) -> bool:
        """Return whether the columns take so few values that this many pairs are equal by chance.

        Args:
            pairs: Number of compared pairs, of two new rows, or of a new row and a row of fit.
            equal: Number of equal pairs among them.

        Returns:
            True if the number of equal pairs is within chance.
        """
        from scipy.special import pdtrc

        expected = self._expected_of(pairs)
        if 0 < equal <= DEPENDENCE_FACTOR * expected:
            return True
        return expected > 0 and float(pdtrc(equal - 1, expected)) >= LEVEL

    def _expected_of(self, pairs: float) -> float:
        return 2 * self.expected * pairs / max(self.rows * (self.rows - 1), 1)

    @classmethod
    def from_tensor(cls, counts: Tensor) -> "Distinct":
        """Restore saved counts.

        Raises:
            DataError: The tensor is not a valid record.
        """
        if counts.dtype != torch.int64 or counts.shape != (FIELDS,) or bool((counts < 0).any()):
            raise DataError(f"Saved counts of equal pairs must be {FIELDS} integers >= 0, got {counts.tolist()}.")
        return cls(*counts.tolist())


def too_few(pairs: float, expected: float) -> bool:
    """Return whether there are fewer equal pairs than half of those expected, and significantly so (p < 0.001)."""
    from scipy.special import pdtr

    return 2 * pairs < expected and float(pdtr(pairs, expected)) < LEVEL


def _grid_size(column: NDArray[np.float32], rows: int) -> float:
    """Number of possible values of a discrete column: its range in units of its smallest step; 0 if continuous."""
    values = np.unique(column).astype(np.float64)
    if len(values) < 2:
        return 1.0
    steps = np.diff(values)
    smallest = float(steps.min())
    size = float(values[-1] - values[0]) / smallest + 1
    if MIN_MEAN_COUNT * len(values) <= rows:
        return size
    # All float32 numbers are multiples of a tiny step, which does not make a column discrete.
    rounding = float(np.abs(values).max()) * np.finfo(np.float32).eps / smallest
    deviation = float(np.abs(steps / smallest - np.round(steps / smallest)).max())
    return size if rounding < MAX_STEP_DEVIATION / 4 and deviation < MAX_STEP_DEVIATION + rounding else 0.0


def _hash_rows(bits: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Hash rows (N, features), fast and not cryptographic: (N,)."""
    random = np.frombuffer(fixed_random_bytes("columns", 8 * bits.shape[1]), dtype="<u8")
    odd = random.astype(np.uint64) | np.uint64(1)
    hashes = np.zeros(len(bits), dtype=np.uint64)
    for column, factor in enumerate(odd):
        hashes = (hashes ^ (hashes >> np.uint64(31)) ^ bits[:, column]) * factor
    return hashes


def equal_pairs(values: NDArray[Any]) -> float:
    """Count equal pairs among values (N,)."""
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())
