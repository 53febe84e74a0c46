"""Figures of a search, from its record alone: how it went, which settings mattered, and every pair of them."""

import contextlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squad.errors import SquadError
from squad.search.entries import Choices, Integers, Octaves
from squad.search.show import Axis, axes, top, value_text
from squad.search.trials import Search, TrialRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "FigureError", "history", "importance", "importances", "pairwise", "write"]

#: Trials that importances need at least: a forest of trees finds anything it likes in fewer.
LEAST = 16
#: Trials with a value that the other figures need.
LEAST_POINTS = 2
#: More trials than these have smaller points.
MANY = 200
DPI = 200
#: Bad to good: red to green as in the paper, but each darker than the one before, so that those who see no difference
#: between red and green see it all the same, and so does a printer.
COLOURS = ("#fdbcae", "#f0a860", "#c3a93c", "#7f9f3c", "#3f8f40", "#0f7a3d")
INK, FAINT, ACCENT = "#222222", "#9a9a9a", "#b3362b"
#: The share of trials that have the colour of the worst: a few failures would leave all others the same green.
WORST = 0.25


#: Inches: beside and below the cells of a pairwise figure, and what its key takes; from so many settings on there is
#: room for it in the empty half.
LEFT, BELOW, KEY, ROOMY = 0.95, 0.85, (3.3, 1.35), 4


#: How wide points that share a choice, or a step of numbers, are spread, in steps.
SIDE = {"choice": 0.62, "step": 0.55}


class FigureError(SquadError):
    """A figure that cannot be drawn: a package is missing, or there are too few trials."""


def history(search: Search) -> "Figure":
    """Every trial's value over its number with the best so far; below it the same for the better half, enlarged."""
    figure_class = _figure_class()
    from matplotlib.ticker import MaxNLocator

    measured, measure = _measured(search), search.measure
    numbers = np.array([trial.number for trial in measured])
    values = np.array([measure.shown(_value(trial)) for trial in measured])
    better = np.maximum if measure.sign > 0 else np.minimum
    reached = better.accumulate(values)
    end = max(trial.number for trial in search.trials)
    middle, best = float(np.median(values)), float(reached[-1])
    enlarged = middle != best  # or half of it were one line

    figure = figure_class(figsize=(9, 6 if enlarged else 4), layout="constrained")
    panels = figure.subplots(2 if enlarged else 1, 1, sharex=True, squeeze=False)[:, 0]
    whole, close = panels[0], panels[-1]
    size = 3.5 if len(values) > MANY else 5.5
    for axis in panels:
        # Below the middle there is nothing in the enlarged view, rather than halves of points at its edge.
        drawn = measure.sign * values >= measure.sign * middle if axis is not whole else np.full(len(values), True)
        axis.plot(
            numbers[drawn],
            values[drawn],
            "o",
            color=COLOURS[-2],
            alpha=0.55,
            markersize=size,
            markeredgewidth=0,
            zorder=2,
        )
        axis.step([*numbers, end], [*reached, reached[-1]], where="post", color=INK, linewidth=1.4, zorder=3)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e4e4e4", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.margins(x=0.02)
    axis_name = f"{measure.title}{' (%)' if measure.percent else ''}"
    better_word = "" if measure.sign > 0 else ", lower is better"
    whole.set_title(f"every trial{better_word}", loc="left", fontsize=10)
    if enlarged:
        close.set_title("enlarged: the better half", loc="left", fontsize=10)
        air = 0.08 * abs(best - middle)
        close.set_ylim(min(middle, best) - air, max(middle, best) + air)
    close.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    close.set_xlabel("trial's number")
    if values.min() == values.max():
        whole.set_yticks(values[:1])  # around a coverage of 0 there are none
    for axis in panels:
        axis.set_ylabel(axis_name)
        if measure.sign < 0:  # the best is at the top of every figure
            axis.invert_yaxis()

    handles, labels = _legend(whole, search, best)
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9, columnspacing=1.5)
    figure.suptitle(f"{search.model}: {len(search.counted)} trials", fontsize=11)
    figure.align_ylabels()
    return figure


def _legend(axis: "Axes", search: Search, best: float) -> tuple[list[Any], list[str]]:
    """Marks at the foot of ``axis`` for trials without a value, and what all marks stand for."""
    from matplotlib.lines import Line2D

    measure = search.measure
    told = f"{best:.2f} %" if measure.percent else f"{best:.4f}"
    handles: list[Any] = [
        Line2D([], [], marker="o", linestyle="", color=COLOURS[-2], markersize=4),
        Line2D([], [], color=INK),
    ]
    labels = ["a trial", f"best so far, {told} at the end"]
    marks = {"pruned": ("|", INK), "diverged": ("x", ACCENT), "failed": ("+", INK)}
    found = {kind: [trial.number for trial in search.trials if search.fate(trial) == kind] for kind in marks}
    found = {kind: numbers for kind, numbers in found.items() if numbers}
    if found:
        _strip(axis, 0.03 + 0.055 * len(found))
    for row, (kind, numbers) in enumerate(found.items()):
        mark, colour = marks[kind]
        (line,) = axis.plot(
            numbers,
            [0.0425 + 0.055 * row] * len(numbers),  # each kind in a row of its own
            mark,
            color=colour,
            markersize=4.5,
            transform=axis.get_xaxis_transform(),
        )
        handles.append(line)
        labels.append(f"{kind} ({len(numbers)})")
    return handles, labels


def _strip(axis: "Axes", share: float) -> None:
    """Room at the foot of an axis for what has no value: ``share`` of its height, shaded and called so."""
    bottom, top_ = axis.get_ylim()
    ticks = [tick for tick in axis.get_yticks() if min(bottom, top_) <= tick <= max(bottom, top_)]
    names = axis.yaxis.get_major_formatter().format_ticks(ticks)
    lowest = bottom - share / (1 - share) * (top_ - bottom)
    axis.set_ylim(lowest, top_)
    axis.axhspan(lowest, bottom, color="#f1f1f1", linewidth=0, zorder=1)
    axis.set_yticks([*ticks, (lowest + bottom) / 2], [*names, "no value"])
    axis.set_ylim(lowest, top_)


def importance(search: Search, among_good: bool = False) -> dict[str, float]:
    """How much of the objective's variance over the space each setting accounts for by itself; most first, sums to 1.

    By fANOVA (Hutter et al. 2014), a forest of trees fitted to the trials.  Settings that are searched in their
    logarithm are given to it as logarithms: Optuna's evaluator would spread its weight evenly over the plain values,
    and 99 % of a KL multiplier's range from 1e-6 to .01 lies above 1e-4.

    Args:
        search: with :data:`LEAST` measured trials at least.
        among_good: count values below the median as the median (the same authors' cut-off): what matters where it is
            good already, and not what ruins a network.

    Returns:
        By dotted names.
    """
    try:
        import optuna
        from optuna.importance import FanovaImportanceEvaluator
    except ImportError as cause:
        raise _missing("Optuna", "importances") from cause

    measured, searched = search.measured, axes(search)
    if len(measured) < LEAST:
        raise FigureError(f"Importances need {LEAST} measured trials at least; there are {len(measured)}.")
    values = np.array([_value(trial) for trial in measured])
    if among_good:
        values = np.maximum(values, np.median(values))
    if values.min() == values.max():
        raise FigureError(
            f"Importances need trials with different values; {'too many' if among_good else f'all {len(values)}'} have "
            f"{search.measure.text(float(values[0]), 2)}."
        )
    distributions = {axis.name: _even(axis) for axis in searched}
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(direction="maximize")
        study.add_trials(
            optuna.create_trial(
                value=float(value),
                params={axis.name: _even_value(axis, trial) for axis in searched},
                distributions=distributions,
            )
            for trial, value in zip(measured, values, strict=True)
        )
        found = optuna.importance.get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    finally:
        optuna.logging.set_verbosity(level)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _even(axis: Axis) -> Any:
    """The range over which a setting's variance is taken: as it was searched."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if isinstance(axis.entry, Choices):
        return CategoricalDistribution(list(range(len(axis.entry.choices))))
    low, high = axis.ends
    return FloatDistribution(math.log(low), math.log(high)) if axis.log else FloatDistribution(low, high)


def _even_value(axis: Axis, trial: TrialRecord) -> Any:
    value = axis.of(trial)
    if axis.choices is not None:
        return axis.choices.index(value)
    low, high = axis.ends
    # Within the bounds, which a logarithm's rounding may leave.
    return math.log(min(max(value, low), high)) if axis.log else float(value)


def importances(search: Search) -> "Figure":
    """Two bars for each setting: its share of the objective's variance, among all trials and among good ones."""
    figure_class = _figure_class()
    found = importance(search)
    groups = {"all trials": (found, INK)}
    with contextlib.suppress(FigureError):  # half of them or more are equal
        groups["the better half"] = (importance(search, among_good=True), COLOURS[-1])
    labels = {axis.name: axis.label for axis in axes(search)}
    names = list(found)
    figure = figure_class(figsize=(8, 1.6 + 0.45 * len(names)), layout="constrained")
    axis = figure.subplots()
    height = 0.8 / len(groups)
    for place, (name, (shares, colour)) in enumerate(groups.items()):
        heights = np.arange(len(names)) + height * (place - (len(groups) - 1) / 2)
        shown = [100 * shares[setting] for setting in names]
        bars = axis.barh(heights, shown, 0.9 * height, color=colour, label=name)
        axis.bar_label(bars, [f"{share:.1f} %" for share in shown], padding=3, fontsize=8)
    axis.set_yticks(range(len(names)), [labels[name] for name in names])
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.1, y=0.02)
    axis.set_xlabel("share of the variance over the searched space, each setting by itself (%)")
    title = f"{search.model}: what {search.measure.title} depends on (fANOVA, {len(search.measured)} trials)"
    axis.set_title(title, loc="left", fontsize=10)
    if len(groups) > 1:
        axis.legend(loc="lower right", frameon=False, fontsize=9)
    return figure


def pairwise(search: Search) -> "Figure":
    """Each pair of settings, and the objective over each of them; coloured by the objective, the best ringed."""
    figure_class = _figure_class()
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    measured, measure = _measured(search), search.measure
    # Choices last: their names are long, and stand at the side rather than below.
    searched = sorted(axes(search), key=lambda axis: axis.choices is not None)
    count = len(searched)
    leaders = {trial.number for trial in top(search)}
    values = np.array([measure.shown(_value(trial)) for trial in measured])
    # The best are drawn last, on top of the others.
    order = np.argsort(measure.sign * values, kind="stable")
    trials, values = [measured[place] for place in order], values[order]
    ringed = np.array([trial.number in leaders for trial in trials])
    colours = LinearSegmentedColormap.from_list("bad to good", COLOURS if measure.sign > 0 else COLOURS[::-1])
    bad = float(np.quantile(values, WORST if measure.sign > 0 else 1 - WORST))
    good = float(values[-1])
    if bad == good:  # most are as good as the best
        bad = float(values[0]) if values[0] != good else good - measure.sign
    norm = Normalize(min(bad, good), max(bad, good), clip=True)

    # Column j has settings[j]; row i has settings[i + 1], and the last one the objective: a triangle in which every
    # row and every column has one axis.  The key stands in the empty half, or above where that is too small.
    cell = max(0.93, min(1.8, 9.0 / count))
    above = 0.12 if count >= ROOMY else KEY[1] + 0.2
    width, height = max(cell * count + LEFT + 0.1, KEY[0] + 0.3), cell * count + BELOW + above
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
    places = [_places(axis, trials, seed) for seed, axis in enumerate(searched)]
    for row in range(count):
        last = row == count - 1
        y = values if last else places[row + 1]
        y_label = f"{measure.name}{' (%)' if measure.percent else ''}" if last else searched[row + 1].label
        for column in range(row + 1):
            cell_axes = figure.add_subplot(grid[row, column])
            _points(cell_axes, places[column], y, values, ringed, colours, norm)
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


def _places(axis: Axis, trials: Sequence[TrialRecord], seed: int) -> NDArray[Any]:
    """Where trials stand along a setting: its values, and a little beside them where many would share one.

    The little is a number of the trial's own (golden ratios, so that they are even), not a random one.
    """
    numbers = np.array([trial.number for trial in trials])
    beside = (numbers * (0.6180339887 + 0.1 * seed * math.sqrt(2)) + 0.5) % 1 - 0.5
    if axis.choices is not None:
        index = {choice: place for place, choice in enumerate(axis.choices)}
        return np.array([index[axis.of(trial)] for trial in trials]) + SIDE["choice"] * beside
    values = np.array([float(axis.of(trial)) for trial in trials])
    return np.asarray(values * 2 ** (_beside(axis) * beside) if axis.log else values + _beside(axis) * beside)


def _beside(axis: Axis) -> float:
    """How wide the points of one number are spread, in octaves of a logarithmic setting; 0 where few share one."""
    entry = axis.entry
    if isinstance(entry, Octaves):
        return SIDE["step"] * entry.octaves
    if isinstance(entry, Integers) and not entry.log and (entry.high - entry.low) / entry.step <= 40:
        return SIDE["step"] * entry.step
    return 0.0


def _points(
    axis: "Axes",
    x: NDArray[Any],
    y: NDArray[Any],
    values: NDArray[Any],
    ringed: NDArray[Any],
    colours: "Colormap",
    norm: "Normalize",
) -> None:
    size = 5.5 if len(values) > MANY else 12.0
    rest = ~ringed
    axis.scatter(
        x[rest], y[rest], c=values[rest], s=size, cmap=colours, norm=norm, linewidths=0, alpha=0.85, rasterized=True
    )
    axis.scatter(
        x[ringed], y[ringed], c=values[ringed], s=2.2 * size, cmap=colours, norm=norm, linewidths=0.6, edgecolors="k"
    )


def _scale(axis: "Axes", side: str, setting: Axis) -> None:
    """Range, ticks and their names along ``side``."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    line = axis.xaxis if side == "x" else axis.yaxis
    limit = axis.set_xlim if side == "x" else axis.set_ylim
    names: Callable[[float, int | None], str]
    if setting.choices is not None:
        count = len(setting.choices)
        air = max(0.55, SIDE["choice"] / 2 + 0.06 * count)
        limit(-air, count - 1 + air)
        ticks = [float(place) for place in range(count)]
        choices = setting.choices

        def names(value: float, _place: int | None = None) -> str:
            return value_text(choices[round(value)])

    else:
        low, high = setting.ends
        beside = _beside(setting) / 2
        if setting.log:
            (axis.set_xscale if side == "x" else axis.set_yscale)("log")
            air = (high / low) ** 0.07 * 2**beside
            limit(low / air, high * air)
        else:
            air = 0.07 * (high - low) + beside
            limit(low - air, high + air)
        ticks = _ticks(setting)

        def names(value: float, _place: int | None = None) -> str:
            return value_text(float(value))

    line.set_major_locator(FixedLocator(ticks))
    line.set_minor_locator(NullLocator())
    line.set_major_formatter(FuncFormatter(names))


def _ticks(setting: Axis) -> list[float]:
    """Three or so round numbers within the range."""
    from matplotlib.ticker import MaxNLocator

    low, high = setting.ends
    if not setting.log:
        steps = MaxNLocator(3, integer=isinstance(setting.entry, Integers), steps=[1, 2, 2.5, 4, 5, 10])
        return [float(tick) for tick in steps.tick_values(low, high) if low <= tick <= high]
    if isinstance(setting.entry, Octaves):
        values = setting.entry.values
        return [float(values[place]) for place in sorted({0, len(values) // 2, len(values) - 1})]
    decades = [
        10.0**power for power in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    ]
    return decades[:: math.ceil(len(decades) / 3)] if len(decades) >= 2 else [low, high]


def _objective_scale(axis: "Axes", values: NDArray[Any], sign: int) -> None:
    from matplotlib.ticker import FixedLocator, MaxNLocator

    low, high = float(values.min()), float(values.max())
    air = 0.07 * (high - low) or 0.5
    axis.set_ylim(low - air, high + air)
    axis.yaxis.set_major_locator(MaxNLocator(3) if low < high else FixedLocator([low]))
    if sign < 0:
        axis.invert_yaxis()


def _labels(axis: "Axes", x: str | None, y: str | None) -> None:
    """Names and ticks at the outer cells only."""
    axis.tick_params(labelsize=7, length=2, pad=1.5, width=0.5, labelbottom=x is not None, labelleft=y is not None)
    for spine in axis.spines.values():
        spine.set_linewidth(0.5)
        spine.set_color(FAINT)
    if x is not None:
        for tick in axis.get_xticklabels():
            # Steep: the last of one cell and the first of the next are as near as two lines of text.
            tick.set(rotation=60, ha="right", rotation_mode="anchor")
        axis.set_xlabel(x, fontsize=7.8, fontweight="bold")
    if y is not None:
        axis.set_ylabel(y, fontsize=7.8, fontweight="bold")


def _key(figure: "Figure", search: Search, scale: "tuple[ScalarMappable, str] | None", leaders: int) -> None:
    """What colours and rings mean, at the top on the right.

    Args:
        figure: to draw into.
        search: whose trials they are.
        scale: of the colours, and the side on which there are values beyond it; None where all have the same.
        leaders: how many are ringed.
    """
    from matplotlib.lines import Line2D

    measure = search.measure
    width, height = figure.get_size_inches()
    left, top_ = (width - KEY[0] - 0.15) / width, 1 - 0.12 / height
    lines = [
        f"{search.model}: {len(search.measured)} trials",
        "Each pair of settings; below, the objective over each.",
    ]
    figure.text(left, top_, lines[0], fontsize=11, fontweight="bold", va="top")
    figure.text(left, top_ - 0.24 / height, lines[1], fontsize=8, va="top")
    if scale is None:
        same = f"All of them have {measure.text(_value(search.measured[0]), 2)}."
        figure.text(left, top_ - 0.54 / height, same, fontsize=8.5, va="top")
    else:
        bar = figure.add_axes((left, top_ - 0.68 / height, KEY[0] / width, 0.14 / height))
        shown = figure.colorbar(scale[0], cax=bar, orientation="horizontal", extend=scale[1])
        if measure.sign < 0:
            bar.invert_xaxis()
        shown.ax.tick_params(labelsize=7, length=2, pad=1.5)
        shown.set_label(f"{measure.title}{' (%)' if measure.percent else ''}", fontsize=8.5)
    marks = [
        Line2D(
            [],
            [],
            marker="o",
            linestyle="",
            color=COLOURS[-1],
            markeredgecolor="k",
            markersize=5.5,
        ),
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


def _measured(search: Search) -> tuple[TrialRecord, ...]:
    if len(search.measured) < LEAST_POINTS:
        raise FigureError(f"A figure needs {LEAST_POINTS} measured trials at least; there are {len(search.measured)}.")
    return search.measured


def _figure_class() -> "type[Figure]":
    """Matplotlib's figure itself: pyplot would change the state of a process that is not ours."""
    try:
        from matplotlib.figure import Figure
    except ImportError as cause:
        raise _missing("Matplotlib", "figures") from cause
    return Figure


def _missing(package: str, what: str) -> FigureError:
    return FigureError(f"{package} is not installed, which {what} need. Install it: pip install 'squad-torch[search]'")


FIGURES: dict[str, Callable[[Search], "Figure"]] = {
    "history.png": history,
    "importances.png": importances,
    "pairwise.png": pairwise,
}


def write(search: Search, folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Write the figures as PNG files; an old one that cannot be drawn now is taken away.

    Returns:
        Those that were written, and why others were not, by their file names.
    """
    written, left_out = [], {}
    for name, draw in FIGURES.items():
        try:
            figure = draw(search)
        except FigureError as error:
            left_out[name] = str(error)
            (folder / name).unlink(missing_ok=True)  # it would pass for one of these trials
            continue
        # Without the version of matplotlib: the same record gives the same file.
        figure.savefig(folder / name, dpi=DPI, metadata={"Software": None})
        written.append(folder / name)
    return written, left_out


def _value(trial: TrialRecord) -> float:
    assert trial.value is not None
    return trial.value
