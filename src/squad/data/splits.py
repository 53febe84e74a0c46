"""Rows into parts: stratified by label, seeded, and the same on every machine and under every version of numpy.

Rows and groups are put in the order of a hash, by integer arithmetic alone; no random generator is involved.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.core.checks import check_count
from squad.data.cells import Cells, text_cells
from squad.data.column_names import listed
from squad.errors import ArgumentError, DataError

__all__ = ["Split", "split_rows", "validation_rows"]

#: Groups with more rows than this share of the smallest part are placed first, the largest of them first: there are few
#: places where they fit.  The others come in the order of their hash, so that size has no say in where a group goes.
HEAVY = 0.1

#: A part that is off by more than this share of all rows is worth a note.
OFF = 0.05

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Parts by name, each the positions of its rows in order; and what the user should be told."""

    parts: dict[str, Rows]
    notes: tuple[str, ...] = ()


def split_rows(
    labels: Sequence[Any] | NDArray[Any],
    fractions: Mapping[str, float],
    seed: int,
    groups: Sequence[Any] | NDArray[Any] | None = None,
) -> Split:
    """Share rows out among parts.

    Without groups, every class has in every part its share of rows, give or take one.  Every class is in the first
    part; one with two rows is in another part as well (the second, for the first such class).

    With groups, a group is in one part as a whole; sizes and classes are then as near to their shares as that allows.

    Args:
        labels: (N,), none of them missing.
        fractions: of the rows for each part, adding up to 1.
        seed: any whole number from 0; another one gives another split.
        groups: (N,), none of them missing.
    """
    seed = check_count("seed", seed, 0)
    shares = _fractions(fractions)
    classes = _classes(labels, "labels")
    count = len(classes.codes)
    if not count:
        raise DataError("There must be rows to split; there are none.")
    if groups is None:
        part = _by_row(classes, shares, seed)
        notes: list[str] = []
    else:
        names = _classes(groups, "groups")
        if len(names.codes) != count:
            raise ArgumentError.of("groups", f"{len(names.codes)} for {count} rows", "one for each row")
        part, notes = _by_group(classes, names, shares, list(fractions), seed)
    parts = {name: np.flatnonzero(part == place).astype(np.int64) for place, name in enumerate(fractions)}
    return Split(parts, (*notes, *_notes(classes, parts, shares)))


def validation_rows(
    labels: Sequence[Any] | NDArray[Any],
    fraction: float,
    seed: int,
    groups: Sequence[Any] | NDArray[Any] | None = None,
) -> tuple[Rows, Rows]:
    """Rows to train on and rows to validate on, at least one of each; a class with one row is trained on."""
    if not 0 < fraction < 1:
        raise ArgumentError.of("fraction", fraction, "between 0 and 1, both excluded")
    if len(labels) < 2:
        raise DataError(f"There must be at least 2 rows, one to train on and one to validate on, got {len(labels)}.")
    parts = split_rows(labels, {"training": 1 - fraction, "validation": fraction}, seed, groups).parts
    train, validation = parts["training"], parts["validation"]
    if not len(validation):  # few rows, or only classes of one row
        codes = _classes(labels, "labels").codes
        row = np.lexsort((_hashes(len(codes), seed), np.bincount(codes)[codes]))[-1]
        return train[train != row], np.asarray([row], dtype=np.int64)
    return train, validation


def _fractions(fractions: Mapping[str, float]) -> NDArray[np.float64]:
    values = list(fractions.values())
    if len(values) < 2 or not all(0 < value < 1 for value in values) or abs(sum(values) - 1) > 1e-9:
        raise ArgumentError.of("fractions", dict(fractions), "two or more positive numbers that add up to 1")
    return np.asarray(values, dtype=np.float64)


def _classes(values: Sequence[Any] | NDArray[Any], name: str) -> Cells:
    """Codes in the order of the texts, whatever came first in the data."""
    import pandas as pd

    array = np.asarray(values)
    if array.ndim != 1:
        raise ArgumentError.of(name, f"the shape {array.shape}", "a list of one value a row")
    cells = text_cells(pd.Series(array))
    missing = np.flatnonzero(cells.codes < 0)
    if len(missing):
        raise DataError(
            f"No row may lack its entry in {name}; {len(missing)} do, the first being row {missing[0] + 1} (from 1)."
        )
    order = sorted(range(len(cells.values)), key=cells.values.__getitem__)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return Cells(rank[cells.codes], [cells.values[place] for place in order])


def _key(seed: int) -> int:
    digest = hashlib.blake2b(f"squad split {seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _hashes(count: int, seed: int) -> NDArray[np.uint64]:
    """SplitMix64: number n of the stream that starts at the seed's key, for each row n."""
    steps = np.arange(1, count + 1, dtype=np.uint64)
    state = np.uint64(_key(seed)) + steps * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def row_order(count: int, seed: int = 0) -> Rows:
    """The numbers of rows in an order that looks random and is the same on every machine."""
    return np.argsort(_hashes(count, seed), kind="stable")


def _by_row(classes: Cells, shares: NDArray[np.float64], seed: int) -> Rows:
    """The part of each row."""
    # All rows by class, and within a class by hash.
    order = np.lexsort((_hashes(len(classes.codes), seed), classes.codes))
    sizes = np.bincount(classes.codes, minlength=len(classes.values))
    ends = np.cumsum(sizes)
    part = np.empty(len(order), dtype=np.int64)
    owed = np.zeros(len(shares))
    # Small classes first: the larger ones make up for what their rounding did to the sizes of the parts.
    for label in np.argsort(sizes, kind="stable"):
        counts = _counts(int(sizes[label]), shares, owed)
        owed += sizes[label] * shares - counts
        rows = order[ends[label] - sizes[label] : ends[label]]
        part[rows] = np.repeat(np.arange(len(shares)), counts)
    return part


def _counts(size: int, shares: NDArray[np.float64], owed: NDArray[np.float64]) -> Rows:
    """How many rows of a class each part gets: its share rounded down, or that and one more if it is owed most."""
    exact = size * shares
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left = size - int(counts.sum())
    # Sorted by what a part is owed, rounded lest the last bit decide; ties go to the part that is named first.
    wants = np.round(owed + exact - counts, 6)
    wants[exact - counts < 1e-9] = -np.inf
    if counts[0] == 0:
        wants[0] = np.inf
    elif size == 2:
        wants[0] = -np.inf
    counts[np.argsort(-wants, kind="stable")[:left]] += 1
    return counts


def _by_group(
    classes: Cells, names: Cells, shares: NDArray[np.float64], parts: list[str], seed: int
) -> tuple[Rows, list[str]]:
    """The part of each row, by its group; and notes about groups that are too large."""
    count, kinds = len(names.values), len(classes.values)
    if count < len(shares):
        raise DataError(
            f"There must be at least {len(shares)} groups, one for each of {listed(parts)}, got {count}:"
            f" {listed(names.values)}."
        )
    key = _key(seed).to_bytes(8, "little")
    hashes = [hashlib.blake2b(name.encode(), digest_size=8, key=key).digest() for name in names.values]
    sizes = np.bincount(names.codes, minlength=count)
    rows = len(names.codes)
    heavy = sizes > HEAVY * shares.min() * rows
    order = sorted(range(count), key=lambda group: (-sizes[group] if heavy[group] else 0, hashes[group]))
    # The classes within each group: pairs (class, rows), group by group.
    pairs, amounts = np.unique(names.codes * kinds + classes.codes, return_counts=True)
    held = (pairs % kinds).tolist()
    amounts_of = amounts.tolist()
    bounds = np.searchsorted(pairs // kinds, np.arange(count + 1)).tolist()
    weights = (1.0 / np.bincount(classes.codes, minlength=kinds)).tolist()
    # What each part still lacks, as shares of each class (its last entry: of all rows).
    lacks = [[share] * (kinds + 1) for share in shares.tolist()]
    place_of = np.empty(count, dtype=np.int64)
    empty = set(range(len(shares)))
    for done, group in enumerate(order):
        mine = [
            (held[at], amounts_of[at], amounts_of[at] * weights[held[at]])
            for at in range(bounds[group], bounds[group + 1])
        ]
        size = int(sizes[group])
        # The last groups go where there is none yet.
        open_to = sorted(empty) if count - done <= len(empty) else range(len(shares))
        best, best_want = -1, 0.0
        for place in open_to:
            lack = lacks[place]
            want = size * lack[kinds]
            for kind, amount, _ in mine:  # not sum(), which adds up in another way since Python 3.12
                want += amount * lack[kind]
            want = round(want, 9)
            if best < 0 or want > best_want:
                best, best_want = place, want
        lack = lacks[best]
        for kind, _, share in mine:
            lack[kind] -= share
        lack[kinds] -= size / rows
        empty.discard(best)
        place_of[group] = best
    notes = [
        f"Group {names.values[group]!r} has {sizes[group] / rows:.0%} of the rows, more than"
        f" {parts[place_of[group]]!r} was to have ({shares[place_of[group]]:.0%})."
        for group in np.flatnonzero(sizes > shares[place_of] * rows + 1)
    ]
    return place_of[names.codes], notes


def _notes(classes: Cells, parts: dict[str, Rows], shares: NDArray[np.float64]) -> list[str]:
    """Parts far from their share, and classes that are not in every part."""
    notes = []
    total = len(classes.codes)
    for (name, rows), share in zip(parts.items(), shares, strict=True):
        if abs(len(rows) / total - share) > OFF and abs(len(rows) - share * total) > 1:
            notes.append(f"{name!r} has {len(rows) / total:.0%} of the rows rather than {share:.0%}.")
        absent = np.bincount(classes.codes[rows], minlength=len(classes.values)) == 0
        if absent.any():
            which = listed((classes.values[place] for place in np.flatnonzero(absent)), 5)
            notes.append(f"{name!r} has no row of {'class' if absent.sum() == 1 else 'classes'} {which}.")
    return notes
