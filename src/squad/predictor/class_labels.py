"""Class labels: which ones a model can have, and the position of each label among its classes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.errors import ArgumentError

__all__ = ["Label", "check_classes", "class_positions"]

#: Types of class labels; JSON stores them without loss.
Label = str | int | float | bool

#: Maximum number of known and of unknown labels listed in an error message.
MAX_KNOWN_SHOWN, MAX_UNKNOWN_SHOWN = 8, 5


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
