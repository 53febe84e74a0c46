"""Weights and strata of the calibration rows: from a column or an array to one entry per used row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.array_transform import ArrayTransform
from squad.data.cells import parse_numbers
from squad.data.tables import Table, labels
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError
from squad.selective.scored_cases import as_array, as_groups

__all__ = ["sampling_design"]


def sampling_design(
    transform: TableTransform | ArrayTransform, rows: Any, used: NDArray[np.bool_], sample: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of :func:`squad.selective.resampling.resample`, for the used rows.

    Args:
        transform: Input transform of the model.
        rows: All rows.
        used: (rows,), which of them are used.
        sample: Weights and strata as arrays with an entry per row, or as names of columns; and the other arguments.
    """
    found = dict(sample)
    for name in ("weights", "strata"):
        value = found.get(name)
        if isinstance(value, str):
            found[name] = _column(transform, rows, name, value, used)
        elif value is not None:
            given = (as_groups if name == "strata" else as_array)(name, value)
            if given.shape != used.shape:
                raise ArgumentError.of(name, f"shape {given.shape}", f"of shape {used.shape}, one entry per row")
            found[name] = given[used]
    return found


def _column(
    transform: TableTransform | ArrayTransform, rows: Any, name: str, column: str, used: NDArray[np.bool_]
) -> NDArray[Any]:
    """Return a column of the used rows: text for strata, numbers for weights."""
    if not isinstance(rows, Table):
        raise ArgumentError(f"An array has no column {column!r}. Pass {name} as an array with one entry per row.")
    texts = labels(rows, column, strict=False)
    if empty := int((texts[used] == "").sum()):
        raise ArgumentError(
            f"{name} must be given for every used row; column {column!r} is empty in {empty:,} rows. Fill it in, or"
            " leave such rows out."
        )
    if name == "strata":
        return texts[used]
    if column in _features(transform):
        raise ArgumentError(
            f"{name} must not be a feature of the model, but {column!r} is one: a weight says how a row was sampled."
            f" Fit without it (--drop {column})."
        )
    numbers = parse_numbers([str(text) for text in texts[used].tolist()])
    if np.isnan(numbers).any():
        first = texts[used][int(np.flatnonzero(np.isnan(numbers))[0])]
        raise ArgumentError.of(name, f"{str(first)[:40]!r} in column {column!r}", "numbers")
    return numbers


def _features(transform: TableTransform | ArrayTransform) -> list[str]:
    """Return the names of the model's features."""
    if isinstance(transform, ArrayTransform):
        return list(transform.names or ())
    return [column.name for column in transform.columns]
