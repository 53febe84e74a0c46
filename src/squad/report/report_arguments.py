"""Checks of the arguments of a report, before anything is predicted."""

import os
from collections.abc import Iterable, Mapping, Set
from typing import Any

from numpy.typing import ArrayLike

from squad.errors import ArgumentError
from squad.predictor import Predictor
from squad.selective.scored_cases import as_groups

__all__ = ["check_groups", "check_models", "check_path", "label_list"]


def check_path(name: str, value: object, hint: str) -> None:
    """Raise an ArgumentError unless ``value`` is a string or a path.

    Args:
        name: Name of the argument, used in the error message.
        value: Value to check.
        hint: A sentence that says what to do.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise ArgumentError.of(name, repr(value)[:80], "a string or a path", hint)


def check_models(predictors: object) -> None:
    """Raise an ArgumentError unless ``predictors`` maps names that look different in the report to models.

    Args:
        predictors: Value to check; may be an empty mapping.
    """
    if not isinstance(predictors, Mapping):
        hint = 'Pass {"my model": predictor}.'
        raise ArgumentError.of("predictors", type(predictors).__name__, "a mapping of names to models", hint)
    keys: dict[str, object] = {}
    for key, predictor in predictors.items():
        if not isinstance(predictor, Predictor):
            hint = "Pass a model from squad.load, or the predictor_ of a fitted estimator."
            raise ArgumentError.of(f"predictors[{key!r}]", type(predictor).__name__, "a Predictor", hint)
        if str(key) in keys:
            raise ArgumentError(
                f"The names {keys[str(key)]!r} and {key!r} in predictors look the same in the report. Give each model"
                " its own name."
            )
        keys[str(key)] = key


def label_list(labels: Any) -> list[Any]:
    """Return labels as a list; an ArgumentError if they have no order or no length.

    Args:
        labels: (N,), an array or a sequence.
    """
    found = labels.tolist() if hasattr(labels, "tolist") else labels
    if isinstance(found, (str, bytes, Mapping, Set)) or not isinstance(found, Iterable):
        raise ArgumentError.of("labels", repr(labels)[:80], "a sequence", "Pass one true label per row of x.")
    return list(found)


def check_groups(by: ArrayLike | None, count: int) -> None:
    """Raise an ArgumentError unless there is one group per row, also if no model uses the groups.

    Args:
        by: (N,), group of each row; None without groups.
        count: Number of rows.
    """
    if by is not None and (shape := as_groups("by", by).shape) != (count,):
        raise ArgumentError.of("by", f"shape {shape}", f"of shape ({count},), one group per row")
