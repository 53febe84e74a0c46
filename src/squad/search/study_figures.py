"""Figures of a search from its record: history of values, importance of settings, and all pairs of settings.

They resemble those of ``optuna.visualization.matplotlib``, which draws with pyplot and needs the study itself.
"""

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from squad.plotting import FigureError, matplotlib_figure, missing_package, save_figure
from squad.search.figure_style import ACCENT, COLOURS, EXTRA, INK, MANY_POINTS, drawn_trials
from squad.search.pairwise import pairwise
from squad.search.parameters import Choices
from squad.search.search_record import Search, TrialRecord, value_of
from squad.search.storage import quiet_optuna
from squad.search.summary import Axis, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "FigureError", "history", "importance", "importances", "pairwise", "write"]

#: Minimum number of measured trials for importances: a random forest overfits fewer.
MIN_TRIALS_FOR_IMPORTANCE = 16
DPI = 200


def history(search: Search) -> "Figure":
    """Draw the value of each trial and the best so far over the trial number; below, the better half enlarged."""
    figure_class = matplotlib_figure(EXTRA)
    from matplotlib.ticker import MaxNLocator

    measured, measure = drawn_trials(search), search.measure
    numbers = np.array([trial.number for trial in measured])
    values = np.array([measure.shown(value_of(trial)) for trial in measured])
    better = np.maximum if measure.sign > 0 else np.minimum
    reached = better.accumulate(values)
    end = max(trial.number for trial in search.trials)
    middle, best = float(np.median(values)), float(reached[-1])
    enlarged = middle != best  # otherwise the better half is one line

    figure = figure_class(figsize=(9, 6 if enlarged else 4), layout="constrained")
    panels = figure.subplots(2 if enlarged else 1, 1, sharex=True, squeeze=False)[:, 0]
    whole, close = panels[0], panels[-1]
    size = 3.5 if len(values) > MANY_POINTS else 5.5
    for axis in panels:
        # The enlarged panel shows no points below the median, which its edge would cut in half.
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
        whole.set_yticks(values[:1])  # Matplotlib sets none around a coverage of 0
    for axis in panels:
        axis.set_ylabel(axis_name)
        if measure.sign < 0:  # the best is at the top in every figure
            axis.invert_yaxis()

    handles, labels = _legend(whole, search, best)
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9, columnspacing=1.5)
    figure.suptitle(f"{search.model}: {len(search.counted)} trials", fontsize=11)
    figure.align_ylabels()
    return figure


def _legend(axis: "Axes", search: Search, best: float) -> tuple[list[Any], list[str]]:
    """Mark trials without a value at the bottom of ``axis``, and return handles and labels of the legend."""
    from matplotlib.lines import Line2D

    measure = search.measure
    best_text = f"{best:.2f} %" if measure.percent else measure.short(measure.sign * best)
    handles: list[Any] = [
        Line2D([], [], marker="o", linestyle="", color=COLOURS[-2], markersize=4),
        Line2D([], [], color=INK),
    ]
    labels = ["a trial", f"best so far, {best_text} at the end"]
    marks = {"pruned": ("|", INK), "diverged": ("x", ACCENT), "failed": ("+", INK)}
    numbers_of = {kind: [trial.number for trial in search.trials if search.fate(trial) == kind] for kind in marks}
    numbers_of = {kind: numbers for kind, numbers in numbers_of.items() if numbers}
    if numbers_of:
        _add_strip(axis, 0.03 + 0.055 * len(numbers_of))
    for row, (kind, numbers) in enumerate(numbers_of.items()):
        mark, colour = marks[kind]
        (line,) = axis.plot(
            numbers,
            [0.0425 + 0.055 * row] * len(numbers),  # one row per kind
            mark,
            color=colour,
            markersize=4.5,
            transform=axis.get_xaxis_transform(),
        )
        handles.append(line)
        labels.append(f"{kind} ({len(numbers)})")
    return handles, labels


def _add_strip(axis: "Axes", fraction: float) -> None:
    """Add a shaded strip for trials without a value, which takes a fraction of the axis' height at the bottom."""
    bottom, top_ = axis.get_ylim()
    ticks = [tick for tick in axis.get_yticks() if min(bottom, top_) <= tick <= max(bottom, top_)]
    names = axis.yaxis.get_major_formatter().format_ticks(ticks)
    lowest = bottom - fraction / (1 - fraction) * (top_ - bottom)
    axis.set_ylim(lowest, top_)
    axis.axhspan(lowest, bottom, color="#f1f1f1", linewidth=0, zorder=1)
    axis.set_yticks([*ticks, (lowest + bottom) / 2], [*names, "no value"])
    axis.set_ylim(lowest, top_)


def importance(search: Search, among_good: bool = False) -> dict[str, float]:
    """Return the fraction of the objective's variance over the space that each setting explains by itself.

    Computed by fANOVA, a random forest fitted to the trials.  Settings that are searched on a logarithmic scale are
    passed as logarithms: Optuna's evaluator weights plain values uniformly, and 99 % of the range of a KL multiplier
    from 1e-6 to .01 lies above 1e-4.

    Args:
        search: Search with at least :data:`MIN_TRIALS_FOR_IMPORTANCE` measured trials.
        among_good: Raise values below the median to the median (the cut-off of the same authors), which shows what
            matters among good trials, and not what ruins a network.

    Returns:
        Fractions by dotted name, largest first; they sum to 1.

    References:
        F. Hutter, H. Hoos and K. Leyton-Brown, "An Efficient Approach for Assessing Hyperparameter Importance", 2014.
    """
    try:
        import optuna
        from optuna.importance import FanovaImportanceEvaluator
    except ImportError as cause:
        raise missing_package("Optuna", "Importances", EXTRA) from cause

    measured, searched = [trial for trial in search.measured if trial.inside], axes(search)
    if len(measured) < MIN_TRIALS_FOR_IMPORTANCE:
        raise FigureError(
            f"Importances need at least {MIN_TRIALS_FOR_IMPORTANCE} measured trials, got {len(measured)}."
        )
    values = np.array([value_of(trial) for trial in measured])
    if among_good:
        values = np.maximum(values, np.median(values))
    if values.min() == values.max():
        raise FigureError(
            f"Importances need trials with different values, but {'too many' if among_good else f'all {len(values)}'} "
            f"have {search.measure.text(float(values[0]), 2)}."
        )
    distributions = {axis.name: _importance_distribution(axis) for axis in searched}
    with quiet_optuna():
        study = optuna.create_study(direction="maximize")
        study.add_trials(
            optuna.create_trial(
                value=float(value),
                params={axis.name: _importance_value(axis, trial) for axis in searched},
                distributions=distributions,
            )
            for trial, value in zip(measured, values, strict=True)
        )
        found = optuna.importance.get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _importance_distribution(axis: Axis) -> Any:
    """Return the distribution over which a setting's variance is computed: the one that was searched."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if isinstance(axis.entry, Choices):
        return CategoricalDistribution(list(range(len(axis.entry.choices))))
    low, high = axis.ends
    return FloatDistribution(math.log(low), math.log(high)) if axis.log else FloatDistribution(low, high)


def _importance_value(axis: Axis, trial: TrialRecord) -> Any:
    value = axis.of(trial)
    if axis.choices is not None:
        return axis.choices.index(value)
    low, high = axis.ends
    # Clipped, because rounding of a logarithm may leave the bounds.
    return math.log(min(max(value, low), high)) if axis.log else float(value)


def importances(search: Search) -> "Figure":
    """Draw two bars per setting: its fraction of the objective's variance, among all trials and among good ones."""
    figure_class = matplotlib_figure(EXTRA)
    found = importance(search)
    groups = {"all trials": (found, INK)}
    with contextlib.suppress(FigureError):  # at least half of the values are equal
        groups["the better half"] = (importance(search, among_good=True), COLOURS[-1])
    labels = {axis.name: axis.label for axis in axes(search)}
    names = list(found)
    figure = figure_class(figsize=(8, 1.6 + 0.45 * len(names)), layout="constrained")
    axis = figure.subplots()
    height = 0.8 / len(groups)
    for index, (name, (fractions, colour)) in enumerate(groups.items()):
        heights = np.arange(len(names)) + height * (index - (len(groups) - 1) / 2)
        shown = [100 * fractions[setting] for setting in names]
        bars = axis.barh(heights, shown, 0.9 * height, color=colour, label=name)
        axis.bar_label(bars, [f"{percent:.1f} %" for percent in shown], padding=3, fontsize=8)
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


FIGURES: dict[str, Callable[[Search], "Figure"]] = {
    "history.png": history,
    "importances.png": importances,
    "pairwise.png": pairwise,
}


def write(search: Search, folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Write the figures as PNG files; an old file of a figure that cannot be drawn now is deleted.

    Returns:
        Paths of the files that were written, and the reasons why others were not, by file name.
    """
    written, left_out = [], {}
    for name, draw in FIGURES.items():
        try:
            figure = draw(search)
        except FigureError as error:
            left_out[name] = str(error)
            (folder / name).unlink(missing_ok=True)  # it shows other trials
            continue
        # Without the version of Matplotlib, so that the same record gives the same file.
        save_figure(figure, folder / name, dpi=DPI, metadata={"Software": None})
        written.append(folder / name)
    return written, left_out
