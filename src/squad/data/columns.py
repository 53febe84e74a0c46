"""Encode table columns as features: numbers are standardized, categories one-hot encoded."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.cells import Cells, column_kind, numbers, parse_numbers, text_cells
from squad.data.encoding import FLOAT32_MAX, mean_and_std, saved_entry, standardized
from squad.data.novelty import Range, fit_ranges, range_margin
from squad.data.tables import Table
from squad.errors import DataError

__all__ = [
    "CategoryColumn",
    "NumberColumn",
    "Report",
    "column_from_json",
    "empty_cell_message",
    "fit_column",
    "read_numbers",
]

#: Maximum number of categories; a column with more holds names, dates or free text.
MAX_CATEGORIES = 100

#: A text column counts as numeric with invalid cells if more than this fraction of its cells are numbers, or if more
#: than half are and they have more than ``MAX_NUMERIC_CATEGORIES`` distinct values.
NUMERIC_FRACTION = 0.95
MAX_NUMERIC_CATEGORIES = 20

#: Function that records a problem: takes the row position and a description.
Report = Callable[[int, str], None]

_NUMBER_WITH_COMMAS = re.compile(r"[+-]?\d+(,\d+)+(\.\d*)?")


@dataclass(frozen=True)
class NumberColumn:
    """A numeric column.

    Its features are the standardized number, 0 where missing (only if std > 0), and a missing indicator (only if
    values were missing in training).

    Attributes:
        name: Name of the column.
        mean: Mean of its training values.
        std: Standard deviation of its training values.
        missing: Whether training values were missing.
        range: Allowed range, outside of which a row is novel; None for no limits.
    """

    name: str
    mean: float
    std: float
    missing: bool
    range: Range | None = None

    @property
    def features(self) -> int:
        """Number of features."""
        return int(self.std > 0) + int(self.missing)

    def encode(self, table: Table, out: NDArray[np.float32], report: Report, novel: Report) -> None:
        """Encode the column.

        Args:
            table: The rows.
            out: (N, features), zeros, to be filled.
            report: Called for rows that cannot be encoded.
            novel: Called for rows outside the range.
        """
        values, empty = read_numbers(table, self.name, report)
        if not self.missing:
            for row in np.flatnonzero(empty).tolist():
                report(row, empty_cell_message(self.name))
        z = standardized(np.where(np.isfinite(values), values, self.mean), self.mean, self.std)
        far = np.abs(z) > FLOAT32_MAX
        for row in np.flatnonzero(far).tolist():
            report(row, f"column {self.name!r} is {values[row]:g}, too far from its mean in training, {self.mean:g}")
        if self.range is not None:
            for row in np.flatnonzero(self.range.outside(values)).tolist():
                novel(row, self.range.reason(f"column {self.name!r}", values[row]))
        if self.std > 0:
            out[:, 0] = np.where(far, 0.0, z)
        if self.missing:
            out[:, -1] = empty

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain data."""
        data = {"kind": "number", "name": self.name, "mean": self.mean, "std": self.std, "missing": self.missing}
        # Models of earlier versions have no range: their identity, which certificates refer to, must not change.
        return data if self.range is None else {**data, "range": self.range.to_json()}


@dataclass(frozen=True)
class CategoryColumn:
    """A categorical column.

    Its features are one indicator per training category, and one for missing values if there were any in training.

    Attributes:
        name: Name of the column.
        values: Training categories, sorted.
        missing: Whether training values were missing.
    """

    name: str
    values: tuple[str, ...]
    missing: bool

    @property
    def features(self) -> int:
        """Number of features."""
        return len(self.values) + int(self.missing)

    def encode(self, table: Table, out: NDArray[np.float32], report: Report, novel: Report) -> None:
        """Encode the column; rows with a category that did not occur in training are reported.

        Args:
            table: The rows.
            out: (N, features), zeros, to be filled.
            report: Called for rows that cannot be encoded.
            novel: Not used: categories have no range.
        """
        _check_kind(table, self.name, "categories")
        cells = text_cells(table.column(self.name))
        position_of = {value: position for position, value in enumerate(self.values)}
        # -1 means unseen.  Missing cells have code -1, which selects the last entry.
        known = [position_of.get(value, self._boolean_position(value)) for value in cells.values]
        positions = np.asarray([*known, len(self.values) if self.missing else -1], dtype=np.int64)[cells.codes]
        for row in np.flatnonzero(positions < 0).tolist():
            if cells.codes[row] < 0:
                report(row, empty_cell_message(self.name))
            else:
                value = _shorten(cells.values[cells.codes[row]])
                report(row, f"column {self.name!r} is {value}, which was not seen in training")
        rows = np.flatnonzero(positions >= 0)
        out[rows, positions[rows]] = 1.0

    def _boolean_position(self, value: str) -> int:
        """Match true and false ignoring case: one file may hold text, another booleans."""
        matches = [position for position, known in enumerate(self.values) if known.casefold() == value.casefold()]
        return matches[0] if len(matches) == 1 and value.casefold() in ("true", "false") else -1

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain data."""
        return {"kind": "category", "name": self.name, "values": list(self.values), "missing": self.missing}


def read_numbers(
    table: Table, name: str, report: Report, booleans: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Read a column as numbers.

    Args:
        table: The rows.
        name: Name of the column.
        report: Called for rows whose cell is not a finite number.
        booleans: Read true and false as 1 and 0.

    Returns:
        The numbers (N,), NaN where a cell is missing or not a number; and which cells are missing (N,).
    """
    column = table.column(name)
    _check_kind(table, name, "numbers")
    values = numbers(column)
    if values is None:
        cells = text_cells(column)
        parsed = parse_numbers(cells.values)
        if booleans:
            words = [{"true": 1.0, "false": 0.0}.get(text.casefold(), np.nan) for text in cells.values]
            parsed = np.where(np.isnan(parsed), words, parsed)
        values = _values_of_rows(cells, parsed)
        for row in np.flatnonzero((cells.codes >= 0) & np.isnan(values)).tolist():
            report(row, f"column {name!r} must be a number, got {_shorten(cells.values[cells.codes[row]])}")
        empty = cells.codes < 0
    else:
        empty = np.isnan(values)
    for row in np.flatnonzero(np.isinf(values)).tolist():
        report(row, f"column {name!r} must be a finite number, got {values[row]}")
    return values, empty


def fit_column(table: Table, name: str, columns: int | None = None) -> NumberColumn | CategoryColumn | None:
    """Learn the encoding of a column from the training rows.

    Args:
        table: The training rows.
        name: Name of the column.
        columns: Total number of columns, which determines the margin of the range; None fits no range.

    Returns:
        The column; None if it is constant.

    Raises:
        DataError: The column is neither numeric nor categorical.
    """
    column = table.column(name)
    kind = _check_kind(table, name, "numbers or categories")
    if kind != "boolean":
        values = numbers(column)
        if values is not None:
            return _fit_numbers(table, name, values, columns)
    cells = text_cells(column)
    parsed = parse_numbers(cells.values)
    values = _values_of_rows(cells, parsed)
    if kind != "boolean" and not np.isnan(parsed).any():
        return _fit_numbers(table, name, values, columns)
    present = cells.codes >= 0
    if kind != "boolean":
        _check_stray_text(table, name, cells, values)
    if len(cells.values) > MAX_CATEGORIES:
        raise DataError(
            f"Column {name!r} of {table.source} must be numeric or have at most {MAX_CATEGORIES} categories, got"
            f" {len(cells.values)} distinct texts, such as {_shorten(cells.values[0])}. Drop columns of names, dates"
            f" and free text: --drop {shlex.quote(name)}"
        )
    category = CategoryColumn(name, tuple(sorted(cells.values)), not present.all())
    return category if category.features > 1 else None


def _fit_numbers(table: Table, name: str, values: NDArray[np.float64], columns: int | None) -> NumberColumn | None:
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise DataError(
            f"Column {name!r} of {table.source} must be finite, got {values[infinite[0]]} in"
            f" {table.where(infinite[0])} ({len(infinite)} infinite cells). Correct it, or leave the cell empty."
        )
    present = ~np.isnan(values)
    if not present.any():
        return None
    numeric = values[present][:, None]
    mean, std = mean_and_std(lambda: iter([numeric]))
    limits = None
    if columns is not None and std[0] > 0:
        margin = range_margin(columns, len(values))
        limits = fit_ranges(lambda: iter([numeric]), len(numeric), margin, columns)[0]
    column = NumberColumn(name, float(mean[0]), float(std[0]), not present.all(), limits)
    return column if column.features else None


def _check_stray_text(table: Table, name: str, cells: Cells, values: NDArray[np.float64]) -> None:
    """Refuse columns that could be read as categories but are numeric: a few texts among numbers, or with commas."""
    present = cells.codes >= 0
    texts = np.flatnonzero(present & np.isnan(values))
    numeric_fraction = 1 - len(texts) / present.sum()
    examples = "; ".join(f"{_shorten(cells.values[cells.codes[row]])} in {table.where(row)}" for row in texts[:3])
    distinct = len(np.unique(values[present & ~np.isnan(values)]))
    if numeric_fraction > NUMERIC_FRACTION or (numeric_fraction > 0.5 and distinct > MAX_NUMERIC_CATEGORIES):
        invalid = "1 other cell" if len(texts) == 1 else f"{len(texts)} other cells"
        raise DataError(
            f"Column {name!r} of {table.source} has {present.sum() - len(texts)} numbers and {invalid}: {examples}."
            f" Correct them, leave them empty, or drop the column: --drop {shlex.quote(name)}"
        )
    commas = sum(1 for row in texts if _NUMBER_WITH_COMMAS.fullmatch(cells.values[cells.codes[row]]))
    if commas > NUMERIC_FRACTION * len(texts) and len(cells.values) > 2:
        raise DataError(
            f"Column {name!r} of {table.source} has numbers with commas: {examples}. If these are decimal commas, use"
            " --decimal , (decimal=','); otherwise write 1000 instead of 1,000."
        )


def _check_kind(table: Table, name: str, wanted: str) -> str:
    kind = column_kind(table.column(name))
    if kind in {"dates", "objects"}:
        what = "dates or times" if kind == "dates" else "objects such as lists or bytes"
        raise DataError(
            f"Column {name!r} of {table.source} must hold {wanted}, got {what}. Convert it to numbers or text, or drop"
            f" it: --drop {shlex.quote(name)}"
        )
    return kind


def _values_of_rows(cells: Cells, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map the numbers of the distinct texts to all rows; NaN for missing cells."""
    return np.append(values, np.nan)[cells.codes]


def empty_cell_message(name: str) -> str:
    """Return a message about an empty cell in a column that had none in training."""
    return f"column {name!r} is empty, which did not occur in training"


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def column_from_json(data: object) -> NumberColumn | CategoryColumn:
    """Restore a column from the output of its ``to_json``.

    Raises:
        DataError: ``data`` is not a valid column.
    """
    what = "column"
    kind, name = saved_entry(data, "kind", str, what), saved_entry(data, "name", str, what)
    missing = saved_entry(data, "missing", bool, what)
    column: NumberColumn | CategoryColumn
    if kind == "number":
        mean, std = (float(saved_entry(data, entry, (float, int), what)) for entry in ("mean", "std"))
        if std < 0:
            raise DataError(f"'std' of the saved column {name!r} must not be negative, got {std}.")
        limits = Range.from_json(data["range"]) if isinstance(data, Mapping) and "range" in data else None
        column = NumberColumn(name, mean, std, missing, limits)
    elif kind == "category":
        values = saved_entry(data, "values", list, what)
        if not all(isinstance(value, str) for value in values) or values != sorted(set(values)):
            raise DataError(f"'values' of the saved column {name!r} must be distinct texts in ascending order.")
        column = CategoryColumn(name, tuple(values), missing)
    else:
        raise DataError(f"'kind' of the saved column {name!r} must be 'number' or 'category', got {kind!r}.")
    if not column.features:
        raise DataError(f"The saved column {name!r} must have at least one feature, got none.")
    return column
