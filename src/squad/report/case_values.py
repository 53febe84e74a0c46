"""Feature values of a case, the most unusual first: those that few of the test cases share or exceed."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from squad.data.array_transform import ArrayTransform
from squad.data.cells import parse_numbers, text_cells
from squad.data.columns import NumberColumn
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.report.number_format import percent

__all__ = ["CaseValue", "case_values"]

#: Maximum number of values shown per case, and of characters per value.
MAX_VALUES, MAX_LENGTH = 16, 60
#: A value is called unusual if at most this fraction of the test cases has it, or one as extreme.
UNUSUAL = 0.05


class CaseValue(NamedTuple):
    """A value of a case.

    Attributes:
        name: Name of the column.
        text: The value.
        remark: What makes it unusual; empty if nothing does.
    """

    name: str
    text: str
    remark: str = ""


class _Column(NamedTuple):
    """A column of the selected rows.

    Attributes:
        name: Name of the column.
        fraction: (S,), fraction of the test cases with a value as extreme, or with the same category.
        remark: Returns what makes the value of a selected row unusual.
        text: Returns the value of a selected row as text.
    """

    name: str
    fraction: NDArray[np.float64]
    remark: Callable[[int], str]
    text: Callable[[int], str]


def case_values(
    transform: ArrayTransform | TableTransform, rows: Any, selected: Sequence[int]
) -> list[list[CaseValue]]:
    r"""Return the values of the selected rows, each case's most unusual values first.

    Args:
        transform: Input transform of the model, which knows its columns.
        rows: All test rows: a table, or an array (N, ...).
        selected: Indices of rows.

    Returns:
        Values per selected row; at most 16, and a last entry that counts the others.

    Examples:
        >>> rows = np.array([[1.0, 5.0]] * 98 + [[1.0, 9.0], [-4.0, 5.0]])
        >>> case_values(ArrayTransform.fit(rows), rows, [98])[0][0]
        CaseValue(name='feature 2', text='9', remark='higher than in 99\xa0% of the cases')
    """
    chosen = np.asarray(selected, dtype=np.int64)
    columns = list(_columns(transform, rows, chosen))
    # Of equally unusual values, the first columns come first.
    order = np.argsort(np.stack([column.fraction for column in columns]), axis=0, kind="stable")
    found = []
    for case in range(len(chosen)):
        shown = []
        for column in (columns[index] for index in order[:MAX_VALUES, case]):
            remark = column.remark(case) if column.fraction[case] <= UNUSUAL else ""
            shown.append(CaseValue(_shortened(column.name, False), column.text(case), remark))
        if len(columns) > MAX_VALUES:
            shown.append(CaseValue("not shown", f"{len(columns) - MAX_VALUES:,} features that are less unusual"))
        found.append(shown)
    return found


def _columns(transform: ArrayTransform | TableTransform, rows: Any, chosen: NDArray[np.int64]) -> Iterator[_Column]:
    if not isinstance(rows, Table):
        values = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
        names = transform.names if isinstance(transform, ArrayTransform) and transform.names else None
        for index in range(values.shape[1]):
            yield _number_column(names[index] if names else f"feature {index + 1}", values[:, index], chosen)
        return
    if isinstance(transform, ArrayTransform):
        kinds = dict.fromkeys(transform.names or rows.columns, True)
    else:
        kinds = {column.name: isinstance(column, NumberColumn) for column in transform.columns}
    for name, is_number in kinds.items():
        cells = text_cells(rows.column(name))
        texts = [_shortened(cells.values[code], is_number) if code >= 0 else "(empty)" for code in cells.codes[chosen]]
        if is_number:
            values = np.append(parse_numbers(cells.values), np.nan)[cells.codes]
            yield _number_column(name, values, chosen)._replace(text=texts.__getitem__)
        else:
            yield _category_column(name, cells.codes, texts, chosen)


def _number_column(name: str, values: NDArray[np.float64], chosen: NDArray[np.int64]) -> _Column:
    known = np.sort(values[~np.isnan(values)])
    count, missing = max(1, len(known)), 1 - len(known) / len(values)
    own = values[chosen]
    lower, higher = np.searchsorted(known, own, "left"), len(known) - np.searchsorted(known, own, "right")
    fraction = np.where(np.isnan(own), missing, (count - np.maximum(lower, higher)) / count)

    def remark(case: int) -> str:
        if math.isnan(own[case]):
            return f"empty in {percent(missing)} of the cases"
        side = "higher" if lower[case] >= higher[case] else "lower"
        return f"{side} than in {percent(max(lower[case], higher[case]) / count)} of the cases"

    return _Column(name, fraction, remark, lambda case: _number_text(float(own[case])))


def _category_column(name: str, codes: NDArray[np.int64], texts: list[str], chosen: NDArray[np.int64]) -> _Column:
    fraction = np.bincount(codes + 1)[codes[chosen] + 1] / len(codes)
    return _Column(
        name, fraction, lambda case: f"only in {percent(float(fraction[case]))} of the cases", texts.__getitem__
    )


def _number_text(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def _shortened(text: str, is_number: bool) -> str:
    """Shorten a number to six digits, and other texts, such as identifiers, to ``MAX_LENGTH`` characters."""
    if is_number and len(text) > 10:
        with contextlib.suppress(ValueError):
            text = f"{float(text):.6g}"
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"
