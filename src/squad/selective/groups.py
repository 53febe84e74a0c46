"""Groups with a threshold each: 1, "1" and True are three different groups, unless only one of them is known."""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ByGroup", "group_codes", "group_key", "plain_group"]

Value = TypeVar("Value")


def plain_group(value: Any) -> Any:
    """Return a group as JSON stores it; 1.0 becomes 1.

    Examples:
        >>> plain_group(np.float64(1.0)), plain_group("a")
        (1, 'a')
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def group_key(group: Any) -> tuple[str, Any]:
    """Return a key that distinguishes and sorts groups: Python considers 1 and True equal.

    Examples:
        >>> group_key(1), group_key(True)
        (('int', 1), ('bool', True))
    """
    value = plain_group(group)
    return type(value).__name__, value


def group_codes(groups: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct groups, sorted and as plain data, and the index of each case's group, (N,).

    Examples:
        >>> names, codes = group_codes(np.array(["b", "a", "b"]))
        >>> names, codes.tolist()
        (['a', 'b'], [1, 0, 1])
    """
    keys = [group_key(group) for group in groups.tolist()]
    every = sorted(set(keys))
    indices = {key: index for index, key in enumerate(every)}
    return [group for _, group in every], np.array([indices[key] for key in keys], dtype=np.int64)


class ByGroup(Generic[Value]):
    """Values by group, looked up by the group itself, or by its text where that is unambiguous.

    The same group may come from a file, where everything is text, or from an array.

    Args:
        values: Pairs of group and value.

    Examples:
        >>> thresholds = ByGroup([(1, 0.9), (2, 0.8)])
        >>> thresholds.find("1"), thresholds.find(3)
        (0.9, None)
    """

    def __init__(self, values: Iterable[tuple[Any, Value]]) -> None:
        self._exact: Mapping[Any, Value] = {group_key(group): value for group, value in values}
        texts: dict[str, list[Value]] = {}
        for (_, group), value in self._exact.items():
            texts.setdefault(_as_text(group), []).append(value)
        self._texts = {text: found[0] for text, found in texts.items() if len(found) == 1}

    def find(self, group: Any) -> Value | None:
        """Return the value of a group; None if the group is unknown."""
        key = group_key(group)
        return self._exact[key] if key in self._exact else self._texts.get(_as_text(key[1]))


def _as_text(group: Any) -> str:
    """Return a group as a file may contain it: an integer column with missing values is written as 1.0, 2.0, ..."""
    text = str(group)
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and text.strip().lstrip("-").replace(".", "").isdigit() else text
