"""Arrays as features: standardized and flattened."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from squad.data.column_names import check_names
from squad.data.columns import read_numbers
from squad.data.encoding import FLOAT32_MAX, Encoded, Reasons, moments, saved, standardized
from squad.data.novelty import Range, fit_ranges, range_margin
from squad.data.tables import Table
from squad.errors import DataError

__all__ = ["ArrayTransform"]

#: So many numbers are converted to float64 at a time.
BLOCK = 1 << 21


@dataclass(frozen=True)
class ArrayTransform:
    """Rows of numbers, or images, as features.

    Attributes:
        shape: of one row: (features,), (height, width) or (height, width, channels).
        mean, std: one number for each feature of flat rows, for each channel of images that have 3 or 4 as their last
            axis, and one for all pixels of other images.  A std of 0 says that it never varied in training: it is 0
            then, whatever comes.
        names: of the features of flat rows, if they came from a data frame: columns are then found by name.
        ranges: where the numbers of each feature (or channel) may lie; empty leaves that open.
    """

    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    names: tuple[str, ...] | None = None
    ranges: tuple[Range, ...] = ()

    @classmethod
    def fit(cls, x: object, names: Sequence[str] | None = None, ranges: bool = True) -> "ArrayTransform":
        """Learn from the rows of training, all of them finite.

        Args:
            x: (rows, features), (rows, height, width) or (rows, height, width, channels).
            names: of the features, if they have any.
            ranges: learn the range of every feature, outside of which a row is novel.
        """
        array = _array(x)
        if not 2 <= array.ndim <= 4 or not array.size:
            raise DataError(
                "x must have the shape (rows, features), (rows, height, width) or (rows, height, width, channels), none"
                f" of them 0, got {array.shape}."
            )
        shape = array.shape[1:]
        width = _width(shape)

        def blocks() -> Iterator[NDArray[Any]]:
            return (block.reshape(-1, width) for _, block in _blocks(array))

        if array.dtype.kind == "f":
            for start, block in _blocks(array):
                bad = ~np.isfinite(block.astype(np.float64)).reshape(len(block), -1).all(axis=1)
                if bad.any():
                    row = start + int(np.flatnonzero(bad)[0]) + 1
                    raise DataError(f"x must be finite to learn from it; row {row} (from 1) has NaN or infinity.")
        mean, std = moments(blocks)
        limits: list[Range] = []
        if ranges:

            def of_rows() -> Iterator[NDArray[Any]]:
                return (block.reshape(len(block), -1, width) for _, block in _blocks(array))

            limits = fit_ranges(of_rows, len(array), range_margin(width, len(array)), width)
        called = None if names is None else tuple(map(str, names))
        return cls(tuple(shape), tuple(mean.tolist()), tuple(std.tolist()), called, tuple(limits))

    @property
    def features(self) -> int:
        """How many inputs the network has."""
        return math.prod(self.shape)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should be told."""
        constant = sum(std == 0 for std in self.std)
        if not constant:
            return ()
        what = "features" if len(self.shape) == 1 else "channels"
        return (f"{constant} of {len(self.std)} {what} never changed in training and will not be used.",)

    def apply(self, x: object) -> Encoded:
        """Encode rows (N, ...), or a table with the columns of training in any order.

        Rows with NaN, infinities or numbers beyond all bounds are problems; those outside their ranges are novel.
        """
        found = Reasons()
        array = self._matrix(x, found) if isinstance(x, Table) else _array(x)
        if array.shape[1:] != self.shape or array.ndim != len(self.shape) + 1:
            hint = " For one row give x[None]." if array.shape == self.shape else ""
            wanted = ", ".join(map(str, ("rows", *self.shape)))
            raise DataError(f"x must have the shape ({wanted}), got {array.shape}.{hint}")
        told = found.told()
        mean, std = np.asarray(self.mean), np.asarray(self.std)
        out = np.zeros((len(array), self.features), dtype=np.float32)
        novel: dict[int, str] = {}
        problems = {int(row): why for row, why in x.unreadable.items()} if isinstance(x, Table) else {}
        for start, block in _blocks(array):
            with np.errstate(over="ignore"):  # of numbers wider than float64
                values = block.astype(np.float64).reshape(-1, len(self.mean))
            z = standardized(values, mean, std).reshape(len(block), -1)
            finite = np.isfinite(values).reshape(z.shape)
            bad: NDArray[np.bool_] = np.asarray(~(finite & (np.abs(z) <= FLOAT32_MAX)).all(axis=1))
            for row in np.flatnonzero(bad).tolist():
                reason = "too far from its mean in training" if finite[row].all() else "NaN or infinite"
                problems.setdefault(start + row, told.get(start + row, f"x has a number that is {reason}"))
            z[bad] = 0.0
            out[start : start + len(block)] = z
            for row, why in self._outside(values, len(block)).items():
                if not bad[row]:
                    novel[start + row] = why
        return Encoded(out, dict(sorted(problems.items())), novel)

    def _outside(self, values: NDArray[np.float64], rows: int) -> dict[int, str]:
        """Why rows are novel, of a block's numbers (rows * pixels, features or channels)."""
        if not self.ranges:
            return {}
        least, most = (np.asarray([getattr(one, side) for one in self.ranges]) for side in ("least", "most"))
        outside = (values < least) | (values > most)
        if not outside.any():
            return {}
        found = Reasons()
        pixels = len(values) // rows
        for place, feature in np.argwhere(outside).tolist():
            row = place // pixels
            if row not in found.found or len(self.shape) == 1:
                found.add(row, self.ranges[feature].reason(self._called(feature), values[place, feature]))
        return found.told()

    def _called(self, feature: int) -> str:
        """What a message calls a feature, or a channel of an image."""
        if self.names is not None:
            return f"column {self.names[feature]!r}"
        if len(self.shape) == 1:
            return f"feature {feature} (from 0)"
        return "a pixel" if len(self.mean) == 1 else f"a pixel of channel {feature} (from 0)"

    def _matrix(self, table: Table, found: Reasons) -> NDArray[np.float64]:
        """The columns of training as numbers (rows, features), whatever their order; a cell that is none is NaN."""
        if self.names is None:
            raise DataError(
                f"x must be an array of shape {self.shape} per row, as in training; {table.source} is a table, and the"
                " model was fitted without column names."
            )
        check_names(table.columns, self.names, table.source)
        frame = table.frame[list(self.names)]
        if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in frame.dtypes):
            out: NDArray[np.float64] = frame.to_numpy(dtype=np.float64)
            if np.isfinite(out).all():
                return out
        out = np.empty((len(table), len(self.names)))
        for place, name in enumerate(self.names):
            values, empty = read_numbers(table, name, found.add, booleans=True)
            out[:, place] = values
            for row in np.flatnonzero(empty).tolist():
                found.add(row, f"column {name!r} is empty, and it never was in training")
        return out

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        found = {"kind": "array", "shape": list(self.shape), "mean": list(self.mean), "std": list(self.std)}
        # Left out where there are none: the identity of models of earlier versions must stay the same.
        if self.names is not None:
            found["names"] = list(self.names)
        if self.ranges:
            found["ranges"] = [one.to_json() for one in self.ranges]
        return found

    @classmethod
    def from_json(cls, data: object) -> "ArrayTransform":
        """What :meth:`to_json` made, checked."""
        what = "array transform"
        shape, mean, std = (saved(data, entry, list, what) for entry in ("shape", "mean", "std"))
        if not 1 <= len(shape) <= 3 or not all(type(size) is int and size > 0 for size in shape):
            raise DataError(f"'shape' of a saved {what} must be 1 to 3 positive whole numbers, got {shape}.")
        if len(mean) != _width(shape) or len(std) != len(mean):
            raise DataError(
                f"'mean' and 'std' of a saved {what} of shape {tuple(shape)} must have {_width(shape)} numbers, got"
                f" {len(mean)} and {len(std)}."
            )
        if not all(type(number) in (int, float) and math.isfinite(number) for number in mean + std) or min(std) < 0:
            raise DataError(f"'mean' and 'std' of a saved {what} must be finite numbers, 'std' not below 0.")
        assert isinstance(data, Mapping)
        names = ranges = None
        if "names" in data:
            names = saved(data, "names", list, what)
            if len(shape) != 1 or len(names) != shape[0] or not all(isinstance(name, str) for name in names):
                raise DataError(f"'names' of a saved {what} must be {shape[0]} texts, one per feature.")
            if len(set(names)) < len(names):
                raise DataError(f"'names' of a saved {what} must have each name once.")
        if "ranges" in data:
            ranges = [Range.from_json(one) for one in saved(data, "ranges", list, what)]
            if len(ranges) != len(mean):
                raise DataError(f"'ranges' of a saved {what} must be {len(mean)}, one per feature, got {len(ranges)}.")
        return cls(
            tuple(shape),
            tuple(map(float, mean)),
            tuple(map(float, std)),
            None if names is None else tuple(names),
            tuple(ranges or ()),
        )


def _width(shape: tuple[int, ...] | list[int]) -> int:
    """How many means and standard deviations rows of this shape have."""
    if len(shape) == 1:
        return shape[0]
    return shape[-1] if len(shape) == 3 and shape[-1] in (3, 4) else 1


def _array(x: object) -> NDArray[Any]:
    """Anything array-like as an array of numbers."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        x = x.float() if x.dtype is torch.bfloat16 else x  # numpy has none
    if isinstance(x, np.ma.MaskedArray):
        raise DataError("x must be an array without a mask. Say what masked numbers are: x.filled(...).")
    try:
        array = np.asarray(x)
        array = array.astype(np.float64) if array.dtype == object else array
    except (ValueError, TypeError) as cause:
        raise DataError(f"x must be an array of numbers with rows of one length; {str(cause)[:80]}.") from cause
    if array.dtype.kind not in "biuf":
        raise DataError(f"x must be an array of numbers, got {array.dtype}.")
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _blocks(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """The rows in blocks of bounded size, each with its first row's position."""
    rows = max(1, BLOCK // max(1, math.prod(array.shape[1:])))
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]
