"""Figures of a search show what is in the record."""

import itertools
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from squad.search import study_figures
from squad.search.figure_style import COLOURS
from squad.search.pairwise import _coordinates
from squad.search.search_record import Search
from squad.search.space import Space
from squad.search.study_figures import FIGURES, FigureError, history, importance, importances, pairwise
from squad.search.summary import axes, top
from tests.search.searches import saved

SMALL: dict[str, Any] = {
    "network": {"dropout": {"low": 0.01, "high": 0.95}, "prior": {"choices": ["uniform", "gaussian"]}},
    "training": {
        "lr": {"low": 1e-4, "high": 1e-2, "log": True},
        "batch_size": {"low": 32, "high": 512, "octaves": 0.5},
    },
}


@pytest.fixture
def small(tmp_path: Path) -> Search:
    return saved(tmp_path, count=60, space=Space.of("squad", SMALL))


def changed(search: Search, values: list[float]) -> Search:
    """The same trials, all measured, with other values."""
    trials = [
        replace(trial, value=value, state="complete", ended="stopped early")
        for trial, value in zip(search.trials, values, strict=True)
    ]
    return Search(search.record, tuple(trials))


def rendered(figure: Any) -> Any:
    """Draw the figure and return its canvas; positions are known only then."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas


def clipped(figure: Any) -> list[str]:
    """Return the edges of the figure at which something is cut off."""
    pixels = np.asarray(rendered(figure).buffer_rgba())[..., :3]
    edges = {"top": pixels[0], "bottom": pixels[-1], "left": pixels[:, 0], "right": pixels[:, -1]}
    return [name for name, edge in edges.items() if (edge < 250).any()]


def test_clipping_is_detected() -> None:
    figure = Figure()
    figure.text(0.97, 0.5, "too long for here")
    assert clipped(figure) == ["right"]


def test_colours_grow_darker() -> None:
    """So that colour-blind readers can tell them apart."""
    light = [np.dot([0.2126, 0.7152, 0.0722], np.array(to_rgb(colour)) ** 2.2) for colour in COLOURS]
    assert all(darker < 0.92 * lighter for lighter, darker in itertools.pairwise(light))
    red, _, blue = to_rgb(COLOURS[0])
    assert red > blue
    red, green, _ = to_rgb(COLOURS[-1])
    assert green > red


@pytest.mark.parametrize("objective", ["coverage@risk=0.02,delta=0.01", "aurc"])
def test_the_history_shows_every_trial_and_the_best_so_far(tmp_path: Path, objective: str) -> None:
    search = saved(tmp_path, count=100, objective=objective)
    drawn: Any = history(search)  # matplotlib's own types say less than is known here
    whole, close = drawn.axes[:2]
    points, line, *marks = whole.lines
    # Those of the better half are drawn whole in the enlarged view, and no others.
    middle = np.median([trial.value or 0.0 for trial in search.measured])
    assert list(close.lines[0].get_xdata()) == [t.number for t in search.measured if (t.value or 0.0) >= middle]
    at = np.asarray(close.lines[0].get_ydata(), float)
    air = 0.05 * np.ptp(at)
    assert min(close.get_ylim()) < at.min() - air < at.max() + air < max(close.get_ylim())
    assert list(points.get_xdata()) == [trial.number for trial in search.measured]
    shown = [search.measure.shown(trial.value or 0.0) for trial in search.measured]
    assert list(points.get_ydata()) == shown
    best = np.asarray(line.get_ydata(), float)
    assert (np.diff(best) >= 0).all() if search.measure.sign > 0 else (np.diff(best) <= 0).all()
    assert best[-1] == (max(shown) if search.measure.sign > 0 else min(shown))
    assert [len(mark.get_xdata()) for mark in marks] == [8, 2, 1]  # pruned, diverged, failed
    assert 39 in marks[1].get_xdata()
    # The best is at the top, whether it is the largest or the least.
    low, high = close.get_ylim()
    assert (low < high) == (search.measure.sign > 0)
    assert min(low, high) < best[-1] < max(low, high)


def test_trials_without_a_value_are_below_the_others(tmp_path: Path) -> None:
    for objective in ("coverage@risk=0.02,delta=0.01", "aurc"):
        search = saved(tmp_path, count=100, objective=objective)
        whole: Any = history(search).axes[0]
        points, _, *marks = whole.lines
        rendered(whole.figure)
        lowest = min(whole.transData.transform(points.get_xydata())[:, 1])
        frame = whole.get_window_extent()
        for mark in marks:
            height = mark.get_transform().transform(mark.get_xydata())[:, 1]
            assert (frame.y0 < height).all()
            assert (height < lowest).all()
        names = [tick.get_text() for tick in whole.get_yticklabels()]
        assert names[-1] == "no value"
        numbers = [float(name) for name in names[:-1]]
        assert min(numbers) >= 0


def test_trial_numbers_are_integers(small: Search) -> None:
    figure: Any = history(Search(small.record, small.trials[:4]))
    rendered(figure)
    ticks = figure.axes[-1].get_xticks()
    assert all(tick == round(tick) for tick in ticks)


def test_retried_attempts_are_not_shown_as_failures(small: Search) -> None:
    trials = list(small.trials)
    trials[5] = replace(trials[5], state="failed", value=None, ended=None)
    trials[6] = replace(trials[6], state="failed", value=None, ended=None)
    trials[50] = replace(trials[50], retried_from=5)
    figure: Any = history(Search(small.record, tuple(trials)))
    assert figure.get_suptitle() == "squad: 59 trials"
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "failed (1)" in labels
    assert list(figure.axes[0].lines[-1].get_xdata()) == [6]


def test_importances_find_what_matters(tmp_path: Path) -> None:
    search = saved(tmp_path, count=150, space=Space.of("squad", SMALL))
    found = importance(search)
    assert set(found) == {axis.name for axis in axes(search)}
    assert next(iter(found)) == "network.dropout"
    assert sum(found.values()) == pytest.approx(1)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert found == importance(search)
    # It ruins a network; among good ones the rest counts for more.
    assert importance(search, among_good=True)["network.dropout"] < found["network.dropout"]


def test_importance_of_a_logarithmic_setting(tmp_path: Path) -> None:
    """A step at 1e-4 halves the logarithmic range, but cuts off 1 % of the plain range."""
    space = {"training": {"kl_multiplier": {"low": 1e-6, "high": 1e-2, "log": True}, "lr": {"low": 1e-4, "high": 1.0}}}
    search = saved(tmp_path, count=200, space=Space.of("squad", space))
    random = np.random.default_rng(0)
    values = [
        float(trial.settings["training.kl_multiplier"] > 1e-4)
        + 1.0 * trial.settings["training.lr"]
        + 0.01 * random.normal()
        for trial in search.trials
    ]
    # The variance of a fair step is 1/4, that of a uniform number 1/12.
    found = importance(changed(search, values))
    assert found["training.kl_multiplier"] == pytest.approx(0.75, abs=0.12)


def test_importances_that_cannot_be_computed(small: Search) -> None:
    few = Search(small.record, small.trials[:10])
    with pytest.raises(FigureError, match=r"16 measured trials, got 10"):
        importance(few)
    with pytest.raises(FigureError, match=r"all 60 have coverage 50\.00 %"):
        importance(changed(small, [0.5] * 60))
    # If 40 trials are equally bad, the better half is not better: one bar per setting is left.
    some = changed(small, [0.9 if place < 20 else 0.1 for place in range(60)])
    with pytest.raises(FigureError, match=r"too many have"):
        importance(changed(small, [0.1 if place < 20 else 0.9 for place in range(60)]), among_good=True)
    assert importances(some).axes[0].get_legend() is not None
    none = importances(changed(small, [0.1 if place < 20 else 0.9 for place in range(60)]))
    assert none.axes[0].get_legend() is None


def test_every_pair_is_drawn(small: Search) -> None:
    figure: Any = pairwise(small)
    cells = figure.axes[:-1]  # the last is the key's
    assert len(cells) == 4 * 5 // 2
    bottom = [cell for cell in cells if cell.get_xlabel()]
    assert [cell.get_xlabel() for cell in bottom] == ["dropout", "lr", "batch_size", "prior"]
    assert [cell.get_ylabel() for cell in cells if cell.get_ylabel()] == ["lr", "batch_size", "prior", "coverage (%)"]
    assert [cell.get_xscale() for cell in bottom] == ["linear", "log", "log", "linear"]
    assert [tick.get_text() for tick in bottom[3].get_xticklabels()] == ["uniform", "gaussian"]
    for cell in cells:
        rest, best = cell.collections
        assert len(rest.get_offsets()) + len(best.get_offsets()) == len(small.measured)
        assert len(best.get_offsets()) == len(top(small)) == len(small.measured) // 4
        assert best.get_sizes()[0] > rest.get_sizes()[0]
        assert best.get_zorder() >= rest.get_zorder()


def test_the_best_trials_are_ringed(tmp_path: Path) -> None:
    for objective in ("coverage@risk=0.02,delta=0.01", "aurc"):
        search = saved(tmp_path, count=300, objective=objective, space=Space.of("squad", SMALL))
        figure: Any = pairwise(search)
        objective_over_dropout = figure.axes[6]
        rest, best = objective_over_dropout.collections
        shown = sorted(search.measure.shown(trial.value or 0) for trial in top(search))
        assert len(shown) == 60
        found = np.asarray(best.get_offsets())
        np.testing.assert_allclose(sorted(found[:, 1]), shown)
        assert set(found[:, 0]) == {trial.settings["network.dropout"] for trial in top(search)}
        edge = search.measure.sign * np.asarray(rest.get_offsets())[:, 1]
        assert edge.max() <= (search.measure.sign * np.array(shown)).min()
        assert (np.diff(edge) >= 0).all()  # better ones are drawn over worse ones
        # And they are the greenest: of a scale that runs the right way round.
        colours = [best.to_rgba(best.get_array()), rest.to_rgba(rest.get_array())]
        red = [np.asarray(colour)[:, 0].mean() for colour in colours]
        assert red[0] < red[1]


def test_equal_values_are_spread_without_overlap(tmp_path: Path) -> None:
    search = saved(tmp_path, count=300)
    for place, axis in enumerate(axes(search)):
        places = _coordinates(axis, search.measured, place)
        np.testing.assert_array_equal(places, _coordinates(axis, search.measured, place))
        values = [axis.of(trial) for trial in search.measured]
        if axis.choices is not None:
            assert [axis.choices[round(x)] for x in places] == values
        elif axis.label in ("C (bins)", "batch_size"):
            grid = sorted(set(values))
            near = [min(grid, key=lambda value: abs(np.log(value / x))) for x in places]
            assert near == values
        else:
            np.testing.assert_array_equal(places, values)
            continue
        assert len(set(places)) > 10 * len(set(values))


@pytest.mark.parametrize("model", ["squad-factorized", "mlp"])
def test_nothing_is_cut_off(tmp_path: Path, model: str) -> None:
    search = saved(tmp_path, count=80, model=model)
    for draw in (history, pairwise):
        figure: Any = draw(search)
        assert clipped(figure) == []
    sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    assert min(sizes) >= 7
    if model != "mlp":
        assert 1900 <= figure.get_figwidth() * study_figures.DPI <= 2500


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_settings(tmp_path: Path, count: int) -> None:
    tables = {"training": dict(list(SMALL["training"].items())[:2]), "network": {}}
    if count == 3:
        tables["network"] = {"prior": SMALL["network"]["prior"]}
    if count == 1:
        del tables["training"]["batch_size"]
    search = saved(tmp_path, count=40, space=Space.of("squad", tables))
    figure = pairwise(search)
    assert len(figure.axes) == count * (count + 1) // 2 + 1
    assert clipped(figure) == []


def test_no_point_is_cut_off_by_its_cell(tmp_path: Path) -> None:
    tables = {
        "network": {"bins": {"low": 5, "high": 7, "step": 2}, "prior": {"choices": ["uniform", "gaussian"]}},
        "training": {
            "lr": {"low": 1e-4, "high": 1e-2, "log": True},
            "batch_size": {"low": 32, "high": 64, "octaves": 0.5},
        },
    }
    search = saved(tmp_path, count=120, space=Space.of("squad", tables))
    ends = {"training.lr": (1e-4, 1e-2)}
    trials = [
        replace(trial, settings={**trial.settings, **{name: both[trial.number % 2] for name, both in ends.items()}})
        for trial in search.trials
    ]
    figure: Any = pairwise(Search(search.record, tuple(trials)))
    rendered(figure)
    for cell in figure.axes[:-1]:
        frame = cell.get_window_extent()
        for points in cell.collections:
            at = cell.transData.transform(np.asarray(points.get_offsets()))
            radius = math.sqrt(points.get_sizes()[0]) / 2 * figure.dpi / 72
            assert at[:, 0].min() - radius > frame.x0
            assert at[:, 0].max() + radius < frame.x1
            assert at[:, 1].min() - radius > frame.y0
            assert at[:, 1].max() + radius < frame.y1


def test_tick_labels_do_not_overlap(tmp_path: Path) -> None:
    """Also of neighbouring cells: the last label of one is next to the first of the other."""
    figure: Any = pairwise(saved(tmp_path, count=80, model="squad-factorized"))
    rendered(figure)
    bottom = [cell for cell in figure.axes if cell.get_xlabel() and cell.get_xticklabels()]
    places = [
        (cell.transData.transform((tick, cell.get_ylim()[0]))[0], label)
        for cell in bottom[:-1]
        for tick, label in zip(cell.get_xticks(), cell.get_xticklabels(), strict=True)
    ]
    for (left, first), (right, _) in itertools.pairwise(sorted(places, key=lambda place: place[0])):
        # Slanted lines of text, side by side: how far they are apart across their own direction.
        apart = (right - left) * math.sin(math.radians(first.get_rotation()))
        assert apart > 1.2 * first.get_fontsize() * figure.dpi / 72


def test_the_colour_scale_covers_the_values(small: Search) -> None:
    def scale(values: list[float]) -> Any:
        figure: Any = pairwise(changed(small, values))
        texts = [text.get_text() for text in figure.texts]
        return (figure.axes[-1]._colorbar.extend if len(figure.axes) == 11 else None), texts

    assert scale([place / 60 for place in range(60)])[0] == "min"
    assert scale([0.0] * 30 + [0.5] * 30)[0] == "neither"  # a quarter and more have none: nothing is below
    extend, texts = scale([0.0] * 60)
    assert extend is None
    assert "All of them have coverage 0.00 %." in texts


def test_equal_values_are_not_enlarged(small: Search) -> None:
    assert len(history(changed(small, [0.5] * 60)).axes) == 1
    assert len(history(changed(small, [0.5] * 40 + [0.4] * 20)).axes) == 1  # the better half is one line
    assert len(history(changed(small, [0.5] * 20 + [0.4] * 40)).axes) == 2


def test_equal_values_can_be_drawn(small: Search) -> None:
    for values in ([0.5] * 60, [0.5] * 59 + [0.4], [0.0] * 60):
        search = changed(small, values)
        for draw in (history, pairwise):
            assert clipped(draw(search)) == []


def test_files(small: Search, tmp_path: Path) -> None:
    few = Search(small.record, small.trials[:10])
    out = tmp_path / "out"
    out.mkdir()
    written, left_out = study_figures.write(few, out)
    assert [path.name for path in written] == ["history.png", "pairwise.png"]
    assert list(left_out) == ["importances.png"]
    assert "got 10" in left_out["importances.png"]
    first = {path.name: path.read_bytes() for path in written}
    study_figures.write(few, out)
    assert {path.name: path.read_bytes() for path in written} == first
    for path in written:
        with Image.open(path) as image:
            assert len(image.convert("RGB").getcolors(1 << 24) or ()) > 50
    # Old figures would show other trials.
    one = Search(small.record, small.trials[:1])
    assert list(study_figures.write(one, out)[1]) == list(FIGURES)
    assert list(out.iterdir()) == []


def test_missing_matplotlib(tmp_path: Path) -> None:
    saved(tmp_path, count=20)
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['matplotlib.figure'] = None; "
        "from pathlib import Path; from squad.search import search_record, study_figures; "
        f"print(study_figures.write(search_record.read({str(tmp_path)!r}), Path({str(tmp_path)!r})))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.count("pip install 'squad-torch[search]'") == 3
    assert found.startswith("([], ")
