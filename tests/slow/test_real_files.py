"""The loaders on the real files.

Fashion-MNIST comes with Debian's package dataset-fashion-mnist; the others are read where SQUAD_DATA or the user's
cache has them, and otherwise skipped, in CI too: there is no package of them.
"""

import numpy as np
import pytest

from squad.data.images import ImageSet, load_images
from squad.data.registry import find
from tests.needs import need


def loaded(name: str) -> ImageSet:
    if find(name) is None:
        pytest.skip(f"{name} is not on this machine; squad data fetch {name}")
    return load_images(name, download=False)


def test_fashion_mnist() -> None:
    need(find("fashion-mnist") is not None, "Fashion-MNIST (Debian's dataset-fashion-mnist, or squad data fetch)")
    images = load_images("fashion-mnist", download=False)
    assert images.x_train.shape == (60_000, 28, 28)
    assert images.x_test.shape == (10_000, 28, 28)
    assert np.bincount(images.y_train).tolist() == [6000] * 10
    assert np.bincount(images.y_test).tolist() == [1000] * 10
    scaled = images.x_train / 255
    assert scaled.mean() == pytest.approx(0.28604, abs=1e-5)
    assert scaled.std() == pytest.approx(0.35302, abs=1e-5)


def test_notmnist() -> None:
    images = loaded("notmnist")
    x = np.concatenate([images.x_train, images.x_test])
    assert x.shape == (18_230, 28, 28)
    assert len(images.x_test) == 5000
    assert len({picture.tobytes() for picture in x}) == len(x)
    assert any("2 files could not be read" in note for note in images.notes)
    assert images.classes == tuple("ABCDEFGHIJ")


def test_svhn() -> None:
    images = loaded("svhn")
    assert images.x_train.shape == (73_257, 32, 32, 3)
    assert images.x_test.shape == (26_032, 32, 32, 3)
    assert set(images.y_train.tolist()) == set(range(10))
    # The digit 1 is the most frequent one, and 0, the files' label 10, is not.
    assert int(np.bincount(images.y_train).argmax()) == 1
