"""Images as another crop of the same pictures might have them: how much hangs on how a data set was cut out."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d, interpolate, pad

from squad.data.images import Pixels

__all__ = ["CROPS", "recrop"]

#: Pixels that "tighter" takes away at each border.
BORDER = 2
#: Images at once.
ROWS = 4096


def _tighter(x: Tensor) -> Tensor:
    height, width = x.shape[-2:]
    inner = x[..., BORDER : height - BORDER, BORDER : width - BORDER]
    return interpolate(inner, size=(height, width), mode="bicubic", align_corners=False)


def _softer(x: Tensor) -> Tensor:
    line = torch.tensor([0.25, 0.5, 0.25])
    kernel = torch.outer(line, line).expand(x.shape[1], 1, 3, 3)
    return conv2d(pad(x, (1, 1, 1, 1), mode="replicate"), kernel, groups=x.shape[1])


#: From (N, C, H, W) to the same, in numbers from 0 to 255.
CROPS: dict[str, Callable[[Tensor], Tensor]] = {"tighter": _tighter, "softer": _softer}


def recrop(x: Pixels, crop: str) -> Pixels:
    """Images cut otherwise.

    Args:
        x: (N, H, W) or (N, H, W, C), uint8.
        crop: "tighter" (two pixels less at each border, enlarged to the same size by a bicubic filter) or "softer" (a
            filter of weights 1, 2, 1 down and across, as a picture has that was resized more smoothly).

    Returns:
        The same shape, uint8.
    """
    made = np.empty_like(x)
    for begin in range(0, len(x), ROWS):
        part = torch.from_numpy(x[begin : begin + ROWS]).float()
        colours = part.movedim(-1, 1) if part.ndim == 4 else part.unsqueeze(1)
        found = CROPS[crop](colours).round().clamp(0, 255).to(torch.uint8)
        made[begin : begin + ROWS] = (found.movedim(1, -1) if part.ndim == 4 else found.squeeze(1)).numpy()
    return made
