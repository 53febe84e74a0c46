"""Tables of scores: columns of numbers, of 0 and 1, and of losses."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.data.tables import Table, labels, read
from squad.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["flags", "losses", "numbers", "read_table"]

#: Cells that mean true or false, in lower case.
TRUTH = {"1": True, "1.0": True, "true": True, "yes": True, "0": False, "0.0": False, "false": False, "no": False}


def read_table(path: Path, encoding: str | None = None, decimal: str = ".") -> Table:
    """Read a CSV, TSV or Parquet file, or standard input (``-``); a line that cannot be read is an error.

    Args:
        path: The file, or ``-``.
        encoding: Encoding of a CSV or TSV file; None for UTF-8.
        decimal: Decimal sign of a CSV or TSV file.

    Returns:
        The table.
    """
    found = read(path, encoding=encoding, decimal=decimal)
    if not isinstance(found, Table):
        raise DataError(f"{path} must be a table with the columns confidence and correct, but it has no columns.")
    return found


def numbers(table: Table, name: str) -> "NDArray[np.float64]":
    """Return a column of numbers, (N,); a missing number is an error.

    Args:
        table: The table.
        name: Name of the column.

    Returns:
        (N,), numbers.
    """
    import numpy as np

    from squad.data.cells import parse_numbers

    texts = labels(table, name, strict=False)
    found = parse_numbers([str(text) for text in texts.tolist()])
    _check(table, name, np.isnan(found), "a number in every row", texts)
    return found


def flags(table: Table, name: str) -> "NDArray[np.bool_]":
    """Return a column of 0 and 1, or of true and false, (N,).

    Args:
        table: The table.
        name: Name of the column.

    Returns:
        (N,), booleans.
    """
    import numpy as np

    texts = labels(table, name, strict=False)
    found = np.array([TRUTH.get(str(text).lower(), -1) for text in texts.tolist()])
    _check(table, name, found < 0, "0 or 1 in every row", texts)
    return found.astype(np.bool_)


def losses(table: Table, name: str) -> "NDArray[np.float64]":
    """Return a column of losses between 0 and 1, (N,); true and false count as 1 and 0, empty cells are NaN.

    Args:
        table: The table.
        name: Name of the column.

    Returns:
        (N,), losses.
    """
    import numpy as np

    from squad.data.cells import parse_numbers

    texts = labels(table, name, strict=False)
    truth = np.array([TRUTH.get(str(text).lower(), np.nan) for text in texts.tolist()], dtype=np.float64)
    found = np.where(np.isnan(truth), parse_numbers([str(text) for text in texts.tolist()]), truth)
    bad = ~((found >= 0) & (found <= 1)) & (texts != "")
    _check(table, name, bad, "a number between 0 and 1, or an empty cell (not counted), in every row", texts)
    return found


def _check(table: Table, name: str, bad: "NDArray[np.bool_]", expected: str, texts: Any) -> None:
    """Raise an error that names the first bad cell, if there is one."""
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"Column {name!r} of {table.source} must have {expected}; {table.where(row)} has {str(texts[row])[:40]!r}."
        )
