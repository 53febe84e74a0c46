"""Conversion of values to plain data, as it is stored in JSON."""

import math
import numbers
from collections.abc import Mapping
from typing import Any

from squad.errors import ArgumentError

__all__ = ["to_plain"]


def to_plain(value: Any) -> Any:
    """Convert a value to data that JSON can store.

    Tuples become lists, NumPy scalars become Python numbers, and numbers that are not finite become None.

    Raises:
        ArgumentError: The value, or one inside it, has no JSON equivalent.
    """
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(each) for each in value]
    if value is None or isinstance(value, (str, bool)):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # a NumPy scalar
        return to_plain(value.item())
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    raise ArgumentError.of("a value of a record", f"{value!r} ({type(value).__name__})", "plain data")
