"""Results as plain data: what a figure is drawn from can be kept in JSON, and drawn again from there."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self, get_args, get_origin, get_type_hints

import numpy as np

from squad.errors import ArgumentError

__all__ = ["Plain"]


class Plain:
    """A frozen dataclass of numbers, text, numpy arrays and tuples of its like."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: arrays are lists."""
        return {name: _plain(value) for name, value in vars(self).items()}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_dict` made."""
        kinds = get_type_hints(cls)
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        if set(names) != set(data):
            raise ArgumentError.of(f"a saved {cls.__name__}", ", ".join(sorted(data)), f"of {', '.join(names)}")
        return cls(**{name: _made(kinds[name], data[name]) for name in names})


def _plain(value: Any) -> Any:
    if isinstance(value, Plain):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _made(kind: Any, value: Any) -> Any:
    """``value`` as the annotation of its field says."""
    if get_origin(kind) is np.ndarray:
        (number,) = get_args(get_args(kind)[1])
        return np.asarray(value, dtype=number)
    if get_origin(kind) is tuple:
        return tuple(_made(get_args(kind)[0], item) for item in value)
    return kind.of(value) if isinstance(kind, type) and issubclass(kind, Plain) else value
