"""What the figures of latents share: colours, and the small plots they are made of."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squad.plotting import FigureError, matplotlib_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BLUE",
    "FAINT",
    "GRAY",
    "GREEN",
    "INK",
    "RED",
    "FigureError",
    "bare",
    "bars",
    "image",
    "matplotlib_figure",
    "nats",
    "percent",
]

INK, GRAY, FAINT = "#222222", "#8a8a8a", "#e4e4e4"
GREEN, BLUE, RED = "#2f8f4e", "#3066b0", "#c0392b"


def bars(
    axis: "Axes",
    probs: NDArray[np.float64],
    *,
    values: NDArray[np.float64] | None = None,
    match: NDArray[np.float64] | None = None,
    colour: str = BLUE,
) -> None:
    """A distribution over C bins, in the order of their values, which are told at the ends and in the middle.

    Args:
        axis: to draw on.
        probs: (C,).
        values: (C,), ascending.
        match: (C,), a shape that is drawn around it.
        colour: of the bars.
    """
    ranks = np.arange(len(probs))
    axis.bar(ranks, probs, 0.85, color=colour)
    if match is not None:
        edges = np.arange(len(match) + 1) - 0.5
        axis.stairs(match, edges, color=INK, linewidth=0.9, linestyle=(0, (2, 1.5)))
    top = float(max(probs.max(), 0.0 if match is None else match.max()))
    axis.set_ylim(0, 1.08 * top)
    axis.set_xlim(-0.8, len(probs) - 0.2)
    axis.set_yticks([top], [percent(top)])
    axis.tick_params(labelsize=7, length=2, pad=1.5)
    axis.spines[["top", "right"]].set_visible(False)
    if values is None:
        axis.set_xticks([])
        return
    shown = [0, len(values) // 2, len(values) - 1]
    axis.set_xticks(shown, [f"{round(values[index], 1) + 0.0:.1f}" for index in shown])


def image(axis: "Axes", pixels: NDArray[Any], **settings: Any) -> Any:
    """Pixels without a frame; (H, W), (H, W, 3) within [0, 1], or (H, W, other), whose mean is shown."""
    if pixels.ndim == 3 and pixels.shape[2] not in (3, 4):
        pixels = pixels.mean(axis=2)
    drawn = axis.imshow(pixels, interpolation="nearest", **settings)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_color(FAINT)
    return drawn


def bare(axis: "Axes") -> None:
    """Nothing at all."""
    axis.set_axis_off()


def percent(share: float) -> str:
    """A share with the digits that matter."""
    if share == 0:
        return "0 %"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def nats(kl: float) -> str:
    """A KL with the digits that matter."""
    return f"{kl:.2f}" if kl >= 0.01 else f"{kl:.3f}"
