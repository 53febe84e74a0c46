"""Alternative crops of images, to measure how much results depend on how a data set was cropped."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, interpolate, pad

from squad.data.images import Pixels

__all__ = ["CROPS", "recrop"]

#: Pixels removed at each border by "tighter".
BORDER = 2
#: Images processed per batch.
BATCH_ROWS = 4096


def _tighter(x: Tensor) -> Tensor:
    height, width = x.shape[-2:]
    inner = x[..., BORDER : height - BORDER, BORDER : width - BORDER]
    return interpolate(inner, size=(height, width), mode="bicubic", align_corners=False)


def _softer(x: Tensor) -> Tensor:
    weights = torch.tensor([0.25, 0.5, 0.25])
    kernel = torch.outer(weights, weights).expand(x.shape[1], 1, 3, 3)
    return conv2d(pad(x, (1, 1, 1, 1), mode="replicate"), kernel, groups=x.shape[1])


#: Functions from (N, C, H, W) to the same shape, with values from 0 to 255.
CROPS: dict[str, Callable[[Tensor], Tensor]] = {"tighter": _tighter, "softer": _softer}


def recrop(x: Pixels, crop: str) -> Pixels:
    """Return images as another crop of the same pictures would show them.

    Args:
        x: Images, (N, H, W) or (N, H, W, C), uint8.
        crop: "tighter" (two pixels less at each border, enlarged to the same size by a bicubic filter) or "softer"
            (a filter with weights 1, 2, 1 in both directions, as if the picture had been resized more smoothly).

    Returns:
        Images of the same shape, uint8.
    """
    cropped = np.empty_like(x)
    for begin in range(0, len(x), BATCH_ROWS):
        batch = torch.from_numpy(x[begin : begin + BATCH_ROWS]).float()
        channels_first = batch.movedim(-1, 1) if batch.ndim == 4 else batch.unsqueeze(1)
        pixels = CROPS[crop](channels_first).round().clamp(0, 255).to(torch.uint8)
        cropped[begin : begin + BATCH_ROWS] = (pixels.movedim(1, -1) if batch.ndim == 4 else pixels.squeeze(1)).numpy()
    return cropped
