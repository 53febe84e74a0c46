"""Weights and strata of calibration rows: from a column or an array to one number or name for each row that is used."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squad.data.array_transform import ArrayTransform
from squad.data.cells import parse_numbers
from squad.data.tables import Table, labels
from squad.errors import ArgumentError
from squad.selective.scored_cases import as_array, as_groups

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["sample_of"]


def sample_of(predictor: "Predictor", x: Any, kept: NDArray[np.bool_], sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of :func:`squad.selective.resampling.resample`, with weights and strata of the rows that are used.

    Args:
        predictor: the model.
        x: all rows, as it takes them.
        kept: (rows,), which of them are used.
        sample: weights and strata as arrays of one entry per row, or the names of columns of ``x``; and the rest.
    """
    found = dict(sample)
    for name in ("weights", "strata"):
        value = found.get(name)
        if isinstance(value, str):
            found[name] = _column(predictor, x, name, value, kept)
        elif value is not None:
            given = (as_groups if name == "strata" else as_array)(name, value)
            if given.shape != kept.shape:
                raise ArgumentError.of(name, f"the shape {given.shape}", f"of shape {kept.shape}, one per row")
            found[name] = given[kept]
    return found


def _column(predictor: "Predictor", x: Any, name: str, column: str, kept: NDArray[np.bool_]) -> NDArray[Any]:
    rows = predictor.checked(x)
    if not isinstance(rows, Table):
        raise ArgumentError.of(name, repr(column), "one entry per row: an array has no columns")
    texts = labels(rows, column, strict=False)
    if empty := int((texts[kept] == "").sum()):
        raise ArgumentError.of(
            name, f"{empty:,} rows where column {column!r} is empty", "given for every row that is used"
        )
    if name == "strata":
        return texts[kept]
    if column in _features(predictor):
        hint = f"Fit without it (--drop {column}): a weight says how a row was sampled, and is no feature of a case."
        raise ArgumentError.of(name, repr(column), "a column that the model does not use as a feature", hint)
    numbers = parse_numbers([str(text) for text in texts[kept].tolist()])
    if np.isnan(numbers).any():
        first = texts[kept][int(np.flatnonzero(np.isnan(numbers))[0])]
        raise ArgumentError.of(name, f"{str(first)[:40]!r} in column {column!r}", "numbers")
    return numbers


def _features(predictor: "Predictor") -> list[str]:
    transform = predictor.transform
    if isinstance(transform, ArrayTransform):
        return list(transform.names or ())
    return [column.name for column in transform.columns]
