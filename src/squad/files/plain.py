"""Values as plain Python data, which JSON and TOML can hold: no numpy types."""

import math
import numbers
from collections.abc import Mapping
from typing import Any

from squad.errors import ArgumentError

__all__ = ["plain_json", "plain_settings"]


def plain_json(value: Any) -> Any:
    """Return data that JSON can hold: dicts, lists, text, numbers, booleans and None.

    Arrays and tuples become lists, keys become text, objects with ``to_dict`` become dicts, and numbers that are not
    finite become None.

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
        return {str(name): plain_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    if hasattr(value, "tolist"):  # numpy's numbers, booleans and arrays
        return plain_json(value.tolist())
    if hasattr(value, "to_dict"):
        return plain_json(value.to_dict())
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    raise ArgumentError(f"{value!r} ({type(value).__name__}) cannot be stored as JSON. Use plain Python data.")


def plain_settings(value: Any) -> Any:
    """Return a setting without numpy types; lists and arrays become tuples.

    Examples:
        >>> import numpy as np
        >>> plain_settings([np.int64(32), np.array([0.5, 1.0])])
        (32, (0.5, 1.0))
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(plain_settings(item) for item in value) if isinstance(value, (tuple, list)) else value
