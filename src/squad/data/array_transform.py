"""Encode arrays as features: standardized and flattened."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from squad.data.column_names import check_names
from squad.data.columns import empty_cell_message, read_numbers
from squad.data.encoding import FLOAT32_MAX, Encoded, Reasons, mean_and_std, saved_entry, standardized
from squad.data.novelty import Range, fit_ranges, range_margin
from squad.data.tables import Table
from squad.errors import DataError

__all__ = ["ArrayTransform"]

#: Numbers per block; bounds the memory of conversions to float64.
BLOCK_NUMBERS = 1 << 21


@dataclass(frozen=True)
class ArrayTransform:
    """Encoding of rows of numbers, or of images.

    Attributes:
        shape: Shape of one row: (features,), (height, width) or (height, width, channels).
        mean: Mean per feature of flat rows, per channel of images whose last axis is 3 or 4, and one for all pixels of
            other images.
        std: Standard deviation, likewise; 0 for a feature that was constant in training, which is always encoded as 0.
        names: Names of the features of flat rows, if they came from a data frame: columns are then found by name.
        ranges: Allowed range per feature (or channel), outside of which a row is novel; empty for no limits.

    Examples:
        >>> transform = ArrayTransform.fit([[0.0, 5.0], [2.0, 5.0]])
        >>> transform.apply([[1.0, 5.0], [2.0, 5.0]]).x
        array([[0., 0.],
               [1., 0.]], dtype=float32)
    """

    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    names: tuple[str, ...] | None = None
    ranges: tuple[Range, ...] = ()

    @classmethod
    def fit(cls, x: object, names: Sequence[str] | None = None, ranges: bool = True) -> "ArrayTransform":
        """Learn the encoding from the training rows.

        Args:
            x: (rows, features), (rows, height, width) or (rows, height, width, channels); all finite.
            names: Names of the features, if they have any.
            ranges: Learn the range of every feature, outside of which a row is novel.

        Returns:
            The fitted transform.

        Raises:
            DataError: ``x`` has another shape, or is not finite.
        """
        array = _to_array(x)
        if not 2 <= array.ndim <= 4 or not array.size:
            raise DataError(
                "x must have shape (rows, features), (rows, height, width) or (rows, height, width, channels) and not"
                f" be empty, got {array.shape}."
            )
        shape = array.shape[1:]
        width = _statistics_count(shape)

        def blocks() -> Iterator[NDArray[Any]]:
            return (block.reshape(-1, width) for _, block in _blocks(array))

        if array.dtype.kind == "f":
            for start, block in _blocks(array):
                bad = ~np.isfinite(block.astype(np.float64)).reshape(len(block), -1).all(axis=1)
                if bad.any():
                    row = start + int(np.flatnonzero(bad)[0]) + 1
                    raise DataError(f"x must be finite, got NaN or infinity in row {row} (counted from 1).")
        mean, std = mean_and_std(blocks)
        limits: list[Range] = []
        if ranges:

            def blocks_by_row() -> Iterator[NDArray[Any]]:
                return (block.reshape(len(block), -1, width) for _, block in _blocks(array))

            limits = fit_ranges(blocks_by_row, len(array), range_margin(width, len(array)), width)
        texts = None if names is None else tuple(map(str, names))
        return cls(tuple(shape), tuple(mean.tolist()), tuple(std.tolist()), texts, tuple(limits))

    @property
    def features(self) -> int:
        """Number of features: inputs of the network."""
        return math.prod(self.shape)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, as sentences."""
        constant = sum(std == 0 for std in self.std)
        if not constant:
            return ()
        what = "features" if len(self.shape) == 1 else "channels"
        return (f"{constant} of {len(self.std)} {what} are constant in the training set and will not be used.",)

    def apply(self, x: object) -> Encoded:
        """Encode rows.

        Args:
            x: (N, ...), or a table with the training columns in any order.

        Returns:
            The encoded rows.  Rows with NaN, infinity, or a number too large to be standardized are problems; rows
            outside the ranges are novel.

        Raises:
            DataError: ``x`` has another shape or lacks columns.
        """
        reasons = Reasons()
        array = self._to_matrix(x, reasons) if isinstance(x, Table) else _to_array(x)
        if array.shape[1:] != self.shape or array.ndim != len(self.shape) + 1:
            hint = " Pass a single row as x[None]." if array.shape == self.shape else ""
            wanted = ", ".join(map(str, ("rows", *self.shape)))
            raise DataError(f"x must have shape ({wanted}), got {array.shape}.{hint}")
        messages = reasons.messages()
        mean, std = np.asarray(self.mean), np.asarray(self.std)
        out = np.zeros((len(array), self.features), dtype=np.float32)
        novel: dict[int, str] = {}
        problems = {int(row): why for row, why in x.unreadable.items()} if isinstance(x, Table) else {}
        for start, block in _blocks(array):
            with np.errstate(over="ignore"):  # longdouble may exceed float64
                values = block.astype(np.float64).reshape(-1, len(self.mean))
            z = standardized(values, mean, std).reshape(len(block), -1)
            finite = np.isfinite(values).reshape(z.shape)
            bad: NDArray[np.bool_] = np.asarray(~(finite & (np.abs(z) <= FLOAT32_MAX)).all(axis=1))
            for row in np.flatnonzero(bad).tolist():
                reason = "too far from its mean in training" if finite[row].all() else "NaN or infinite"
                problems.setdefault(start + row, messages.get(start + row, f"x has a number that is {reason}"))
            z[bad] = 0.0
            out[start : start + len(block)] = z
            for row, why in self._outside(values, len(block)).items():
                if not bad[row]:
                    novel[start + row] = why
        return Encoded(out, dict(sorted(problems.items())), novel)

    def _outside(self, values: NDArray[np.float64], rows: int) -> dict[int, str]:
        """Return why rows of a block are novel, by row position.

        Args:
            values: (rows * pixels, features or channels), numbers of the block.
            rows: Number of rows.
        """
        if not self.ranges:
            return {}
        least, most = (np.asarray([getattr(one, side) for one in self.ranges]) for side in ("least", "most"))
        outside = (values < least) | (values > most)
        if not outside.any():
            return {}
        reasons = Reasons()
        pixels = len(values) // rows
        for position, feature in np.argwhere(outside).tolist():
            row = position // pixels
            if row not in reasons.by_row or len(self.shape) == 1:
                reasons.add(row, self.ranges[feature].reason(self._describe(feature), values[position, feature]))
        return reasons.messages()

    def _describe(self, feature: int) -> str:
        """Name of a feature, or of a channel of an image, in messages."""
        if self.names is not None:
            return f"column {self.names[feature]!r}"
        if len(self.shape) == 1:
            return f"feature {feature} (from 0)"
        return "a pixel" if len(self.mean) == 1 else f"a pixel of channel {feature} (from 0)"

    def _to_matrix(self, table: Table, reasons: Reasons) -> NDArray[np.float64]:
        """Return the training columns as numbers (rows, features), NaN for cells that are not numbers."""
        if self.names is None:
            raise DataError(
                f"x must be an array with rows of shape {self.shape}, got the table {table.source}. The model was"
                " fitted without column names."
            )
        check_names(table.columns, self.names, table.source)
        frame = table.frame[list(self.names)]
        if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in frame.dtypes):
            out: NDArray[np.float64] = frame.to_numpy(dtype=np.float64)
            if np.isfinite(out).all():
                return out
        out = np.empty((len(table), len(self.names)))
        for position, name in enumerate(self.names):
            values, empty = read_numbers(table, name, reasons.add, booleans=True)
            out[:, position] = values
            for row in np.flatnonzero(empty).tolist():
                reasons.add(row, empty_cell_message(name))
        return out

    def to_json(self) -> dict[str, Any]:
        """Return the transform as plain data."""
        data = {"kind": "array", "shape": list(self.shape), "mean": list(self.mean), "std": list(self.std)}
        # Omitted where there are none: the identity of models of earlier versions must not change.
        if self.names is not None:
            data["names"] = list(self.names)
        if self.ranges:
            data["ranges"] = [one.to_json() for one in self.ranges]
        return data

    @classmethod
    def from_json(cls, data: object) -> "ArrayTransform":
        """Restore a transform from the output of :meth:`to_json`.

        Raises:
            DataError: ``data`` is not a valid transform.
        """
        what = "array transform"
        shape, mean, std = (saved_entry(data, entry, list, what) for entry in ("shape", "mean", "std"))
        if not 1 <= len(shape) <= 3 or not all(type(size) is int and size > 0 for size in shape):
            raise DataError(f"'shape' of a saved {what} must be 1 to 3 positive integers, got {shape}.")
        count = _statistics_count(shape)
        if len(mean) != count or len(std) != len(mean):
            raise DataError(
                f"'mean' and 'std' of a saved {what} of shape {tuple(shape)} must have {count} numbers, got"
                f" {len(mean)} and {len(std)}."
            )
        if not all(type(number) in (int, float) and math.isfinite(number) for number in mean + std) or min(std) < 0:
            raise DataError(f"'mean' and 'std' of a saved {what} must be finite numbers, and 'std' not negative.")
        assert isinstance(data, Mapping)
        names = ranges = None
        if "names" in data:
            names = saved_entry(data, "names", list, what)
            if len(shape) != 1 or len(names) != shape[0] or not all(isinstance(name, str) for name in names):
                raise DataError(f"'names' of a saved {what} must be {shape[0]} texts, one per feature.")
            if len(set(names)) < len(names):
                raise DataError(f"'names' of a saved {what} must be unique.")
        if "ranges" in data:
            ranges = [Range.from_json(one) for one in saved_entry(data, "ranges", list, what)]
            if len(ranges) != len(mean):
                raise DataError(
                    f"'ranges' of a saved {what} must have {len(mean)} entries, one per feature, got {len(ranges)}."
                )
        return cls(
            tuple(shape),
            tuple(map(float, mean)),
            tuple(map(float, std)),
            None if names is None else tuple(names),
            tuple(ranges or ()),
        )


def _statistics_count(shape: tuple[int, ...] | list[int]) -> int:
    """Number of means and standard deviations for rows of this shape."""
    if len(shape) == 1:
        return shape[0]
    return shape[-1] if len(shape) == 3 and shape[-1] in (3, 4) else 1


def _to_array(x: object) -> NDArray[Any]:
    """Convert anything array-like to an array of numbers."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        x = x.float() if x.dtype is torch.bfloat16 else x  # numpy has no bfloat16
    if isinstance(x, np.ma.MaskedArray):
        raise DataError("x must be an array without a mask, got a masked array. Replace masked values: x.filled(...).")
    try:
        array = np.asarray(x)
        array = array.astype(np.float64) if array.dtype == object else array
    except (ValueError, TypeError) as cause:
        raise DataError(f"x must be an array of numbers with rows of equal length: {str(cause)[:80]}.") from cause
    if array.dtype.kind not in "biuf":
        raise DataError(f"x must be an array of numbers, got {array.dtype}.")
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _blocks(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the rows in blocks of bounded size, each with the position of its first row."""
    rows = max(1, BLOCK_NUMBERS // max(1, math.prod(array.shape[1:])))
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]
