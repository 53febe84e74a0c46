"""The paper's pairwise figure of a search: each pair of settings, coloured by the objective, the best ringed."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squad.plotting import matplotlib_figure
from squad.search.figure_style import COLOURS, EXTRA, FAINT, MANY_POINTS, drawn_trials
from squad.search.parameters import Integers, Octaves
from squad.search.search_record import Search, TrialRecord, value_of
from squad.search.summary import Axis, axes, top, value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

__all__ = ["pairwise"]

#: Fraction of trials that get the worst colour: otherwise a few failures would leave all others in the same green.
WORST_FRACTION = 0.25
#: Margins in inches to the left of and below the cells, and width and height of the key.
LEFT, BELOW, KEY_SIZE = 0.95, 0.85, (3.3, 1.35)
#: Number of settings from which on the key fits into the empty half of the figure.
KEY_INSIDE_FROM = 4
#: Width over which points with the same choice, or the same number, are spread, in steps.
JITTER = {"choice": 0.62, "step": 0.55}


def pairwise(search: Search) -> "Figure":
    """Draw each pair of settings, and the objective over each setting; coloured by the objective, the best ringed.

    Returns:
        The figure.
    """
    figure_class = matplotlib_figure(EXTRA)
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    measured, measure = drawn_trials(search, inside=True), search.measure
    # Choices last, because their names are long and fit better at the side than below.
    searched = sorted(axes(search), key=lambda axis: axis.choices is not None)
    count = len(searched)
    leaders = {trial.number for trial in top(search)}
    values = np.array([measure.shown(value_of(trial)) for trial in measured])
    # The best last, on top of the others.
    order = np.argsort(measure.sign * values, kind="stable")
    trials, values = [measured[index] for index in order], values[order]
    ringed = np.array([trial.number in leaders for trial in trials])
    colours = LinearSegmentedColormap.from_list("bad to good", COLOURS if measure.sign > 0 else COLOURS[::-1])
    bad = float(np.quantile(values, WORST_FRACTION if measure.sign > 0 else 1 - WORST_FRACTION))
    good = float(values[-1])
    if bad == good:  # most values equal the best
        bad = float(values[0]) if values[0] != good else good - measure.sign
    norm = Normalize(min(bad, good), max(bad, good), clip=True)

    # Column j has settings[j]; row i has settings[i + 1], and the last row the objective: a triangle in which every row
    # and every column has one axis.  The key is in the empty half, or above the cells if that is too small.
    cell = max(0.93, min(1.8, 9.0 / count))
    above = 0.12 if count >= KEY_INSIDE_FROM else KEY_SIZE[1] + 0.2
    width, height = max(cell * count + LEFT + 0.1, KEY_SIZE[0] + 0.3), cell * count + BELOW + above
    figure = figure_class(figsize=(width, height))
    grid = figure.add_gridspec(
        count,
        count,
        left=LEFT / width,
        right=(LEFT + cell * count) / width,
        bottom=BELOW / height,
        top=(BELOW + cell * count) / height,
        wspace=0.08,
        hspace=0.08,
    )
    coordinates = [_coordinates(axis, trials, seed) for seed, axis in enumerate(searched)]
    for row in range(count):
        last = row == count - 1
        y = values if last else coordinates[row + 1]
        y_label = f"{measure.name}{' (%)' if measure.percent else ''}" if last else searched[row + 1].label
        for column in range(row + 1):
            cell_axes = figure.add_subplot(grid[row, column])
            _draw_points(cell_axes, coordinates[column], y, values, ringed, colours, norm)
            _scale(cell_axes, "x", searched[column])
            if last:
                _objective_scale(cell_axes, values, measure.sign)
            else:
                _scale(cell_axes, "y", searched[row + 1])
            _labels(cell_axes, searched[column].label if last else None, y_label if column == 0 else None)
    figure.align_ylabels()
    figure.align_xlabels()
    if values[0] == good:
        _key(figure, search, None, len(leaders))
    else:
        from matplotlib.cm import ScalarMappable

        worse = "neither" if values[0] == bad else "min" if measure.sign > 0 else "max"
        _key(figure, search, (ScalarMappable(norm, colours), worse), len(leaders))
    return figure


def _coordinates(axis: Axis, trials: Sequence[TrialRecord], seed: int) -> NDArray[Any]:
    """Return the coordinates of trials along a setting, spread a little if many would coincide.

    The offset depends on the trial number (by golden ratios, so that offsets are even) and is not random.
    """
    numbers = np.array([trial.number for trial in trials])
    offsets = (numbers * (0.6180339887 + 0.1 * seed * math.sqrt(2)) + 0.5) % 1 - 0.5
    if axis.choices is not None:
        index = {choice: position for position, choice in enumerate(axis.choices)}
        return np.array([index[axis.of(trial)] for trial in trials]) + JITTER["choice"] * offsets
    values = np.array([float(axis.of(trial)) for trial in trials])
    width = _spread(axis)
    return np.asarray(values * 2 ** (width * offsets) if axis.log else values + width * offsets)


def _spread(axis: Axis) -> float:
    """Return the width over which equal numbers are spread, in octaves on a logarithmic scale; 0 if few coincide."""
    entry = axis.entry
    if isinstance(entry, Octaves):
        return JITTER["step"] * entry.octaves
    if isinstance(entry, Integers) and not entry.log and (entry.high - entry.low) / entry.step <= 40:
        return JITTER["step"] * entry.step
    return 0.0


def _draw_points(
    axis: "Axes",
    x: NDArray[Any],
    y: NDArray[Any],
    values: NDArray[Any],
    ringed: NDArray[Any],
    colours: "Colormap",
    norm: "Normalize",
) -> None:
    size = 5.5 if len(values) > MANY_POINTS else 12.0
    rest = ~ringed
    axis.scatter(
        x[rest], y[rest], c=values[rest], s=size, cmap=colours, norm=norm, linewidths=0, alpha=0.85, rasterized=True
    )
    axis.scatter(
        x[ringed], y[ringed], c=values[ringed], s=2.2 * size, cmap=colours, norm=norm, linewidths=0.6, edgecolors="k"
    )


def _scale(axis: "Axes", side: str, setting: Axis) -> None:
    """Set limits, ticks and tick labels along ``side``, "x" or "y"."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    line = axis.xaxis if side == "x" else axis.yaxis
    limit = axis.set_xlim if side == "x" else axis.set_ylim
    label: Callable[[float, int | None], str]
    if setting.choices is not None:
        count = len(setting.choices)
        margin = max(0.55, JITTER["choice"] / 2 + 0.06 * count)
        limit(-margin, count - 1 + margin)
        ticks = [float(position) for position in range(count)]
        choices = setting.choices

        def label(value: float, _position: int | None = None) -> str:
            return value_text(choices[round(value)])

    else:
        low, high = setting.ends
        spread = _spread(setting) / 2
        if setting.log:
            (axis.set_xscale if side == "x" else axis.set_yscale)("log")
            margin = (high / low) ** 0.07 * 2**spread
            limit(low / margin, high * margin)
        else:
            margin = 0.07 * (high - low) + spread
            limit(low - margin, high + margin)
        ticks = _ticks(setting)

        def label(value: float, _position: int | None = None) -> str:
            return value_text(float(value))

    line.set_major_locator(FixedLocator(ticks))
    line.set_minor_locator(NullLocator())
    line.set_major_formatter(FuncFormatter(label))


def _ticks(setting: Axis) -> list[float]:
    """Return about three round numbers within the range."""
    from matplotlib.ticker import MaxNLocator

    low, high = setting.ends
    if not setting.log:
        steps = MaxNLocator(3, integer=isinstance(setting.entry, Integers), steps=[1, 2, 2.5, 4, 5, 10])
        return [float(tick) for tick in steps.tick_values(low, high) if low <= tick <= high]
    if isinstance(setting.entry, Octaves):
        values = setting.entry.values
        return [float(values[index]) for index in sorted({0, len(values) // 2, len(values) - 1})]
    decades = [
        10.0**power for power in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    ]
    return decades[:: math.ceil(len(decades) / 3)] if len(decades) >= 2 else [low, high]


def _objective_scale(axis: "Axes", values: NDArray[Any], sign: int) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    low, high = float(values.min()), float(values.max())
    margin = 0.07 * (high - low) or 0.5
    axis.set_ylim(low - margin, high + margin)
    axis.yaxis.set_major_locator(MaxNLocator(3) if low < high else FixedLocator([low]))
    if sign < 0:
        axis.invert_yaxis()


def _labels(axis: "Axes", x: str | None, y: str | None) -> None:
    """Label the outer cells only."""
    axis.tick_params(labelsize=7, length=2, pad=1.5, width=0.5, labelbottom=x is not None, labelleft=y is not None)
    for spine in axis.spines.values():
        spine.set_linewidth(0.5)
        spine.set_color(FAINT)
    if x is not None:
        for tick in axis.get_xticklabels():
            # Steep, because the last label of one cell is close to the first of the next.
            tick.set(rotation=60, ha="right", rotation_mode="anchor")
        axis.set_xlabel(x, fontsize=7.8, fontweight="bold")
    if y is not None:
        axis.set_ylabel(y, fontsize=7.8, fontweight="bold")


def _key(figure: "Figure", search: Search, scale: "tuple[ScalarMappable, str] | None", leaders: int) -> None:
    """Draw the key of colours and rings at the top right.

    Args:
        figure: Figure to draw into.
        search: Search that is drawn.
        scale: Colour scale, and the side on which values lie beyond it; None if all values are equal.
        leaders: Number of ringed trials.
    """
    from matplotlib.lines import Line2D

    measure = search.measure
    width, height = figure.get_size_inches()
    left, top_ = (width - KEY_SIZE[0] - 0.15) / width, 1 - 0.12 / height
    lines = [
        f"{search.model}: {len(search.measured)} trials",
        "Each pair of settings; below, the objective over each.",
    ]
    figure.text(left, top_, lines[0], fontsize=11, fontweight="bold", va="top")
    figure.text(left, top_ - 0.24 / height, lines[1], fontsize=8, va="top")
    if scale is None:
        same = f"All of them have {measure.text(value_of(search.measured[0]), 2)}."
        figure.text(left, top_ - 0.54 / height, same, fontsize=8.5, va="top")
    else:
        bar = figure.add_axes((left, top_ - 0.68 / height, KEY_SIZE[0] / width, 0.14 / height))
        shown = figure.colorbar(scale[0], cax=bar, orientation="horizontal", extend=scale[1])
        if measure.sign < 0:
            bar.invert_xaxis()
        shown.ax.tick_params(labelsize=7, length=2, pad=1.5)
        shown.set_label(f"{measure.title}{' (%)' if measure.percent else ''}", fontsize=8.5)
    marks = [
        Line2D([], [], marker="o", linestyle="", color=COLOURS[-1], markeredgecolor="k", markersize=5.5),
        Line2D([], [], marker="o", linestyle="", color=COLOURS[-1 if scale is None else 1], markersize=3),
    ]
    names = [f"the best {leaders}" if leaders > 1 else "the best", "other trials"]
    figure.legend(
        marks,
        names,
        loc="upper left",
        bbox_to_anchor=(left, top_ - 1.08 / height),
        ncols=2,
        fontsize=8.5,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        handletextpad=0.2,
    )
