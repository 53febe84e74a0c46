"""Image datasets, read from their publishers' files into arrays.

The files of a dataset are looked for, and downloaded if need be, by :mod:`squad.data.registry`.  Whatever is wrong with
one is said in a :class:`~squad.errors.DataError` that names the file.
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

#: Share of notMNIST that is its test part: 5,000 of the 18,230 images that the publisher's archive leaves.
NOTMNIST_TEST = 5000 / 18230
#: Share of the digits.
DIGITS_TEST = 1 / 3
#: The first bytes of an IDX file: two zeros, the code of unsigned bytes, then the number of axes.
IDX_BYTES = b"\0\0\x08"
#: A tar file is made of blocks of that many bytes, and ends with some of zeros.
TAR_BLOCK = 512


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images and labels, for training and for the test.

    Attributes:
        name: of the dataset.
        x_train, x_test: (N, H, W) for grey images, (N, H, W, 3) for colour; uint8.
        y_train, y_test: (N,), indices into ``classes``; int64.
        classes: names of the classes.
        notes: sentences on what was left out and how the parts were made.
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
    """Read a dataset of :data:`squad.data.registry.DATASETS`.

    Args:
        name: such as "fashion-mnist".
        data_dir: where to look first; see :func:`squad.data.registry.places`.
        progress: called with (file name, bytes so far, bytes in all or None) while a file is downloaded.
        download: whether files that are nowhere may be downloaded.

    Example:
        >>> digits = load_images("digits")
        >>> digits.x_train.shape, digits.x_test.shape
        ((1198, 8, 8), (599, 8, 8))
    """
    entry = dataset(name)
    parts = _READERS[name](locate_or_fetch(name, data_dir, progress, download)) if entry.files else _digits()
    x_train, y_train, x_test, y_test, notes = parts
    return ImageSet(name, x_train, y_train, x_test, y_test, entry.classes, notes)


def _fashion(folder: Path) -> Parts:
    """Fashion-MNIST: pairs of gzipped IDX files."""
    return *_idx_pair(folder, "train"), *_idx_pair(folder, "t10k"), ()


def _idx_pair(folder: Path, part: str) -> tuple[Pixels, Labels]:
    """Images of 28 x 28 and their labels."""
    images, labels = folder / f"{part}-images-idx3-ubyte.gz", folder / f"{part}-labels-idx1-ubyte.gz"
    x, y = _idx(images, axes=3), _idx(labels, axes=1)
    if x.shape[1:] != (28, 28):
        raise _damaged(images, f"images of 28 x 28 were expected, these are {x.shape[1]} x {x.shape[2]}")
    return x, _paired(images, x, labels, y, range(10))


def _idx(path: Path, axes: int) -> Pixels:
    """A gzipped IDX file of unsigned bytes: magic number, the length of each axis, then the bytes."""
    with _reading(path), gzip.open(path) as file:
        data = file.read()
    magic, header = IDX_BYTES + bytes([axes]), 4 + 4 * axes
    if not data:
        raise _damaged(path, "nothing is in it")
    if data[:4] != magic:
        raise _damaged(path, f"an IDX file of {axes} axes begins with {magic.hex()}, this one with {data[:4].hex()}")
    if len(data) < header:
        raise _damaged(path, f"it ends within its header, after {len(data)} of {header} bytes")
    shape = struct.unpack(f">{axes}I", data[4:header])
    expected = header + int(np.prod(shape, dtype=object))  # in Python's integers, which do not overflow
    if len(data) != expected:
        raise _damaged(path, f"its header {shape} promises {expected:,} bytes, it has {len(data):,}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape).copy()  # a copy can be written to


def _svhn(folder: Path) -> Parts:
    """SVHN: two MATLAB files."""
    return *_mat(folder / "train_32x32.mat"), *_mat(folder / "test_32x32.mat"), ()


def _mat(path: Path) -> tuple[Pixels, Labels]:
    """X (32, 32, 3, N) of bytes and y (N, 1) in 1 to 10, 10 being the digit 0."""
    from scipy.io import loadmat

    try:
        with _reading(path):
            found = loadmat(path, variable_names=["X", "y"])
    except DataError:
        raise
    except Exception as cause:  # scipy has no error of its own: a broken file ends in any of a dozen
        raise _damaged(path, f"it is not a MATLAB file that scipy reads: {cause}") from cause
    for name in ("X", "y"):
        if name not in found:
            raise _damaged(path, f"it has no variable {name}")
    x, y = found["X"], found["y"]
    if x.ndim != 4 or x.shape[:3] != (32, 32, 3) or x.dtype != np.uint8:
        raise _damaged(path, f"X must be (32, 32, 3, N) of uint8; it is {x.shape} of {x.dtype}")
    if y.shape not in ((y.size, 1), (1, y.size), (y.size,)) or y.dtype.kind not in "uif":
        raise _damaged(path, f"y must be (N, 1) of numbers; it is {y.shape} of {y.dtype}")
    x = np.ascontiguousarray(x.transpose(3, 0, 1, 2))
    y = _paired(path, x, path, y.ravel(), range(1, 11))
    return x, y % 10


def _notmnist(folder: Path) -> Parts:
    """notMNIST: a tar file of PNGs, one folder a class."""
    path = folder / "notMNIST_small.tar.gz"
    letters = dataset("notmnist").classes
    labels_of: defaultdict[bytes, list[int]] = defaultdict(list)  # the labels under which each image occurs
    unreadable = odd = 0
    for name, data in _members(path):
        # The path is only looked at, never followed: nothing is written to disk.
        place = PurePosixPath(name)
        letter = place.parent.name
        if letter not in letters or place.name.startswith(".") or place.suffix.lower() != ".png" or data is None:
            odd += 1  # a link, macOS's "._" companion of a file, or something that is no image of a class
            continue
        pixels = _png(data)
        if pixels is None:
            unreadable += 1
        else:
            labels_of[pixels].append(letters.index(letter))
    if not labels_of:
        raise _damaged(path, "it holds no image A/*.png to J/*.png")

    found = sum(map(len, labels_of.values()))
    one = {pixels: labels[0] for pixels, labels in labels_of.items() if len(set(labels)) == 1}
    disputed = [labels for labels in labels_of.values() if len(set(labels)) > 1]
    disputed_files = sum(map(len, disputed))
    duplicates = found - disputed_files - len(one)
    notes = []
    if unreadable:
        notes.append(f"{_files(unreadable)} could not be read as a grey image of 28 x 28.")
    if odd:
        notes.append(f"{_files(odd)} in the archive {'is' if odd == 1 else 'are'} no image of a class.")
    if duplicates:
        notes.append(f"{_files(duplicates)} dropped: duplicates of another image of the class.")
    if disputed:
        # Whichever label is right, keeping one would be a guess, and keeping both an error in training or test.
        images = "1 image that occurs" if len(disputed) == 1 else f"{len(disputed):,} images that occur"
        notes.append(f"{_files(disputed_files)} dropped: {images} in several classes.")

    x = np.frombuffer(b"".join(one), np.uint8).reshape(-1, 28, 28)
    x_train, y_train, x_test, y_test = _split(x, np.array(list(one.values()), np.int64), NOTMNIST_TEST)
    notes.append(f"No official test part: {len(y_test):,} of {len(one):,} images, by a hash of their pixels, are it.")
    return x_train, y_train, x_test, y_test, tuple(notes)


def _members(path: Path) -> Iterator[tuple[str, bytes | None]]:
    """Name and bytes of all that is in a gzipped tar file except folders; None for links and devices.

    tarfile takes a damaged header for the end of the archive, so the end is looked at as well.
    """
    with _reading(path), gzip.open(path) as file:
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
        raise _damaged(path, f"the tar file in it is broken: {cause}") from cause
    if data[end : end + TAR_BLOCK] != bytes(TAR_BLOCK):
        raise _damaged(path, f"the tar file in it breaks off or is garbled after {end:,} of {len(data):,} bytes")


def _png(data: bytes) -> bytes | None:
    """The pixels of a grey PNG of 28 x 28, None if it is not one."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            return image.tobytes() if (image.mode, image.size) == ("L", (28, 28)) else None
    except (
        Exception
    ):  # Pillow's plugins raise whatever broken bytes lead them to: OSError, SyntaxError, struct.error...
        return None


def _digits() -> Parts:
    """scikit-learn's digits, 0 to 16 a pixel."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    x, y = found.images.astype(np.uint8), found.target.astype(np.int64)
    x_train, y_train, x_test, y_test = _split(x, y, DIGITS_TEST)
    note = f"No official test part: {len(y_test):,} of {len(y):,} images, by a hash of their pixels, are it."
    return x_train, y_train, x_test, y_test, (note,)


def _split(x: Pixels, y: Labels, share: float) -> tuple[Pixels, Labels, Pixels, Labels]:
    """A share of each class for the test: the images that come first by the hash of their pixels.

    It needs no generator, and is the same for any order of the files and on every machine.  The parts are in the order
    of the hash as well, which mixes the classes.
    """
    order = np.array(sorted(range(len(x)), key=lambda i: hashlib.sha256(x[i].tobytes()).digest()), dtype=np.int64)
    x, y = x[order], y[order]
    test = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        of_class = np.flatnonzero(y == label)
        test[of_class[: int(len(of_class) * share + 0.5)]] = True
    return x[~test], y[~test], x[test], y[test]


def _paired(images: Path, x: Pixels, labels: Path, y: NDArray[Any], allowed: Sequence[int]) -> Labels:
    """The labels as whole numbers: as many as there are images, not none, and each allowed."""
    if len(x) != len(y):
        both = f"{images} and {labels.name}" if images != labels else images
        raise _damaged(both, f"{len(x):,} images and {len(y):,} labels were found, of which there must be as many")
    if not len(y):
        raise _damaged(images, "it holds no image")
    wrong = ~np.isin(y, allowed)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        problem = f"labels must be {allowed[0]} to {allowed[-1]}; number {first} is {y[first]}"
        raise _damaged(labels, problem)
    return y.astype(np.int64)


def _files(count: int) -> str:
    """A number of files, in words."""
    return f"{count:,} file" + ("" if count == 1 else "s")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say which file could not be read, and whether it is missing, not ours or cut off."""
    try:
        yield
    except gzip.BadGzipFile as cause:
        raise _damaged(path, f"it is not a gzip file, or garbled: {cause}") from cause
    except (EOFError, zlib.error) as cause:
        raise _damaged(path, f"it breaks off or is garbled: {cause}") from cause
    except OSError as cause:
        if cause.errno is None:  # not the system's but a parser's
            raise _damaged(path, str(cause)) from cause
        raise DataError(
            f"{path} cannot be read ({cause.strerror}). Make it readable, or name another folder."
        ) from cause


def _damaged(path: Path | str, problem: str) -> DataError:
    """The error for a file whose content is wrong."""
    hint = "Put a whole copy there, or remove it and run again to download it."
    return DataError(f"{path} cannot be used: {' '.join(problem.split()).rstrip('.')}. {hint}")


_READERS: dict[str, Callable[[Path], Parts]] = {"fashion-mnist": _fashion, "notmnist": _notmnist, "svhn": _svhn}
