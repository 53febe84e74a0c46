"""Values as plain Python data, which JSON and TOML can hold: no numpy types."""

import math
import numbers
from collections.abc import Mapping
from typing import Any

from squad.errors import ArgumentError

__all__ = ["plain_json", "plain_settings"]


def plain_json(value: Any, *, nonfinite: bool = False) -> Any:
    """Return data that JSON can hold: dicts, lists, text, numbers, booleans and None.

    Arrays and tuples become lists, keys become text, objects with ``to_dict`` become dicts, and numbers that are not
    finite become None.

    Args:
        value: The value.
        nonfinite: Keep NaN and infinity, which Python's JSON can read but others cannot.

    Raises:
        ArgumentError: Something is not plain data.

    Examples:
        >>> import numpy as np
        >>> plain_json({"a": np.array([1.5, np.nan]), 2: (True, np.int64(3))})
        {'a': [1.5, None], '2': [True, 3]}
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain_json(item, nonfinite=nonfinite) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item, nonfinite=nonfinite) for item in value]
    if _is_numpy(value):
        return plain_json(value.tolist(), nonfinite=nonfinite)
    if hasattr(value, "to_dict"):
        return plain_json(value.to_dict(), nonfinite=nonfinite)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if nonfinite or math.isfinite(value) else None
    raise ArgumentError(f"{value!r} ({type(value).__name__}) cannot be stored as JSON. Use plain Python data.")


def plain_settings(value: Any) -> Any:
    """Return a setting without numpy types; lists and arrays become tuples.

    Examples:
        >>> import numpy as np
        >>> plain_settings([np.int64(32), np.array([0.5, 1.0])])
        (32, (0.5, 1.0))
    """
    if _is_numpy(value):
        value = value.tolist()
    return tuple(plain_settings(item) for item in value) if isinstance(value, (tuple, list)) else value


def _is_numpy(value: Any) -> bool:
    """Return whether a value is an array or a number of numpy; does not import numpy."""
    return type(value).__module__ == "numpy"
