"""Groups that have a threshold each: 1, "1" and True are three, unless only one of them is known."""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ByGroup", "group_codes", "group_key", "plain"]

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


def group_codes(groups: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """The groups in their order, each once and plain; and the place of each case's among them, (N,)."""
    keys = [group_key(group) for group in groups.tolist()]
    every = sorted(set(keys))
    places = {key: place for place, key in enumerate(every)}
    return [group for _, group in every], np.array([places[key] for key in keys], dtype=np.int64)


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
            texts.setdefault(_as_text(group), []).append(value)
        self._texts = {text: found[0] for text, found in texts.items() if len(found) == 1}

    def find(self, group: Any) -> Value | None:
        """What belongs to the group; None if it is not known."""
        key = group_key(group)
        return self._exact[key] if key in self._exact else self._texts.get(_as_text(key[1]))


def _as_text(group: Any) -> str:
    """A group as a file may have it: a column of whole numbers with one missing is written as 1.0, 2.0, ..."""
    text = str(group)
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and text.strip().lstrip("-").replace(".", "").isdigit() else text
