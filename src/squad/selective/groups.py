"""Groups that have a threshold each: 1, "1" and True are three, unless only one of them is known."""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

__all__ = ["ByGroup", "group_key", "plain"]

Value = TypeVar("Value")


def plain(value: Any) -> Any:
    """A group as JSON keeps it; 1.0 is 1."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def group_key(group: Any) -> tuple[str, Any]:
    """What a group is told apart, and sorted, by: Python takes 1 and True for equal."""
    value = plain(group)
    return type(value).__name__, value


class ByGroup(Generic[Value]):
    """Something for each group, found by the group itself, or by its text where that leaves no doubt.

    A group may come from a file on one day, where everything is text, and from an array on another.

    Args:
        values: by group.
    """

    def __init__(self, values: Iterable[tuple[Any, Value]]) -> None:
        self._exact: Mapping[Any, Value] = {group_key(group): value for group, value in values}
        texts: dict[str, list[Value]] = {}
        for (_, group), value in self._exact.items():
            texts.setdefault(str(group), []).append(value)
        self._texts = {text: found[0] for text, found in texts.items() if len(found) == 1}

    def find(self, group: Any) -> Value | None:
        """What belongs to the group; None if it is not known."""
        key = group_key(group)
        return self._exact[key] if key in self._exact else self._texts.get(str(key[1]))
