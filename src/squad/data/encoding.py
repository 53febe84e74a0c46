"""Shared parts of the transforms: their result, mean and standard deviation, and reading saved settings."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.errors import DataError

__all__ = ["FLOAT32_MAX", "Encoded", "Reasons", "mean_and_std", "saved_entry", "standardized"]

#: Largest finite float32.
FLOAT32_MAX = float(np.finfo(np.float32).max)

#: Maximum number of reasons listed for one row.
MAX_REASONS_SHOWN = 3

#: Standard deviations below this count as 0, since dividing by them would overflow.
MIN_STD = 1e-300


@dataclass(frozen=True)
class Encoded:
    """Encoded rows: the network's inputs.

    Attributes:
        x: (N, features), float32, finite; rows with a problem are all zeros.
        problems: Reasons why rows cannot be used, by row position.
        novel: Reasons why rows are unlike the training rows, by row position; excludes rows with a problem.
    """

    x: NDArray[np.float32]
    problems: dict[int, str] = field(default_factory=dict)
    novel: dict[int, str] = field(default_factory=dict)


class Reasons:
    """Collects problems of rows, column by column.

    Attributes:
        by_row: Reasons by row position, in the order they were added.
    """

    def __init__(self) -> None:
        self.by_row: dict[int, list[str]] = {}

    def add(self, row: int, reason: str) -> None:
        """Add a reason for a row.

        Args:
            row: Position of the row.
            reason: Problem of the row.
        """
        self.by_row.setdefault(int(row), []).append(reason)

    def messages(self, without: Mapping[int, str] | None = None) -> dict[int, str]:
        """Return one message per row, by ascending row position.

        Args:
            without: Rows to leave out, by position.
        """
        rows = sorted(self.by_row.keys() - (without or {}).keys())
        return {row: _join(self.by_row[row]) for row in rows}


def _join(reasons: list[str]) -> str:
    more = f"; and {len(reasons) - MAX_REASONS_SHOWN} more" if len(reasons) > MAX_REASONS_SHOWN else ""
    return "; ".join(reasons[:MAX_REASONS_SHOWN]) + more


def mean_and_std(
    blocks: Callable[[], Iterator[NDArray[Any]]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute mean and standard deviation of each column, in float64, in three passes.

    Values are scaled by a power of two, so that neither 1e308 overflows nor 1e-200 underflows.

    Args:
        blocks: Function that iterates over blocks of rows (rows, columns), all finite; called three times.

    Returns:
        Mean and standard deviation, (columns,) each; the standard deviation of a constant column is 0.
    """
    low = np.asarray(math.inf)
    high = np.asarray(-math.inf)
    count = 0
    for block in blocks():
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        count += len(block)
    low, high = low.astype(np.float64), high.astype(np.float64)
    _, exponent = np.frexp(np.maximum(np.abs(low), np.abs(high)))
    mean = _sum(np.ldexp(block.astype(np.float64), -exponent) for block in blocks()) / count
    squares = _sum((np.ldexp(block.astype(np.float64), -exponent) - mean) ** 2 for block in blocks())
    std = np.ldexp(np.sqrt(squares / count), exponent)
    constant = (low == high) | (std < MIN_STD)
    # Rounding must not move the mean outside the data; that of a constant column is exactly its value.
    return np.clip(np.ldexp(mean, exponent), low, high), np.where(constant, 0.0, std)


def _sum(blocks: Iterator[NDArray[np.float64]]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = np.asarray(0.0)
    for block in blocks:
        total = total + block.sum(axis=0)
    return total


def standardized(
    values: NDArray[np.float64], mean: NDArray[np.float64] | float, std: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return ``(values - mean) / std``, and 0 where std is 0.

    Computed with halves, since the difference can overflow.

    Args:
        values: Numbers, any shape.
        mean: Mean, broadcastable to the shape of ``values``.
        std: Standard deviation, broadcastable to the shape of ``values``.

    Returns:
        Standardized numbers of the same shape.

    Examples:
        >>> standardized(np.array([1.0, 3.0]), 2.0, 0.5).tolist()
        [-2.0, 2.0]
    """
    std = np.asarray(std)
    with np.errstate(over="ignore", invalid="ignore"):
        z = (0.5 * values - 0.5 * np.asarray(mean)) / np.where(std > 0, 0.5 * std, 1.0)
    return np.where(std > 0, z, 0.0)


def saved_entry(data: object, name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """Read an entry of saved settings and check its type.

    Args:
        data: A parsed JSON object.
        name: Name of the entry.
        kind: Allowed types; a bool does not count as a number, and numbers must be finite.
        what: Kind of object, for error messages.

    Returns:
        The value.

    Raises:
        DataError: The entry is missing or has another type.
    """
    if not isinstance(data, Mapping):
        raise DataError(f"A saved {what} must be a JSON object, got {_shorten(data)}.")
    if name not in data:
        raise DataError(f"A saved {what} must have the entry {name!r}, got {_shorten(sorted(map(str, data)))}.")
    value = data[name]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    finite = not isinstance(value, float) or math.isfinite(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds) or not finite:
        allowed = " or ".join(_TYPE_NAMES[one] for one in kinds)
        raise DataError(f"{name!r} of a saved {what} must be {allowed}, got {_shorten(value)}.")
    return value


_TYPE_NAMES = {str: "text", bool: "true or false", int: "an integer", float: "a finite number", list: "a list"}


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
