"""Numbers, intervals and tables in Markdown."""

import math
import re
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from experiments.paper.pages.markdown import (
    format_difference,
    format_interval,
    format_mean,
    format_value,
    t_interval,
    table,
)

FRACTIONS = st.floats(0, 1)


@pytest.mark.parametrize(
    ("value", "measure", "sign", "text"),
    [
        (0.4567, "accuracy", False, "45.7"),
        (0.4567, "accuracy", True, "+45.7"),
        (0.29349, "nll", False, "0.293"),
        (-0.00349, "nll", True, "-0.003"),
        (1.0, "", False, "100.0"),
        (0.0, "", True, "+0.0"),
        (-0.0001, "", True, "+0.0"),  # no minus sign before 0
        (-0.0001, "", False, "0.0"),
        (None, "", False, ""),
        (math.nan, "", False, ""),
    ],
)
def test_format_value(value: float | None, measure: str, sign: bool, text: str) -> None:
    assert format_value(value, measure, sign=sign) == text


@given(st.floats(-10, 10), st.sampled_from(["nll", "accuracy"]))
def test_formatted_values_are_close_to_the_value(value: float, measure: str) -> None:
    text = format_value(value, measure, sign=True)
    assert float(text) == pytest.approx(
        value * (1 if measure == "nll" else 100), abs=0.0501 if measure != "nll" else 0.000501
    )
    assert text[0] in "+-"
    assert float(format_value(value, measure)) == float(text)
    assert len(text.partition(".")[2]) == (3 if measure == "nll" else 1)


@given(st.lists(FRACTIONS, min_size=1, max_size=5))
def test_format_mean(values: list[float]) -> None:
    text = format_mean(values, "accuracy")
    mean, _, spread = text.partition(" (")
    assert float(mean) == pytest.approx(100 * statistics.fmean(values), abs=0.0501)
    if len(values) == 1:
        assert spread == ""
    else:
        assert float(spread[:-1]) == pytest.approx(200 * statistics.stdev(values), abs=0.0501)


def test_format_difference() -> None:
    # 2 below 60, where two standard deviations are 4: one standard deviation.
    assert format_difference([0.57, 0.59], [60.0, 4.0], "coverage@0.02") == "-1.0"
    assert format_difference([0.66], [60.0, 4.0], "coverage@0.02") == "+3.0"
    assert format_difference([0.316], [0.3, 0.008], "nll") == "+4.0"
    # The paper gives no standard deviation, or 0.
    assert format_difference([0.5], [60.0], "accuracy") == ""
    assert format_difference([0.5], [0.0, 0.0], "coverage@0.005") == ""


def test_a_zero_difference_has_no_minus_sign() -> None:
    assert format_difference([0.59999], [60.0, 4.0], "coverage@0.02") == "+0.0"


@given(
    st.lists(st.tuples(FRACTIONS, FRACTIONS), min_size=2, max_size=12).filter(
        lambda pairs: statistics.pstdev([one - other for one, other in pairs]) > 1e-6
    ),
    st.sampled_from(["nll", "accuracy"]),
)
def test_intervals_equal_those_of_scipy(pairs: list[tuple[float, float]], measure: str) -> None:
    one, other = zip(*pairs, strict=True)
    text = format_interval([mine - theirs for mine, theirs in pairs], measure)
    found = re.fullmatch(r"(\S+) \((\S+) to (\S+)\)", text)
    assert found is not None
    expected: Any = ttest_rel(one, other).confidence_interval(0.95)
    scale, near = (1, 0.000501) if measure == "nll" else (100, 0.0501)
    mean = statistics.fmean(one) - statistics.fmean(other)
    for shown, value in zip(found.groups(), (mean, expected.low, expected.high), strict=True):
        assert float(shown) == pytest.approx(scale * value, abs=near)


def test_intervals_of_one_value_and_of_zeros() -> None:
    assert format_interval([0.25], "accuracy") == "+25.0"
    assert format_interval([0.25, 0.25], "accuracy") == "+25.0 (+25.0 to +25.0)"
    assert format_interval([0.0, 0.0, 0.0], "accuracy") == "+0.0"


@pytest.mark.parametrize("measure", ["nll", "accuracy"])
@pytest.mark.parametrize("distance", [1e-5, 1e-7])
def test_bounds_near_0_show_their_sign(measure: str, distance: float) -> None:
    """The lower bound is just above or just below 0; the upper bound needs no further digits."""
    spread = [-0.01, 0.0, 0.01]
    _, half = t_interval(spread)
    for sign in (-1, 1):
        text = format_interval([half + sign * distance + one for one in spread], measure)
        low, high = re.findall(r"[+-][\d.]+", text)[1:]
        assert float(low) == pytest.approx(sign * distance * (1 if measure == "nll" else 100), rel=0.5)
        assert len(high.partition(".")[2]) == (3 if measure == "nll" else 1)


def test_table() -> None:
    assert table(["", "a"], [["x", "1"], ["y", ""]]) == "|  | a |\n| --- | --- |\n| x | 1 |\n| y |  |"
