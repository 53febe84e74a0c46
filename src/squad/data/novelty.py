"""Rows unlike those of training: a range for every number, and a distance for the row as a whole.

A network extrapolates with confidence: a column in another unit, or -999 for "unknown", is accepted as readily as an
honest row.  So a row is referred if a number lies outside the range of training by more than a margin, or if the row as
a whole is further from the training rows than any of them is from the others.  Both are fixed at fit, depend on the row
alone, and are part of the function that is certified.

How much each catches, and how many honest rows it refers, is measured in ``benchmarks/novelty.py``.
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

from squad.data.heavy_tails import reach
from squad.data.splits import row_order
from squad.errors import DataError

__all__ = ["Range", "RowDistance", "fit_ranges", "range_margin"]

#: The margin on each side of a range, in widths of the range, if rows are many and columns few.
MARGIN = 0.25

#: With more columns per row than this the margin grows, as the chance grows that one of them is a new extreme.
COLUMNS_PER_ROW = 0.01

#: The share of honest rows that the ranges of all columns together may refer, if tails are no heavier than log-normal.
ALLOWED = 0.005

#: How often the distance between the extremes of two halves of the rows is added to the margin.
TAILS = 2.0

#: A column with fewer numbers than this beside its most usual one (the smallest or the largest) has no range.
SELDOM = 10

#: A column begins at 0 if its smallest number is within this share of its width from 0, and about as large a share of
#: its numbers too: the tail of a bell begins nowhere.
NEAR = 0.05

#: Principal directions that are kept of a row; variance in the others counts as equal.
DIRECTIONS = 32

#: Share of the mean variance in that of every direction: one that hardly varied must not decide alone.
SHRINKAGE = 0.05

#: The limit of the squared distance, in largest ones of a training row from the other half of them.
LIMIT = 1.5

#: Rows that a distance is fitted on, at the most, and at the least; and numbers, so that memory stays bounded.
MOST_ROWS, LEAST_ROWS, MOST_NUMBERS = 10_000, 20, 1 << 23

#: Features up to which the covariance is decomposed whole; of more, its largest directions are found by iteration.
WHOLE = 512

#: Rows of a block, so that memory stays bounded.
BLOCK = 4096

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """Where a number may lie.

    Attributes:
        low, high: its extremes in training.
        least, most: what is allowed: the same with a margin.
    """

    low: float
    high: float
    least: float
    most: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, self.to_json())) or not self.least <= self.low <= self.high <= self.most:
            raise DataError(f"A saved range must be four finite numbers that enclose each other, got {self.to_json()}.")

    def outside(self, values: Array) -> NDArray[np.bool_]:
        """Which of the values lie outside what is allowed; NaN does not."""
        return np.asarray((values < self.least) | (values > self.most))

    def reason(self, what: str, value: float) -> str:
        """Why a row is referred."""
        return f"{what} is {value:g}, far outside its range in training, {self.low:g} to {self.high:g}"

    def to_json(self) -> list[float]:
        """As plain data."""
        return [self.low, self.high, self.least, self.most]

    @classmethod
    def from_json(cls, data: object) -> "Range":
        """What :meth:`to_json` made, checked."""
        if not isinstance(data, list) or len(data) != 4 or not all(type(number) in (int, float) for number in data):
            raise DataError(f"A saved range must be four numbers, got {str(data)[:60]}.")
        return cls(*map(float, data))


def range_margin(columns: int, rows: int) -> float:
    """The margin of every range, in its widths: wider where many columns are learned from few rows."""
    return MARGIN * (1 + math.log2(1 + columns / (COLUMNS_PER_ROW * max(rows, 1))))


def fit_ranges(blocks: Callable[[], Iterator[NDArray[Any]]], rows: int, margin: float, columns: int = 1) -> list[Range]:
    """The range of each column, from finite numbers in blocks of rows: (rows, columns), or (rows, pixels, columns).

    The margin is in widths of the narrower half of the rows, so that a single outlier does not open the other side.
    To it is added, on each side, twice the distance between the extremes of the two halves: a column with heavy tails
    has new extremes all the time.  Where rows are few, and tails so heavy that this does not do, a limit lies where the
    tail, extrapolated (:func:`squad.data.heavy_tails.reach`), leaves the allowed share of honest rows beyond.  Two
    kinds of columns are special:

    - One that hardly ever varied in training has no limits: what is rare is nothing unusual.
    - One that begins at 0 (counts, amounts, durations) may not become negative: -999 is "unknown", however wide it is.

    Args:
        blocks: the rows, one block after the other.
        rows: how many there are.
        margin: of :func:`range_margin`.
        columns: of a row, in all: each may refer its part of the allowed share.
    """
    low, high = _extremes(blocks(), rows)
    first, last = low.min(0), high.max(0)
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore", invalid="ignore"):  # widths of numbers near the largest there are
        width = last - first
        narrow = (high - low).min(0)
        room = margin * np.where(narrow > 0, narrow, width)
        least = first - room - TAILS * (low.max(0) - first)
        most = last + room + TAILS * (last - high.min(0))
    down, up = reach(blocks, rows, first, last, NEAR, ALLOWED / (2 * max(columns, 1)))
    least, most = np.minimum(least, down), np.maximum(most, up)
    least, most = np.nan_to_num(least, nan=-largest), np.nan_to_num(most, nan=largest)
    elsewhere, near = _counts(blocks(), first, last)
    positive = (first >= 0) & (first <= NEAR * width) & (near >= np.maximum(SELDOM, 0.8 * NEAR * rows))
    least = np.where(positive, np.maximum(least, 0.0), least)
    free = (width == 0) | (elsewhere < SELDOM)
    limits = (first, last, np.where(free, -largest, least), np.where(free, largest, most))
    return [Range(*map(float, one)) for one in zip(*limits, strict=True)]


def _extremes(blocks: Iterator[NDArray[Any]], rows: int) -> tuple[Array, Array]:
    """Smallest and largest number of each column in each half of the rows: (2, columns) each."""
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
    if rows < 2:  # nothing to compare with
        low, high = [low[0], low[0]], [high[0], high[0]]
    return np.stack(low), np.stack(high)


def _counts(blocks: Iterator[NDArray[Any]], first: Array, last: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each column, how many numbers differ from its smallest (or largest, if fewer), and are near its smallest."""
    above, below, near = (np.zeros(first.shape, dtype=np.int64) for _ in range(3))
    with np.errstate(over="ignore"):
        limit = first + NEAR * (last - first)
    for block in blocks:
        axes = tuple(range(block.ndim - 1))
        above += (block != first).sum(axes)
        below += (block != last).sum(axes)
        near += (block <= limit).sum(axes)
    return np.minimum(above, below), near


@dataclass(frozen=True, eq=False)
class RowDistance:
    """How far an encoded row is from those of training: a Mahalanobis distance that heavy tails do not spoil.

    Features are standardized and their large values drawn in (z / sqrt(1 + |z|)); the distance is then by the
    covariance of the training rows, a few principal directions in full and all others with one variance.

    Attributes:
        center, scale: (features,), of the encoded features; a scale of 0 leaves a feature out.
        mean: (features,), of what they become.
        directions: (features, k), orthonormal.
        variance: (k,), along them.
        rest: the variance along any other direction.
        limit: of the squared distance; a row beyond it is referred.
    """

    center: Array
    scale: Array
    mean: Array
    directions: Array
    variance: Array
    rest: float
    limit: float

    def __post_init__(self) -> None:
        features, kept = self.directions.shape if self.directions.ndim == 2 else (-1, -1)
        shapes = {name: getattr(self, name).shape for name in ("center", "scale", "mean")}
        if any(shape != (features,) for shape in shapes.values()) or self.variance.shape != (kept,):
            raise DataError(f"A saved row distance must have arrays of matching shapes, got {shapes}.")
        arrays = (self.center, self.scale, self.mean, self.directions, self.variance)
        finite = all(np.isfinite(array).all() for array in arrays) and math.isfinite(self.rest + self.limit)
        if not finite or (self.scale < 0).any() or (self.variance <= 0).any() or self.rest <= 0:
            raise DataError("A saved row distance must be finite, with variances above 0.")

    @classmethod
    def fit(cls, x: NDArray[np.float32]) -> "RowDistance | None":
        """From the encoded rows of training (N, features); None if they are too few, or all the same."""
        if len(x) < LEAST_ROWS:
            return None
        order = row_order(len(x))[: min(MOST_ROWS, max(1000, MOST_NUMBERS // max(x.shape[1], 1)))]
        rows = np.asarray(x[np.sort(order)], dtype=np.float64)
        scale = rows.std(0)
        scale[scale < 1e-12 * np.maximum(1.0, np.abs(rows).max(0))] = 0.0
        if not (scale > 0).any():
            return None
        center = rows.mean(0)
        half = np.zeros(len(rows), dtype=np.bool_)
        half[row_order(len(rows), 1)[: len(rows) // 2]] = True
        u = _drawn_in(rows, center, scale)
        farthest = max(
            float(_squared(u[~part], *_covariance(u[part])).max()) for part in (half, ~half)
        )  # each row by the half it is not in: of its own it would seem too near
        mean, directions, variance, rest = _covariance(u)
        return cls(center, scale, mean, directions, variance, rest, LIMIT * farthest)

    @property
    def features(self) -> int:
        """Of the rows it is for."""
        return len(self.center)

    def squared(self, x: NDArray[np.float32]) -> Array:
        """The squared distance of each encoded row (N, features): (N,)."""
        found = np.empty(len(x))
        for start in range(0, len(x), BLOCK):
            u = _drawn_in(np.asarray(x[start : start + BLOCK], dtype=np.float64), self.center, self.scale)
            found[start : start + BLOCK] = _squared(u, self.mean, self.directions, self.variance, self.rest)
        return found

    def reasons(self, x: NDArray[np.float32]) -> dict[int, str]:
        """Why rows are referred, by position: those further away than the limit."""
        squared = self.squared(x)
        return {
            row: f"the row as a whole is unlike the rows of training: distance {math.sqrt(squared[row]):.3g}, where at"
            f" most {math.sqrt(self.limit):.3g} is accepted"
            for row in np.flatnonzero(squared > self.limit).tolist()
        }

    def to_tensors(self) -> dict[str, Tensor]:
        """As tensors, to be saved."""
        names = ("center", "scale", "mean", "directions", "variance")
        arrays = {name: torch.from_numpy(getattr(self, name).copy(order="C")) for name in names}
        return {**arrays, "limits": torch.tensor([self.rest, self.limit], dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "RowDistance":
        """What :meth:`to_tensors` made, checked."""
        names = ("center", "scale", "mean", "directions", "variance", "limits")
        if set(tensors) != set(names) or any(tensor.dtype != torch.float64 for tensor in tensors.values()):
            raise DataError(f"A saved row distance must hold {', '.join(names)} in float64.")
        if tensors["limits"].shape != (2,):
            raise DataError("'limits' of a saved row distance must be two numbers.")
        rest, limit = tensors["limits"].tolist()
        arrays = {name: tensors[name].cpu().numpy() for name in names[:-1]}
        return cls(**arrays, rest=rest, limit=limit)

    def digest(self) -> str:
        """A hash of all its numbers."""
        found = hashlib.sha256()
        for name, tensor in sorted(self.to_tensors().items()):
            found.update(f"{name} {tuple(tensor.shape)}\n".encode() + tensor.numpy().astype("<f8").tobytes())
        return found.hexdigest()


def _drawn_in(x: Array, center: Array, scale: Array) -> Array:
    """Standardized, and large values drawn in: by operations that are the same to the bit on every machine."""
    z = (x - center) / np.where(scale > 0, scale, 1.0)
    z[:, scale == 0] = 0.0
    return np.asarray(z / np.sqrt(1 + np.abs(z)))


def _covariance(u: Array) -> tuple[Array, Array, Array, float]:
    """Mean, directions (features, k), their variances and that of the rest."""
    features = u.shape[1]
    kept = min(features, DIRECTIONS)
    mean = u.mean(0)
    centered = u - mean
    total = float((centered**2).sum() / len(u))
    if features <= WHOLE:
        variance, directions = np.linalg.eigh(centered.T @ centered / len(u))
        variance, directions = variance[::-1][:kept], directions[:, ::-1][:, :kept]
    else:
        variance, directions = _largest(centered, kept)
    variance = np.maximum(variance, 0.0)
    average = total / features if total > 0 else 1.0
    rest = max(total - float(variance.sum()), 0.0) / (features - kept) if features > kept else 0.0
    shrunk = (1 - SHRINKAGE) * variance + SHRINKAGE * average
    return mean, directions.copy(order="C"), shrunk, (1 - SHRINKAGE) * rest + SHRINKAGE * average


def _largest(centered: Array, kept: int) -> tuple[Array, Array]:
    """The largest eigenvalues of the covariance and their vectors, by subspace iteration."""
    start = np.random.default_rng(0).normal(size=(centered.shape[1], kept + 8))
    basis = np.linalg.qr(start)[0]
    for _ in range(6):
        basis = np.linalg.qr(centered.T @ (centered @ basis))[0]
    seen = centered @ basis
    variance, vectors = np.linalg.eigh(seen.T @ seen / len(centered))
    return variance[::-1][:kept], (basis @ vectors[:, ::-1])[:, :kept]


def _squared(u: Array, mean: Array, directions: Array, variance: Array, rest: float) -> Array:
    centered = u - mean
    along = centered @ directions
    beside = np.maximum((centered**2).sum(1) - (along**2).sum(1), 0.0)
    if directions.shape[1] == centered.shape[1]:
        beside = np.zeros_like(beside)
    return np.asarray((along**2 / variance).sum(1) + beside / rest)
