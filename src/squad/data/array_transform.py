"""Arrays as features: standardized and flattened."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from squad.data.encoding import FLOAT32_MAX, Encoded, moments, saved, standardized
from squad.data.problems import DataError

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
    """

    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def fit(cls, x: object) -> "ArrayTransform":
        """Learn mean and standard deviation from the rows of training, all of them finite."""
        array = _array(x)
        if not 2 <= array.ndim <= 4 or not array.size:
            raise DataError(
                "x must have the shape (rows, features), (rows, height, width) or (rows, height, width, channels), none"
                f" of them 0; got {array.shape}."
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
        return cls(tuple(shape), tuple(mean.tolist()), tuple(std.tolist()))

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
        """Encode rows (N, ...); those with NaN, infinities or numbers beyond all bounds are problems."""
        array = _array(x)
        if array.shape[1:] != self.shape or array.ndim != len(self.shape) + 1:
            hint = " For one row give x[None]." if array.shape == self.shape else ""
            wanted = ", ".join(map(str, ("rows", *self.shape)))
            raise DataError(f"x must have the shape ({wanted}); got {array.shape}.{hint}")
        mean, std = np.asarray(self.mean), np.asarray(self.std)
        out = np.zeros((len(array), self.features), dtype=np.float32)
        problems: dict[int, str] = {}
        for start, block in _blocks(array):
            with np.errstate(over="ignore"):  # of numbers wider than float64
                values = block.astype(np.float64)
            z = standardized(values.reshape(-1, len(self.mean)), mean, std).reshape(len(block), -1)
            finite = np.isfinite(values).reshape(z.shape)
            bad = np.flatnonzero(~(finite & (np.abs(z) <= FLOAT32_MAX)).all(axis=1))
            for row in bad.tolist():
                reason = "too far from its mean in training" if finite[row].all() else "NaN or infinite"
                problems[start + row] = f"x has a number that is {reason}"
            z[bad] = 0.0
            out[start : start + len(block)] = z
        return Encoded(out, problems)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": "array", "shape": list(self.shape), "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_json(cls, data: object) -> "ArrayTransform":
        """What :meth:`to_json` made, checked."""
        what = "array transform"
        shape, mean, std = (saved(data, entry, list, what) for entry in ("shape", "mean", "std"))
        if not 1 <= len(shape) <= 3 or not all(type(size) is int and size > 0 for size in shape):
            raise DataError(f"'shape' of a saved {what} must be 1 to 3 positive whole numbers; got {shape}.")
        if len(mean) != _width(shape) or len(std) != len(mean):
            raise DataError(
                f"'mean' and 'std' of a saved {what} of shape {tuple(shape)} must have {_width(shape)} numbers; got"
                f" {len(mean)} and {len(std)}."
            )
        if not all(type(number) in (int, float) and math.isfinite(number) for number in mean + std) or min(std) < 0:
            raise DataError(f"'mean' and 'std' of a saved {what} must be finite numbers, 'std' not below 0.")
        return cls(tuple(shape), tuple(map(float, mean)), tuple(map(float, std)))


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
        raise DataError(f"x must be an array of numbers; got {array.dtype}.")
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def _blocks(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """The rows in blocks of bounded size, each with its first row's position."""
    rows = max(1, BLOCK // max(1, math.prod(array.shape[1:])))
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]
