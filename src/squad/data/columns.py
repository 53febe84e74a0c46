"""Columns of a table as features: numbers standardized, categories one-hot."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.cells import Cells, column_kind, numbers, parse_numbers, text_cells
from squad.data.encoding import FLOAT32_MAX, moments, saved, standardized
from squad.data.novelty import Range, fit_ranges, range_margin
from squad.data.tables import Table
from squad.errors import DataError

__all__ = ["CategoryColumn", "NumberColumn", "Report", "column_from_json", "fit_column", "read_numbers"]

#: More categories than this are names, dates or free text.
CATEGORIES = 100

#: A text column with a larger share of numbers is a column of numbers with dirt in it; and so is one that is numbers
#: for the larger part, if they are more different ones than a category would have.
DIRT = 0.95
DIFFERENT = 20

#: How a problem is reported: the row's position, and what is wrong with it.
Report = Callable[[int, str], None]

_COMMAS = re.compile(r"[+-]?\d+(,\d+)+(\.\d*)?")


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers.

    Its features: the standardized number (if it varied: std > 0), 0 where missing; and whether it is missing, if it
    ever was in training.

    Attributes:
        name: of the column.
        mean, std: of its numbers in training.
        missing: whether any was missing there.
        range: where its numbers may lie; None leaves that open.
    """

    name: str
    mean: float
    std: float
    missing: bool
    range: Range | None = None

    @property
    def features(self) -> int:
        """How many features it makes."""
        return int(self.std > 0) + int(self.missing)

    def encode(self, table: Table, out: NDArray[np.float32], report: Report, novel: Report) -> None:
        """Write its features (N, features); report rows that cannot be encoded, and those outside its range."""
        values, empty = read_numbers(table, self.name, report)
        if not self.missing:
            for row in np.flatnonzero(empty).tolist():
                report(row, f"column {self.name!r} is empty, and it never was in training")
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
        """As plain data."""
        found = {"kind": "number", "name": self.name, "mean": self.mean, "std": self.std, "missing": self.missing}
        # Models of earlier versions have none: their identity, to which a certificate is bound, must stay the same.
        return found if self.range is None else {**found, "range": self.range.to_json()}


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories.

    Its features: one for each category of training, and one for missing if it ever was.
    """

    name: str
    values: tuple[str, ...]
    missing: bool

    @property
    def features(self) -> int:
        """How many features it makes."""
        return len(self.values) + int(self.missing)

    def encode(self, table: Table, out: NDArray[np.float32], report: Report, novel: Report) -> None:
        """Write its features (N, features); report rows that cannot be encoded (an unseen category is one)."""
        _check_kind(table, self.name, "categories")
        cells = text_cells(table.column(self.name))
        places = {value: place for place, value in enumerate(self.values)}
        # -1: unseen.  The last entry is where missing cells look.
        known = [places.get(value, self._as_boolean(value)) for value in cells.values]
        at = np.asarray([*known, len(self.values) if self.missing else -1], dtype=np.int64)[cells.codes]
        for row in np.flatnonzero(at < 0).tolist():
            if cells.codes[row] < 0:
                report(row, f"column {self.name!r} is empty, and it never was in training")
            else:
                value = _cut(cells.values[cells.codes[row]])
                report(row, f"column {self.name!r} is {value}, which was not seen in training")
        rows = np.flatnonzero(at >= 0)
        out[rows, at[rows]] = 1.0

    def _as_boolean(self, value: str) -> int:
        """Where true and false stand however they are written: one file has words, another has booleans."""
        alike = [place for place, known in enumerate(self.values) if known.casefold() == value.casefold()]
        return alike[0] if len(alike) == 1 and value.casefold() in ("true", "false") else -1

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": "category", "name": self.name, "values": list(self.values), "missing": self.missing}


def read_numbers(
    table: Table, name: str, report: Report, booleans: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A column as numbers (N,), NaN where there is none, and where it is empty; other cells are reported.

    Args:
        table: the rows.
        name: of the column.
        report: what is told of cells that are no finite number.
        booleans: take true and false for 1 and 0.
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
        values = _spread(cells, parsed)
        for row in np.flatnonzero((cells.codes >= 0) & np.isnan(values)).tolist():
            report(row, f"column {name!r} must be a number, got {_cut(cells.values[cells.codes[row]])}")
        empty = cells.codes < 0
    else:
        empty = np.isnan(values)
    for row in np.flatnonzero(np.isinf(values)).tolist():
        report(row, f"column {name!r} must be a finite number, got {values[row]}")
    return values, empty


def fit_column(table: Table, name: str, columns: int | None = None) -> NumberColumn | CategoryColumn | None:
    """What a column is, from the rows of training; None if it is the same in all of them.

    Args:
        table: the rows.
        name: of the column.
        columns: that a row has, by which the margin of its range is set; None fits no range.
    """
    column = table.column(name)
    kind = _check_kind(table, name, "numbers or categories")
    if kind != "boolean":
        values = numbers(column)
        if values is not None:
            return _fit_numbers(table, name, values, columns)
    cells = text_cells(column)
    parsed = parse_numbers(cells.values)
    values = _spread(cells, parsed)
    if kind != "boolean" and not np.isnan(parsed).any():
        return _fit_numbers(table, name, values, columns)
    present = cells.codes >= 0
    if kind != "boolean":
        _check_dirt(table, name, cells, values)
    if len(cells.values) > CATEGORIES:
        raise DataError(
            f"Column {name!r} of {table.source} must be a number or one of at most {CATEGORIES} categories; it has"
            f" {len(cells.values)} different texts, such as {_cut(cells.values[0])}. Leave out names, dates and free"
            f" text: --drop {shlex.quote(name)}"
        )
    found = CategoryColumn(name, tuple(sorted(cells.values)), not present.all())
    return found if found.features > 1 else None


def _fit_numbers(table: Table, name: str, values: NDArray[np.float64], columns: int | None) -> NumberColumn | None:
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise DataError(
            f"Column {name!r} of {table.source} must be finite; it is {values[infinite[0]]} in"
            f" {table.where(infinite[0])} ({len(infinite)} such). Correct it, or leave the cell empty."
        )
    present = ~np.isnan(values)
    if not present.any():
        return None
    kept = values[present][:, None]
    mean, std = moments(lambda: iter([kept]))
    limits = None
    if columns is not None and std[0] > 0:
        margin = range_margin(columns, len(values))
        limits = fit_ranges(lambda: iter([kept]), len(kept), margin, columns)[0]
    found = NumberColumn(name, float(mean[0]), float(std[0]), not present.all(), limits)
    return found if found.features else None


def _check_dirt(table: Table, name: str, cells: Cells, values: NDArray[np.float64]) -> None:
    """A few words among numbers, and numbers with commas: not categories, though they could be read as such."""
    present = cells.codes >= 0
    words = np.flatnonzero(present & np.isnan(values))
    share = 1 - len(words) / present.sum()
    first = "; ".join(f"{_cut(cells.values[cells.codes[row]])} in {table.where(row)}" for row in words[:3])
    different = len(np.unique(values[present & ~np.isnan(values)]))
    if share > DIRT or (share > 0.5 and different > DIFFERENT):
        cell = "1 cell that is no number" if len(words) == 1 else f"{len(words)} cells that are none"
        raise DataError(
            f"Column {name!r} of {table.source} has {present.sum() - len(words)} numbers and {cell}: {first}."
            f" Correct them, leave them empty, or leave the column out: --drop {shlex.quote(name)}"
        )
    commas = sum(1 for row in words if _COMMAS.fullmatch(cells.values[cells.codes[row]]))
    if commas > DIRT * len(words) and len(cells.values) > 2:
        raise DataError(
            f"Column {name!r} of {table.source} must have numbers with a decimal point and no other marks; it has"
            f" commas: {first}. Say --decimal , if these are decimal commas; otherwise write 1000 rather than 1,000."
        )


def _check_kind(table: Table, name: str, wanted: str) -> str:
    kind = column_kind(table.column(name))
    if kind in {"dates", "objects"}:
        what = "dates or times" if kind == "dates" else "objects such as lists or bytes"
        raise DataError(
            f"Column {name!r} of {table.source} must hold {wanted}; it holds {what}. Convert it to a number or to text,"
            f" or leave it out: --drop {shlex.quote(name)}"
        )
    return kind


def _spread(cells: Cells, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers of the different texts to all rows, NaN to missing ones."""
    return np.append(values, np.nan)[cells.codes]


def _cut(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def column_from_json(data: object) -> NumberColumn | CategoryColumn:
    """What ``to_json`` made, checked."""
    what = "column"
    kind, name = saved(data, "kind", str, what), saved(data, "name", str, what)
    missing = saved(data, "missing", bool, what)
    column: NumberColumn | CategoryColumn
    if kind == "number":
        mean, std = (float(saved(data, entry, (float, int), what)) for entry in ("mean", "std"))
        if std < 0:
            raise DataError(f"'std' of the saved column {name!r} must not be negative, got {std}.")
        limits = Range.from_json(data["range"]) if isinstance(data, Mapping) and "range" in data else None
        column = NumberColumn(name, mean, std, missing, limits)
    elif kind == "category":
        values = saved(data, "values", list, what)
        if not all(isinstance(value, str) for value in values) or values != sorted(set(values)):
            raise DataError(f"'values' of the saved column {name!r} must be texts in order, each once.")
        column = CategoryColumn(name, tuple(values), missing)
    else:
        raise DataError(f"'kind' of the saved column {name!r} must be 'number' or 'category', got {kind!r}.")
    if not column.features:
        raise DataError(f"The saved column {name!r} must make at least one feature; it makes none.")
    return column
