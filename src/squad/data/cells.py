"""Single cells: when one is missing, its text, its number; and columns of them."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MISSING", "Cells", "cell_text", "column_kind", "numbers", "parse_numbers", "text_cells"]

#: How a missing value is written, blanks around it aside; nulls and NaN of typed columns are missing as well.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "?", "#N/A", "#NA", "<NA>"})


def cell_text(value: object) -> str | None:
    """A cell's text without surrounding blanks, None if it is missing.

    A whole number has the same text whatever type holds it: 5, 5.0 and Decimal("5.00") are "5".  Text stays as it was
    written: "5.0" is "5.0", and "01" is "01".
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
        # Above 2^53 not every whole number is a float: what is written would pretend to more digits than there are.
        whole = abs(float(value)) < 2**53 and value == int(value)
        return str(int(value)) if whole else str(value)
    text = str(value)  # pandas' NA and NaT have no class that could be asked for without importing it
    return None if value is None or text in {"<NA>", "NaT"} else text


@dataclass(frozen=True)
class Cells:
    """A column as text: ``values[codes[row]]`` is the cell's, and a code of -1 says that it is missing."""

    codes: NDArray[np.int64]
    values: list[str]


def column_kind(column: "pd.Series[Any]") -> str:
    """What a column holds: "number", "boolean", "text", "dates" or "objects" (lists, bytes, ...)."""
    import pandas as pd

    kinds = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column_kind(pd.Series(column.cat.categories))
    if kinds.is_bool_dtype(column.dtype):
        return "boolean"
    if kinds.is_numeric_dtype(column.dtype):
        return "objects" if kinds.is_complex_dtype(column.dtype) else "number"
    if not (kinds.is_object_dtype(column.dtype) or kinds.is_string_dtype(column.dtype)):
        return "dates"  # datetime64, timedelta64, periods, and what arrow has of the kind
    found = kinds.infer_dtype(column, skipna=True)
    if found in {"string", "empty", "boolean", "decimal"} or "integer" in found or "floating" in found:
        return "text"
    if found.startswith("mixed") and all(isinstance(cell, str | int | float | np.number) for cell in column.dropna()):
        return "text"  # numbers and words
    return "dates" if "date" in found or "time" in found or found == "period" else "objects"


def text_cells(column: "pd.Series[Any]") -> Cells:
    """A column of any type as text."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    if column.dtype == object:
        # Not left to factorize, to which 1, 1.0 and True are one value.
        column = pd.Series([cell_text(value) for value in column], dtype=object)
    raw, uniques = pd.factorize(column)
    index: dict[str, int] = {}
    texts = map(cell_text, np.asarray(uniques))  # of an index, numbers would come as Python floats
    codes = [-1 if text is None else index.setdefault(text, len(index)) for text in texts]
    # The last entry is what pandas' own -1, a null, finds.
    return Cells(np.asarray([*codes, -1], dtype=np.int64)[raw], list(index))


def numbers(column: "pd.Series[Any]") -> NDArray[np.float64] | None:
    """A column as float64, NaN where missing, if that can be had without looking at single cells; else None."""
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
    except TypeError:  # something that is not text
        return None
    if not joined.isascii() or "_" in joined:
        return None
    try:
        found: NDArray[np.float64] = np.asarray(texts, dtype=object).astype(np.float64)
    except ValueError:
        return None
    return None if np.isnan(found).any() else found


def parse_numbers(values: list[str]) -> NDArray[np.float64]:
    """Texts as numbers, correctly rounded, NaN for what is none: Python's syntax, without 1_000 and foreign digits."""
    return np.asarray([_number(value) for value in values], dtype=np.float64)


def _number(text: str) -> float:
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan
