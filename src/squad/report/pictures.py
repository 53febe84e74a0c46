"""Images, small enough to be embedded in the page."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["image_url", "is_picture", "latent_map", "value_range"]

#: Maximum length of an image's longer side, in pixels; the page enlarges smaller images.
MAX_SIDE = 128
#: Images with a longer side than this are photographs rather than drawings, and are compressed as such.
MIN_PHOTO_SIDE, JPEG_QUALITY = 64, 85
#: Bytes of an image, as long as nothing else is said; and the side below which it is not made smaller.
MAX_BYTES, MIN_SIDE = 16_000, 16
#: Colour of the cells of a map of latent variables; it is visible on light and on dark pages.
MAP_COLOUR = (47, 127, 184)


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


def image_url(image: NDArray[Any], limits: tuple[float, float], most_bytes: int = MAX_BYTES) -> str:
    """Encode an image as a ``data:`` URL: as PNG, or as JPEG if it is large and opaque.

    Large images are downscaled; small ones keep their size, and the page enlarges them without smoothing.  An image
    that takes more bytes than it may is compressed as JPEG (on white, if it is transparent), and then downscaled.

    Args:
        image: (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), of any numeric type; for any other number of channels, their
            mean is shown.
        limits: Values shown as black and as white.
        most_bytes: Maximum length of the URL; not for images of :data:`MIN_SIDE` pixels or fewer.

    Returns:
        The URL.

    Examples:
        >>> image_url(np.zeros((2, 2)), (0.0, 1.0))[:22]
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
    picture = _downscaled(picture, MAX_SIDE)
    url = _data_url(picture, photo=longest > MIN_PHOTO_SIDE and picture.mode in ("L", "RGB"))
    if len(url) > most_bytes and picture.mode == "RGBA":
        opaque = Image.new("RGB", picture.size, "white")
        opaque.paste(picture, mask=picture.getchannel("A"))
        picture = opaque
    while len(url) > most_bytes:
        url = min(url, _data_url(picture, photo=True), key=len)
        if max(picture.size) <= MIN_SIDE:
            break
        picture = _downscaled(picture, max(MIN_SIDE, max(picture.size) * 3 // 4))
    return url


def _downscaled(picture: Any, most: int) -> Any:
    """Return a picture whose longer side has at most this length."""
    from PIL import Image

    longest = max(picture.size)
    if longest <= most:
        return picture
    width, height = (max(1, round(side * most / longest)) for side in picture.size)
    return picture.resize((width, height), Image.Resampling.BOX)


def latent_map(probabilities: ArrayLike) -> str:
    """Draw distributions of latent variables as the ``data:`` URL of a PNG with a pixel per value.

    Args:
        probabilities: (units, bins), probabilities; a pixel is the more opaque the more probable its value.

    Returns:
        The URL.

    Examples:
        >>> latent_map([[0.5, 0.5], [0.0, 1.0]])[:22]
        'data:image/png;base64,'
    """
    from PIL import Image

    p = np.clip(np.asarray(probabilities, dtype=np.float64), 0, 1)
    pixels = np.empty((*p.shape, 4), dtype=np.uint8)
    pixels[..., :3] = MAP_COLOUR
    pixels[..., 3] = (255 * np.sqrt(p)).round()  # the square root makes small probabilities visible
    return _data_url(Image.fromarray(pixels))


def _data_url(picture: Any, photo: bool = False) -> str:
    file = io.BytesIO()
    if photo:
        picture.save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    else:
        picture.save(file, "PNG", optimize=True)
    return f"data:image/{'jpeg' if photo else 'png'};base64," + base64.b64encode(file.getvalue()).decode("ascii")
