"""Loaders on small files in the publishers' formats, whole and broken."""

import gzip
import io
import random
import re
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from squad.data import images as module
from squad.data.images import ImageSet, load_images
from squad.data.registry import DATASETS
from squad.errors import ArgumentError, DataError

Files = dict[str, bytes]


@pytest.fixture(autouse=True)
def only_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SQUAD_DATA", str(tmp_path))


def noise(seed: int, *shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def read(name: str) -> ImageSet:
    found = load_images(name, download=False)
    assert found.name == name
    assert found.classes == DATASETS[name].classes
    for x, y in ((found.x_train, found.y_train), (found.x_test, found.y_test)):
        assert (x.dtype.name, y.dtype.name) == ("uint8", "int64")
        assert y.shape == (len(x),)
        assert x.flags.c_contiguous
        assert x.flags.writeable  # torch warns of arrays that are not
    return found


def refusal(name: str) -> str:
    with pytest.raises(DataError) as error:
        load_images(name, download=False)
    message = str(error.value)
    assert "\n" not in message
    assert "download" in message.rpartition(". ")[2]  # a remedy
    return message


def same(one: ImageSet, other: ImageSet) -> bool:
    arrays = ("x_train", "y_train", "x_test", "y_test")
    return all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays) and one.notes == other.notes


# Fashion-MNIST


def idx(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def fashion(folder: Path, **changed: bytes) -> dict[str, NDArray[np.uint8]]:
    """The four files, those ``changed`` (train_images=...) with another content."""
    arrays = {
        "train_images": noise(0, 7, 28, 28),
        "train_labels": np.array([0, 1, 9, 3, 3, 2, 1], np.uint8),
        "t10k_images": noise(1, 3, 28, 28),
        "t10k_labels": np.array([4, 9, 0], np.uint8),
    }
    for name, array in arrays.items():
        axes = array.ndim
        path = folder / f"{name.replace('_', '-')}-idx{axes}-ubyte.gz"
        path.write_bytes(gzip.compress(changed.get(name, idx(array))))
    return arrays


def test_fashion_mnist(tmp_path: Path) -> None:
    arrays = fashion(tmp_path)
    found = read("fashion-mnist")
    np.testing.assert_array_equal(found.x_train, arrays["train_images"])
    np.testing.assert_array_equal(found.y_train, arrays["train_labels"])
    np.testing.assert_array_equal(found.x_test, arrays["t10k_images"])
    np.testing.assert_array_equal(found.y_test, arrays["t10k_labels"])
    assert found.notes == ()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train_images": idx(noise(0, 7, 28, 28))[:-1]}, r"header \(7, 28, 28\).* 5,504 bytes.* 5,503"),
        ({"train_images": idx(noise(0, 7, 28, 28)) + b"x"}, "5,504 bytes.* 5,505"),
        ({"train_images": b"\0\0\x08\x03" + b"\xff" * 12}, f" {16 + (2**32 - 1) ** 3:,} bytes.* 16"),
        ({"train_images": b"\0\0\x08\x03\0\0"}, "header.* 6 of 16 bytes"),
        ({"train_images": b""}, "empty"),
        ({"train_images": idx(noise(0, 7, 28))}, "3 axes.* 00000803.* 00000802"),
        ({"train_images": b"\0\0\x0d\x03" + b"\0" * 12}, "00000803.* 00000d03"),
        ({"train_images": idx(noise(0, 7, 27, 28))}, "28 x 28.* 27 x 28"),
        ({"t10k_labels": idx(noise(0, 4))}, "t10k-labels-idx1-ubyte.gz.* 3 images and 4 labels"),
        ({"t10k_labels": idx(np.array([1, 10, 0], np.uint8))}, "labels must be 0 to 9, got 10 at position 1"),
        ({"t10k_images": idx(noise(0, 0, 28, 28)), "t10k_labels": idx(noise(0, 0))}, "no images"),
    ],
)
def test_fashion_mnist_with_wrong_content(tmp_path: Path, changed: Files, message: str) -> None:
    fashion(tmp_path, **changed)
    assert re.search(message, refusal("fashion-mnist"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-20], "truncated or corrupt: Compressed file ended before"),
        (lambda data: data[:100] + bytes(50) + data[150:], "corrupt"),
        (lambda data: b"<html>not found</html>", "not a gzip file.*: Not a gzipped file"),
        (lambda data: b"", "empty"),
    ],
)
def test_a_broken_gzip_file(tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    fashion(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=message):
        load_images("fashion-mnist")
    assert refusal("fashion-mnist").startswith(f"{path} cannot be used: ")


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fashion(tmp_path)

    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(gzip, "open", denied)  # permissions do not bind the superuser, who may run the tests
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz cannot be read \(Permission denied\). Make it"):
        load_images("fashion-mnist")


# SVHN


def svhn(folder: Path, **changed: object) -> None:
    """Both files, X and y of the second ``changed`` or, where None, left out."""
    for part, count in (("train", 12), ("test", 11)):
        content: dict[str, object] = {
            "X": np.moveaxis(noise(count, count, 32, 32, 3), 0, 3),
            "y": (np.arange(count, dtype=np.uint8) % 10 + 1)[:, None],
        }
        if part == "test":
            content = {key: value for key, value in (content | changed).items() if value is not None}
        savemat(folder / f"{part}_32x32.mat", content)


def test_svhn_in_which_10_is_the_digit_0(tmp_path: Path) -> None:
    svhn(tmp_path)
    found = read("svhn")
    np.testing.assert_array_equal(found.x_train, noise(12, 12, 32, 32, 3))
    np.testing.assert_array_equal(found.x_test, noise(11, 11, 32, 32, 3))
    assert found.y_train.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": None}, "it has no variable X"),
        ({"y": None}, "it has no variable y"),
        ({"X": noise(0, 11, 32, 32, 3)}, r"X must .*\(32, 32, 3, N\).* got \(11, 32, 32, 3\) and uint8"),
        ({"X": noise(0, 32, 32, 3, 11) / 255}, r"X must .*uint8, got \(32, 32, 3, 11\) and float64"),
        ({"y": np.ones((11, 2))}, r"y must .*\(N, 1\).* got \(11, 2\) and float64"),
        ({"y": np.array(["1"] * 11)}, r"y must .*numbers, got .*<U1"),
        ({"y": np.ones((10, 1))}, "11 images and 10 labels"),
        ({"y": np.zeros((11, 1), np.uint8)}, "labels must be 1 to 10, got 0 at position 0"),
        ({"y": np.full((11, 1), 1.5)}, "labels must be 1 to 10, got 1.5 at position 0"),
        ({"y": np.full((11, 1), np.nan)}, "labels must be 1 to 10, got nan at position 0"),
    ],
)
def test_svhn_with_wrong_content(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    svhn(tmp_path, **changed)
    text = refusal("svhn")
    assert text.startswith(f"{tmp_path / 'test_32x32.mat'} cannot be used: ")
    assert re.search(message, text)


@pytest.mark.parametrize("size", [0, 3, 60, 127, 128, 140, 1000, -6])
def test_truncated_svhn(tmp_path: Path, size: int) -> None:
    svhn(tmp_path)
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:size])
    assert refusal("svhn").startswith(f"{path} cannot be used: ")


def test_svhn_file_with_other_content(tmp_path: Path) -> None:
    svhn(tmp_path)
    (tmp_path / "test_32x32.mat").write_bytes(b"<html>" + b"not found " * 100)
    assert "not a MATLAB file" in refusal("svhn")


# notMNIST


def png(pixels: NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def letters(count: int = 6) -> Files:
    """Different images: ``count`` of each class."""
    return {
        f"notMNIST_small/{letter}/{i}.png": png(noise(100 * k + i, 28, 28))
        for k, letter in enumerate("ABCDEFGHIJ")
        for i in range(count)
    }


def pack(files: Files, *links: str) -> bytes:
    """A tar file, not yet gzipped."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        folder = tarfile.TarInfo("notMNIST_small/A")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name in links:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def notmnist(folder: Path, tar: bytes) -> None:
    (folder / "notMNIST_small.tar.gz").write_bytes(gzip.compress(tar, 1))


def test_notmnist(tmp_path: Path) -> None:
    files = letters()
    notmnist(tmp_path, pack(files))
    found = read("notmnist")
    assert found.x_train.shape == (40, 28, 28)
    assert np.bincount(found.y_train).tolist() == [4] * 10
    assert np.bincount(found.y_test).tolist() == [2] * 10  # of 6, 27 % are 1.6
    (note,) = found.notes
    assert "20 of 60 images" in note
    # Every image is there once, with its label.
    for x, y in (*zip(found.x_train, found.y_train, strict=True), *zip(found.x_test, found.y_test, strict=True)):
        assert any(np.array_equal(x, noise(100 * int(y) + i, 28, 28)) for i in range(6))
    assert len(np.unique(np.concatenate([found.x_train, found.x_test]), axis=0)) == 60


def test_notmnist_reports_excluded_files(tmp_path: Path) -> None:
    clean = letters()
    notmnist(tmp_path, pack(clean))
    whole = read("notmnist")
    disputed = png(noise(5000, 28, 28))
    dirty = {
        **clean,
        "notMNIST_small/A/empty.png": b"",
        "notMNIST_small/B/half.png": clean["notMNIST_small/B/0.png"][:300],
        "notMNIST_small/B/large.png": png(noise(0, 29, 28)),
        "notMNIST_small/B/colour.png": png(noise(0, 28, 28, 3)),
        "notMNIST_small/B/text.png": b"hello",
        "notMNIST_small/C/again.png": clean["notMNIST_small/C/0.png"],
        "notMNIST_small/C/and again.png": clean["notMNIST_small/C/0.png"],
        "notMNIST_small/D/x.png": disputed,
        "notMNIST_small/D/y.png": disputed,
        "notMNIST_small/E/x.png": disputed,
        "notMNIST_small/A/._0.png": clean["notMNIST_small/B/0.png"],
        "notMNIST_small/readme.txt": b"letters",
        "notMNIST_small/K/0.png": clean["notMNIST_small/A/0.png"],
        "0.png": clean["notMNIST_small/A/0.png"],
    }
    notmnist(tmp_path, pack(dirty, "notMNIST_small/A/link.png", "../../A/link.png"))
    found = read("notmnist")
    patterns = (
        "5 files .*grey",
        "6 files .*not images of a class",
        "2 files dropped: dupl",
        "3 files dropped: 1 image",
    )
    for note, pattern in zip(found.notes, patterns, strict=False):
        assert re.match(pattern, note)
    assert found.notes[len(patterns) :] == whole.notes
    np.testing.assert_array_equal(found.x_train, whole.x_train)
    np.testing.assert_array_equal(found.y_test, whole.y_test)
    assert list(tmp_path.iterdir()) == [tmp_path / "notMNIST_small.tar.gz"]


def test_an_image_with_two_labels_is_dropped(tmp_path: Path) -> None:
    files = letters(2)
    files["notMNIST_small/B/0.png"] = files["notMNIST_small/A/0.png"]
    notmnist(tmp_path, pack(files))
    found = read("notmnist")
    assert not (np.concatenate([found.x_train, found.x_test]) == noise(0, 28, 28)).all((1, 2)).any()


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    files = letters()
    files["notMNIST_small/C/copy.png"] = files["notMNIST_small/C/0.png"]
    notmnist(tmp_path, pack(files))
    one = read("notmnist")
    notmnist(tmp_path, pack({f"./renamed{name[14:]}": data for name, data in reversed(files.items())}))
    assert same(one, read("notmnist"))


def test_the_split_is_the_same_everywhere() -> None:
    """Golden values: a change would make results on notMNIST and the digits incomparable with earlier ones."""
    x = np.arange(20, dtype=np.uint8).reshape(20, 1, 1)
    y = np.arange(20) % 2
    x_train, y_train, x_test, y_test = module._split(x, y, 0.25)
    assert x_test.ravel().tolist() == [10, 3, 9, 17, 14, 6]
    np.testing.assert_array_equal(y_test, x_test.ravel() % 2)
    np.testing.assert_array_equal(y_train, x_train.ravel() % 2)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.floats(0, 1), st.randoms(use_true_random=False))
def test_a_split_is_stratified_and_independent_of_order(labels: list[int], share: float, mixer: random.Random) -> None:
    y = np.array(labels, np.int64)
    x = np.arange(len(y), dtype=np.uint8).reshape(-1, 1, 1)
    x_train, y_train, x_test, y_test = module._split(x, y, share)
    assert sorted([*x_train.ravel(), *x_test.ravel()]) == list(range(len(y)))
    np.testing.assert_array_equal(y[x_test.ravel()], y_test)
    np.testing.assert_array_equal(y[x_train.ravel()], y_train)
    for label in set(labels):
        assert abs((y_test == label).sum() - share * labels.count(label)) <= 0.5 + 1e-9
    order = list(range(len(y)))
    mixer.shuffle(order)
    for one, other in zip(module._split(x[order], y[order], share), (x_train, y_train, x_test, y_test), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("end", [100, 512, 700, 1024, 1100, 1536, 2000, 10_000, 20_480])
def test_a_truncated_tar_file(tmp_path: Path, end: int) -> None:
    """Truncated anywhere: tarfile mistakes an end between two members for the end of the archive."""
    notmnist(tmp_path, pack(letters())[:end])
    message = refusal("notmnist")
    assert message.startswith(f"{tmp_path / 'notMNIST_small.tar.gz'} cannot be used: its tar archive ")


def test_a_corrupt_tar_file(tmp_path: Path) -> None:
    data = bytearray(pack(letters()))
    second = data.index(b"notMNIST_small/C/3.png")
    data[second + 120] ^= 0xFF
    notmnist(tmp_path, bytes(data))
    assert f"corrupt after {second:,} of {len(data):,} bytes" in refusal("notmnist")


def test_a_file_that_is_not_a_gzipped_tar(tmp_path: Path) -> None:
    path = tmp_path / "notMNIST_small.tar.gz"
    packed = gzip.compress(pack(letters()))
    for data, message in (
        (packed[: len(packed) // 2], "truncated or corrupt: Compressed file ended before"),
        (b"<html>", "not a gzip file"),
        (gzip.compress(b"hello " * 1000), "tar archive is broken"),
        (gzip.compress(pack({})), "no images A/*.png to J/*.png"),
        (gzip.compress(b""), "tar archive is broken"),
    ):
        path.write_bytes(data)
        assert message in refusal("notmnist")


# digits


def test_digits_need_no_file() -> None:
    found = read("digits")
    assert found.x_train.shape == (1198, 8, 8)
    assert found.x_test.shape == (599, 8, 8)
    assert found.x_train.max() == 16
    assert np.abs(np.bincount(found.y_test) - np.bincount(found.y_train) / 2).max() <= 1
    (note,) = found.notes
    assert "599 of 1,797 images" in note
    assert same(found, read("digits"))


def test_an_unknown_dataset() -> None:
    with pytest.raises(ArgumentError, match="Did you mean 'fashion-mnist'"):
        load_images("fashion")


def test_missing_files_are_named() -> None:
    with pytest.raises(DataError, match=r"notmnist is not on this machine.* Put notMNIST_small.tar.gz into "):
        load_images("notmnist", download=False)
