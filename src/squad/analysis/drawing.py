"""Colours and small plots shared by the figures of latent variables."""

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
    """Draw a distribution over C bins as bars.

    Args:
        axis: Axes to draw on.
        probs: (C,), probabilities.
        values: (C,), values of the bins, ascending; the first, the middle and the last are labelled.
        match: (C,), a second distribution, drawn as an outline.
        colour: Colour of the bars.
    """
    axis.bar(np.arange(len(probs)), probs, 0.85, color=colour)
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
    labelled = [0, len(values) // 2, len(values) - 1]
    axis.set_xticks(labelled, [f"{round(values[index], 1) + 0.0:.1f}" for index in labelled])


def image(axis: "Axes", pixels: NDArray[Any], **settings: Any) -> Any:
    """Draw an image without ticks.

    Args:
        axis: Axes to draw on.
        pixels: (H, W), (H, W, 3) within [0, 1], or (H, W, channels), whose mean is drawn.
        **settings: Arguments of matplotlib's ``imshow``.

    Returns:
        The image, for a colour bar.
    """
    if pixels.ndim == 3 and pixels.shape[2] not in (3, 4):
        pixels = pixels.mean(axis=2)
    drawn = axis.imshow(pixels, interpolation="nearest", **settings)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_color(FAINT)
    return drawn


def bare(axis: "Axes") -> None:
    """Hide an unused axis."""
    axis.set_axis_off()


def percent(fraction: float) -> str:
    """Format a fraction as a percentage: two significant digits below 10 %, whole percentages above.

    Returns:
        Text such as "12 %".

    Examples:
        >>> percent(0.123), percent(0.0123)
        ('12 %', '1.2 %')
    """
    if fraction == 0:
        return "0 %"
    return f"{100 * fraction:.0f} %" if fraction >= 0.1 else f"{100 * fraction:.2g} %"


def nats(kl: float) -> str:
    """Format a KL divergence in nats with two decimals, or three below 0.01.

    Returns:
        Text such as "0.12".

    Examples:
        >>> nats(0.123), nats(0.0012)
        ('0.12', '0.001')
    """
    return f"{kl:.2f}" if kl >= 0.01 else f"{kl:.3f}"
