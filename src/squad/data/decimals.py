"""Numbers with a decimal comma, as much of Europe writes them: ``3,14`` and ``1.234,5``."""

import re
from typing import TYPE_CHECKING, Any

from squad.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DECIMALS", "to_points"]

#: The signs there are.
DECIMALS = (".", ",")

#: A number with a comma, thousands before it perhaps separated by dots; and one with such dots alone.
_COMMA = re.compile(r"\s*[+-]?(?:(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+),\d*|,\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_GROUPED = re.compile(r"\s*[+-]?[1-9]\d{0,2}(?:\.\d{3})+\s*", re.ASCII)
_POINT = re.compile(r"\s*[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)


def to_points(frame: "pd.DataFrame", source: str) -> "pd.DataFrame":
    """The cells of a table of text, numbers with a decimal comma written with a point; other cells stay.

    Each cell is read by itself, so that a row means the same whatever table it is in.  A column in which some numbers
    have a comma and others a point is an error: what its ``1.234`` is cannot be told.
    """
    import pandas as pd

    changed: dict[str, pd.Series[Any]] = {}
    for name in frame.columns:
        column = frame[name]
        codes, texts = pd.factorize(column)
        found = [str(text) for text in texts]
        written = [_written(text) for text in found]
        if written == found:
            continue
        point = next((text for text in found if _POINT.fullmatch(text) and not _GROUPED.fullmatch(text)), None)
        if point is not None:
            comma = next(text for text, now in zip(found, written, strict=True) if text != now)
            raise DataError(
                f"Numbers of a column must be written in one way; {str(name)!r} of {source} has {comma.strip()!r} and"
                f" {point.strip()!r}. Correct it, or leave --decimal (decimal=',') out."
            )
        values = pd.Series([*written, None], dtype=column.dtype)
        changed[name] = values.iloc[codes].reset_index(drop=True)  # the last, at -1, is what is missing
    return frame.assign(**changed) if changed else frame


def _written(text: str) -> str:
    if _COMMA.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return text.replace(".", "") if _GROUPED.fullmatch(text) else text
