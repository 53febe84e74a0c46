"""Rows in the form that a model takes: columns matched by name, arrays checked for their shape."""

import warnings
from typing import Any

import numpy as np
import torch

from squad.data.array_transform import ArrayTransform
from squad.data.column_names import format_names
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError, DataError, SquadWarning

__all__ = ["column_names", "input_rows", "is_frame"]


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
