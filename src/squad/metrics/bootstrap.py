"""An interval for any metric: what it would have been on other cases of the same kind."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.core.checks import check_count, check_number
from squad.errors import ArgumentError
from squad.metrics.inputs import Values, check_array

__all__ = ["Interval", "bootstrap"]


@dataclass(frozen=True)
class Interval:
    """A number and how far to trust it.

    Attributes:
        value: the metric of the cases themselves.
        low, high: the interval.
        undefined: how many resamples had no value (NaN) and were left out, such as those without an error.
    """

    value: float
    low: float
    high: float
    undefined: int = 0


def bootstrap(
    metric: Callable[..., float],
    *arrays: Values,
    level: float = 0.95,
    repeats: int = 1000,
    seed: int = 0,
    paired: bool = True,
) -> Interval:
    """A metric with its percentile bootstrap interval: rows are drawn again, with replacement, as many as there are.

    The interval is about the choice of rows: the model is taken as it is.  It is approximate, and too narrow for a
    handful of rows.  Where no error was seen it may be a single point, which says little: ask for a certificate
    instead.  For ECE it lies too high, since drawing adds noise, and noise adds to ECE.

    Args:
        metric: takes the arrays, returns a number.  Further arguments by ``functools.partial``.
        arrays: (N, ...) each, the rows along the first axis.
        level: the chance of the interval to cover the truth, about.
        repeats: how many times rows are drawn.
        seed: of the draws: the same for the same rows, whatever the metric.
        paired: whether row i of one array belongs to row i of the others, and is drawn with them.  If not, as with
            scores inside and outside of a distribution, each array is drawn by itself, and lengths may differ.

    >>> from squad.metrics import accuracy
    >>> found = bootstrap(accuracy, [[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.3, 0.7]], [0, 1, 0, 0])
    >>> found.value, found.low, found.high
    (0.75, 0.25, 1.0)
    """
    rows = [check_array(f"array {i + 1}", array) for i, array in enumerate(arrays)]
    if not rows:
        raise ArgumentError("bootstrap must be given one array at least after the metric; got none.")
    sizes = [_length(i, array) for i, array in enumerate(rows)]
    if paired and len(set(sizes)) > 1:
        hint = "With paired=False each is drawn by itself."
        raise ArgumentError.of("arrays", ", ".join(map(str, sizes)) + " rows", "of equal length", hint)
    level = check_number("level", level, 0, 1, exclude=0)
    draws = np.random.default_rng(check_count("seed", seed, 0))
    values = np.empty(check_count("repeats", repeats, 1))
    value = _number(metric, rows)
    for turn in range(len(values)):
        if paired:
            picks = [draws.integers(sizes[0], size=sizes[0])] * len(rows)
        else:
            picks = [draws.integers(size, size=size) for size in sizes]
        values[turn] = _number(metric, [array[pick] for array, pick in zip(rows, picks, strict=True)])
    known = values[~np.isnan(values)]
    low = high = math.nan
    if len(known):
        low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Interval(value, low, high, len(values) - len(known))


def _length(place: int, array: NDArray[Any]) -> int:
    if not array.ndim:
        hint = "Arguments that are no rows go into the metric by functools.partial."
        raise ArgumentError.of(f"array {place + 1}", f"the number {array}", "an array of rows", hint)
    return len(array)


def _number(metric: Callable[..., float], rows: list[NDArray[Any]]) -> float:
    found = metric(*rows)
    try:
        return float(found)
    except (TypeError, ValueError) as cause:
        raise ArgumentError.of("metric", type(found).__name__, "a function that returns one number") from cause
