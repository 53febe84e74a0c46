"""Numbers, intervals and tables in Markdown."""

import math
import statistics
from collections.abc import Iterable, Sequence

from scipy.stats import t

__all__ = [
    "MEASURES",
    "QUICK_NOTICE",
    "format_difference",
    "format_interval",
    "format_mean",
    "format_value",
    "full_heading",
    "joined",
    "t_interval",
    "table",
    "yes_no",
]

#: Measures of the paper's tables: name in a record, heading. All but the NLL are fractions.
MEASURES = {
    "coverage@0.005": "coverage at .5 %",
    "coverage@0.01": "at 1 %",
    "coverage@0.02": "at 2 %",
    "nll": "NLL",
    "accuracy": "accuracy",
}
#: Notice on all pages of a quick run.
QUICK_NOTICE = (
    "**This is a quick run** with fewer networks, epochs and training rows than the paper. It shows that everything "
    "runs; its results are not comparable with the paper's or with those of a full run."
)


def joined(parts: Iterable[str]) -> str:
    """Return the parts of a page with blank lines between them; empty parts are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))


def yes_no(good: bool) -> str:
    """Return a verdict in one word, "no" in bold."""
    return "yes" if good else "**no**"


def full_heading(measure: str) -> str:
    """Return a measure's heading in a form that can stand alone, such as "coverage at 1 %"."""
    heading = MEASURES[measure]
    return f"coverage {heading}" if heading.startswith("at ") else heading


def format_value(value: float | None, measure: str = "", *, sign: bool = False) -> str:
    """Format a fraction in percent with one decimal, or an NLL with three; "" for None and NaN."""
    if value is None or math.isnan(value):
        return ""
    scale, digits = (1, 3) if measure == "nll" else (100, 1)
    shown = round(scale * value, digits) + 0.0  # no -0.0
    return f"{shown:+.{digits}f}" if sign else f"{shown:.{digits}f}"


def format_mean(values: Sequence[float], measure: str) -> str:
    """Format the mean and, in parentheses, two standard deviations, as in the paper."""
    mean = format_value(statistics.fmean(values), measure)
    return mean if len(values) < 2 else f"{mean} ({format_value(2 * statistics.stdev(values), measure)})"


def format_difference(values: Sequence[float], paper: Sequence[float], measure: str) -> str:
    """Format our mean minus the paper's, in the paper's standard deviations; "" where it gives none or 0."""
    if len(paper) < 2 or paper[1] == 0:
        return ""
    scale = 1 if measure == "nll" else 100
    deviations = (scale * statistics.fmean(values) - paper[0]) / (paper[1] / 2)
    return f"{round(deviations, 1) + 0.0:+.1f}"  # no -0.0


def t_interval(values: Sequence[float], comparisons: int = 1) -> tuple[float, float]:
    """Return the mean, and half the width of its 95 % interval by Student's t.

    Args:
        values: Independent observations.
        comparisons: Number of intervals that hold jointly (Bonferroni).
    """
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.inf
    quantile = float(t.ppf(1 - 0.025 / comparisons, len(values) - 1))
    return mean, quantile * statistics.stdev(values) / math.sqrt(len(values))


def format_interval(values: Sequence[float], measure: str, *, sign: bool = True) -> str:
    """Format the mean and, in parentheses, its 95 % interval by Student's t; the mean alone where all values are 0."""
    mean, half = t_interval(values)
    if math.isinf(half) or not any(values):
        return format_value(mean, measure, sign=sign)
    low, high = (
        _format_bound(bound, measure) if sign else format_value(bound, measure) for bound in (mean - half, mean + half)
    )
    return f"{format_value(mean, measure, sign=sign)} ({low} to {high})"


def _format_bound(value: float, measure: str) -> str:
    """Format a bound with enough digits to show its sign, because conclusions depend on it."""
    shown = format_value(value, measure, sign=True)
    scale, digits = (1, 3) if measure == "nll" else (100, 1)
    while value and not float(shown) and digits < 9:
        digits += 1
        shown = f"{scale * value:+.{digits}f}"
    return shown
