"""Read image datasets from their publishers' files into arrays.

:mod:`squad.data.registry` locates the files of a dataset, and downloads them if necessary.  A damaged file raises a
:class:`~squad.errors.DataError` that names it.
"""

import gzip
import hashlib
import io
import struct
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.download import Progress
from squad.data.registry import dataset, locate_or_fetch
from squad.errors import DataError

__all__ = ["ImageSet", "load_images"]

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
#: x_train, y_train, x_test, y_test and notes.
Parts = tuple[Pixels, Labels, Pixels, Labels, tuple[str, ...]]

#: Fraction of notMNIST in the test set: 5,000 of the 18,230 images that remain of the publisher's archive.
NOTMNIST_TEST = 5000 / 18230
#: Fraction of the digits in the test set.
DIGITS_TEST = 1 / 3
#: First bytes of an IDX file: two zeros and the code of unsigned bytes; the number of axes follows.
IDX_BYTES = b"\0\0\x08"
#: Block size of tar files, which end with blocks of zeros.
TAR_BLOCK = 512


@dataclass(frozen=True, eq=False)
class ImageSet:
    """An image dataset: training set and test set.

    Attributes:
        name: Name of the dataset.
        x_train: Training images, (N, H, W) for grey images, (N, H, W, 3) for colour; uint8.
        y_train: Training labels, (N,), positions in ``classes``; int64.
        x_test: Test images, like ``x_train``.
        y_test: Test labels, like ``y_train``.
        classes: Names of the classes.
        notes: Sentences on excluded files and on how the test set was chosen.
    """

    name: str
    x_train: Pixels
    y_train: Labels
    x_test: Pixels
    y_test: Labels
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


def load_images(
    name: str, data_dir: str | Path | None = None, progress: Progress | None = None, download: bool = True
) -> ImageSet:
    """Load a dataset of :data:`squad.data.registry.DATASETS`.

    Args:
        name: Name of the dataset, such as "fashion-mnist".
        data_dir: Folder to search first; see :func:`squad.data.registry.search_folders`.
        progress: Called with (file name, bytes so far, total bytes or None) during a download.
        download: Whether missing files may be downloaded.

    Returns:
        Training set and test set.

    Raises:
        DataError: Files are missing or damaged.

    Examples:
        >>> digits = load_images("digits")
        >>> digits.x_train.shape, digits.x_test.shape
        ((1198, 8, 8), (599, 8, 8))
    """
    entry = dataset(name)
    parts = _READERS[name](locate_or_fetch(name, data_dir, progress, download)) if entry.files else _load_digits()
    x_train, y_train, x_test, y_test, notes = parts
    return ImageSet(name, x_train, y_train, x_test, y_test, entry.classes, notes)


def _read_fashion_mnist(folder: Path) -> Parts:
    """Read Fashion-MNIST: pairs of gzipped IDX files."""
    return *_read_idx_pair(folder, "train"), *_read_idx_pair(folder, "t10k"), ()


def _read_idx_pair(folder: Path, part: str) -> tuple[Pixels, Labels]:
    """Read images of 28 x 28 and their labels."""
    images, labels = folder / f"{part}-images-idx3-ubyte.gz", folder / f"{part}-labels-idx1-ubyte.gz"
    x, y = _read_idx(images, axes=3), _read_idx(labels, axes=1)
    if x.shape[1:] != (28, 28):
        raise _damaged(images, f"its images must be 28 x 28, got {x.shape[1]} x {x.shape[2]}")
    return x, _check_labels(images, x, labels, y, range(10))


def _read_idx(path: Path, axes: int) -> Pixels:
    """Read a gzipped IDX file of unsigned bytes: magic number, the length of each axis, then the bytes."""
    with _read_errors(path), gzip.open(path) as file:
        data = file.read()
    magic, header = IDX_BYTES + bytes([axes]), 4 + 4 * axes
    if not data:
        raise _damaged(path, "it is empty")
    if data[:4] != magic:
        raise _damaged(path, f"an IDX file of {axes} axes begins with {magic.hex()}, got {data[:4].hex()}")
    if len(data) < header:
        raise _damaged(path, f"it ends within its header, after {len(data)} of {header} bytes")
    shape = struct.unpack(f">{axes}I", data[4:header])
    expected = header + int(np.prod(shape, dtype=object))  # Python integers do not overflow
    if len(data) != expected:
        raise _damaged(path, f"its header {shape} announces {expected:,} bytes, but it has {len(data):,}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape).copy()  # a writable copy


def _read_svhn(folder: Path) -> Parts:
    """Read SVHN: two MATLAB files."""
    return *_read_mat(folder / "train_32x32.mat"), *_read_mat(folder / "test_32x32.mat"), ()


def _read_mat(path: Path) -> tuple[Pixels, Labels]:
    """Read X (32, 32, 3, N), uint8, and y (N, 1), from 1 to 10, where 10 is the digit 0."""
    from scipy.io import loadmat

    try:
        with _read_errors(path):
            variables = loadmat(path, variable_names=["X", "y"])
    except DataError:
        raise
    except Exception as cause:  # scipy raises various exceptions for damaged files
        raise _damaged(path, f"it is not a MATLAB file that scipy can read: {cause}") from cause
    for name in ("X", "y"):
        if name not in variables:
            raise _damaged(path, f"it has no variable {name}")
    x, y = variables["X"], variables["y"]
    if x.ndim != 4 or x.shape[:3] != (32, 32, 3) or x.dtype != np.uint8:
        raise _damaged(path, f"X must have shape (32, 32, 3, N) and type uint8, got {x.shape} and {x.dtype}")
    if y.shape not in ((y.size, 1), (1, y.size), (y.size,)) or y.dtype.kind not in "uif":
        raise _damaged(path, f"y must have shape (N, 1) and hold numbers, got {y.shape} and {y.dtype}")
    x = np.ascontiguousarray(x.transpose(3, 0, 1, 2))
    y = _check_labels(path, x, path, y.ravel(), range(1, 11))
    return x, y % 10


def _read_notmnist(folder: Path) -> Parts:
    """Read notMNIST: a tar file of PNGs, one folder per class."""
    path = folder / "notMNIST_small.tar.gz"
    letters = dataset("notmnist").classes
    labels_of: defaultdict[bytes, list[int]] = defaultdict(list)  # the labels under which each image occurs
    unreadable = odd = 0
    for name, data in _read_tar(path):
        # The path is only inspected: nothing is written to disk.
        member = PurePosixPath(name)
        letter = member.parent.name
        if letter not in letters or member.name.startswith(".") or member.suffix.lower() != ".png" or data is None:
            odd += 1  # a link, a "._" companion file of macOS, or not an image of a class
            continue
        pixels = _decode_png(data)
        if pixels is None:
            unreadable += 1
        else:
            labels_of[pixels].append(letters.index(letter))
    if not labels_of:
        raise _damaged(path, "it has no images A/*.png to J/*.png")

    found = sum(map(len, labels_of.values()))
    one = {pixels: labels[0] for pixels, labels in labels_of.items() if len(set(labels)) == 1}
    disputed = [labels for labels in labels_of.values() if len(set(labels)) > 1]
    disputed_files = sum(map(len, disputed))
    duplicates = found - disputed_files - len(one)
    notes = []
    if unreadable:
        notes.append(f"{_files(unreadable)} could not be read as grey images of 28 x 28.")
    if odd:
        notes.append(f"{_files(odd)} in the archive {'is not an image' if odd == 1 else 'are not images'} of a class.")
    if duplicates:
        notes.append(f"{_files(duplicates)} dropped: duplicates of another image of the class.")
    if disputed:
        # Keeping one label would be a guess, and keeping both an error in the training or test set.
        images = "1 image that occurs" if len(disputed) == 1 else f"{len(disputed):,} images that occur"
        notes.append(f"{_files(disputed_files)} dropped: {images} in several classes.")

    x = np.frombuffer(b"".join(one), np.uint8).reshape(-1, 28, 28)
    x_train, y_train, x_test, y_test = _split(x, np.array(list(one.values()), np.int64), NOTMNIST_TEST)
    notes.append(_test_set_note(len(y_test), len(one)))
    return x_train, y_train, x_test, y_test, tuple(notes)


def _test_set_note(test: int, total: int) -> str:
    return f"There is no official test set: {test:,} of {total:,} images were chosen by a hash of their pixels."


def _read_tar(path: Path) -> Iterator[tuple[str, bytes | None]]:
    """Yield name and content of all members of a gzipped tar file except folders; None for links and devices.

    tarfile mistakes a damaged header for the end of the archive, so the end is checked as well.
    """
    with _read_errors(path), gzip.open(path) as file:
        data = file.read()
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for member in tar:
                if member.isdir():
                    continue
                file_of = tar.extractfile(member) if member.isreg() else None
                yield member.name, None if file_of is None else file_of.read()
            end = tar.offset
    except (tarfile.TarError, EOFError, ValueError) as cause:
        raise _damaged(path, f"its tar archive is broken: {cause}") from cause
    if data[end : end + TAR_BLOCK] != bytes(TAR_BLOCK):
        raise _damaged(path, f"its tar archive is truncated or corrupt after {end:,} of {len(data):,} bytes")


def _decode_png(data: bytes) -> bytes | None:
    """Return the pixels of a grey PNG of 28 x 28; None if it is not one."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            return image.tobytes() if (image.mode, image.size) == ("L", (28, 28)) else None
    except Exception:  # Pillow raises various exceptions for damaged files: OSError, SyntaxError, struct.error, ...
        return None


def _load_digits() -> Parts:
    """Load scikit-learn's digits, with pixels from 0 to 16."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    x, y = digits.images.astype(np.uint8), digits.target.astype(np.int64)
    x_train, y_train, x_test, y_test = _split(x, y, DIGITS_TEST)
    return x_train, y_train, x_test, y_test, (_test_set_note(len(y_test), len(y)),)


def _split(x: Pixels, y: Labels, fraction: float) -> tuple[Pixels, Labels, Pixels, Labels]:
    """Choose a fraction of each class for the test set: the first images by the hash of their pixels.

    The split needs no random numbers, and is the same for any order of the files and on every machine.  Both sets are
    ordered by the hash, which shuffles the classes.
    """
    order = np.array(sorted(range(len(x)), key=lambda i: hashlib.sha256(x[i].tobytes()).digest()), dtype=np.int64)
    x, y = x[order], y[order]
    test = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        of_class = np.flatnonzero(y == label)
        test[of_class[: int(len(of_class) * fraction + 0.5)]] = True
    return x[~test], y[~test], x[test], y[test]


def _check_labels(images: Path, x: Pixels, labels: Path, y: NDArray[Any], allowed: Sequence[int]) -> Labels:
    """Check that there is one allowed label per image, and at least one image; return the labels as int64."""
    if len(x) != len(y):
        both = f"{images} and {labels.name}" if images != labels else images
        raise _damaged(both, f"there must be one label per image, got {len(x):,} images and {len(y):,} labels")
    if not len(y):
        raise _damaged(images, "it has no images")
    wrong = ~np.isin(y, allowed)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        problem = f"labels must be {allowed[0]} to {allowed[-1]}, got {y[first]} at position {first}"
        raise _damaged(labels, problem)
    return y.astype(np.int64)


def _files(count: int) -> str:
    """Format a number of files."""
    return f"{count:,} file" + ("" if count == 1 else "s")


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    """Convert errors of reading and decompressing to a :class:`DataError` that names the file."""
    try:
        yield
    except gzip.BadGzipFile as cause:
        raise _damaged(path, f"it is not a gzip file, or is corrupt: {cause}") from cause
    except (EOFError, zlib.error) as cause:
        raise _damaged(path, f"it is truncated or corrupt: {cause}") from cause
    except OSError as cause:
        if cause.errno is None:  # raised by a parser, not by the system
            raise _damaged(path, str(cause)) from cause
        raise DataError(
            f"{path} cannot be read ({cause.strerror}). Make it readable, or name another folder."
        ) from cause


def _damaged(path: Path | str, problem: str) -> DataError:
    """Create the error for a file with wrong content."""
    hint = "Replace it with a complete copy, or delete it and run again to download it."
    return DataError(f"{path} cannot be used: {' '.join(problem.split()).rstrip('.')}. {hint}")


_READERS: dict[str, Callable[[Path], Parts]] = {
    "fashion-mnist": _read_fashion_mnist,
    "notmnist": _read_notmnist,
    "svhn": _read_svhn,
}
