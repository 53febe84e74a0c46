"""Extrapolate the tails of a column: how far values may reach beyond the extremes of a few training rows.

With 40 training rows, one new row in forty exceeds the largest value, and with heavy tails by a large factor.  The
upper part of a column is modelled as log-normal: the logarithms of its values, relative to 0 or to the median, follow
the upper half of a normal distribution, whose width is estimated from them.  Student's t allows for the error of that
estimate with few rows.  The limit exceeds the largest value by the ratio of two quantiles: that exceeded by the allowed
fraction of rows, and that exceeded by one row in N; with enough rows the ratio is 1.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from squad.data.splits import row_order

__all__ = ["extrapolate_tails"]

#: Maximum number of rows, and of values, from which tails are estimated; bounds memory.
MAX_ROWS, MAX_VALUES = 2000, 1 << 22

#: Minimum number of values in a tail; fewer are not evidence.
MIN_TAIL_VALUES = 5

#: Maximum logarithm of the extrapolation factor; beyond it there is practically no limit.
MAX_LOG_FACTOR = 600.0

Array = NDArray[np.float64]


def extrapolate_tails(
    blocks: Callable[[], Iterator[NDArray[Any]]], rows: int, low: Array, high: Array, near: float, share: float
) -> tuple[Array, Array]:
    """Extrapolate how far each column may reach down and up.

    Args:
        blocks: Function that iterates over blocks of finite values: (rows, columns), or (rows, pixels, columns).
        rows: Number of rows.
        low: (columns,), smallest value of each column.
        high: (columns,), largest value of each column.
        near: A non-negative column is measured from 0 if its smallest value is below this fraction of its range.
        share: Allowed fraction of new rows beyond each limit.

    Returns:
        Lower and upper limits, (columns,) each; inf and -inf, which restrict nothing, where they cannot be estimated.
    """
    if share * rows >= 1:  # the extremes of training are exceeded rarely enough
        return np.full(low.shape, np.inf), np.full(low.shape, -np.inf)
    smallest, largest = _sample(blocks(), rows, len(low))
    with np.errstate(all="ignore"):  # values near the largest float overflow: no limit
        from_zero = (low >= 0) & (low <= near * (high - low))
        up = _upper_limit(largest, high, from_zero, rows, share)
        down = -_upper_limit(-smallest, -low, np.zeros_like(from_zero), rows, share)
    return down, up


def _sample(blocks: Iterator[NDArray[Any]], rows: int, columns: int) -> tuple[Array, Array]:
    """Return the smallest and largest value per column of a sample of rows: (sampled rows, columns) each."""
    chosen = np.zeros(rows, dtype=np.bool_)
    chosen[row_order(rows)[: min(MAX_ROWS, max(200, MAX_VALUES // max(columns, 1)))]] = True
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


def _upper_limit(x: Array, high: Array, from_zero: NDArray[np.bool_], rows: int, share: float) -> Array:
    """Return the upper limit of each column, (columns,); -inf where unknown.

    Args:
        x: (sampled rows, columns), values of a sample of the rows.
        high: (columns,), largest values of all rows.
        from_zero: (columns,), whether values are measured from 0 instead of the median.
        rows: Number of all rows.
        share: Allowed fraction of new rows beyond the limit.
    """
    median = np.median(x, 0)
    base = np.where(from_zero & (median > 0), 0.0, median)
    above = np.where(x > base, x - base, np.nan)
    known = np.isfinite(above).any(0)
    # Median of the values above the base: of (nearly) all values above 0, of half of them above the median.
    anchor = np.nanmedian(np.where(known, above, 1.0), 0)
    logs = np.log(np.where(above >= anchor, above, anchor) / anchor)
    count = (above >= anchor).sum(0)
    width = np.sqrt((logs**2).sum(0) / np.maximum(count, 1))
    part = count / len(x)

    def quantile(level: float) -> Array:
        """Return the multiple of the width that a row exceeds with probability ``level``."""
        return np.asarray(-stdtrit(np.maximum(count, 1), np.minimum(level / np.maximum(part, level) / 2, 0.5)))

    beyond = np.maximum(quantile(share) - quantile(1 / rows), 0.0)
    limit = base + (high - base) * np.exp(np.minimum(width * beyond, MAX_LOG_FACTOR))
    return np.where((count >= MIN_TAIL_VALUES) & known & (anchor > 0) & ~np.isnan(limit), limit, -np.inf)
