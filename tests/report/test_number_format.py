"""Numbers are never approximate in the model's favour."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from squad.report.number_format import approximate, exact_percent, percent, percent_rounded_up, plural, round_up


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.02, "2 %"),
        (0.5, "50 %"),
        (0.0155, "1.6 %"),
        (0.005, "0.5 %"),
        (0.00045, "0.045 %"),
        (0.99999, "99.999 %"),
        (1 - 1e-9, "over 99.9999 %"),
        (1e-9, "under 0.0001 %"),
    ],
)
def test_percentages(share: float, text: str) -> None:
    assert percent(share) == text.replace(" %", "\u00a0%")


@given(st.floats(0, 1))
def test_only_0_is_0_percent_and_only_1_is_100_percent(share: float) -> None:
    text = percent(share)
    assert (text == "0\u00a0%") == (share == 0)
    assert (text == "100\u00a0%") == (share == 1)
    if text[0].isdigit():
        assert abs(float(text.split("\u00a0")[0]) - 100 * share) <= 0.0501


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_a_confidence_above_the_threshold_that_is_shown_is_accepted(threshold: float) -> None:
    shown = float(percent_rounded_up(threshold).split("\u00a0")[0]) / 100
    assert shown >= threshold * (1 - 1e-11)
    assert shown < 1 or threshold > 1 - 1e-15


@pytest.mark.parametrize(
    ("threshold", "text"), [(0.9, "90"), (0.99999999, "99.999999"), (0.12345, "12.4"), (0.9999951, "99.9996")]
)
def test_thresholds(threshold: float, text: str) -> None:
    assert percent_rounded_up(threshold) == f"{text}\u00a0%"


@given(st.floats(0, 1), st.integers(1, 5000))
def test_an_upper_bound_is_rounded_up(share: float, of: int) -> None:
    assert round_up(share, of) >= share * of - 1e-8
    assert round_up(share, of) < share * of + 1


def test_whole_bounds_are_unchanged() -> None:
    assert [round_up(count / 1000) for count in range(1001)] == list(range(1001))


def test_plurals_and_counts() -> None:
    assert (plural(1, "case"), plural(2000, "case")) == ("1\u00a0case", "2,000\u00a0cases")
    assert (approximate(9.96), approximate(1234.4), approximate(math.pi)) == ("10", "1,234", "3.1")


def test_thresholds_are_rounded_up_and_risks_are_exact() -> None:
    assert [percent_rounded_up(x) for x in (0.902435, 0.9, 0.99362, 0.9999999999, 0.0, 1.0)] == [
        "90.3\u00a0%",
        "90\u00a0%",
        "99.37\u00a0%",
        "99.99999999\u00a0%",
        "0\u00a0%",
        "100\u00a0%",
    ]
    assert [exact_percent(x) for x in (0.02, 0.0199999, 0.005)] == ["2\u00a0%", "1.99999\u00a0%", "0.5\u00a0%"]
