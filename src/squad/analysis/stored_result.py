"""Results that can be saved as JSON and loaded again, so that figures can be redrawn from saved data."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self, get_args, get_origin, get_type_hints

import numpy as np

from squad.errors import ArgumentError
from squad.files.plain import plain_json

__all__ = ["Plain"]


class Plain:
    """Base of frozen dataclasses whose fields are numbers, texts, numpy arrays, or tuples of such dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types; arrays become lists."""
        return {name: plain_json(value, nonfinite=True) for name, value in vars(self).items()}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild an instance from the output of :meth:`to_dict`.

        Args:
            data: Fields by name, as parsed JSON.

        Returns:
            The instance, with arrays and nested instances restored.
        """
        types = get_type_hints(cls)
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        if set(names) != set(data):
            raise ArgumentError(
                f"A saved {cls.__name__} must have the fields {', '.join(names)}, got {', '.join(sorted(data))}."
            )
        return cls(**{name: _from_json(types[name], data[name]) for name in names})


def _from_json(annotation: Any, value: Any) -> Any:
    """Convert ``value`` to the type given by the annotation of its field."""
    if get_origin(annotation) is np.ndarray:
        (dtype,) = get_args(get_args(annotation)[1])
        return np.asarray(value, dtype=dtype)
    if get_origin(annotation) is tuple:
        return tuple(_from_json(get_args(annotation)[0], item) for item in value)
    return annotation.of(value) if isinstance(annotation, type) and issubclass(annotation, Plain) else value
