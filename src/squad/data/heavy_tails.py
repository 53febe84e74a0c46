"""How far the numbers of a column may yet reach: its tail, extrapolated beyond the largest number of few rows.

Of 40 rows the largest is exceeded by one in forty of those to come, and where tails are heavy by a factor, not by a
little.  The upper part of a column is taken as log-normal: its numbers, counted from 0 or from the median, have
logarithms like the upper half of a bell, whose width is estimated from them.  Few rows estimate it badly, for which
Student's t allows.  The limit lies beyond the largest number by as much as the quantile that one honest row in so many
exceeds lies beyond the one that one row in N does; with enough rows that is nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from squad.data.splits import row_order

__all__ = ["reach"]

#: Rows, at the most, that the width of a tail is estimated from; and numbers, so that memory stays bounded.
MOST_ROWS, MOST_NUMBERS = 2000, 1 << 22

#: Numbers of an upper part, at the least: fewer say nothing.
LEAST = 5

#: The largest logarithm of a factor; beyond it a column has no limit on that side anyway.
LARGEST = 600.0

Array = NDArray[np.float64]


def reach(
    blocks: Callable[[], Iterator[NDArray[Any]]], rows: int, low: Array, high: Array, near: float, share: float
) -> tuple[Array, Array]:
    """How far each column may reach down and up: (columns,) each, infinite where its rows do not tell.

    Args:
        blocks: finite numbers in blocks of rows: (rows, columns), or (rows, pixels, columns).
        rows: how many there are.
        low: the smallest number of each column.
        high: the largest.
        near: a column without negative numbers counts from 0 if its smallest is within this share of its width from 0.
        share: of honest rows that may lie beyond each limit.
    """
    if share * rows >= 1:  # the largest number is as far out as the limit
        return np.full(low.shape, np.inf), np.full(low.shape, -np.inf)
    smallest, largest = _sample(blocks(), rows, len(low))
    with np.errstate(all="ignore"):  # numbers near the largest there are: no limit
        zero = (low >= 0) & (low <= near * (high - low))
        up = _upper(largest, high, zero, rows, share)
        down = -_upper(-smallest, -low, np.zeros_like(zero), rows, share)
    return down, up


def _sample(blocks: Iterator[NDArray[Any]], rows: int, columns: int) -> tuple[Array, Array]:
    """The smallest and the largest number of some rows in each column: (sampled rows, columns) each."""
    chosen = np.zeros(rows, dtype=np.bool_)
    chosen[row_order(rows)[: min(MOST_ROWS, max(200, MOST_NUMBERS // max(columns, 1)))]] = True
    low, high, start = [], [], 0
    for block in blocks:
        part = block[chosen[start : start + len(block)]]
        start += len(block)
        if part.ndim == 3:
            low.append(part.min(1).astype(np.float64))
            high.append(part.max(1).astype(np.float64))
        else:
            low.append(part.astype(np.float64))
            high.append(low[-1])
    return np.concatenate(low), np.concatenate(high)


def _upper(x: Array, high: Array, zero: NDArray[np.bool_], rows: int, share: float) -> Array:
    """The upper limit of each column, from sampled rows and the largest number of all; -inf where unknown."""
    median = np.median(x, 0)
    base = np.where(zero & (median > 0), 0.0, median)
    above = np.where(x > base, x - base, np.nan)
    known = np.isfinite(above).any(0)
    # The median of what is above the base: above 0 that is (nearly) all, above the median a half of it.
    anchor = np.nanmedian(np.where(known, above, 1.0), 0)
    logs = np.log(np.where(above >= anchor, above, anchor) / anchor)
    count = (above >= anchor).sum(0)
    width = np.sqrt((logs**2).sum(0) / np.maximum(count, 1))
    part = count / len(x)

    def quantile(level: float) -> Array:
        """Which multiple of the width a row exceeds with that probability."""
        return np.asarray(-stdtrit(np.maximum(count, 1), np.minimum(level / np.maximum(part, level) / 2, 0.5)))

    beyond = np.maximum(quantile(share) - quantile(1 / rows), 0.0)
    found = base + (high - base) * np.exp(np.minimum(width * beyond, LARGEST))
    return np.where((count >= LEAST) & known & (anchor > 0) & ~np.isnan(found), found, -np.inf)
