"""Stratified, seeded splits of rows, identical on every machine and with every version of numpy.

Rows and groups are ordered by a hash, computed with integer arithmetic; no random number generator is involved.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.core.checks import check_count
from squad.data.cells import Cells, text_cells
from squad.data.column_names import format_names
from squad.errors import ArgumentError, DataError

__all__ = ["Split", "row_order", "split_rows", "validation_rows"]

#: Groups with more rows than this fraction of the smallest part are assigned first, the largest first, since they fit
#: in few places.  The others are assigned in the order of their hash, so that their part does not depend on their size.
LARGE_GROUP = 0.1

#: A part whose size deviates by more than this fraction of all rows is noted.
NOTED_DEVIATION = 0.05

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """A split of rows into named parts.

    Attributes:
        parts: Positions of the rows of each part, ascending.
        notes: Remarks for the user, as sentences.
    """

    parts: dict[str, Rows]
    notes: tuple[str, ...] = ()


def split_rows(
    labels: Sequence[Any] | NDArray[Any],
    fractions: Mapping[str, float],
    seed: int,
    groups: Sequence[Any] | NDArray[Any] | None = None,
) -> Split:
    """Split rows into parts, stratified by label.

    Without groups, the number of rows of each class in each part deviates from its fraction by less than one.  Every
    class is in the first part; a class of two rows is in another part as well (the second, for the first such class).

    With groups, rows of one group always land in the same part; sizes and class frequencies are then as close to the
    fractions as that allows.

    Args:
        labels: (N,), none missing.
        fractions: Fraction of the rows for each part, by its name; they add up to 1.
        seed: A non-negative integer; another one gives another split.
        groups: (N,), none missing.

    Returns:
        The split.

    Raises:
        DataError: There are no rows, fewer groups than parts, or missing labels or groups.

    Examples:
        >>> split = split_rows(["a", "b"] * 5, {"train": 0.6, "test": 0.4}, seed=0)
        >>> {name: len(rows) for name, rows in split.parts.items()}
        {'train': 6, 'test': 4}
    """
    seed = check_count("seed", seed, 0)
    shares = _check_fractions(fractions)
    classes = _sorted_codes(labels, "labels")
    count = len(classes.codes)
    if not count:
        raise DataError("There are no rows to split. Pass at least one row.")
    if groups is None:
        part = _split_by_row(classes, shares, seed)
        notes: list[str] = []
    else:
        names = _sorted_codes(groups, "groups")
        if len(names.codes) != count:
            raise ArgumentError.of("groups", f"{len(names.codes)} for {count} rows", "one per row")
        part, notes = _split_by_group(classes, names, shares, list(fractions), seed)
    parts = {name: np.flatnonzero(part == position).astype(np.int64) for position, name in enumerate(fractions)}
    return Split(parts, (*notes, *_deviation_notes(classes, parts, shares)))


def validation_rows(
    labels: Sequence[Any] | NDArray[Any],
    fraction: float,
    seed: int,
    groups: Sequence[Any] | NDArray[Any] | None = None,
) -> tuple[Rows, Rows]:
    """Split rows into training and validation rows, at least one each; a class of one row is trained on.

    Args:
        labels: (N,), class of each row, none missing.
        fraction: Fraction of validation rows, in (0, 1).
        seed: A non-negative integer.
        groups: (N,), group of each row, none missing; rows of one group land in the same part.

    Returns:
        Positions of the training and of the validation rows, ascending.

    Examples:
        >>> train, validation = validation_rows(["a", "b"] * 10, fraction=0.2, seed=0)
        >>> len(train), len(validation)
        (16, 4)
    """
    if not 0 < fraction < 1:
        raise ArgumentError.of("fraction", fraction, "between 0 and 1, exclusive")
    if len(labels) < 2:
        raise DataError(
            f"Training and validation need at least 2 rows, one to train on and one to validate on, got {len(labels)}."
        )
    parts = split_rows(labels, {"training": 1 - fraction, "validation": fraction}, seed, groups).parts
    train, validation = parts["training"], parts["validation"]
    if not len(validation):  # few rows, or only classes of one row
        codes = _sorted_codes(labels, "labels").codes
        row = np.lexsort((_hashes(len(codes), seed), np.bincount(codes)[codes]))[-1]
        return train[train != row], np.asarray([row], dtype=np.int64)
    return train, validation


def _check_fractions(fractions: Mapping[str, float]) -> NDArray[np.float64]:
    values = list(fractions.values())
    if len(values) < 2 or not all(0 < value < 1 for value in values) or abs(sum(values) - 1) > 1e-9:
        raise ArgumentError.of("fractions", dict(fractions), "two or more positive numbers that add up to 1")
    return np.asarray(values, dtype=np.float64)


def _sorted_codes(values: Sequence[Any] | NDArray[Any], name: str) -> Cells:
    """Encode values as positions in the sorted list of their texts, whatever their order in the data."""
    import pandas as pd

    array = np.asarray(values)
    if array.ndim != 1:
        raise ArgumentError.of(name, f"shape {array.shape}", "one-dimensional, one value per row")
    cells = text_cells(pd.Series(array))
    missing = np.flatnonzero(cells.codes < 0)
    if len(missing):
        raise DataError(
            f"{name} must not have missing values, got {len(missing)}, the first in row {missing[0] + 1} (counted from"
            " 1)."
        )
    order = sorted(range(len(cells.values)), key=cells.values.__getitem__)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return Cells(rank[cells.codes], [cells.values[position] for position in order])


def _key(seed: int) -> int:
    digest = hashlib.blake2b(f"squad split {seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _hashes(count: int, seed: int) -> NDArray[np.uint64]:
    """Hash of each row position: SplitMix64, started at the seed's key."""
    steps = np.arange(1, count + 1, dtype=np.uint64)
    state = np.uint64(_key(seed)) + steps * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def row_order(count: int, seed: int = 0) -> Rows:
    """Return a pseudorandom permutation of row positions, the same on every machine.

    Args:
        count: Number of rows N.
        seed: Seed of the permutation.

    Returns:
        (N,), each position from 0 to N - 1 once.

    Examples:
        >>> sorted(row_order(5, seed=1).tolist())
        [0, 1, 2, 3, 4]
    """
    return np.argsort(_hashes(count, seed), kind="stable")


def _split_by_row(classes: Cells, shares: NDArray[np.float64], seed: int) -> Rows:
    """Return the part of each row, (N,)."""
    # Order rows by class, and within a class by hash.
    order = np.lexsort((_hashes(len(classes.codes), seed), classes.codes))
    sizes = np.bincount(classes.codes, minlength=len(classes.values))
    ends = np.cumsum(sizes)
    part = np.empty(len(order), dtype=np.int64)
    owed = np.zeros(len(shares))
    # Small classes first: the larger ones compensate for the rounding of the part sizes.
    for label in np.argsort(sizes, kind="stable"):
        counts = _part_counts(int(sizes[label]), shares, owed)
        owed += sizes[label] * shares - counts
        rows = order[ends[label] - sizes[label] : ends[label]]
        part[rows] = np.repeat(np.arange(len(shares)), counts)
    return part


def _part_counts(size: int, shares: NDArray[np.float64], owed: NDArray[np.float64]) -> Rows:
    """Return the number of rows of a class per part: its share rounded down, plus one for the parts owed most.

    Args:
        size: Number of rows of the class.
        shares: (parts,), fractions.
        owed: (parts,), rows that each part lacks so far because of rounding.
    """
    exact = size * shares
    counts = np.floor(exact + 1e-9).astype(np.int64)
    remaining = size - int(counts.sum())
    # Rounded, so that the last bit does not decide; ties go to the part that is named first.
    priority = np.round(owed + exact - counts, 6)
    priority[exact - counts < 1e-9] = -np.inf
    if counts[0] == 0:
        priority[0] = np.inf
    elif size == 2:
        priority[0] = -np.inf
    counts[np.argsort(-priority, kind="stable")[:remaining]] += 1
    return counts


def _split_by_group(
    classes: Cells, names: Cells, shares: NDArray[np.float64], parts: list[str], seed: int
) -> tuple[Rows, list[str]]:
    """Assign groups to parts greedily.

    Returns:
        The part of each row, (N,); and notes about groups that are too large.
    """
    count, class_count = len(names.values), len(classes.values)
    if count < len(shares):
        raise DataError(
            f"A split into {format_names(parts)} needs at least {len(shares)} groups, got {count}:"
            f" {format_names(names.values)}."
        )
    key = _key(seed).to_bytes(8, "little")
    hashes = [hashlib.blake2b(name.encode(), digest_size=8, key=key).digest() for name in names.values]
    sizes = np.bincount(names.codes, minlength=count)
    rows = len(names.codes)
    large = sizes > LARGE_GROUP * shares.min() * rows
    order = sorted(range(count), key=lambda group: (-sizes[group] if large[group] else 0, hashes[group]))
    # Number of rows per (group, class), sorted by group; those of a group lie between two of the bounds.
    pairs, counts_array = np.unique(names.codes * class_count + classes.codes, return_counts=True)
    pair_classes = (pairs % class_count).tolist()
    pair_counts = counts_array.tolist()
    bounds = np.searchsorted(pairs // class_count, np.arange(count + 1)).tolist()
    weights = (1.0 / np.bincount(classes.codes, minlength=class_count)).tolist()
    # Fraction of each class that each part still lacks; the last entry is the fraction of all rows.
    lacks = [[share] * (class_count + 1) for share in shares.tolist()]
    part_of = np.empty(count, dtype=np.int64)
    empty = set(range(len(shares)))
    for done, group in enumerate(order):
        contents = [
            (pair_classes[pair], pair_counts[pair], pair_counts[pair] * weights[pair_classes[pair]])
            for pair in range(bounds[group], bounds[group + 1])
        ]
        size = int(sizes[group])
        # The last groups go to parts that are still empty.
        candidates = sorted(empty) if count - done <= len(empty) else range(len(shares))
        best, best_score = -1, 0.0
        for part in candidates:
            lack = lacks[part]
            score = size * lack[class_count]
            for label, amount, _ in contents:  # not sum(), whose rounding changed in Python 3.12
                score += amount * lack[label]
            score = round(score, 9)
            if best < 0 or score > best_score:
                best, best_score = part, score
        lack = lacks[best]
        for label, _, share in contents:
            lack[label] -= share
        lack[class_count] -= size / rows
        empty.discard(best)
        part_of[group] = best
    notes = [
        f"Group {names.values[group]!r} has {sizes[group] / rows:.0%} of the rows, more than"
        f" {parts[part_of[group]]!r} should have ({shares[part_of[group]]:.0%})."
        for group in np.flatnonzero(sizes > shares[part_of] * rows + 1)
    ]
    return part_of[names.codes], notes


def _deviation_notes(classes: Cells, parts: dict[str, Rows], shares: NDArray[np.float64]) -> list[str]:
    """Note parts whose size is far from their fraction, and classes that are not in every part."""
    notes = []
    total = len(classes.codes)
    for (name, rows), share in zip(parts.items(), shares, strict=True):
        if abs(len(rows) / total - share) > NOTED_DEVIATION and abs(len(rows) - share * total) > 1:
            notes.append(f"{name!r} has {len(rows) / total:.0%} of the rows instead of {share:.0%}.")
        absent = np.bincount(classes.codes[rows], minlength=len(classes.values)) == 0
        if absent.any():
            which = format_names((classes.values[position] for position in np.flatnonzero(absent)), 5)
            notes.append(f"{name!r} has no row of {'class' if absent.sum() == 1 else 'classes'} {which}.")
    return notes
