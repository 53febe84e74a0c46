"""Figures of latent variables, from their dataclasses alone: shapes of distributions, an activation function, weights.

Every ``draw_...`` takes numpy arrays or what was read from JSON, and returns matplotlib's figure.
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

#: Inches, and dots an inch: 1,200 dots wide.
WIDTH, DPI = 12.0, 100
#: So many inputs are shown where they are no pixels.
INPUTS = 20
#: The share below this KL, in nats, is told.  Half of the mass in the wrong place would be 0.69.
NEAR = 0.2
#: A smaller share is told as a number.
FEW = 1e-3
#: Cases side by side; fewer leave room.
CASES = 5
#: Letters of an input's name.
LETTERS = 32


def draw_stereotypes(near: Sequence[Nearest], title: str = "") -> "Figure":
    """The paper's figure of stereotypes.

    A, the shapes one hopes to find; B, the predicted distributions that are nearest to each; C, how near all of them
    are.
    """
    if not near:
        raise ArgumentError.of("near", "none", "at least one stereotype")
    columns, rows = len(near), max(len(one.found) for one in near)
    heights = [1.45, *([0.35 + 1.15 * rows] if rows else []), 2.3]
    figure = matplotlib_figure()(figsize=(WIDTH, sum(heights) + 0.3), dpi=DPI, layout="constrained")
    parts = _parts(figure, heights)
    figure.suptitle(title, fontsize=11)

    parts[0].suptitle("A   shapes one hopes to find, over values from low to high", **_heading())
    for axis, one in zip(parts[0].subplots(1, columns, squeeze=False)[0], near, strict=True):
        bars(axis, one.target, colour=GREEN)
        axis.set_title(one.name, fontsize=9)
    if rows:
        parts[1].suptitle("B   predicted distributions that are nearest (dashed: the shape)", **_heading())
        grid = parts[1].subplots(rows, columns, squeeze=False)
        for column, one in enumerate(near):
            for row in range(rows):
                if row >= len(one.found):
                    bare(grid[row, column])
                    continue
                found = one.found[row]
                bars(grid[row, column], found.probs, match=found.match)
                grid[row, column].set_title(f"unit {found.unit}, KL {nats(found.kl)}", fontsize=7, pad=2)
    _all_kls(parts[-1], near)
    return figure


def _all_kls(part: "FigureBase", near: Sequence[Nearest]) -> None:
    """How near all predicted distributions are to each shape."""
    part.suptitle(
        f"C   how near all {near[0].total:,} predicted distributions are: KL(shape || predicted) in nats", **_heading()
    )
    axes = part.subplots(1, len(near), squeeze=False, sharey=True, sharex=True)[0]
    for axis, one in zip(axes, near, strict=True):
        shares = 100 * one.counts / one.total
        axis.stairs(shares, one.edges, fill=True, color=GRAY)
        close = one.edges[1:] <= 1.01 * NEAR  # one of the edges, but for its rounding
        axis.stairs(np.where(close, shares, 0), one.edges, fill=True, color=BLUE)
        axis.axvline(NEAR, color=INK, linewidth=0.7, linestyle=(0, (2, 2)))
        axis.set_xscale("log")
        axis.set_xticks([0.001, 0.01, 0.1, 1, 10], ["0.001", "", "0.1", "", "10"])
        axis.minorticks_off()
        axis.tick_params(labelsize=7, length=2, pad=1.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_title(_below(one), fontsize=8, color=BLUE, loc="left", pad=3)
    axes[0].set_ylabel("% of them", fontsize=8)
    part.supxlabel("KL, lower is nearer", fontsize=8)


def _below(near: Nearest) -> str:
    """How many are near: a share, or a number if they are very few."""
    share = float(np.interp(NEAR, near.thresholds, near.shares))
    told = percent(share) if share >= FEW else f"{round(share * near.total):,} of them"
    return f"{told} below {NEAR:g}"


def draw_activation(found: Activation, within: "FigureBase | None" = None) -> "FigureBase":
    """The paper's figure of a learned activation function: what a unit puts out along its input.

    Args:
        found: what is drawn.
        within: a part of a larger figure to draw in.
    """
    figure = within or matplotlib_figure()(figsize=(WIDTH * 0.75, 5.2), dpi=DPI, layout="constrained")
    value, rows = figure.subplots(2, 1, sharex=True, height_ratios=[6, 1])
    value.set_title(_activation_title(found), fontsize=10, loc="left")

    probability = value.twinx()
    # Probabilities to the left and values to the right, as in the paper.
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
    air = 0.06 * float(np.ptp(found.values)) or 1.0
    value.set_ylim(found.values.min() - air, found.values.max() + air)
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
    told = f"Activation function of layer {found.layer}, unit {found.unit}"
    if found.exact or found.explained > 1 - 1e-9:
        return told
    return f"{told}, along the direction that explains {percent(found.explained)} of how its logits vary"


def draw_weights(
    weights: BinWeights,
    found: Sequence[Found] = (),
    *,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    pictures: ArrayLike | None = None,
) -> "Figure":
    """The paper's figure of the weights behind a unit's bins, and cases with the distribution predicted for them.

    Args:
        weights: what is drawn.
        found: the cases.
        shape: (height, width) or (height, width, channels) if the inputs are pixels.
        names: of the inputs otherwise.
        pictures: (cases, height, width) or with channels, what the cases look like, if they are images.
    """
    heights = [_weights_height(weights, shape), *([_cases_height(pictures)] if found else [])]
    figure = matplotlib_figure()(figsize=(WIDTH, sum(heights)), dpi=DPI, layout="constrained")
    parts = _parts(figure, heights)
    _weights(parts[0], weights, shape, names)
    if found:
        _cases(parts[1], found, pictures)
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
    """All about one unit on one page: cases, activation function, weights; arguments as in :func:`draw_weights`."""
    heights = [*([_cases_height(pictures)] if found else []), 4.8, _weights_height(weights, shape)]
    figure = matplotlib_figure()(figsize=(WIDTH, sum(heights) + 0.4), dpi=DPI, layout="constrained")
    figure.suptitle(title, fontsize=12)
    *top, middle, bottom = _parts(figure, heights)
    if top:
        _cases(top[0], found, pictures)
    draw_activation(activation, middle)
    _weights(bottom, weights, shape, names)
    return figure


def _parts(figure: "Figure", heights: Sequence[float]) -> list[Any]:
    """One below the other."""
    return list(figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])


def _heading() -> dict[str, Any]:
    return {"x": 0.008, "ha": "left", "fontsize": 10}


def _is_image(shape: Sequence[int] | None) -> bool:
    return shape is not None and len(shape) in (2, 3)


def _grid(bins: int) -> tuple[int, int]:
    """Rows and columns for the images of C bins, as even as may be."""
    rows = -(-bins // (8 if bins <= 16 else 13))
    return rows, -(-bins // rows)


def _weights_height(weights: BinWeights, shape: Sequence[int] | None) -> float:
    if not _is_image(shape):
        return 1.2 + 0.24 * min(INPUTS, int(weights.weights.shape[1]))
    rows, columns = _grid(len(weights.values))
    return 0.45 + rows * (0.955 * WIDTH / columns + 0.14)  # squares, and a line of text above each


def _cases_height(pictures: ArrayLike | None) -> float:
    return 2.1 if pictures is None else 3.9


def _weights(part: "FigureBase", weights: BinWeights, shape: Sequence[int] | None, names: Sequence[str] | None) -> None:
    # What is common to all bins changes no probability.
    own = weights.weights - weights.weights.mean(axis=0)
    if _is_image(shape):
        assert shape is not None
        _weight_images(part, weights, own.reshape(-1, *shape))
    else:
        _weight_map(part, weights, own, names)


def _weight_images(part: "FigureBase", weights: BinWeights, own: NDArray[np.float64]) -> None:
    channels = own.ndim == 4
    own = own.mean(axis=3) if channels else own
    limit = float(np.quantile(np.abs(own), 0.999)) or 1.0
    part.suptitle(
        f"Weights of layer {weights.layer}, unit {weights.unit}: what makes each value (above its image) likelier than "
        f"the others, red, or less likely, blue{' (mean over the channels)' if channels else ''}",
        **_heading(),
    )
    axes = part.subplots(*_grid(len(own)), squeeze=False)
    for index, axis in enumerate(axes.flat):
        if index >= len(own):
            bare(axis)
            continue
        drawn = image(axis, own[index], cmap="RdBu_r", vmin=-limit, vmax=limit)
        axis.set_title(f"{weights.values[index]:.2f}", fontsize=8, pad=2)
    bar = part.colorbar(drawn, ax=axes, shrink=0.8, aspect=30, pad=0.01)
    bar.ax.tick_params(labelsize=7)


def _weight_map(part: "FigureBase", weights: BinWeights, own: NDArray[np.float64], names: Sequence[str] | None) -> None:
    count = own.shape[1]
    names = [f"input {index}" for index in range(1, count + 1)] if names is None else list(names)
    if len(names) != count:
        raise ArgumentError.of("names", f"{len(names)} of them", f"one for each of {count} inputs")
    kept = np.argsort(-np.square(own).sum(axis=0), kind="stable")[:INPUTS]
    limit = float(np.abs(own[:, kept]).max()) or 1.0
    left_out = f"; the {len(kept)} largest of {count} inputs" if count > len(kept) else ""
    part.suptitle(
        f"Weights of layer {weights.layer}, unit {weights.unit}: a larger input makes a value likelier (red) or less "
        f"likely (blue){left_out}",
        **_heading(),
    )
    axis = part.subplots()
    drawn = axis.imshow(own[:, kept].T, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    axis.set_yticks(range(len(kept)), [_cut(names[index]) for index in kept], fontsize=8)
    ticks = np.unique(np.linspace(0, len(weights.values) - 1, min(15, len(weights.values))).round().astype(int))
    axis.set_xticks(ticks, [f"{weights.values[index]:.2f}" for index in ticks], fontsize=8)
    axis.tick_params(length=0)
    axis.set_xlabel("value z", fontsize=9)
    axis.spines[:].set_visible(False)
    part.colorbar(drawn, ax=axis, pad=0.01, aspect=30).ax.tick_params(labelsize=7)


def _cut(name: str) -> str:
    return name if len(name) <= LETTERS else name[: LETTERS - 1] + "…"


def _cases(part: "FigureBase", found: Sequence[Found], pictures: ArrayLike | None) -> None:
    part.suptitle(
        f"Cases, and what unit {found[0].unit} predicts for them; dashed: a typical shape (a KL below 0.2 is near, one "
        "above 0.7 is not)",
        **_heading(),
    )
    shown = None if pictures is None else _scaled(np.asarray(pictures))
    if shown is not None and len(shown) != len(found):
        raise ArgumentError.of("pictures", len(shown), f"{len(found)}, one for each case")
    heights = [1] if shown is None else [1, 0.9]
    axes = part.subplots(len(heights), max(len(found), CASES), squeeze=False, height_ratios=heights)
    for axis in axes[:, len(found) :].flat:
        bare(axis)
    for column, one in enumerate(found):
        if shown is not None:
            image(axes[0, column], shown[column], cmap="gray", vmin=0, vmax=1)
        axes[0, column].set_title(f"row {one.row + 1}: {one.stereotype}, KL {nats(one.kl)}", fontsize=8, pad=3)
        bars(axes[-1, column], one.probs, values=one.values, match=one.match)
        axes[-1, column].set_xlabel("value z", fontsize=7, labelpad=1)


def _scaled(pictures: NDArray[Any]) -> NDArray[np.float64]:
    """Within [0, 1], all alike."""
    numbers = pictures.astype(np.float64)
    low, high = min(float(numbers.min()), 0.0), float(numbers.max())
    scaled: NDArray[np.float64] = (numbers - low) / ((high - low) or 1.0)
    return scaled
