"""Numbers with a decimal comma, common in Europe: ``3,14`` and ``1.234,5``."""

import re
from typing import TYPE_CHECKING, Any

from squad.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DECIMALS", "to_points"]

#: Supported decimal separators.
DECIMALS = (".", ",")

#: A number with a decimal comma, optionally with dots between thousands; one with such dots only; a decimal point.
_COMMA = re.compile(r"\s*[+-]?(?:(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+),\d*|,\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_GROUPED = re.compile(r"\s*[+-]?[1-9]\d{0,2}(?:\.\d{3})+\s*", re.ASCII)
_POINT = re.compile(r"\s*[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)


def to_points(frame: "pd.DataFrame", source: str) -> "pd.DataFrame":
    """Rewrite numbers with a decimal comma with a decimal point; leave other cells unchanged.

    Each cell is converted independently, so that a row means the same in every table.

    Args:
        frame: Table of text cells.
        source: Name of the table in error messages.

    Returns:
        The converted table.

    Raises:
        DataError: A column has decimal commas in some numbers and decimal points in others: ``1.234`` would be
            ambiguous.
    """
    import pandas as pd

    changed: dict[str, pd.Series[Any]] = {}
    for name in frame.columns:
        column = frame[name]
        codes, texts = pd.factorize(column)
        before = [str(text) for text in texts]
        after = [_to_point(text) for text in before]
        if after == before:
            continue
        point = next((text for text in before if _POINT.fullmatch(text) and not _GROUPED.fullmatch(text)), None)
        if point is not None:
            comma = next(old for old, new in zip(before, after, strict=True) if old != new)
            raise DataError(
                f"Column {str(name)!r} of {source} mixes decimal separators: it has {comma.strip()!r} and"
                f" {point.strip()!r}. Correct it, or omit --decimal (decimal=',')."
            )
        values = pd.Series([*after, None], dtype=column.dtype)
        changed[name] = values.iloc[codes].reset_index(drop=True)  # missing cells have code -1: the last entry
    return frame.assign(**changed) if changed else frame


def _to_point(text: str) -> str:
    if _COMMA.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return text.replace(".", "") if _GROUPED.fullmatch(text) else text
