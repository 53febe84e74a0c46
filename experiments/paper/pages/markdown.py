"""Numbers and tables as people read them."""

import math
import statistics
from collections.abc import Sequence

from scipy.stats import t

__all__ = ["MEASURES", "difference", "interval", "mean_and_spread", "number", "student", "table"]

#: What the paper's tables show, by its name in a record, with its heading; all but the NLL are shares.
MEASURES = {
    "coverage@0.005": "coverage at .5 %",
    "coverage@0.01": "at 1 %",
    "coverage@0.02": "at 2 %",
    "nll": "NLL",
    "accuracy": "accuracy",
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))


def number(value: float | None, measure: str = "", *, sign: bool = False) -> str:
    """A share in per cent with one decimal, an NLL with three."""
    if value is None or math.isnan(value):
        return ""
    scale, digits = (1, 3) if measure == "nll" else (100, 1)
    shown = round(scale * value, digits) + 0.0  # no -0.0
    return f"{shown:+.{digits}f}" if sign else f"{shown:.{digits}f}"


def mean_and_spread(values: Sequence[float], measure: str) -> str:
    """The mean, and in parentheses two standard deviations, as in the paper."""
    mean = number(statistics.fmean(values), measure)
    return mean if len(values) < 2 else f"{mean} ({number(2 * statistics.stdev(values), measure)})"


def difference(values: Sequence[float], paper: Sequence[float], measure: str) -> str:
    """Our mean minus the paper's, in the paper's standard deviations; nothing where it gives none."""
    if len(paper) < 2 or paper[1] == 0:
        return ""
    scale = 1 if measure == "nll" else 100
    apart = (scale * statistics.fmean(values) - paper[0]) / (paper[1] / 2)
    return f"{round(apart, 1) + 0.0:+.1f}"  # no -0.0


def student(values: Sequence[float], comparisons: int = 1) -> tuple[float, float]:
    """The mean, and half its interval by Student's t: 95 % for so many comparisons together (Bonferroni)."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.inf
    width = float(t.ppf(1 - 0.025 / comparisons, len(values) - 1))
    return mean, width * statistics.stdev(values) / math.sqrt(len(values))


def interval(values: Sequence[float], measure: str) -> str:
    """The mean, and in parentheses a 95 % interval of it by Student's t; where all are 0, that alone."""
    mean, half = student(values)
    if math.isinf(half) or not any(values):
        return number(mean, measure, sign=True)
    return f"{number(mean, measure, sign=True)} ({_bound(mean - half, measure)} to {_bound(mean + half, measure)})"


def _bound(value: float, measure: str) -> str:
    """With so many digits that it is not 0, if it is not: on which side of 0 a bound is decides what is concluded."""
    shown = number(value, measure, sign=True)
    scale, digits = (1, 3) if measure == "nll" else (100, 1)
    while value and not float(shown) and digits < 9:
        digits += 1
        shown = f"{scale * value:+.{digits}f}"
    return shown
