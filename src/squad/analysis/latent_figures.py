"""Figures of latent variables: stereotypes, activation functions and weights, drawn from their dataclasses alone.

Every ``draw_...`` function takes numpy arrays or data loaded from JSON, and returns a matplotlib figure.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.analysis.activations import Activation
from squad.analysis.drawing import (
    BLUE,
    FAINT,
    GRAY,
    GREEN,
    INK,
    RED,
    FigureError,
    bare,
    bars,
    image,
    matplotlib_figure,
    nats,
    percent,
)
from squad.analysis.shapes import Found, Nearest
from squad.analysis.unit_weights import BinWeights
from squad.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.figure import Figure, FigureBase

__all__ = ["DPI", "FigureError", "draw_activation", "draw_stereotypes", "draw_unit", "draw_weights"]

#: Width in inches and dots per inch: figures are 1,200 pixels wide.
WIDTH, DPI = 12.0, 100
#: Maximum number of inputs shown if they are not pixels.
MAX_INPUTS_SHOWN = 20
#: Distributions below this KL divergence, in nats, count as near.  Half of the mass in the wrong place gives 0.69.
NEAR_KL = 0.2
#: A smaller fraction is shown as a count.
MIN_FRACTION_SHOWN = 1e-3
#: Number of columns of a row of cases, at least.
MIN_CASE_COLUMNS = 5
#: Maximum length of an input's name.
MAX_NAME_LENGTH = 32


def draw_stereotypes(near: Sequence[Nearest], title: str = "") -> "Figure":
    """Draw the paper's figure of stereotypes.

    Part A shows the stereotypes, part B the predicted distributions nearest to each, and part C the KL divergences of
    all predicted distributions.

    Args:
        near: Result of :func:`squad.analysis.nearest`.
        title: Title of the figure.

    Returns:
        The figure.

    Raises:
        ArgumentError: If ``near`` is empty.
    """
    if not near:
        raise ArgumentError("near must contain at least one stereotype, got none.")
    columns, rows = len(near), max(len(one.found) for one in near)
    heights = [1.45, *([0.35 + 1.15 * rows] if rows else []), 2.3]
    figure = matplotlib_figure()(figsize=(WIDTH, sum(heights) + 0.3), dpi=DPI, layout="constrained")
    parts = _stacked(figure, heights)
    figure.suptitle(title, fontsize=11)

    parts[0].suptitle("A   stereotypes, over values from low to high", **_heading())
    for axis, one in zip(parts[0].subplots(1, columns, squeeze=False)[0], near, strict=True):
        bars(axis, one.target, colour=GREEN)
        axis.set_title(one.name, fontsize=9)
    if rows:
        parts[1].suptitle("B   nearest predicted distributions (dashed: the stereotype)", **_heading())
        grid = parts[1].subplots(rows, columns, squeeze=False)
        for column, one in enumerate(near):
            for row in range(rows):
                if row >= len(one.found):
                    bare(grid[row, column])
                    continue
                found = one.found[row]
                bars(grid[row, column], found.probs, match=found.match)
                grid[row, column].set_title(f"unit {found.unit}, KL {nats(found.kl)}", fontsize=7, pad=2)
    _kl_histograms(parts[-1], near)
    return figure


def _kl_histograms(part: "FigureBase", near: Sequence[Nearest]) -> None:
    """Draw histograms of the KL divergences of all predicted distributions, per stereotype."""
    part.suptitle(
        f"C   KL(stereotype || predicted) in nats of all {near[0].total:,} predicted distributions", **_heading()
    )
    axes = part.subplots(1, len(near), squeeze=False, sharey=True, sharex=True)[0]
    for axis, one in zip(axes, near, strict=True):
        percentages = 100 * one.counts / one.total
        axis.stairs(percentages, one.edges, fill=True, color=GRAY)
        near_bins = one.edges[1:] <= 1.01 * NEAR_KL  # NEAR_KL is an edge up to rounding
        axis.stairs(np.where(near_bins, percentages, 0), one.edges, fill=True, color=BLUE)
        axis.axvline(NEAR_KL, color=INK, linewidth=0.7, linestyle=(0, (2, 2)))
        axis.set_xscale("log")
        axis.set_xticks([0.001, 0.01, 0.1, 1, 10], ["0.001", "", "0.1", "", "10"])
        axis.minorticks_off()
        axis.tick_params(labelsize=7, length=2, pad=1.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_title(_near_text(one), fontsize=8, color=BLUE, loc="left", pad=3)
    axes[0].set_ylabel("% of distributions", fontsize=8)
    part.supxlabel("KL divergence (lower is nearer)", fontsize=8)


def _near_text(near: Nearest) -> str:
    """Describe how many distributions are near: a percentage, or a count if they are very few."""
    fraction = float(np.interp(NEAR_KL, near.thresholds, near.shares))
    amount = percent(fraction) if fraction >= MIN_FRACTION_SHOWN else f"{round(fraction * near.total):,}"
    return f"{amount} below {NEAR_KL:g}"


def draw_activation(found: Activation, within: "FigureBase | None" = None) -> "FigureBase":
    """Draw the paper's figure of a learned activation function: the output of a unit as a function of its input.

    Args:
        found: Activation function.
        within: Part of a larger figure to draw in; by default, a new figure.

    Returns:
        The figure, or the part of it that was given.
    """
    figure = within or matplotlib_figure()(figsize=(WIDTH * 0.75, 5.2), dpi=DPI, layout="constrained")
    value, rows = figure.subplots(2, 1, sharex=True, height_ratios=[6, 1])
    value.set_title(_activation_title(found), fontsize=10, loc="left")

    probability = value.twinx()
    # Probabilities on the left and values on the right, as in the paper.
    value.yaxis.tick_right()
    value.yaxis.set_label_position("right")
    probability.yaxis.tick_left()
    probability.yaxis.set_label_position("left")
    likely = value.plot(found.position, found.likely, drawstyle="steps-mid", color=BLUE, linewidth=1.6, zorder=3)
    mean = value.plot(found.position, found.mean, color=RED, linewidth=2.0, zorder=4)
    dots = value.plot(
        found.sample_position, found.sample, "o", color=GRAY, alpha=0.45, markersize=3, markeredgewidth=0, zorder=2
    )
    green = probability.plot(found.position, found.likely_probability, color=GREEN, linewidth=1.3, alpha=0.9)
    probability.set_ylim(0, 1.02)
    probability.set_ylabel("probability of the most likely value", color=GREEN)
    probability.tick_params(axis="y", colors=GREEN)
    value.set_ylabel("value z")
    margin = 0.06 * float(np.ptp(found.values)) or 1.0
    value.set_ylim(found.values.min() - margin, found.values.max() + margin)
    value.grid(axis="y", color=FAINT, linewidth=0.6)
    for axis in (value, probability, rows):
        axis.spines["top"].set_visible(False)
    value.legend(
        [mean[0], likely[0], dots[0], green[0]],
        ["expected value", "most likely value", "samples", "probability of the most likely value"],
        loc="lower center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=4,
        frameon=False,
        fontsize=8,
        columnspacing=1.4,
        handlelength=1.6,
    )

    rows.stairs(found.counts, found.edges, fill=True, color=GRAY)
    rows.set_yticks([])
    rows.set_ylabel("rows", fontsize=8)
    rows.spines[["right", "left"]].set_visible(False)
    rows.set_xlabel(found.axis)
    rows.set_xlim(found.position[0], found.position[-1])
    return figure


def _activation_title(found: Activation) -> str:
    title = f"Activation function of layer {found.layer}, unit {found.unit}"
    if found.exact or found.explained > 1 - 1e-9:
        return title
    return f"{title}, along the direction that explains {percent(found.explained)} of the variance of its logits"


def draw_weights(
    weights: BinWeights,
    found: Sequence[Found] = (),
    *,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    pictures: ArrayLike | None = None,
) -> "Figure":
    """Draw the paper's figure of a unit's weights, and cases with their predicted distributions.

    Args:
        weights: Weights of the unit's bins.
        found: Cases.
        shape: (height, width) or (height, width, channels) if the inputs are pixels.
        names: Names of the inputs if they are not pixels.
        pictures: (cases, height, width) or (cases, height, width, channels), the cases if they are images.

    Returns:
        The figure.
    """
    heights = [_weights_height(weights, shape), *([_cases_height(pictures)] if found else [])]
    figure = matplotlib_figure()(figsize=(WIDTH, sum(heights)), dpi=DPI, layout="constrained")
    parts = _stacked(figure, heights)
    _draw_weights(parts[0], weights, shape, names)
    if found:
        _draw_cases(parts[1], found, pictures)
    return figure


def draw_unit(
    activation: Activation,
    weights: BinWeights,
    found: Sequence[Found],
    *,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    pictures: ArrayLike | None = None,
    title: str = "",
) -> "Figure":
    """Draw one unit on one page: cases, activation function and weights.

    Args:
        activation: Activation function of the unit.
        weights: Weights of the unit's bins.
        found: Cases.
        shape: (height, width) or (height, width, channels) if the inputs are pixels.
        names: Names of the inputs if they are not pixels.
        pictures: (cases, height, width) or (cases, height, width, channels), the cases if they are images.
        title: Title of the figure.

    Returns:
        The figure.
    """
    heights = [*([_cases_height(pictures)] if found else []), 4.8, _weights_height(weights, shape)]
    figure = matplotlib_figure()(figsize=(WIDTH, sum(heights) + 0.4), dpi=DPI, layout="constrained")
    figure.suptitle(title, fontsize=12)
    *top, middle, bottom = _stacked(figure, heights)
    if top:
        _draw_cases(top[0], found, pictures)
    draw_activation(activation, middle)
    _draw_weights(bottom, weights, shape, names)
    return figure


def _stacked(figure: "Figure", heights: Sequence[float]) -> list[Any]:
    """Split a figure into parts of these relative heights, from top to bottom."""
    return list(figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])


def _heading() -> dict[str, Any]:
    return {"x": 0.008, "ha": "left", "fontsize": 10}


def _is_image(shape: Sequence[int] | None) -> bool:
    return shape is not None and len(shape) in (2, 3)


def _grid(bins: int) -> tuple[int, int]:
    """Return the number of rows and columns for the images of C bins, as even as possible."""
    rows = -(-bins // (8 if bins <= 16 else 13))
    return rows, -(-bins // rows)


def _weights_height(weights: BinWeights, shape: Sequence[int] | None) -> float:
    if not _is_image(shape):
        return 1.2 + 0.24 * min(MAX_INPUTS_SHOWN, int(weights.weights.shape[1]))
    rows, columns = _grid(len(weights.values))
    return 0.45 + rows * (0.955 * WIDTH / columns + 0.14)  # square images with a line of text above each


def _cases_height(pictures: ArrayLike | None) -> float:
    return 2.1 if pictures is None else 3.9


def _draw_weights(
    part: "FigureBase", weights: BinWeights, shape: Sequence[int] | None, names: Sequence[str] | None
) -> None:
    # Weights common to all bins do not change any probability.
    relative = weights.weights - weights.weights.mean(axis=0)
    if _is_image(shape):
        assert shape is not None
        _weight_images(part, weights, relative.reshape(-1, *shape))
    else:
        _weight_map(part, weights, relative, names)


def _weight_images(part: "FigureBase", weights: BinWeights, relative: NDArray[np.float64]) -> None:
    channels = relative.ndim == 4
    relative = relative.mean(axis=3) if channels else relative
    limit = float(np.quantile(np.abs(relative), 0.999)) or 1.0
    part.suptitle(
        f"Weights of layer {weights.layer}, unit {weights.unit}: inputs that make each value (above its image) more "
        f"likely (red) or less likely (blue){', mean over the channels' if channels else ''}",
        **_heading(),
    )
    axes = part.subplots(*_grid(len(relative)), squeeze=False)
    for index, axis in enumerate(axes.flat):
        if index >= len(relative):
            bare(axis)
            continue
        drawn = image(axis, relative[index], cmap="RdBu_r", vmin=-limit, vmax=limit)
        axis.set_title(f"{weights.values[index]:.2f}", fontsize=8, pad=2)
    bar = part.colorbar(drawn, ax=axes, shrink=0.8, aspect=30, pad=0.01)
    bar.ax.tick_params(labelsize=7)


def _weight_map(
    part: "FigureBase", weights: BinWeights, relative: NDArray[np.float64], names: Sequence[str] | None
) -> None:
    count = relative.shape[1]
    names = [f"input {index}" for index in range(1, count + 1)] if names is None else list(names)
    if len(names) != count:
        raise ArgumentError(f"names must have one entry for each of {count} inputs, got {len(names)}.")
    shown = np.argsort(-np.square(relative).sum(axis=0), kind="stable")[:MAX_INPUTS_SHOWN]
    limit = float(np.abs(relative[:, shown]).max()) or 1.0
    selection = f"; the {len(shown)} largest of {count} inputs" if count > len(shown) else ""
    part.suptitle(
        f"Weights of layer {weights.layer}, unit {weights.unit}: a larger input makes a value more likely (red) or "
        f"less likely (blue){selection}",
        **_heading(),
    )
    axis = part.subplots()
    drawn = axis.imshow(
        relative[:, shown].T, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )
    axis.set_yticks(range(len(shown)), [_truncate(names[index]) for index in shown], fontsize=8)
    ticks = np.unique(np.linspace(0, len(weights.values) - 1, min(15, len(weights.values))).round().astype(int))
    axis.set_xticks(ticks, [f"{weights.values[index]:.2f}" for index in ticks], fontsize=8)
    axis.tick_params(length=0)
    axis.set_xlabel("value z", fontsize=9)
    axis.spines[:].set_visible(False)
    part.colorbar(drawn, ax=axis, pad=0.01, aspect=30).ax.tick_params(labelsize=7)


def _truncate(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def _draw_cases(part: "FigureBase", found: Sequence[Found], pictures: ArrayLike | None) -> None:
    part.suptitle(
        f"Cases and the distributions that unit {found[0].unit} predicts for them; dashed: nearest stereotype (near if "
        "KL < 0.2, far if KL > 0.7)",
        **_heading(),
    )
    images = None if pictures is None else _scaled(np.asarray(pictures))
    if images is not None and len(images) != len(found):
        raise ArgumentError(f"pictures must have one image for each of {len(found)} cases, got {len(images)}.")
    heights = [1] if images is None else [1, 0.9]
    axes = part.subplots(len(heights), max(len(found), MIN_CASE_COLUMNS), squeeze=False, height_ratios=heights)
    for axis in axes[:, len(found) :].flat:
        bare(axis)
    for column, one in enumerate(found):
        if images is not None:
            image(axes[0, column], images[column], cmap="gray", vmin=0, vmax=1)
        axes[0, column].set_title(f"row {one.row + 1}: {one.stereotype}, KL {nats(one.kl)}", fontsize=8, pad=3)
        bars(axes[-1, column], one.probs, values=one.values, match=one.match)
        axes[-1, column].set_xlabel("value z", fontsize=7, labelpad=1)


def _scaled(pictures: NDArray[Any]) -> NDArray[np.float64]:
    """Scale all images to [0, 1] with the same limits."""
    pixels = pictures.astype(np.float64)
    low, high = min(float(pixels.min()), 0.0), float(pixels.max())
    scaled: NDArray[np.float64] = (pixels - low) / ((high - low) or 1.0)
    return scaled
