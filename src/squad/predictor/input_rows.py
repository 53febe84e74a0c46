"""Rows and labels in the form that a model takes: columns by name, shapes checked, labels as positions of classes."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from squad.data.array_transform import ArrayTransform
from squad.data.column_names import format_names
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError, DataError, SquadWarning

__all__ = ["Label", "check_classes", "class_positions", "column_names", "input_rows", "is_frame"]

#: Types of class labels; JSON stores them without loss.
Label = str | int | float | bool

#: Maximum number of known and of unknown labels listed in an error message.
MAX_KNOWN_SHOWN, MAX_UNKNOWN_SHOWN = 8, 5


def input_rows(transform: TableTransform | ArrayTransform, x: Any) -> Any:
    """Return ``x`` as the transform takes it: a table or an array whose rows can be sliced.

    Args:
        transform: Input transform of the model.
        x: Data frame, table or array; columns of a data frame may come in any order.
    """
    if isinstance(transform, ArrayTransform) and transform.names is None:
        return _array(transform, x)
    if not isinstance(x, Table):
        if not is_frame(x):
            if isinstance(transform, ArrayTransform):
                _warn_about_names("x has no column names, but the model was fitted with them")
                return _array(transform, x)
            raise ArgumentError(
                f"This model was trained on a table and needs a pandas.DataFrame with the same columns, got"
                f" {type(x).__name__}. pandas.DataFrame(x, columns=[...]) names the columns of an array."
            )
        x = Table.of(x if hasattr(x, "iloc") else x.to_pandas())
    transform.apply(x[:0])  # raises an error that names missing columns
    return x


def _array(transform: ArrayTransform, x: Any) -> Any:
    """Return rows of a model that was fitted on arrays; columns are taken by position."""
    if isinstance(x, Table):
        transform.apply(x)  # raises an error that says what is wrong
    if is_frame(x) and (columns := list(x.columns)) != list(range(len(columns))):
        if sorted(columns, key=str) == sorted(range(len(columns)), key=str) and hasattr(x, "iloc"):
            x = x[list(range(len(columns)))]  # the names are positions, in another order
        else:
            _warn_about_names("x has column names, but the model was fitted without any")
    if not isinstance(x, (np.ndarray, torch.Tensor)):
        try:
            x = np.asarray(x)
        except (TypeError, ValueError) as cause:
            reason = str(cause).splitlines()[0]
            raise ArgumentError.of("x", type(x).__name__, "an array of numbers", reason) from cause
    if tuple(x.shape[1:]) != transform.shape:
        transform.apply(x)  # raises an error that says what is wrong, even if there are no rows
    return x


def is_frame(x: Any) -> bool:
    """Return whether ``x`` is a pandas data frame, or converts to one with ``to_pandas``; does not import pandas."""
    return hasattr(x, "columns") and (hasattr(x, "iloc") or hasattr(x, "to_pandas"))


def column_names(x: Any) -> list[str] | None:
    """Return the column names of a data frame as text, or None if it has only the default names 0, 1, 2, ..."""
    if not is_frame(x) or list(x.columns) == list(range(len(x.columns))):
        return None
    names = [str(name) for name in x.columns]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"Column names of X must be unique; repeated: {format_names(repeated)}. Rename these columns.")
    return names


def _warn_about_names(what: str) -> None:
    text = f"{what}: columns are taken in the order of training."
    warnings.warn(text, SquadWarning, stacklevel=5)


def class_positions(classes: Sequence[Any], labels: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label among the classes, (N,); an unknown label is an error.

    Args:
        classes: Classes of the model.
        labels: (N,), labels.  A label matches a class as it is, as text, or as a number: 5, 5.0 and "5.0" are equal.
    """
    positions = {name: position for position, name in enumerate(classes)}
    as_text = {str(name): position for name, position in positions.items()}
    as_number = {_number(name): position for name, position in positions.items()}
    if np.ndim(labels) != 1:
        raise ArgumentError.of("labels", f"shape {np.shape(labels)}", "one-dimensional, one label per row")
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    found = [positions.get(value, as_text.get(str(value), as_number.get(_number(value), -1))) for value in values]
    unknown = sorted({str(value) for value, position in zip(values, found, strict=True) if position < 0})
    if unknown:
        known = ", ".join(map(str, classes[:MAX_KNOWN_SHOWN])) + (", ..." if len(classes) > MAX_KNOWN_SHOWN else "")
        more = f" and {len(unknown) - MAX_UNKNOWN_SHOWN:,} more" if len(unknown) > MAX_UNKNOWN_SHOWN else ""
        shown = ", ".join(unknown[:MAX_UNKNOWN_SHOWN]) + more
        raise ArgumentError.of("labels", shown, f"among the classes of the training set ({known})")
    return np.array(found, dtype=np.int64)


def check_classes(classes: Sequence[object], count: int) -> None:
    """Check that there are ``count`` different classes, all of them text or all of them numbers."""
    if len(classes) != count:
        raise ArgumentError.of("classes", f"{len(classes)} names", f"one name for each of the {count} classes")
    for name in classes:
        if not isinstance(name, str | int | float | bool) or (isinstance(name, float) and not math.isfinite(name)):
            raise ArgumentError.of("classes", repr(name)[:80], "texts, numbers or booleans")
    if len({isinstance(name, str) for name in classes}) > 1 or len(set(classes)) < count:
        raise ArgumentError.of("classes", repr(list(classes))[:80], "unique, and either all texts or all numbers")


def _number(label: Any) -> float:
    """Return a label as a number, or NaN (which equals nothing)."""
    try:
        return float("nan") if isinstance(label, bool) else float(label)
    except (TypeError, ValueError):
        return float("nan")
