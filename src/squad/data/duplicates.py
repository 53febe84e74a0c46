"""Copies among calibration rows: a case counts once.  And copies of them in another set."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.chance_repeats import LEVEL_OF_ALL, NOTHING_KNOWN, RARE, usually_repeated
from squad.data.seen_rows import SeenRows, row_hashes

__all__ = ["copies_among", "copies_between"]

#: A file in which every row occurs equally often was repeated as a whole, if it has so many different rows at least.
DIFFERENT = 8

#: So few rows in common may be chance anywhere.
FEW = 5

Hashes = NDArray[np.uint64]


def copies_among(
    hashes: Hashes, labels: NDArray[np.int64], seen_rows: SeenRows | None, known: Mapping[str, int]
) -> NDArray[np.bool_]:
    """Which rows are copies of others among them, (N,): they are no evidence of their own.

    Equal rows need not be copies: a table of few different rows has many, and each is a case of its own, without which
    a certificate would be about other cases than those to come.  So rows count as copies on strong evidence only:

    - Every row with its label occurs a multiple of g times, so the file was repeated g times.  A g-th of each is kept.
    - Rows that occur several times here hardly ever occur in training.  If both sets come from one population, each of
      the values that occur twice or more in all is divided between them at random, so that all of its t rows are here
      with probability (m / (m + n))^t; so many values that are here alone are then no chance (``LEVEL_OF_ALL``).  Of
      each of these values one row is kept, whichever its label.

    Args:
        hashes: of the rows.
        labels: their classes, as positions.
        seen_rows: of the model; without it only the first is looked for.
        known: what fit recorded about repeats.
    """
    copies = np.zeros(len(hashes), dtype=np.bool_)
    if not len(hashes):
        return copies
    pairs = np.stack([hashes, labels.astype(np.uint64)], 1)
    _, place, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    times = int(np.gcd.reduce(counts))
    if times > 1 and len(counts) >= DIFFERENT:
        copies = _nth(place.reshape(-1), counts) >= (counts // times)[place.reshape(-1)]
    if seen_rows is None or not known.get("all_rows"):
        return copies
    left = np.flatnonzero(~copies)
    values, place, counts = np.unique(hashes[left], return_inverse=True, return_counts=True)
    here_alone = (counts > 1) & ~seen_rows.seen(values)
    shared = int(seen_rows.seen(values).sum()) + known.get("all_repeats", 0) // 2
    share = len(left) / (len(left) + known["all_rows"])
    if _at_least(int(here_alone.sum()), int(here_alone.sum()) + shared, share**2) < LEVEL_OF_ALL:
        copies[left] = here_alone[place] & (_nth(place, counts) > 0)
    return copies


def copies_between(
    x: NDArray[np.float32], hashes: Hashes, cells: Hashes | None, seen_rows: SeenRows | None, record: Mapping[str, Any]
) -> int:
    """How many rows are copies or near copies of others; 0 if chance may explain them.

    Args:
        x: (N, features), encoded rows.
        hashes: of the others.
        cells: (grids, others), theirs; None if the model keeps none.
        seen_rows: of the model.
        record: of the model.
    """
    alike = np.isin(row_hashes(x), hashes)
    usual = usually_repeated(record.get("repeats", NOTHING_KNOWN))
    distinct = None if seen_rows is None else seen_rows.distinct
    if distinct is not None and distinct.explains(float(len(x)) * len(hashes), float(alike.sum())):
        return 0
    if seen_rows is not None and seen_rows.near is not None and cells is not None and seen_rows.near.used.any():
        near = seen_rows.near
        least = int(near.used.sum()) // 2 + 1  # most of the grids
        found = [
            np.isin(one, others) for one, others in zip(near.cells_of(x)[near.used], cells[near.used], strict=True)
        ]
        alike |= np.sum(found, axis=0) >= least
        usual = max(usual, near.every[least - 1] / max(near.every[-1], 1))
    return int(alike.sum()) if alike.sum() > FEW + (2 * usual + RARE) * len(x) else 0


def _nth(place: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of each row among its equals; ``place`` says which of the values it has."""
    order = np.argsort(place, kind="stable")
    found = np.empty(len(place), dtype=np.int64)
    found[order] = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
    return found


def _at_least(successes: int, trials: int, probability: float) -> float:
    """The probability of so many successes or more."""
    from scipy.special import bdtrc

    return 1.0 if not successes else float(bdtrc(successes - 1, trials, probability))
