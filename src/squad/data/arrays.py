"""Arrays: inputs and labels from NPZ and NPY files."""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.names import listed, missing_name
from squad.data.problems import DataError
from squad.files import replacing

__all__ = ["INPUTS", "LABELS", "Arrays", "read_npy", "read_npz", "write_npz"]

#: What the inputs and the labels may be called in an NPZ file.
INPUTS, LABELS = ("x", "X"), ("y", "labels")


@dataclass(frozen=True)
class Arrays:
    """Inputs x (N, ...) and their labels y (N,), if there are any, as they are in the file."""

    x: NDArray[Any]
    y: NDArray[Any] | None
    source: str = "arrays"

    def __len__(self) -> int:
        return len(self.x)

    def where(self, row: int) -> str:
        """How a message calls a row: from 1, as for tables."""
        return f"row {row + 1}"


def read_npz(path: Path, target: str | None = None) -> Arrays:
    """Inputs "x" or "X", labels ``target``, or "y" or "labels" where the file has them."""
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} must be an NPZ file; it is none, or cut off. Write it with numpy.savez.")
    try:
        with np.load(path, allow_pickle=False) as file:
            names = list(file.files)
            inputs = [name for name in INPUTS if name in names]
            if len(inputs) != 1:
                found = f"it has both {listed(inputs)}" if inputs else f"it has {listed(names) or 'no arrays'}"
                raise DataError(f"{path} must have one array of inputs, named 'x' or 'X'; {found}.")
            if target is not None and target not in names:
                raise DataError(f"{path} has {missing_name(target, names, 'array')}")
            labels = [target] if target is not None else [name for name in LABELS if name in names]
            if len(labels) > 1:
                raise DataError(f"{path} must have one array of labels; it has both {listed(labels)}. Name the target.")
            x = file[inputs[0]]
            y = file[labels[0]] if labels else None
    except DataError:  # a ValueError too, but ours
        raise
    except (ValueError, OSError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error) as cause:
        raise _unreadable(path, cause) from cause
    return _checked(Arrays(x, y, str(path)))


def read_npy(path: Path, target: str | None = None) -> Arrays:
    """Inputs alone: an NPY file has no place for labels."""
    if target is not None:
        raise DataError(
            f"{path} has no labels: an NPY file holds one array. Write an NPZ file with x and {target},"
            f" numpy.savez('data.npz', x=x, {target}=...)."
        )
    with open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise DataError(f"{path} must be an NPY file; it is none. Write it with numpy.save.")
    try:
        x = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError) as cause:
        raise _unreadable(path, cause) from cause
    return _checked(Arrays(x, None, str(path)))


def write_npz(arrays: Arrays, path: Path) -> Path:
    """An NPZ file with x and, if there are labels, y; whole or not at all."""
    found: dict[str, Any] = {"x": arrays.x} if arrays.y is None else {"x": arrays.x, "y": arrays.y}
    try:
        with replacing(path) as file:
            np.savez(file, **found)
    except OSError as cause:
        raise DataError(f"{path} cannot be written: {cause.strerror or cause}.") from cause
    return path


def _unreadable(path: Path, cause: Exception) -> DataError:
    if "allow_pickle" in str(cause):
        return DataError(
            f"{path} must hold plain arrays; it holds pickled objects, which could run code when they are read."
            " Write it again with arrays of numbers or text."
        )
    return DataError(f"{path} cannot be read; it is damaged or cut off ({str(cause)[:80] or type(cause).__name__}).")


def _checked(arrays: Arrays) -> Arrays:
    x, y, source = arrays.x, arrays.y, arrays.source
    if x.dtype.kind not in "biuf":
        raise DataError(f"x of {source} must be an array of numbers; got {x.dtype}.")
    if not 2 <= x.ndim <= 4:
        raise DataError(
            f"x of {source} must have the shape (rows, features), (rows, height, width) or (rows, height, width,"
            f" channels); got {x.shape}."
        )
    if not x.size:
        raise DataError(f"x of {source} must have at least one row and one feature; got the shape {x.shape}.")
    if y is None:
        return arrays
    if y.shape != (len(x),):
        hint = " Of one-hot labels take argmax(axis=1)." if y.ndim == 2 and len(y) == len(x) else ""
        raise DataError(
            f"The labels of {source} must have the shape ({len(x)},), one for each row of x; got {y.shape}.{hint}"
        )
    if y.dtype.kind not in "biufUS":
        raise DataError(f"The labels of {source} must be whole numbers or text; got {y.dtype}.")
    return arrays
