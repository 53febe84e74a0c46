"""Cases in displayable form: images as small PNGs embedded in the page, rows as names and values."""

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.cells import cell_text
from squad.data.tables import Table

__all__ = ["array_row", "is_picture", "png", "table_row", "value_range"]

#: Maximum length of an image's longer side, in pixels; the page enlarges smaller images.
MAX_SIDE = 128
#: Maximum number of cells shown per row, and of characters per cell.
MAX_CELLS, MAX_CELL_LENGTH = 16, 60


def is_picture(shape: tuple[int, ...]) -> bool:
    """Return whether a row of this shape is an image: (height, width) or (height, width, channels).

    Examples:
        >>> is_picture((28, 28)), is_picture((28,))
        (True, False)
    """
    return len(shape) in (2, 3)


def value_range(images: NDArray[Any]) -> tuple[float, float]:
    """Return the values shown as black and as white, the same for all images so that they are comparable.

    These are the conventional ranges (0 to 255, 0 to 1) if the values look like it, otherwise the range of the values:
    8-bit images with values up to 16, such as the digits data, would be almost black.

    Returns:
        The value shown as black, and the value shown as white.

    Examples:
        >>> value_range(np.array([[0, 200]])), value_range(np.array([[0, 16]]))
        ((0.0, 255.0), (0.0, 16.0))
    """
    finite = images[np.isfinite(images)] if images.dtype.kind == "f" else images
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if low >= 0 and 127 < high <= 255:
        return 0.0, 255.0
    if images.dtype.kind == "f" and low >= 0 and 0.5 < high <= 1:
        return 0.0, 1.0
    return min(low, 0.0), high if high > min(low, 0.0) else min(low, 0.0) + 1.0


def png(image: NDArray[Any], limits: tuple[float, float]) -> str:
    """Encode an image as the ``data:`` URL of a PNG.

    Large images are downscaled; small ones keep their size, and the page enlarges them without smoothing.

    Args:
        image: (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), of any numeric type; for any other number of channels, their
            mean is shown.
        limits: Values shown as black and as white.

    Returns:
        The URL.

    Examples:
        >>> png(np.zeros((2, 2)), (0.0, 1.0))[:22]
        'data:image/png;base64,'
    """
    from PIL import Image

    low, high = limits
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = (np.nan_to_num(image.astype(np.float64), nan=low, posinf=high, neginf=low) - low) / (high - low)
    pixels = (255 * np.clip(scaled, 0, 1)).round().astype(np.uint8)
    if pixels.ndim == 3 and pixels.shape[2] not in (3, 4):
        pixels = pixels.mean(axis=2).round().astype(np.uint8)
    picture = Image.fromarray(pixels)
    longest = max(picture.size)
    if longest > MAX_SIDE:
        width, height = (max(1, round(side * MAX_SIDE / longest)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def table_row(table: Table, row: int, columns: list[str]) -> list[tuple[str, str]]:
    """Return names and values of a model's input columns, and the number of columns not shown.

    Args:
        table: Table of the rows.
        row: Index of the row, from 0.
        columns: Input columns of the model.

    Returns:
        Pairs of name and text; at most ``MAX_CELLS`` columns, and a last pair for the rest.
    """
    cells = table.frame.iloc[row]
    shown = [(name, _truncate(_shorten_number(cell_text(cells[name]) or "(empty)"))) for name in columns[:MAX_CELLS]]
    return shown + _not_shown(len(columns))


def array_row(values: NDArray[Any]) -> list[tuple[str, str]]:
    """Return the values of a row without column names, as "feature 1", "feature 2", ..."""
    flat = values.reshape(-1)
    shown = [(f"feature {index + 1}", _format_number(value)) for index, value in enumerate(flat[:MAX_CELLS].tolist())]
    return shown + _not_shown(len(flat))


def _format_number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def _not_shown(count: int) -> list[tuple[str, str]]:
    return [("not shown", f"{count - MAX_CELLS:,} more features")] if count > MAX_CELLS else []


def _shorten_number(text: str) -> str:
    """Shorten a number to six digits; return any other text unchanged."""
    try:
        return f"{float(text):.6g}" if len(text) > 10 else text
    except ValueError:
        return text


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_CELL_LENGTH else text[: MAX_CELL_LENGTH - 1] + "…"
