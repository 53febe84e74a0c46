"""Read inputs and labels from NPZ and NPY files."""

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

from squad.data.column_names import format_names, unknown_name_message
from squad.errors import DataError
from squad.files import Unpacking, open_regular

__all__ = ["INPUTS", "LABELS", "Arrays", "read_npy", "read_npz"]

#: Accepted names of the inputs and the labels in an NPZ file.
INPUTS, LABELS = ("x", "X"), ("y", "labels")


@dataclass(frozen=True)
class Arrays:
    """Inputs and labels, as stored in a file.

    Attributes:
        x: (N, ...), the inputs.
        y: (N,), the labels; None if there are none.
        source: Name in messages, such as the file's path.
    """

    x: NDArray[Any]
    y: NDArray[Any] | None
    source: str = "arrays"

    def __len__(self) -> int:
        return len(self.x)

    def save(self, file: BinaryIO) -> None:
        """Write an NPZ file with x and, if there are labels, y."""
        arrays: dict[str, Any] = {"x": self.x} if self.y is None else {"x": self.x, "y": self.y}
        np.savez(file, **arrays)

    def where(self, row: int) -> str:
        """Return the name of a row in messages: its number, counted from 1."""
        return f"row {row + 1}"


def read_npz(path: Path, target: str | None = None) -> Arrays:
    """Read an NPZ file with inputs "x" or "X" and, optionally, labels.

    Args:
        path: The file.
        target: Name of the labels, which must then be present; by default "y" or "labels" if the file has one of them.

    Returns:
        The inputs, and the labels if the file has them.

    Raises:
        DataError: The file is damaged, or does not have these arrays.
    """
    with open_regular(path) as file:
        size = _check_nonempty(file, path)
        if not zipfile.is_zipfile(file):
            raise DataError(f"{path} is not an NPZ file, or is truncated. Write it with numpy.savez.")
        with _parse_errors(path), zipfile.ZipFile(file) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            inputs, label = _choose_names(path, list(members), target)
            wanted = [members[name] for name in (inputs, label) if name is not None]
            Unpacking.of(size).check(sum(info.file_size for info in wanted))
            arrays = [_read_member(archive, info, path) for info in wanted]
    return _checked(Arrays(arrays[0], arrays[1] if label is not None else None, str(path)))


def _choose_names(path: Path, names: list[str], target: str | None) -> tuple[str, str | None]:
    """Return the names of the inputs and of the labels."""
    inputs = [name for name in INPUTS if name in names]
    if len(inputs) != 1:
        got = f"both {format_names(inputs)}" if inputs else format_names(names) or "no arrays"
        raise DataError(f"{path} must have one array of inputs, named 'x' or 'X', got {got}.")
    if target is not None and target not in names:
        raise DataError(f"{path} has {unknown_name_message(target, names, 'array')}")
    labels = [target] if target is not None else [name for name in LABELS if name in names]
    if len(labels) > 1:
        raise DataError(f"{path} must have one array of labels, got both {format_names(labels)}. Name the target.")
    return inputs[0], labels[0] if labels else None


def read_npy(path: Path, target: str | None = None) -> Arrays:
    """Read inputs from an NPY file.

    Args:
        path: The file.
        target: Must be None: an NPY file holds one array and has no labels.

    Returns:
        The inputs, without labels.

    Raises:
        DataError: The file is damaged, or ``target`` is given.
    """
    if target is not None:
        raise DataError(
            f"{path} has no labels: an NPY file holds one array. Write an NPZ file with x and {target}:"
            f" numpy.savez('data.npz', x=x, {target}=...)."
        )
    with open_regular(path) as file:
        size = _check_nonempty(file, path)
        if file.read(6) != b"\x93NUMPY":
            raise DataError(f"{path} is not an NPY file. Write it with numpy.save.")
        file.seek(0)
        with _parse_errors(path):
            _check_header(file, size, path)
            file.seek(0)
            x = np.lib.format.read_array(file, allow_pickle=False)
    return _checked(Arrays(x, None, str(path)))


def _check_nonempty(file: BinaryIO, path: Path) -> int:
    """Return the size of a file, which must not be 0."""
    size = os.fstat(file.fileno()).st_size
    if not size:
        raise DataError(f"{path} is empty: it has 0 bytes.")
    return size


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> NDArray[Any]:
    with archive.open(info) as header:
        _check_header(header, info.file_size, path)
    with archive.open(info) as content:
        return np.asarray(np.lib.format.read_array(content, allow_pickle=False))


def _check_header(file: IO[bytes], size: int, path: Path) -> None:
    """Check that an array is as large as its header says, before memory is allocated for it."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} of the format is not supported")
    shape, _, dtype = readers[version](file)
    if dtype.hasobject:
        raise DataError(
            f"{path} must hold plain arrays, got pickled objects, which could execute code when read. Write it again"
            " with arrays of numbers or text."
        )
    expected = math.prod(shape) * dtype.itemsize
    if any(length < 0 for length in shape) or expected != size - file.tell():
        raise ValueError(f"its header announces {expected:,} bytes, but it has {size - file.tell():,}")


@contextlib.contextmanager
def _parse_errors(path: Path) -> Iterator[None]:
    """Convert any error of numpy's and zipfile's parsers to a :class:`DataError` about a damaged file."""
    try:
        yield
    except DataError:  # also a ValueError, but our own
        raise
    except Exception as cause:
        if isinstance(cause, OSError) and cause.errno == errno.EFBIG:
            raise
        problem = str(cause)[:80] or type(cause).__name__
        raise DataError(f"{path} is damaged or truncated ({problem}). Write or copy it again.") from cause


def _checked(arrays: Arrays) -> Arrays:
    x, y, source = arrays.x, arrays.y, arrays.source
    if x.dtype.kind not in "biuf":
        raise DataError(f"x of {source} must be an array of numbers, got {x.dtype}.")
    if not 2 <= x.ndim <= 4:
        raise DataError(
            f"x of {source} must have shape (rows, features), (rows, height, width) or (rows, height, width,"
            f" channels), got {x.shape}."
        )
    if not x.size:
        raise DataError(f"x of {source} must have at least one row and one feature, got shape {x.shape}.")
    if y is None:
        return arrays
    if y.shape != (len(x),):
        hint = " Convert one-hot labels with argmax(axis=1)." if y.ndim == 2 and len(y) == len(x) else ""
        raise DataError(f"The labels of {source} must have shape ({len(x)},), one per row of x, got {y.shape}.{hint}")
    if y.dtype.kind not in "biufUS":
        raise DataError(f"The labels of {source} must be integers or text, got {y.dtype}.")
    return arrays
