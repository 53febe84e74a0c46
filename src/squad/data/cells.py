"""Text and number of single cells and of whole columns, and when a value is missing."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MISSING", "Cells", "cell_text", "column_kind", "group_names", "numbers", "parse_numbers", "text_cells"]

#: Texts that mean a missing value, surrounding blanks ignored; nulls and NaN of typed columns are missing as well.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "?", "#N/A", "#NA", "<NA>"})


def cell_text(value: object) -> str | None:
    """Return a cell's text without surrounding blanks; None if it is missing.

    An integer value has the same text whatever its type: 5, 5.0 and Decimal("5.00") are "5".  Text is unchanged: "5.0"
    is "5.0", and "01" is "01".

    Examples:
        >>> [cell_text(value) for value in (5, 5.0, " 01 ", "", True)]
        ['5', '5', '01', None, 'True']
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if isinstance(value, str):
        text = value.strip()
        return None if text in MISSING else text
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating, Decimal)):
        if math.isnan(value):
            return None
        # Above 2^53 not every integer is a float: printing all digits would suggest a precision that is not there.
        whole = abs(float(value)) < 2**53 and value == int(value)
        return str(int(value)) if whole else str(value)
    text = str(value)  # pandas' NA and NaT are recognized by their text, without importing pandas
    return None if value is None or text in {"<NA>", "NaT"} else text


@dataclass(frozen=True)
class Cells:
    """A column as text: ``values[codes[row]]`` is the text of a cell; a code of -1 means that it is missing.

    Attributes:
        codes: (N,), positions in ``values``.
        values: The distinct texts.
    """

    codes: NDArray[np.int64]
    values: list[str]


def column_kind(column: "pd.Series[Any]") -> str:
    """Return what a column holds: "number", "boolean", "text", "dates" or "objects" (lists, bytes, ...)."""
    import pandas as pd

    kinds = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column_kind(pd.Series(column.cat.categories))
    if kinds.is_bool_dtype(column.dtype):
        return "boolean"
    if kinds.is_numeric_dtype(column.dtype):
        return "objects" if kinds.is_complex_dtype(column.dtype) else "number"
    if not (kinds.is_object_dtype(column.dtype) or kinds.is_string_dtype(column.dtype)):
        return "dates"  # datetime64, timedelta64, periods, and Arrow's equivalents
    found = kinds.infer_dtype(column, skipna=True)
    if found in {"string", "empty", "boolean", "decimal"} or "integer" in found or "floating" in found:
        return "text"
    if found.startswith("mixed") and all(isinstance(cell, str | int | float | np.number) for cell in column.dropna()):
        return "text"  # numbers and text
    return "dates" if "date" in found or "time" in found or found == "period" else "objects"


def text_cells(column: "pd.Series[Any]") -> Cells:
    """Return a column of any type as text."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if column.dtype == object:
        # Convert to text first: factorize treats 1, 1.0 and True as one value.
        column = pd.Series([cell_text(value) for value in column], dtype=object)
    raw, uniques = pd.factorize(column)
    index: dict[str, int] = {}
    texts = map(cell_text, np.asarray(uniques))  # iterating over an index would convert numbers to Python floats
    codes = [-1 if text is None else index.setdefault(text, len(index)) for text in texts]
    # pandas encodes nulls as -1, which selects the last entry.
    return Cells(np.asarray([*codes, -1], dtype=np.int64)[raw], list(index))


def numbers(column: "pd.Series[Any]") -> NDArray[np.float64] | None:
    """Return a column as float64, NaN where missing; None if that would need parsing single cells."""
    import pandas as pd

    kind = column_kind(column) if not pd.api.types.is_string_dtype(column.dtype) else "text"
    if kind == "number":
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(column.cat.categories.dtype)
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    if kind != "text":
        return None
    texts = column.tolist()
    try:
        joined = " ".join(texts)
    except TypeError:  # some cells are not text
        return None
    if not joined.isascii() or "_" in joined:
        return None
    try:
        found: NDArray[np.float64] = np.asarray(texts, dtype=object).astype(np.float64)
    except ValueError:
        return None
    return None if np.isnan(found).any() else found


def parse_numbers(values: list[str]) -> NDArray[np.float64]:
    """Parse texts as correctly rounded floats.

    The syntax is Python's, without underscores (1_000) and non-ASCII digits.

    Args:
        values: N texts.

    Returns:
        (N,), float64; NaN for text that is not a number.

    Examples:
        >>> parse_numbers(["1.5", "-2e3", "1_000"]).tolist()
        [1.5, -2000.0, nan]
    """
    return np.asarray([_number(value) for value in values], dtype=np.float64)


def _number(text: str) -> float:
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


def group_names(groups: ArrayLike | None) -> list[str]:
    """Return the group of each row as text, the way tables show it: 5 and 5.0 are the same group.

    Args:
        groups: (rows,), or None for rows without groups.

    Examples:
        >>> group_names([5.0, 7.0])
        ['5', '7']
    """
    return [] if groups is None else [cell_text(group) or "" for group in np.asarray(groups).tolist()]
