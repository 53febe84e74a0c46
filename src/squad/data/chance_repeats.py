"""Test whether calibration rows repeat training rows more often than expected by chance."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.core.checks import check_count
from squad.data.near_copies import contained_in
from squad.data.seen_rows import LeakError, SeenRows

__all__ = [
    "LEVEL",
    "LEVEL_ALL_ROWS",
    "NOTHING_KNOWN",
    "RARE",
    "add_repeats",
    "check_repeats",
    "count_repeats",
    "exceeds_chance",
    "record_repeats",
    "repeated_fraction",
    "repeats_message",
    "repeats_p_value",
]

#: Significance level: rows are refused if the probability of so many repeats by chance is below this.
LEVEL = 1e-3

#: Significance level of the comparison with all rows of fit.
LEVEL_ALL_ROWS = 1e-6

#: If a smaller fraction of the training rows occurs more than once, equal rows are copies rather than chance.
RARE = 0.01

Hashes = NDArray[np.uint64]


def count_repeats(train: Hashes, validation: Hashes) -> tuple[int, int]:
    """Count validation rows that repeat another row of fit: the rate of repeats by chance, for :func:`check_repeats`.

    A repeat is a validation row that occurs in the training rows, or again in the validation rows: the model has seen
    both, so a new row can match either.  Counting against the training rows alone would underestimate the rate, and
    refuse new rows.

    Args:
        train: Hashes of the training rows.
        validation: Hashes of the validation rows, in any order, with duplicates.

    Returns:
        The number of repeats and the number of validation rows.

    Examples:
        >>> count_repeats(np.array([1, 2, 3], dtype=np.uint64), np.array([3, 4, 5, 5], dtype=np.uint64))
        (3, 4)
    """
    _, inverse, counts = np.unique(validation, return_inverse=True, return_counts=True)
    repeated = contained_in(validation, np.unique(train)) | (counts[inverse] > 1)
    return int(repeated.sum()), len(validation)


#: Arguments of :func:`check_repeats` if fit recorded nothing.
NOTHING_KNOWN = {"chance_repeats": 0, "chance_rows": 0, "all_repeats": 0, "all_rows": 0}


def record_repeats(hashes: Hashes, train: NDArray[np.int64], validation: NDArray[np.int64]) -> dict[str, int]:
    """Count repeats among the rows of a fit, to be recorded with the model.

    Args:
        hashes: Hashes of all rows of fit.
        train: Positions of the training rows.
        validation: Positions of the validation rows.

    Returns:
        Arguments of :func:`check_repeats`, as plain data.
    """
    repeats, rows = count_repeats(hashes[train], hashes[validation])
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    repeated = int((counts[inverse] > 1).sum())
    return {"chance_repeats": repeats, "chance_rows": rows, "all_repeats": repeated, "all_rows": len(hashes)}


def add_repeats(known: Mapping[str, int], seen_rows: SeenRows, hashes: Hashes) -> dict[str, int]:
    """Update the counts with rows that the model had not seen: they are evidence about repeats by chance as well.

    Args:
        known: Counts so far, from :func:`record_repeats`.
        seen_rows: Rows seen so far.
        hashes: Hashes of the additional rows.

    Returns:
        The new counts, with the keys of ``known``.
    """
    repeats, rows = count_repeats(seen_rows.rows, hashes)
    more = {"chance_repeats": repeats, "chance_rows": rows, "all_repeats": repeats, "all_rows": rows}
    return {name: int(known[name]) + count for name, count in more.items()}


def repeats_p_value(repeats: int, rows: int, chance_repeats: int, chance_rows: int) -> float:
    """Return the p-value of Fisher's exact test that calibration rows repeat no more often than validation rows.

    Both counts are binomial with the same unknown probability, so given their sum the first is hypergeometric, whatever
    that probability.  A binomial test with the observed rate, k / n or (k + 1) / (n + 2), would take the rate as known;
    with as many validation as calibration rows, it refuses new rows ten times as often as its level says.

    Args:
        repeats: Number of calibration rows that repeat a row of fit.
        rows: Number of calibration rows.
        chance_repeats: Number of validation rows that repeat another row of fit.
        chance_rows: Number of validation rows.

    Returns:
        The probability of at least ``repeats`` repeats by chance.

    References:
        R. A. Fisher. The logic of inductive inference. Journal of the Royal Statistical Society, 1935.

    Examples:
        >>> round(repeats_p_value(repeats=5, rows=100, chance_repeats=0, chance_rows=100), 3)
        0.03
    """
    from scipy.special import gammaln

    drawn, total, marked = rows, rows + chance_rows, repeats + chance_repeats
    outcomes = np.arange(repeats, min(drawn, marked) + 1, dtype=np.float64)

    def log_binomial(of: Any, take: Any) -> Any:
        return gammaln(of + 1.0) - gammaln(take + 1.0) - gammaln(of - take + 1.0)

    logs = log_binomial(marked, outcomes) + log_binomial(total - marked, drawn - outcomes) - log_binomial(total, drawn)
    return min(1.0, float(np.exp(logs).sum()))


def check_repeats(
    repeats: int, rows: int, chance_repeats: int, chance_rows: int, all_repeats: int = 0, all_rows: int = 0
) -> None:
    """Leakage check: refuse calibration rows that repeat rows of fit more often than expected by chance.

    The repeats are compared with those of the validation rows, and refused if their probability is below 0.001
    (:func:`repeats_p_value`).  Since validation rows may be few, they are also compared with all rows of fit, each
    looked up among the others.  These are not independent, so that p-value is too small, and its level is 1e-6.
    Repeats within chance are accepted: new cases repeat old ones just as often.

    Args:
        repeats: Number of calibration rows that the model has seen (:meth:`SeenRows.repeats`).
        rows: Number of calibration rows.
        chance_repeats: Number of repeats among the validation rows, from :func:`count_repeats`.
        chance_rows: Number of validation rows.
        all_repeats: Number of rows of fit that occur more than once.
        all_rows: Number of rows of fit.

    Raises:
        LeakError: There are more repeats than expected by chance.
    """
    rows, chance_rows = check_count("rows", rows, 0), check_count("chance_rows", chance_rows, 0)
    repeats = check_count("repeats", repeats, 0, rows)
    chance_repeats = check_count("chance_repeats", chance_repeats, 0, chance_rows)
    all_repeats = check_count("all_repeats", all_repeats, 0, all_rows)
    if exceeds_chance(repeats, rows, chance_repeats, chance_rows, all_repeats, all_rows):
        raise LeakError(repeats_message(repeats, rows, chance_repeats, chance_rows, all_repeats, all_rows))


def exceeds_chance(
    repeats: int,
    rows: int,
    chance_repeats: int,
    chance_rows: int,
    all_repeats: int = 0,
    all_rows: int = 0,
    tests: int = 1,
) -> bool:
    """Return whether there are more repeats than expected by chance.

    Args:
        repeats: Number of calibration rows that the model has seen.
        rows: Number of calibration rows.
        chance_repeats: Number of repeats among the validation rows.
        chance_rows: Number of validation rows.
        all_repeats: Number of rows of fit that occur more than once.
        all_rows: Number of rows of fit.
        tests: Number of such tests, by which the levels are divided (Bonferroni correction).

    Returns:
        Whether one of the two tests of :func:`check_repeats` rejects.

    Examples:
        >>> exceeds_chance(repeats=60, rows=100, chance_repeats=0, chance_rows=100)
        True
    """
    return (
        repeats_p_value(repeats, rows, chance_repeats, chance_rows) < LEVEL / tests
        or repeats_p_value(repeats, rows, all_repeats, all_rows) < LEVEL_ALL_ROWS / tests
    )


def repeats_message(
    repeats: int, rows: int, chance_repeats: int, chance_rows: int, all_repeats: int = 0, all_rows: int = 0
) -> str:
    """Return the message of a :class:`LeakError`.

    Args:
        repeats: Number of calibration rows that the model has seen.
        rows: Number of calibration rows.
        chance_repeats: Number of repeats among the validation rows.
        chance_rows: Number of validation rows.
        all_repeats: Number of rows of fit that occur more than once.
        all_rows: Number of rows of fit.

    Returns:
        One sentence that says how many repeats there are and how many are expected, and one that says what to do.
    """
    known, known_rows = max((chance_repeats, chance_rows), (all_repeats, all_rows), key=lambda pair: pair[1])
    expected = rows * (known + 1) / (known_rows + 2)
    return (
        f"{repeats:,} of these {rows:,} rows are copies or near copies of rows that the model has seen; about"
        f" {expected:,.0f} are expected by chance. Use rows that were used neither to fit nor to recalibrate the model"
        " (squad split keeps them apart)."
    )


def repeated_fraction(known: Mapping[str, int]) -> float:
    """Return the fraction of the training rows that occur more than once, from the counts recorded by fit."""
    return known.get("all_repeats", 0) / max(known.get("all_rows", 0), 1)
