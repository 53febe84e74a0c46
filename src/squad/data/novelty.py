"""Novelty check: detect rows unlike the training rows, by a range per number and a distance of the whole row.

A network extrapolates with confidence: a column in another unit, or -999 for "unknown", is accepted as readily as a
regular row.  The model therefore abstains if a number lies outside its training range by more than a margin, or if the
whole row is farther from the training rows than these are from each other.  Both checks are fixed at fit, depend on the
row alone, and are part of the certified function.

``benchmarks/novelty.py`` measures how much each check detects, and how many regular rows it refers.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.data.heavy_tails import extrapolate_tails
from squad.data.splits import row_order
from squad.errors import DataError

__all__ = ["Range", "RowDistance", "fit_ranges", "range_margin"]

#: Margin on each side of a range, as a fraction of its width, if there are many rows and few columns.
MARGIN = 0.25

#: With more columns per row than this, the margin grows, since a new extreme in one of them becomes more probable.
COLUMNS_PER_ROW = 0.01

#: Fraction of regular rows that the ranges of all columns may refer in total, if tails are at most log-normal.
ALLOWED = 0.005

#: Multiple of the distance between the extremes of two halves of the rows that is added to the margin.
TAIL_FACTOR = 2.0

#: A column has no range if fewer values than this differ from its smallest, or from its largest value.
MIN_VARYING = 10

#: A column starts at 0 if its smallest value is below this fraction of its range, and so are about as many of its
#: values: the tail of a normal distribution does not start anywhere.
NEAR_ZERO = 0.05

#: Number of principal directions with their own variance; all others share one variance.
DIRECTIONS = 32

#: Weight of the mean variance in the variance of every direction, so that a direction that hardly varied in training
#: does not dominate.
SHRINKAGE = 0.05

#: Limit on the squared distance, as a multiple of the largest one between a training row and the other half of them.
LIMIT = 1.5

#: Maximum and minimum number of rows, and maximum number of values, for fitting a distance; bounds memory.
MAX_ROWS, MIN_ROWS, MAX_VALUES = 10_000, 20, 1 << 23

#: Maximum number of features for a full eigendecomposition; with more, subspace iteration finds the leading directions.
MAX_DECOMPOSED_FEATURES = 512

#: Rows per block; bounds memory.
BLOCK_ROWS = 4096

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """Allowed range of a number.

    Attributes:
        low: Smallest training value.
        high: Largest training value.
        least: Lower limit: ``low`` minus a margin.
        most: Upper limit: ``high`` plus a margin.
    """

    low: float
    high: float
    least: float
    most: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, self.to_json())) or not self.least <= self.low <= self.high <= self.most:
            raise DataError(
                f"A saved range must be finite numbers with least <= low <= high <= most, got {self.to_json()}."
            )

    def outside(self, values: Array) -> NDArray[np.bool_]:
        """Return which values are outside the limits; NaN is not."""
        return np.asarray((values < self.least) | (values > self.most))

    def reason(self, what: str, value: float) -> str:
        """Return why a row is referred.

        Args:
            what: Description of the value, such as "column 'age'".
            value: Value outside the range.

        Returns:
            The reason, without a final period.
        """
        return f"{what} is {value:g}, far outside its range in training, {self.low:g} to {self.high:g}"

    def to_json(self) -> list[float]:
        """Return the range as plain data."""
        return [self.low, self.high, self.least, self.most]

    @classmethod
    def from_json(cls, data: object) -> "Range":
        """Restore a range from the output of :meth:`to_json`.

        Raises:
            DataError: ``data`` is not a valid range.
        """
        if not isinstance(data, list) or len(data) != 4 or not all(type(number) in (int, float) for number in data):
            raise DataError(f"A saved range must be four numbers, got {str(data)[:60]}.")
        return cls(*map(float, data))


def range_margin(columns: int, rows: int) -> float:
    """Return the margin of every range, which is larger for many columns and few rows.

    Args:
        columns: Number of numeric columns.
        rows: Number of rows of fit.

    Returns:
        Margin as a fraction of the range's width.
    """
    return MARGIN * (1 + math.log2(1 + columns / (COLUMNS_PER_ROW * max(rows, 1))))


def fit_ranges(blocks: Callable[[], Iterator[NDArray[Any]]], rows: int, margin: float, columns: int = 1) -> list[Range]:
    """Fit the range of each column.

    The margin is relative to the range of the narrower half of the rows, so that a single outlier does not widen the
    other side.  On each side, twice the distance between the extremes of the two halves is added: a column with heavy
    tails often has new extremes.  With few rows, if tails are too heavy for that, the limit is where the extrapolated
    tail (:func:`squad.data.heavy_tails.extrapolate_tails`) leaves the allowed fraction of regular rows beyond.  Two
    kinds of columns are special:

    - A column that hardly varied in training has no limits: a rare value is not a novelty.
    - A column that starts at 0 (counts, amounts, durations) must not become negative: -999 means "unknown", however
      wide the range is.

    Args:
        blocks: Function that iterates over blocks of finite values: (rows, columns), or (rows, pixels, columns).
        rows: Number of rows.
        margin: From :func:`range_margin`.
        columns: Total number of columns, which share the allowed fraction of referred rows.

    Returns:
        One range per column.
    """
    low, high = _extremes(blocks(), rows)
    first, last = low.min(0), high.max(0)
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore", invalid="ignore"):  # ranges near the largest float overflow
        width = last - first
        narrow = (high - low).min(0)
        room = margin * np.where(narrow > 0, narrow, width)
        least = first - room - TAIL_FACTOR * (low.max(0) - first)
        most = last + room + TAIL_FACTOR * (last - high.min(0))
    down, up = extrapolate_tails(blocks, rows, first, last, NEAR_ZERO, ALLOWED / (2 * max(columns, 1)))
    least, most = np.minimum(least, down), np.maximum(most, up)
    least, most = np.nan_to_num(least, nan=-largest), np.nan_to_num(most, nan=largest)
    varying, near = _counts(blocks(), first, last)
    enough_near = near >= np.maximum(MIN_VARYING, 0.8 * NEAR_ZERO * rows)
    starts_at_zero = (first >= 0) & (first <= NEAR_ZERO * width) & enough_near
    least = np.where(starts_at_zero, np.maximum(least, 0.0), least)
    unlimited = (width == 0) | (varying < MIN_VARYING)
    limits = (first, last, np.where(unlimited, -largest, least), np.where(unlimited, largest, most))
    return [Range(*map(float, one)) for one in zip(*limits, strict=True)]


def _extremes(blocks: Iterator[NDArray[Any]], rows: int) -> tuple[Array, Array]:
    """Return the smallest and largest value of each column in each half of the rows: (2, columns) each."""
    second = np.zeros(rows, dtype=np.bool_)
    second[row_order(rows)[: rows // 2]] = True
    low: list[Any] = [math.inf, math.inf]
    high: list[Any] = [-math.inf, -math.inf]
    start = 0
    for block in blocks:
        halves = second[start : start + len(block)]
        start += len(block)
        for half in (0, 1):
            if len(part := block[halves == bool(half)]):
                axes = tuple(range(part.ndim - 1))
                low[half] = np.minimum(low[half], part.min(axes).astype(np.float64))
                high[half] = np.maximum(high[half], part.max(axes).astype(np.float64))
    if rows < 2:  # the second half is empty
        low, high = [low[0], low[0]], [high[0], high[0]]
    return np.stack(low), np.stack(high)


def _counts(blocks: Iterator[NDArray[Any]], first: Array, last: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count values per column that differ from its smallest (or largest, if fewer), and that are near its smallest."""
    above, below, near = (np.zeros(first.shape, dtype=np.int64) for _ in range(3))
    with np.errstate(over="ignore"):
        limit = first + NEAR_ZERO * (last - first)
    for block in blocks:
        axes = tuple(range(block.ndim - 1))
        above += (block != first).sum(axes)
        below += (block != last).sum(axes)
        near += (block <= limit).sum(axes)
    return np.minimum(above, below), near


@dataclass(frozen=True, eq=False)
class RowDistance:
    """Distance of an encoded row from the training rows: a Mahalanobis distance that is robust to heavy tails.

    Features are standardized and large values compressed (z / sqrt(1 + |z|)).  The covariance of the training rows is
    represented by a few principal directions, and one variance for all others.

    Attributes:
        center: (features,), mean of the encoded features.
        scale: (features,), their standard deviation; 0 excludes a feature.
        mean: (features,), mean of the compressed features.
        directions: (features, k), orthonormal principal directions.
        variance: (k,), variance along them.
        rest: Variance along any other direction.
        limit: Limit on the squared distance; a row beyond it is referred.
    """

    center: Array
    scale: Array
    mean: Array
    directions: Array
    variance: Array
    rest: float
    limit: float

    def __post_init__(self) -> None:
        features, count = self.directions.shape if self.directions.ndim == 2 else (-1, -1)
        shapes = {name: getattr(self, name).shape for name in ("center", "scale", "mean")}
        if any(shape != (features,) for shape in shapes.values()) or self.variance.shape != (count,):
            raise DataError(f"A saved row distance must have arrays of matching shapes, got {shapes}.")
        arrays = (self.center, self.scale, self.mean, self.directions, self.variance)
        finite = all(np.isfinite(array).all() for array in arrays) and math.isfinite(self.rest + self.limit)
        if not finite or (self.scale < 0).any() or (self.variance <= 0).any() or self.rest <= 0:
            raise DataError("A saved row distance must be finite, with positive variances.")

    @classmethod
    def fit(cls, x: NDArray[np.float32]) -> "RowDistance | None":
        """Fit the distance to encoded training rows (N, features); None if they are too few, or all equal."""
        if len(x) < MIN_ROWS:
            return None
        order = row_order(len(x))[: min(MAX_ROWS, max(1000, MAX_VALUES // max(x.shape[1], 1)))]
        rows = np.asarray(x[np.sort(order)], dtype=np.float64)
        scale = rows.std(0)
        scale[scale < 1e-12 * np.maximum(1.0, np.abs(rows).max(0))] = 0.0
        if not (scale > 0).any():
            return None
        center = rows.mean(0)
        half = np.zeros(len(rows), dtype=np.bool_)
        half[row_order(len(rows), 1)[: len(rows) // 2]] = True
        u = _compress(rows, center, scale)
        # Measure each row by the other half: from its own half it would appear too close.
        farthest = max(float(_squared(u[~part], *_covariance(u[part])).max()) for part in (half, ~half))
        mean, directions, variance, rest = _covariance(u)
        return cls(center, scale, mean, directions, variance, rest, LIMIT * farthest)

    @property
    def features(self) -> int:
        """Number of features of a row."""
        return len(self.center)

    def squared(self, x: NDArray[np.float32]) -> Array:
        """Return the squared distance of encoded rows (N, features): (N,)."""
        distances = np.empty(len(x))
        for start in range(0, len(x), BLOCK_ROWS):
            u = _compress(np.asarray(x[start : start + BLOCK_ROWS], dtype=np.float64), self.center, self.scale)
            distances[start : start + BLOCK_ROWS] = _squared(u, self.mean, self.directions, self.variance, self.rest)
        return distances

    def reasons(self, x: NDArray[np.float32]) -> dict[int, str]:
        """Return why rows beyond the limit are referred, by row position."""
        squared = self.squared(x)
        return {
            row: f"the row as a whole is unlike the training rows: its distance {math.sqrt(squared[row]):.3g} exceeds"
            f" the limit {math.sqrt(self.limit):.3g}"
            for row in np.flatnonzero(squared > self.limit).tolist()
        }

    def to_tensors(self) -> dict[str, Tensor]:
        """Return tensors to be saved."""
        names = ("center", "scale", "mean", "directions", "variance")
        arrays = {name: torch.from_numpy(getattr(self, name).copy(order="C")) for name in names}
        return {**arrays, "limits": torch.tensor([self.rest, self.limit], dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "RowDistance":
        """Restore a distance from the output of :meth:`to_tensors`.

        Raises:
            DataError: The tensors are not valid.
        """
        names = ("center", "scale", "mean", "directions", "variance", "limits")
        if set(tensors) != set(names) or any(tensor.dtype != torch.float64 for tensor in tensors.values()):
            raise DataError(f"A saved row distance must have the tensors {', '.join(names)} in float64.")
        if tensors["limits"].shape != (2,):
            raise DataError("'limits' of a saved row distance must be two numbers.")
        rest, limit = tensors["limits"].tolist()
        arrays = {name: tensors[name].cpu().numpy() for name in names[:-1]}
        return cls(**arrays, rest=rest, limit=limit)

    def digest(self) -> str:
        """Return a hash of all numbers."""
        sha256 = hashlib.sha256()
        for name, tensor in sorted(self.to_tensors().items()):
            sha256.update(f"{name} {tuple(tensor.shape)}\n".encode() + tensor.numpy().astype("<f8").tobytes())
        return sha256.hexdigest()


def _compress(x: Array, center: Array, scale: Array) -> Array:
    """Standardize and compress large values, with operations that are bit-identical on every machine."""
    z = (x - center) / np.where(scale > 0, scale, 1.0)
    z[:, scale == 0] = 0.0
    return np.asarray(z / np.sqrt(1 + np.abs(z)))


def _covariance(u: Array) -> tuple[Array, Array, Array, float]:
    """Return mean (features,), principal directions (features, k), their variances (k,) and that of the rest."""
    features = u.shape[1]
    count = min(features, DIRECTIONS)
    mean = u.mean(0)
    centered = u - mean
    total = float((centered**2).sum() / len(u))
    if features <= MAX_DECOMPOSED_FEATURES:
        variance, directions = np.linalg.eigh(centered.T @ centered / len(u))
        variance, directions = variance[::-1][:count], directions[:, ::-1][:, :count]
    else:
        variance, directions = _leading_directions(centered, count)
    variance = np.maximum(variance, 0.0)
    average = total / features if total > 0 else 1.0
    rest = max(total - float(variance.sum()), 0.0) / (features - count) if features > count else 0.0
    shrunk = (1 - SHRINKAGE) * variance + SHRINKAGE * average
    return mean, directions.copy(order="C"), shrunk, (1 - SHRINKAGE) * rest + SHRINKAGE * average


def _leading_directions(centered: Array, count: int) -> tuple[Array, Array]:
    """Compute the largest eigenvalues of the covariance and their eigenvectors by subspace iteration."""
    start = np.random.default_rng(0).normal(size=(centered.shape[1], count + 8))
    basis = np.linalg.qr(start)[0]
    for _ in range(6):
        basis = np.linalg.qr(centered.T @ (centered @ basis))[0]
    projected = centered @ basis
    variance, vectors = np.linalg.eigh(projected.T @ projected / len(centered))
    return variance[::-1][:count], (basis @ vectors[:, ::-1])[:, :count]


def _squared(u: Array, mean: Array, directions: Array, variance: Array, rest: float) -> Array:
    centered = u - mean
    along = centered @ directions
    orthogonal = np.maximum((centered**2).sum(1) - (along**2).sum(1), 0.0)
    if directions.shape[1] == centered.shape[1]:
        orthogonal = np.zeros_like(orthogonal)
    return np.asarray((along**2 / variance).sum(1) + orthogonal / rest)
