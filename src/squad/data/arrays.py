"""Arrays: inputs and labels from NPZ and NPY files."""

import contextlib
import errno
import math
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from squad.data.column_names import listed, missing_name
from squad.errors import DataError
from squad.files import Unpacking, opened

__all__ = ["INPUTS", "LABELS", "Arrays", "read_npy", "read_npz"]

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

    def save(self, file: BinaryIO) -> None:
        """Write an NPZ file with x and, if there are labels, y."""
        found: dict[str, Any] = {"x": self.x} if self.y is None else {"x": self.x, "y": self.y}
        np.savez(file, **found)

    def where(self, row: int) -> str:
        """How a message calls a row: from 1, as for tables."""
        return f"row {row + 1}"


def read_npz(path: Path, target: str | None = None) -> Arrays:
    """Inputs "x" or "X", labels ``target``, or "y" or "labels" where the file has them."""
    with opened(path) as file:
        size = _nonempty(file, path)
        if not zipfile.is_zipfile(file):
            raise DataError(f"{path} must be an NPZ file; it is none, or cut off. Write it with numpy.savez.")
        with _parsing(path), zipfile.ZipFile(file) as packed:
            members = {info.filename.removesuffix(".npy"): info for info in packed.infolist()}
            inputs, label = _chosen(path, list(members), target)
            wanted = [members[name] for name in (inputs, label) if name is not None]
            Unpacking.of(size).check(sum(info.file_size for info in wanted))
            arrays = [_member(packed, info, path) for info in wanted]
    return _checked(Arrays(arrays[0], arrays[1] if label is not None else None, str(path)))


def _chosen(path: Path, names: list[str], target: str | None) -> tuple[str, str | None]:
    """The names of the inputs and of the labels."""
    inputs = [name for name in INPUTS if name in names]
    if len(inputs) != 1:
        found = f"it has both {listed(inputs)}" if inputs else f"it has {listed(names) or 'no arrays'}"
        raise DataError(f"{path} must have one array of inputs, named 'x' or 'X'; {found}.")
    if target is not None and target not in names:
        raise DataError(f"{path} has {missing_name(target, names, 'array')}")
    labels = [target] if target is not None else [name for name in LABELS if name in names]
    if len(labels) > 1:
        raise DataError(f"{path} must have one array of labels; it has both {listed(labels)}. Name the target.")
    return inputs[0], labels[0] if labels else None


def read_npy(path: Path, target: str | None = None) -> Arrays:
    """Inputs alone: an NPY file has no place for labels."""
    if target is not None:
        raise DataError(
            f"{path} has no labels: an NPY file holds one array. Write an NPZ file with x and {target},"
            f" numpy.savez('data.npz', x=x, {target}=...)."
        )
    with opened(path) as file:
        size = _nonempty(file, path)
        if file.read(6) != b"\x93NUMPY":
            raise DataError(f"{path} must be an NPY file; it is none. Write it with numpy.save.")
        file.seek(0)
        with _parsing(path):
            _check_header(file, size, path)
            file.seek(0)
            x = np.lib.format.read_array(file, allow_pickle=False)
    return _checked(Arrays(x, None, str(path)))


def _nonempty(file: BinaryIO, path: Path) -> int:
    size = os.fstat(file.fileno()).st_size
    if not size:
        raise DataError(f"{path} is empty: it has 0 bytes.")
    return size


def _member(packed: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> NDArray[Any]:
    with packed.open(info) as header:
        _check_header(header, info.file_size, path)
    with packed.open(info) as content:
        return np.asarray(np.lib.format.read_array(content, allow_pickle=False))


def _check_header(file: IO[bytes], size: int, path: Path) -> None:
    """That an array is as large as its header says, before room is made for it."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} is not one of arrays of numbers or text")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise DataError(
            f"{path} must hold plain arrays; it holds pickled objects, which could run code when they are read."
            " Write it again with arrays of numbers or text."
        )
    said = math.prod(shape) * dtype.itemsize
    if any(length < 0 for length in shape) or said != size - file.tell():
        raise ValueError(f"its header says {said:,} bytes, and there are {size - file.tell():,}")


@contextlib.contextmanager
def _parsing(path: Path) -> Iterator[None]:
    """Say that a file is damaged, whatever that leads to in parsers that are not ours."""
    try:
        yield
    except DataError:  # a ValueError too, but ours
        raise
    except Exception as cause:
        if isinstance(cause, OSError) and cause.errno == errno.EFBIG:
            raise
        problem = str(cause)[:80] or type(cause).__name__
        raise DataError(f"{path} cannot be read; it is damaged or cut off ({problem}).") from cause


def _checked(arrays: Arrays) -> Arrays:
    x, y, source = arrays.x, arrays.y, arrays.source
    if x.dtype.kind not in "biuf":
        raise DataError(f"x of {source} must be an array of numbers, got {x.dtype}.")
    if not 2 <= x.ndim <= 4:
        raise DataError(
            f"x of {source} must have the shape (rows, features), (rows, height, width) or (rows, height, width,"
            f" channels), got {x.shape}."
        )
    if not x.size:
        raise DataError(f"x of {source} must have at least one row and one feature, got the shape {x.shape}.")
    if y is None:
        return arrays
    if y.shape != (len(x),):
        hint = " Of one-hot labels take argmax(axis=1)." if y.ndim == 2 and len(y) == len(x) else ""
        raise DataError(
            f"The labels of {source} must have the shape ({len(x)},), one for each row of x, got {y.shape}.{hint}"
        )
    if y.dtype.kind not in "biufUS":
        raise DataError(f"The labels of {source} must be whole numbers or text, got {y.dtype}.")
    return arrays
