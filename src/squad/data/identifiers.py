"""Detect numeric columns that look like identifiers: a model that learns from them does not generalize to new rows."""

import math
import re
import shlex
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from squad.data.cells import numbers, parse_numbers, text_cells
from squad.data.column_names import format_names
from squad.data.tables import Table

__all__ = ["has_identifier_name", "identifier_warning", "identifiers", "is_identifier"]

#: Minimum number of values; fewer are not evidence.
MIN_VALUES = 10
#: Number of rows examined first; it rules out most columns.
SAMPLE_ROWS = 1000
#: A column is an identifier if its numbers are all distinct and the probability of that by chance is below this.
LEVEL = 1e-6
#: A column named like an identifier counts as one, rather than as a category, above this number of distinct values.
MAX_CATEGORIES = 20

#: Words that mark an identifier at the beginning or end of a name, and whole names that do.
IDENTIFIER_WORDS = frozenset({"id", "ids", "uid", "uuid", "guid", "pid", "identifier"})
IDENTIFIER_NAMES = frozenset(
    {"index", "idx", "row", "rownum", "rownumber", "row_number", "row_nr", "key", "pk", "unnamed: 0", ""}
)
#: Words that may precede "id" without a separator; "paid" and "fluid" are not identifiers.
ID_PREFIXES = (
    "account|admission|case|client|customer|employee|encounter|event|hospital|member|order|patient|person|product|record|"
    "row|sample|session|specimen|stay|student|subject|transaction|user|visit"
)
_PREFIXED_ID = re.compile(rf"({ID_PREFIXES})ids?")


def has_identifier_name(name: str) -> bool:
    """Return whether a column is named like an identifier: id, patient_id, PatientID, patientId, id_number, ...

    Examples:
        >>> [has_identifier_name(name) for name in ("patient_id", "PatientID", "id", "paid", "width", "amount")]
        [True, True, True, False, False, False]
    """
    stripped = name.strip()
    if stripped.casefold() in IDENTIFIER_NAMES:
        return True
    words = [word.casefold() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", stripped)]
    if not words:
        return False
    if words[0] in IDENTIFIER_WORDS or words[-1] in IDENTIFIER_WORDS:
        return True
    return _PREFIXED_ID.fullmatch(words[-1]) is not None


def is_identifier(name: str, values: NDArray[np.float64]) -> bool:
    """Return whether a numeric column looks like an identifier.

    It does if its values are integers and either its name says so, or they are all distinct although values from such a
    range would repeat by chance: row numbers, and numbers assigned one by one.  A measurement with decimals never does,
    nor does an amount in cents: among so many possible values, all may well be distinct.

    Args:
        name: Name of the column.
        values: (N,), numbers of the column; NaN where missing.

    Returns:
        Whether the column should probably be dropped before training.
    """
    present = values[~np.isnan(values)]
    if len(present) < MIN_VALUES or not np.all(present == np.floor(present)):
        return False
    distinct = len(np.unique(present))
    if has_identifier_name(name) and (distinct == len(present) or distinct > MAX_CATEGORIES):
        return True
    if distinct < len(present):
        return False
    # The probability of distinct values is largest for a uniform distribution over the range: an upper bound.
    size = float(present.max() - present.min()) + 1
    return size < 2.0**53 and _log_probability_distinct(distinct, size) < math.log(LEVEL)


def _log_probability_distinct(count: int, size: float) -> float:
    """Logarithm of the probability that ``count`` uniform draws from ``size`` numbers are all distinct."""
    return float(np.log1p(-np.arange(1, count) / size).sum())


def identifiers(table: Table, names: Iterable[str]) -> list[str]:
    """Return the columns that look like identifiers.

    Args:
        table: Table with these columns.
        names: Names of the columns to check.

    Returns:
        Names of the columns found, in the order of ``names``.
    """
    return [name for name in names if _is_candidate(table, name) and is_identifier(name, _values(table, name))]


def _is_candidate(table: Table, name: str) -> bool:
    values = _values(table[:SAMPLE_ROWS], name)
    present = values[~np.isnan(values)]
    if not np.all(present == np.floor(present)):
        return False
    return has_identifier_name(name) or len(np.unique(present)) == len(present)


def _values(table: Table, name: str) -> NDArray[np.float64]:
    column = table.column(name)
    values = numbers(column)
    if values is not None:
        return values
    cells = text_cells(column)
    return np.append(parse_numbers(cells.values), np.nan)[cells.codes]


def identifier_warning(names: list[str], *, option: bool) -> str:
    """Return a warning about columns that look like identifiers.

    Args:
        names: Names of the columns.
        option: Whether to recommend a command-line option instead of Python code.

    Returns:
        The text of the warning.
    """
    one = len(names) == 1
    drops = " ".join(f"--drop {shlex.quote(name)}" for name in names[:3]) + (" ..." if len(names) > 3 else "")
    advice = (
        drops if option else f"X.drop(columns=[{', '.join(map(repr, names[:3]))}{', ...' if len(names) > 3 else ''}])"
    )
    return (
        f"{'Column' if one else 'Columns'} {format_names(names)} look{'s' if one else ''} like {'an ' if one else ''}"
        f"identifier{'' if one else 's'}, from which a model cannot generalize to new rows. Unless"
        f" {'it is a measurement' if one else 'they are measurements'}, drop {'it' if one else 'them'}: {advice}"
    )
