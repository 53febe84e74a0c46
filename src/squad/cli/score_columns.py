"""Columns of scores: numbers, and whether something is so."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.tables import Table, labels, read
from squad.errors import DataError

__all__ = ["flags", "losses", "numbers", "read_table"]

#: How a table may say yes and no.
TRUTH = {"1": True, "1.0": True, "true": True, "yes": True, "0": False, "0.0": False, "false": False, "no": False}


def read_table(path: Path, encoding: str | None = None, decimal: str = ".") -> Table:
    """A CSV, TSV or Parquet file, - for standard input; a broken line is an error."""
    found = read(path, encoding=encoding, decimal=decimal)
    if not isinstance(found, Table):
        raise DataError(f"{path} must be a table with the columns confidence and correct; it has no columns.")
    return found


def numbers(table: Table, name: str) -> NDArray[np.float64]:
    """A column of numbers, none of them missing."""
    from squad.data.cells import parse_numbers

    texts = labels(table, name, strict=False)
    found = parse_numbers([str(text) for text in texts.tolist()])
    _refuse(table, name, np.isnan(found), "a number in every row", texts)
    return found


def flags(table: Table, name: str) -> NDArray[np.bool_]:
    """A column of 0 and 1, or true and false."""
    texts = labels(table, name, strict=False)
    found = np.array([TRUTH.get(str(text).lower(), -1) for text in texts.tolist()])
    _refuse(table, name, found < 0, "0 or 1 in every row", texts)
    return found.astype(np.bool_)


def losses(table: Table, name: str) -> NDArray[np.float64]:
    """A column of 0 and 1 (or true and false), costs between them, or nothing where a harm is not counted."""
    from squad.data.cells import parse_numbers

    texts = labels(table, name, strict=False)
    said = np.array([TRUTH.get(str(text).lower(), np.nan) for text in texts.tolist()], dtype=np.float64)
    found = np.where(np.isnan(said), parse_numbers([str(text) for text in texts.tolist()]), said)
    bad = ~((found >= 0) & (found <= 1)) & (texts != "")
    _refuse(table, name, bad, "0 or 1, a cost between them, or nothing (not counted) in every row", texts)
    return found


def _refuse(table: Table, name: str, bad: NDArray[np.bool_], wanted: str, texts: Any) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"Column {name!r} of {table.source} must have {wanted}; {table.where(row)} has {str(texts[row])[:40]!r}."
        )
