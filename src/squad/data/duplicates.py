"""Find duplicates among calibration rows, each of which counts once, and copies of them in another set."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.chance_repeats import LEVEL_ALL_ROWS, NOTHING_KNOWN, RARE, repeated_fraction
from squad.data.seen_rows import SeenRows, row_hashes

__all__ = ["count_copies", "find_duplicates"]

#: A file in which every row occurs equally often was repeated as a whole if it has at least this many distinct rows.
MIN_DISTINCT_ROWS = 8

#: Number of common rows that may always be chance.
MAX_CHANCE_COPIES = 5

Hashes = NDArray[np.uint64]


def find_duplicates(
    hashes: Hashes, labels: NDArray[np.int64], seen_rows: SeenRows | None, known: Mapping[str, int]
) -> NDArray[np.bool_]:
    """Find calibration rows that duplicate others and are therefore not independent evidence.

    Equal rows need not be duplicates: a table with few distinct rows has many, each a case of its own, and removing
    them would change the distribution that a certificate is about.  Rows count as duplicates on strong evidence only:

    - Every row with its label occurs a multiple of g times, so the file was repeated g times.  A g-th of each is kept.
    - Rows that occur several times here hardly ever occur in training.  If both sets come from one population, the rows
      of each value that occurs at least twice are divided between them at random, so that all of its t rows are here
      with probability (m / (m + n))^t.  If more values occur only here than this explains (``LEVEL_ALL_ROWS``), one row
      of each of these values is kept, whatever its label.

    Args:
        hashes: (N,), hashes of the rows.
        labels: (N,), their classes, as positions.
        seen_rows: Training rows the model has seen; without them only the first rule applies.
        known: Counts of repeats recorded by fit.

    Returns:
        (N,), which rows are duplicates.
    """
    copies = np.zeros(len(hashes), dtype=np.bool_)
    if not len(hashes):
        return copies
    pairs = np.stack([hashes, labels.astype(np.uint64)], 1)
    _, inverse, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    times = int(np.gcd.reduce(counts))
    if times > 1 and len(counts) >= MIN_DISTINCT_ROWS:
        copies = _occurrence(inverse, counts) >= (counts // times)[inverse]
    if seen_rows is None or not known.get("all_rows"):
        return copies
    remaining = np.flatnonzero(~copies)
    values, inverse, counts = np.unique(hashes[remaining], return_inverse=True, return_counts=True)
    only_here = (counts > 1) & ~seen_rows.seen(values)
    shared = int(seen_rows.seen(values).sum()) + known.get("all_repeats", 0) // 2
    fraction = len(remaining) / (len(remaining) + known["all_rows"])
    if _binomial_tail(int(only_here.sum()), int(only_here.sum()) + shared, fraction**2) < LEVEL_ALL_ROWS:
        copies[remaining] = only_here[inverse] & (_occurrence(inverse, counts) > 0)
    return copies


def count_copies(
    x: NDArray[np.float32], hashes: Hashes, cells: Hashes | None, seen_rows: SeenRows | None, record: Mapping[str, Any]
) -> int:
    """Count rows that are copies or near copies of rows in another set.

    Args:
        x: (N, features), encoded rows.
        hashes: (M,), hashes of the other rows.
        cells: (grids, M), cells of the other rows; None if the model has none.
        seen_rows: Training rows the model has seen.
        record: Record of the model.

    Returns:
        The number of copies; 0 if they may be chance.
    """
    alike = np.isin(row_hashes(x), hashes)
    usual = repeated_fraction(record.get("repeats", NOTHING_KNOWN))
    distinct = None if seen_rows is None else seen_rows.distinct
    if distinct is not None and distinct.explains(float(len(x)) * len(hashes), float(alike.sum())):
        return 0
    if seen_rows is not None and seen_rows.near is not None and cells is not None and seen_rows.near.used.any():
        near = seen_rows.near
        majority = int(near.used.sum()) // 2 + 1
        matches = [
            np.isin(one, others) for one, others in zip(near.cells_of(x)[near.used], cells[near.used], strict=True)
        ]
        alike |= np.sum(matches, axis=0) >= majority
        usual = max(usual, near.all_counts[majority - 1] / max(near.all_counts[-1], 1))
    return int(alike.sum()) if alike.sum() > MAX_CHANCE_COPIES + (2 * usual + RARE) * len(x) else 0


def _occurrence(inverse: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the rows among equal ones, from 0.

    Args:
        inverse: (N,), position of each row's value, from ``np.unique``.
        counts: Number of rows of each value.
    """
    order = np.argsort(inverse, kind="stable")
    occurrence = np.empty(len(inverse), dtype=np.int64)
    occurrence[order] = np.arange(len(inverse)) - np.repeat(np.cumsum(counts) - counts, counts)
    return occurrence


def _binomial_tail(successes: int, trials: int, probability: float) -> float:
    """Return the probability of at least ``successes`` successes."""
    from scipy.special import bdtrc

    return 1.0 if not successes else float(bdtrc(successes - 1, trials, probability))
