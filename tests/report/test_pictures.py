"""Images survive encoding, and rows become names and values."""

import base64
import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from PIL import Image

from squad.data.tables import Table
from squad.report.pictures import array_row, png, table_row, value_range


def decoded(address: str) -> NDArray[Any]:
    kind, _, data = address.partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_bytes_are_preserved() -> None:
    rng = np.random.default_rng(0)
    for shape in [(8, 8), (5, 9, 3), (4, 4, 4)]:
        image = rng.integers(0, 256, shape).astype(np.uint8)
        image.flat[0] = 255
        np.testing.assert_array_equal(decoded(png(image, value_range(image))), image)


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
    np.testing.assert_array_equal(decoded(png(image, value_range(image))), [[0, 255], [0, 128]])
    assert decoded(png(np.ones((6, 6, 1)), (0, 1))).shape == (6, 6)
    assert decoded(png(np.ones((6, 6, 2)), (0, 1))).shape == (6, 6)


def test_large_images_are_downscaled() -> None:
    image = np.zeros((600, 300, 3), dtype=np.uint8)
    image[:300] = 255
    found = decoded(png(image, (0, 255)))
    assert found.shape == (128, 64, 3)
    assert found[:60].min() == 255
    assert not found[68:].any()
    assert decoded(png(np.zeros((1, 5000)), (0, 1))).shape == (1, 128)


def test_rows_are_names_and_values() -> None:
    table = Table.of(pd.DataFrame({"a": [1.0, None], "b": ["x" * 100, " y "], "c": [3, 4]}))
    assert table_row(table, 1, ["b", "a"]) == [("b", "y"), ("a", "(empty)")]
    (_, long), (_, whole) = table_row(table, 0, ["b", "a"])
    assert (len(long), long[-1], whole) == (60, "…", "1")
    found = array_row(np.arange(40.0))
    assert found[0] == ("feature 1", "0")
    assert found[-1] == ("not shown", "24 more features")
    assert len(found) == 17


def test_numbers_in_tables_are_shortened() -> None:
    table = Table.of(pd.DataFrame({"a": ["0.25069976766922464"], "b": ["12.50"], "c": ["longer than ten characters"]}))
    assert [value for _, value in table_row(table, 0, ["a", "b", "c"])] == [
        "0.2507",
        "12.50",
        "longer than ten characters",
    ]
