"""Columns of numbers that look like identifiers: what is learned from them says nothing about new rows."""

import math
import re
import shlex
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from squad.data.cells import numbers, parse_numbers, text_cells
from squad.data.column_names import listed
from squad.data.tables import Table

__all__ = ["identifier_warning", "identifiers", "is_identifier", "named_like_one"]

#: Fewer rows than these say nothing.
LEAST = 10
#: So many rows are looked at first: few columns need more.
SAMPLE = 1000
#: So improbable it must be that numbers of such a range are all different, unless each was given to one row.
CHANCE = 1e-6
#: With so many different numbers a column that is named like an identifier is one, and no category.
MANY = 20

#: Words that mean an identifier at the beginning or the end of a name, and names that mean one as they are.
WORDS = frozenset({"id", "ids", "uid", "uuid", "guid", "pid", "identifier"})
NAMES = frozenset({"index", "idx", "row", "rownum", "rownumber", "row_number", "row_nr", "key", "pk", "unnamed: 0", ""})
#: What stands before an "id" that is written without a mark in between; "paid" and "fluid" are no identifiers.
BEFORE = (
    "account|admission|case|client|customer|employee|encounter|event|hospital|member|order|patient|person|product|record|"
    "row|sample|session|specimen|stay|student|subject|transaction|user|visit"
)
_JOINED = re.compile(rf"({BEFORE})ids?")


def named_like_one(name: str) -> bool:
    """Whether a name says that a column holds identifiers: id, patient_id, PatientID, patientId, id_number, ...

    >>> [named_like_one(name) for name in ("patient_id", "PatientID", "id", "paid", "width", "amount")]
    [True, True, True, False, False, False]
    """
    plain = name.strip()
    if plain.casefold() in NAMES:
        return True
    words = [word.casefold() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", plain)]
    if not words:
        return False
    return words[0] in WORDS or words[-1] in WORDS or _JOINED.fullmatch(words[-1]) is not None


def is_identifier(name: str, values: NDArray[np.float64]) -> bool:
    """Whether a column of numbers, (N,), NaN where missing, looks like an identifier.

    Its numbers are whole, and either its name says so, or they are all different where numbers of such a range would
    not be by chance: row numbers, and numbers that were given away one by one.  A measurement with decimals is never
    one, and neither is an amount in cents: among so many possible ones, all may well be different.
    """
    present = values[~np.isnan(values)]
    if len(present) < LEAST or not np.all(present == np.floor(present)):
        return False
    different = len(np.unique(present))
    if named_like_one(name) and (different == len(present) or different > MANY):
        return True
    if different < len(present):
        return False
    # Numbers drawn from a range of this size are all different with this probability at most: even is best.
    size = float(present.max() - present.min()) + 1
    return size < 2.0**53 and _all_different(different, size) < math.log(CHANCE)


def _all_different(count: int, size: float) -> float:
    """The logarithm of the probability that ``count`` draws out of ``size`` numbers are all different."""
    return float(np.log1p(-np.arange(1, count) / size).sum())


def identifiers(table: Table, names: Iterable[str]) -> list[str]:
    """Those columns of numbers, among ``names``, that look like identifiers."""
    return [name for name in names if _may_be(table, name) and is_identifier(name, _values(table, name))]


def _may_be(table: Table, name: str) -> bool:
    values = _values(table[:SAMPLE], name)
    present = values[~np.isnan(values)]
    if not np.all(present == np.floor(present)):
        return False
    return named_like_one(name) or len(np.unique(present)) == len(present)


def _values(table: Table, name: str) -> NDArray[np.float64]:
    column = table.column(name)
    found = numbers(column)
    if found is not None:
        return found
    cells = text_cells(column)
    return np.append(parse_numbers(cells.values), np.nan)[cells.codes]


def identifier_warning(names: list[str], *, option: bool) -> str:
    """What to say about columns that look like identifiers.

    Args:
        names: of the columns.
        option: the command is advised, not Python.
    """
    one = len(names) == 1
    drops = " ".join(f"--drop {shlex.quote(name)}" for name in names[:3]) + (" ..." if len(names) > 3 else "")
    advice = (
        drops if option else f"X.drop(columns=[{', '.join(map(repr, names[:3]))}{', ...' if len(names) > 3 else ''}])"
    )
    return (
        f"{'Column' if one else 'Columns'} {listed(names)} look{'s' if one else ''} like {'an ' if one else ''}"
        f"identifier{'' if one else 's'}, which new rows do not share. Unless {'it is' if one else 'they are'}"
        f" measured, leave {'it' if one else 'them'} out: {advice}"
    )
