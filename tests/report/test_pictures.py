"""Images survive encoding."""

import base64
import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from squad.report.pictures import image_url, latent_map, value_range


def decoded(address: str, kind: str = "png") -> NDArray[Any]:
    head, _, data = address.partition(",")
    assert head == f"data:image/{kind};base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_bytes_are_preserved() -> None:
    rng = np.random.default_rng(0)
    for shape in [(8, 8), (5, 9, 3), (4, 4, 4)]:
        image = rng.integers(0, 256, shape).astype(np.uint8)
        image.flat[0] = 255
        np.testing.assert_array_equal(decoded(image_url(image, value_range(image))), image)


@pytest.mark.parametrize(
    ("array", "limits"),
    [
        (np.array([0, 16], dtype=np.uint8), (0, 16)),
        (np.array([3, 200], dtype=np.uint8), (0, 255)),
        (np.array([0.1, 0.9]), (0, 1)),
        (np.array([0.0, 250.0]), (0, 255)),
        (np.array([-2.0, 3.0]), (-2, 3)),
        (np.array([np.nan, 2.0, np.inf]), (0, 2)),
        (np.array([0, 0]), (0, 1)),
        (np.array([-3.0, -3.0]), (-3, -2)),
        (np.array([np.nan]), (0, 1)),
    ],
)
def test_value_range(array: NDArray[Any], limits: tuple[float, float]) -> None:
    assert value_range(array) == limits


def test_floats_are_scaled_and_nan_is_black() -> None:
    image = np.array([[-1.0, 3.0], [np.nan, 1.0]])
    np.testing.assert_array_equal(decoded(image_url(image, value_range(image))), [[0, 255], [0, 128]])
    assert decoded(image_url(np.ones((6, 6, 1)), (0, 1))).shape == (6, 6)
    assert decoded(image_url(np.ones((6, 6, 2)), (0, 1))).shape == (6, 6)


@pytest.mark.parametrize("shape", [(64, 64, 3), (60, 60, 4), (128, 128), (300, 200, 3)])
@pytest.mark.parametrize("most", [2000, 6000])
def test_an_image_takes_no_more_bytes_than_it_may(shape: tuple[int, ...], most: int) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    assert len(image_url(image, (0, 255), 10**6)) > most
    assert len(image_url(image, (0, 255), most)) <= most


def test_a_transparent_image_is_shown_on_white() -> None:
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 4)).astype(np.uint8)
    image[..., 3] = 0
    assert decoded(image_url(image, (0, 255), 1000), "jpeg").min() > 250


def test_large_images_are_downscaled() -> None:
    image = np.zeros((600, 300, 3), dtype=np.uint8)
    image[:300] = 255
    found = decoded(image_url(image, (0, 255)), "jpeg")
    assert found.shape == (128, 64, 3)
    assert found[:56].min() >= 250
    assert found[72:].max() <= 5
    assert decoded(image_url(np.zeros((1, 5000)), (0, 1)), "jpeg").shape == (1, 128)


def test_photographs_take_little_room() -> None:
    """48 of them, with the noise of a camera, leave a report below 1.5 MB."""
    rng = np.random.default_rng(0)
    smooth = np.linspace(0, 200, 300)[:, None, None] + 40 * np.sin(np.linspace(0, 20, 300))[None, :, None]
    photo = np.clip(smooth + rng.normal(0, 12, (300, 300, 3)), 0, 255).astype(np.uint8)
    assert len(image_url(photo, (0, 255))) < 16_000
    transparent = np.full((300, 300, 4), 100, dtype=np.uint8)
    assert decoded(image_url(transparent, (0, 255))).shape == (128, 128, 4)


def test_a_map_of_latents_is_as_opaque_as_probable() -> None:
    found = decoded(latent_map([[0.0, 0.25], [1.0, 1.2]]))
    assert found.shape == (2, 2, 4)
    assert found[..., 3].tolist() == [[0, 128], [255, 255]]
