"""Cases as a reader can look at them: small pictures that stand in the page itself, and rows as names and values."""

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.cells import cell_text
from squad.data.tables import Table

__all__ = ["array_row", "is_picture", "png", "table_row", "value_range"]

#: Pixels of the longer side, at the most; the page enlarges small ones.
SIDE = 128
#: So many cells of a row are shown, and so many letters of each.
CELLS, LETTERS = 16, 60


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether a row of this shape is an image: (height, width), or with channels last."""
    return len(shape) in (2, 3)


def value_range(images: NDArray[Any]) -> tuple[float, float]:
    """What is black and what is white, for all images alike, so that they can be compared.

    By the type's or format's own limits where the numbers look like it (0 to 255, 0 to 1), otherwise by the numbers
    themselves: 8-bit files of digits that only go to 16 would be black.
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
    """An image (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) of any numbers as a data: address.

    With any other number of channels their mean is shown.  Large images are made smaller; small ones are left as
    they are, for the page to enlarge without smoothing.
    """
    from PIL import Image

    low, high = limits
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = (np.nan_to_num(image.astype(np.float64), nan=low, posinf=high, neginf=low) - low) / (high - low)
    pixels = (255 * np.clip(scaled, 0, 1)).round().astype(np.uint8)
    if pixels.ndim == 3 and pixels.shape[2] not in (3, 4):
        pixels = pixels.mean(axis=2).round().astype(np.uint8)
    made = Image.fromarray(pixels)
    longest = max(made.size)
    if longest > SIDE:
        width, height = (max(1, round(side * SIDE / longest)) for side in made.size)
        made = made.resize((width, height), Image.Resampling.BOX)
    file = io.BytesIO()
    made.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def table_row(table: Table, row: int, columns: list[str]) -> list[tuple[str, str]]:
    """Names and values of the columns that a model looks at, and how many more there are."""
    cells = table.frame.iloc[row]
    shown = [(name, _cut(_short(cell_text(cells[name]) or "(empty)"))) for name in columns[:CELLS]]
    return shown + _more(len(columns))


def array_row(values: NDArray[Any]) -> list[tuple[str, str]]:
    """The numbers of a row without names, counted from 1."""
    flat = values.reshape(-1)
    shown = [(f"feature {place + 1}", _number(value)) for place, value in enumerate(flat[:CELLS].tolist())]
    return shown + _more(len(flat))


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else str(value)


def _more(count: int) -> list[tuple[str, str]]:
    return [("and more", f"{count - CELLS:,}")] if count > CELLS else []


def _short(text: str) -> str:
    """A number without the digits that nobody reads; other text as it is."""
    try:
        return f"{float(text):.6g}" if len(text) > 10 else text
    except ValueError:
        return text


def _cut(text: str) -> str:
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
