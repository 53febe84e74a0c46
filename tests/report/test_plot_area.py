"""Charts: axes at round numbers, positions as fractions, and texts that cannot leave them."""

import re

import numpy as np
import pytest

from squad.report.plot_area import Axis, bar, chart, lines, marker, model_class, percent_axis, shape

X, Y = Axis(0, 1, ((0, "0"), (1, "1")), "x"), Axis(0, 0.2, ((0, "0"), (0.1, "a half")), "y")


@pytest.mark.parametrize("high", [0.0004, 0.011, 0.05, 0.1, 0.173, 0.5, 1.0])
@pytest.mark.parametrize("low", [0.0, 0.3])
def test_labels_are_round_and_few(low: float, high: float) -> None:
    axis = percent_axis("risk", low * high, high)
    numbers = [number for number, _ in axis.ticks]
    assert 2 <= len(numbers) <= 6
    assert all(axis.low - 1e-12 <= number <= axis.high + 1e-12 for number in numbers)
    steps = np.diff(numbers)
    np.testing.assert_allclose(steps, steps[0])
    assert f"{steps[0]:.0e}"[0] in "125"
    assert len({label for _, label in axis.ticks}) == len(numbers)


def test_positions() -> None:
    assert (Y.place(0.05), Y.place(-1), Y.place(7)) == (0.25, 0.0, 1.0)
    assert Y.fraction(0.4) == 2.0
    assert 'd="M0 1000L500 500L1000 -1000"' in lines(X, Y, [(0, 0), (0.5, 0.1), (1, 0.4)], "line")
    assert 'd="M0 1000H500V500"' in lines(X, Y, [(0, 0), (0.5, 0.1)], "line", steps=True)
    assert 'd="M0 1000L500 500z"' in shape(X, Y, [(0, 0), (0.5, 0.1)], "spread")
    assert 'style="left:25.00%;bottom:50.00%"' in marker("star", "plain", (0.25, 0.5))
    assert 'style="left:10.00%;width:20.00%;height:30.00%"' in bar(0.1, 0.2, 0.3, "wrong", "3 of 10")


def test_a_chart_has_a_text_alternative_and_escapes_texts() -> None:
    hostile = "</svg><script>alert(1)</script>"
    found = chart(
        X,
        Y,
        hostile,
        [lines(X, Y, [(0, 0)], "line")],
        [marker("ring", "plain", (0, 0), hostile)],
        [(marker("star", "a"), hostile)],
    )
    assert "<script" not in found
    assert found.count("&lt;script&gt;") == 4
    assert re.search(r'role="img" aria-label="&lt;/svg&gt;', found)
    assert found.count('class="x-axis"') == found.count('class="y-axis"') == 1
    assert ">a half<" in found


def test_six_models_have_different_styles() -> None:
    assert len({model_class(index) for index in range(6)}) == 6
    assert model_class(6) == model_class(0)
