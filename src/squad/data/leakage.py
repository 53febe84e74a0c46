"""The leakage check: find calibration rows that are copies, or near copies, of rows the model has seen.

Rows are compared by their hashes, and by the number of grids (1 to 7) in which they share a cell with a row of fit.
Each comparison counts the calibration rows that match a row of fit, and refuses them if there are more than expected by
chance.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from squad.data.chance_repeats import (
    LEVEL,
    NOTHING_KNOWN,
    RARE,
    exceeds_chance,
    repeated_fraction,
    repeats_message,
    repeats_p_value,
)
from squad.data.deduplicated import Distinct, equal_pairs
from squad.data.seen_rows import LeakError, SeenRows, rows_digest

__all__ = ["Leaked", "check_rows", "find_leaked_rows"]

#: Matching rows that are not refused are left out one by one if the p-value of their number is below this.
LEVEL_LEFT_OUT = 0.01

#: Up to this fraction of the rows is left out instead of refused, if at least this fraction of the matches are exact.
MAX_LEFT_OUT, MIN_EXACT = 0.1, 0.9

#: Training rows drawn several times repeat each other evenly; rows with more equal pairs than this factor do not.
UNEVEN_FACTOR = 1.5

#: Minimum number of axes of a grid at which a row that matches in all grids is a copy, if no two rows of fit match.
MIN_CONCLUSIVE_AXES = 8

#: The strictest comparison with at least this fraction of the largest excess of matches is reported.
CLEAR_FRACTION = 0.8

#: Verdicts on rows that match rows of fit more often than these match each other.
REFUSED, LEFT_OUT, KEPT = "refused", "left out", "kept"

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]


class Leaked(NamedTuple):
    """Result of the leakage check.

    Attributes:
        rows: (N,), which rows are copies or near copies of rows of fit, and must not be used.
        refusal: Why none of the rows may be used; None if the other rows may.
        total: Number of rows that the model has seen, if more than expected by chance.
    """

    rows: Mask
    refusal: str | None
    total: int


class Comparison(NamedTuple):
    """Matches between rows by one criterion.

    Attributes:
        seen: (N,), which rows match a row of fit.
        own: (N,), which rows match another of these rows.
        pairs: Number of matching pairs among these rows.
        known: Number of matches within the rows of fit, as arguments of
            :func:`~squad.data.chance_repeats.check_repeats`.
        tests: Number of such tests, for the Bonferroni correction.
    """

    seen: Mask
    own: Mask
    pairs: float
    known: Mapping[str, int]
    tests: int

    @property
    def total(self) -> int:
        """Number of rows that match a row of fit."""
        return int(self.seen.sum())

    @property
    def refused(self) -> bool:
        """Whether there are more matches than expected by chance."""
        return exceeds_chance(self.total, len(self.seen), **self.known, tests=self.tests)

    @property
    def repeating(self) -> bool:
        """Whether the rows match each other more often than rows of fit do."""
        within_fit = self.known["all_repeats"], self.known["all_rows"]
        return repeats_p_value(int(self.own.sum()), len(self.own), *within_fit) < LEVEL

    def unlikely(self, expected: int) -> bool:
        """Return whether there are enough matches to leave them out one by one.

        Args:
            expected: Expected number of rows of fit that match another one.
        """
        rows = self.known["all_rows"]
        repeats = min(max(self.known["all_repeats"], expected), rows)
        return repeats_p_value(self.total, len(self.seen), repeats, rows) < LEVEL_LEFT_OUT

    @property
    def excess(self) -> float:
        """Approximate number of matches beyond those expected by chance."""
        return self.total - len(self.seen) * (self.known["all_repeats"] + 1) / (self.known["all_rows"] + 2)


def find_leaked_rows(
    seen_rows: SeenRows, hashes: Hashes, cells: Hashes | None, known: Mapping[str, int], digest: str | None
) -> Leaked:
    """Find rows that the model has seen.

    Args:
        seen_rows: Rows the model has seen.
        hashes: (N,), hashes of the rows.
        cells: (grids, N), their cells, from :meth:`SeenRows.cells`.
        known: Counts of repeats recorded by fit.
        digest: Digest of all rows of fit, if recorded.

    Returns:
        Which rows must not be used, and why.
    """
    rows, none = len(hashes), np.zeros(len(hashes), dtype=np.bool_)
    comparisons = _compare(seen_rows, hashes, cells, known)
    exact = comparisons[0]
    refused = [comparison for comparison in comparisons if comparison.refused]
    verdicts = [_verdict(seen_rows.distinct, comparison, exact) for comparison in refused]

    def clearest(verdict: str) -> Comparison:
        return _clearest([one for one, decided in zip(refused, verdicts, strict=True) if decided == verdict])

    if REFUSED in verdicts:
        worst = clearest(REFUSED)
        return Leaked(worst.seen, repeats_message(worst.total, rows, **worst.known), worst.total)
    if _is_training_set(seen_rows, hashes, cells, digest):
        return Leaked(
            ~none,
            f"These {rows:,} rows are exactly the rows that the model was fitted on. Use rows that were not used to fit"
            " the model (squad split keeps them apart).",
            rows,
        )
    if LEFT_OUT in verdicts:
        worst = clearest(LEFT_OUT)
        return Leaked(worst.seen, None, worst.total)
    if refused or (seen_rows.distinct is not None and seen_rows.distinct.removed):
        return Leaked(none, None, 0)
    copies = none
    expected = 0 if seen_rows.distinct is None else 2 * seen_rows.distinct.expected
    if repeated_fraction(known) < RARE and (not expected or (exact.unlikely(expected) and not exact.repeating)):
        # A row that is frequent here is not a copy of a training row: both come from a population that repeats it.
        copies = exact.seen & ~exact.own
    # Cell widths were chosen so that rows of fit share few cells: their matches are unbiased only in most grids.
    in_most_grids = comparisons[1 + len(comparisons) // 2 :] if len(comparisons) > 2 else []
    many_axes = seen_rows.near is not None and seen_rows.near.axes >= MIN_CONCLUSIVE_AXES
    if in_most_grids and many_axes and not comparisons[1].known["all_repeats"]:
        # If no two rows of fit match in any grid of many axes, a row that matches in all grids is not chance.
        copies = copies | (in_most_grids[-1].seen & ~in_most_grids[-1].own)
    for comparison in in_most_grids:
        rare = comparison.known["all_repeats"] < RARE * comparison.known["all_rows"]
        if rare and comparison.unlikely(expected):
            copies = copies | (comparison.seen & ~comparison.own)
            break
    return Leaked(copies, None, int(copies.sum()))


def check_rows(
    seen_rows: SeenRows, hashes: Hashes, cells: Hashes | None, known: Mapping[str, int], digest: str | None
) -> Mask:
    """Return which rows are copies of rows of fit and must be left out.

    Args:
        seen_rows: Rows the model has seen.
        hashes: (N,), hashes of the rows.
        cells: (grids, N), their cells, from :meth:`SeenRows.cells`.
        known: Counts of repeats recorded by fit.
        digest: Digest of all rows of fit, if recorded.

    Returns:
        (N,), True for rows that must be left out.

    Raises:
        LeakError: None of the rows may be used.
    """
    result = find_leaked_rows(seen_rows, hashes, cells, known, digest)
    if result.refusal is not None:
        raise LeakError(result.refusal)
    return result.rows


def _compare(seen_rows: SeenRows, hashes: Hashes, cells: Hashes | None, known: Mapping[str, int]) -> list[Comparison]:
    """Return all comparisons: by hashes, then by matches in at least 1, 2, ... grids."""
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    by_hash = Comparison(
        seen_rows.seen(hashes), counts[inverse] > 1, equal_pairs(hashes), {**NOTHING_KNOWN, **known}, tests=1
    )
    if seen_rows.near is None or cells is None:
        return [by_hash]
    near = seen_rows.near
    comparisons = [by_hash]
    matches, own = near.matches(cells), near.matches_within(cells)
    tests = int(near.used.sum())
    pairs = max((equal_pairs(one) for one in cells[near.used]), default=0.0)
    for least in range(1, tests + 1):
        within_fit = {
            "chance_repeats": int(near.validation_counts[least - 1]),
            "chance_rows": int(near.validation_counts[-1]),
            "all_repeats": int(near.all_counts[least - 1]),
            "all_rows": int(near.all_counts[-1]),
        }
        comparisons.append(Comparison(matches >= least, own >= least, pairs, within_fit, tests))
    return comparisons


def _verdict(distinct: Distinct | None, comparison: Comparison, exact: Comparison) -> str:
    """Decide about refused rows, allowing for duplicates that were removed before fit.

    If duplicates were removed, rows repeat by chance more often than the rows of fit show: new rows repeat old ones as
    well as each other.  They are kept if rows of fit hardly ever repeat, and either the columns take so few values that
    new rows must repeat, or some rows repeat far more often than training rows drawn several times would.  Otherwise,
    rows that repeat each other may come from a population that repeats itself, or may be training rows; this cannot be
    distinguished, so those the model has seen are left out, which is conservative.  Whether rows repeat each other is
    decided by hashes in every comparison: equal rows stay equal if all are rounded.
    """
    if distinct is None:
        return REFUSED
    rows = len(comparison.own)
    if exact.repeating:
        removed = distinct.removed or not distinct.pairs
        pairs = rows * (rows - 1) / 2
        uneven = exact.pairs > UNEVEN_FACTOR * pairs / max(distinct.distinct, 1)
        by_chance = distinct.explains(pairs, exact.pairs) or uneven
        return KEPT if removed and by_chance and not distinct.removed_from(rows, exact.pairs) else LEFT_OUT
    # A few exact copies although rows of fit never repeat: the population may repeat some rows, and all are identified.
    few = not distinct.pairs and comparison.total <= MAX_LEFT_OUT * rows and exact.total >= MIN_EXACT * comparison.total
    explained = few or distinct.removed or distinct.explains(rows * distinct.distinct, comparison.total)
    return LEFT_OUT if explained else REFUSED


def _is_training_set(seen_rows: SeenRows, hashes: Hashes, cells: Hashes | None, digest: str | None) -> bool:
    """Return whether these are exactly the rows of fit; if few rows are distinct, repeats alone do not show it."""
    near = seen_rows.near is not None and cells is not None and seen_rows.near.is_training_set(cells)
    return near or rows_digest(hashes) == digest


def _clearest(comparisons: Sequence[Comparison]) -> Comparison:
    """Return the strictest comparison that finds nearly as many rows as any: it includes the fewest chance matches."""
    largest = max(comparison.excess for comparison in comparisons)
    by_strictness = (comparisons[0], *comparisons[:0:-1])
    return next(comparison for comparison in by_strictness if comparison.excess >= CLEAR_FRACTION * largest)
