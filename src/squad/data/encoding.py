"""What the transforms share: their result, mean and standard deviation, and reading what was saved."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.errors import DataError

__all__ = ["FLOAT32_MAX", "Encoded", "Reasons", "moments", "saved", "standardized"]

#: Beyond this a float32 is infinite.
FLOAT32_MAX = float(np.finfo(np.float32).max)

#: So many reasons are told of one row.
SHOWN = 3

#: Numbers that differ by less than this are the same number: a division by it would be no use.
NARROWEST = 1e-300


@dataclass(frozen=True)
class Encoded:
    """Rows as the network takes them.

    Attributes:
        x: (N, features), float32, finite; a row with a problem is all zeros.
        problems: why a row cannot be used, by its position.
        novel: why a row is unlike those of training, by its position; none of those with a problem.
    """

    x: NDArray[np.float32]
    problems: dict[int, str] = field(default_factory=dict)
    novel: dict[int, str] = field(default_factory=dict)


class Reasons:
    """What is wrong with rows, gathered column by column."""

    def __init__(self) -> None:
        self.found: dict[int, list[str]] = {}

    def add(self, row: int, reason: str) -> None:
        """One more reason for a row."""
        self.found.setdefault(int(row), []).append(reason)

    def told(self, without: Mapping[int, str] | None = None) -> dict[int, str]:
        """One text for each row, in their order, but for some rows."""
        rows = sorted(self.found.keys() - (without or {}).keys())
        return {row: _told(self.found[row]) for row in rows}


def _told(reasons: list[str]) -> str:
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return "; ".join(reasons[:SHOWN]) + more


def moments(
    blocks: Callable[[], Iterator[NDArray[Any]]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation (0 for what never varies) of each column of the blocks, all of them finite.

    In float64, in three passes, and scaled by a power of two, so that neither 1e308 nor 1e-200 gets lost on the way.
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
    constant = (low == high) | (std < NARROWEST)
    # Exactly the value where there is only one, and never outside of what was there.
    return np.clip(np.ldexp(mean, exponent), low, high), np.where(constant, 0.0, std)


def _sum(blocks: Iterator[NDArray[np.float64]]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = np.asarray(0.0)
    for block in blocks:
        total = total + block.sum(axis=0)
    return total


def standardized(
    values: NDArray[np.float64], mean: NDArray[np.float64] | float, std: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """``(values - mean) / std`` element by element, 0 where std is 0.  Halves, since a difference can overflow."""
    std = np.asarray(std)
    with np.errstate(over="ignore", invalid="ignore"):
        z = (0.5 * values - 0.5 * np.asarray(mean)) / np.where(std > 0, 0.5 * std, 1.0)
    return np.where(std > 0, z, 0.0)


def saved(data: object, name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """One entry of what was saved, of its type; a bool is no number, and a number is finite."""
    if not isinstance(data, Mapping):
        raise DataError(f"A saved {what} must be a JSON object, got {_short(data)}.")
    if name not in data:
        raise DataError(f"A saved {what} must have {name!r}; it has {_short(sorted(map(str, data)))}.")
    value = data[name]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    finite = not isinstance(value, float) or math.isfinite(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds) or not finite:
        words = " or ".join(_WORDS[one] for one in kinds)
        raise DataError(f"{name!r} of a saved {what} must be {words}, got {_short(value)}.")
    return value


_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a finite number", list: "a list"}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
