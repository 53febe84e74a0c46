"""Figures of latent variables show their data, also after a round trip through JSON."""

import json
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from squad.analysis import (
    Activation,
    BinWeights,
    Found,
    Nearest,
    Posteriors,
    Stereotype,
    activation,
    bin_weights,
    cases,
    nearest,
    posteriors,
    stereotypes,
)
from squad.analysis.latent_figures import FigureError, draw_activation, draw_stereotypes, draw_unit, draw_weights
from squad.analysis.stored_result import Plain
from squad.errors import ArgumentError
from tests.analysis.networks import network, rows


@cache
def found(name: str = "squad", unit: int = 2) -> tuple[tuple[Nearest, ...], Activation, BinWeights, tuple[Found, ...]]:
    made, x = network(name, **({"rank": 1} if name != "squad" else {})), rows(200)
    predicted, kinds = posteriors(made, x), stereotypes(7)
    return (
        nearest(predicted, kinds, 2),
        activation(made, x, 1, unit),
        bin_weights(made, 1, unit),
        cases(predicted, unit, kinds, 4),
    )


def rendered(figure: Any) -> np.ndarray:
    """Pixels of a figure."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text() and text.get_visible()]


def clipped(figure: Any) -> bool:
    """Whether something is drawn at an edge of the figure, and is therefore cut off."""
    pixels = rendered(figure)
    return any((edge < 250).any() for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))


def round_trip(plain: Plain) -> Any:
    """Convert to JSON and back."""
    return type(plain).of(json.loads(json.dumps(plain.to_dict())))


def equal(one: Any, other: Any) -> bool:
    return json.dumps(one.to_dict()) == json.dumps(other.to_dict())


def test_json_round_trip() -> None:
    near, line, weights, chosen = found()
    predicted = Posteriors(1, np.ones((2, 3, 4)) / 4, np.zeros((3, 4)))
    for plain in (*near, line, weights, *chosen, *stereotypes(5).values(), predicted):
        copy = round_trip(plain)
        assert equal(copy, plain)
        for name, value in vars(plain).items():
            kept = getattr(copy, name)
            assert type(kept) is type(value)
            if isinstance(value, np.ndarray):
                assert kept.dtype == value.dtype
                np.testing.assert_array_equal(kept, value)
    with pytest.raises(ArgumentError, match=r"Stereotype.*name, probs, variants, got name"):
        Stereotype.of({"name": "bell"})


def test_stereotypes() -> None:
    near = [round_trip(one) for one in found()[0]]
    figure = draw_stereotypes(near, "a title")
    assert isinstance(figure, Figure)
    assert not clipped(figure)
    assert rendered(figure).shape[1] == 1200
    shown = texts(figure)
    assert "a title" in shown
    assert any("all 1,200 predicted" in word for word in shown)
    bars = [[patch.get_height() for patch in axis.patches if hasattr(patch, "get_height")] for axis in _axes(figure)]
    for one in near:
        assert one.name in shown
        assert any(np.array_equal(heights, one.target) for heights in bars)
        for case in one.found:
            assert any(np.array_equal(heights, case.probs) for heights in bars)
    with pytest.raises(ArgumentError, match=r"near.*at least one stereotype"):
        draw_stereotypes([])


def _axes(figure: Any) -> list[Any]:
    return [*figure.axes, *(axis for part in figure.subfigs for axis in _axes(part) if axis not in figure.axes)]


def test_stereotypes_without_examples() -> None:
    made = nearest(posteriors(network(), rows(5)), stereotypes(7), 0)
    assert not any(word.startswith("B ") for word in texts(draw_stereotypes(made)))


def test_a_very_small_fraction_is_shown_as_a_count() -> None:
    near = found()[0][0]
    few = Nearest.of({**near.to_dict(), "total": 320_000, "shares": [0.0, 0.0, 38 / 320_000, 0.3, 0.5]})
    assert "38 below 0.2" in texts(draw_stereotypes([few]))
    many = Nearest.of({**near.to_dict(), "shares": [0.0, 0.1, 0.43, 0.5, 0.5]})
    assert "43 % below 0.2" in texts(draw_stereotypes([many]))


@pytest.mark.parametrize("name", ["squad", "squad-factorized"])
def test_activation(name: str) -> None:
    line = round_trip(found(name)[1])
    figure: Any = draw_activation(line)
    assert not clipped(figure)
    lines = [np.asarray(drawn.get_ydata()) for axis in figure.axes for drawn in axis.lines]
    for curve in (line.mean, line.likely, line.likely_probability, line.sample):
        assert any(np.array_equal(curve, drawn) for drawn in lines)
    shown = texts(figure)
    assert any("expected value" in word for word in shown)
    explains = [word for word in shown if "explains" in word]
    assert (explains == []) == (name == "squad-factorized")
    assert name != "squad" or f"{100 * line.explained:.0f} %" in explains[0]
    assert any(line.axis in word for word in shown)


@pytest.mark.parametrize("shape", [(4, 2), (2, 2, 2), None])
def test_weights(shape: tuple[int, ...] | None) -> None:
    _, _, weights, chosen = found()
    pictures = None if shape is None else np.random.default_rng(0).random((len(chosen), *shape)).tolist()
    figure = draw_weights(round_trip(weights), [round_trip(case) for case in chosen], shape=shape, pictures=pictures)
    assert not clipped(figure)
    own = weights.weights - weights.weights.mean(0)
    drawn = [np.asarray(image.get_array()) for axis in _axes(figure) for image in axis.images]
    if shape is None:
        assert len(drawn) == 1
        order = np.argsort(-np.square(own).sum(0), kind="stable")
        np.testing.assert_allclose(drawn[0], own.T[order])
        ticks = next(axis for axis in _axes(figure) if axis.images).get_yticklabels()
        assert [tick.get_text() for tick in ticks] == [f"input {index + 1}" for index in order]
    else:
        assert len(drawn) == 7 + len(chosen)
        for index in range(7):
            image = own[index].reshape(shape)
            np.testing.assert_allclose(drawn[index], image if len(shape) == 2 else image.mean(-1))
        limits = {image.get_clim() for axis in _axes(figure) for image in axis.images[:1]}
        assert len(limits) == 2  # one for all weights, one for all images
    for value in weights.values:
        assert f"{value:.2f}" in texts(figure)


def test_the_largest_of_many_inputs_are_shown() -> None:
    values = np.linspace(-1, 1, 4)
    weights = BinWeights(1, 1, np.outer(values, np.arange(50.0)), np.zeros(4), values)
    figure = draw_weights(weights, names=[f"a rather long name of a column, number {index}" for index in range(50)])
    assert not clipped(figure)
    shown = texts(figure)
    assert any("the 20 largest of 50 inputs" in word for word in shown)
    assert sum("rather" in word for word in shown) == 20
    assert all(len(word) <= 32 for word in shown if "rather" in word)
    with pytest.raises(ArgumentError, match=r"names.*50 inputs, got 1"):
        draw_weights(weights, names=["one"])


def test_one_page_of_a_unit() -> None:
    _, line, weights, chosen = found()
    pictures = np.zeros((len(chosen), 4, 2))
    for page in (
        draw_unit(line, weights, chosen, shape=(4, 2), pictures=pictures, title="all of it"),
        draw_unit(line, weights, (), title="all of it"),
    ):
        assert not clipped(page)
        shown = texts(page)
        for start in ("all of it", "Activation function of layer 1, unit 2", "Weights of layer 1, unit 2"):
            assert any(word.startswith(start) for word in shown)
    shown = texts(draw_unit(line, weights, chosen))
    for case in chosen:
        assert any(f"row {case.row + 1}: {case.stereotype}" in word for word in shown)
    with pytest.raises(ArgumentError, match=rf"pictures.*{len(chosen)} cases, got {len(chosen) - 1}"):
        draw_unit(line, weights, chosen, pictures=pictures[1:])


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FigureError, match=r"pip install 'squad-torch\[plots\]'"):
        draw_activation(found()[1])
