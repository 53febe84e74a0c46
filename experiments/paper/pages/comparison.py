"""Comparisons of networks with the same seeds and splits."""

import statistics
from collections.abc import Sequence

from experiments.paper.pages.markdown import MEASURES, format_interval, full_heading, t_interval
from experiments.paper.row_results import Variant

__all__ = [
    "COMPARED_MEASURES", "IMPROVEMENT_SIGN", "compare", "describe_comparison", "describe_differences", "mean",
    "within_paper",
]  # fmt: skip

#: Sign of an improvement of each measure.
IMPROVEMENT_SIGN = {name: -1 if name == "nll" else 1 for name in MEASURES}
#: Measures used in comparisons. At .5 %, many networks have no coverage and others much, so that a mean says little.
COMPARED_MEASURES = ("coverage@0.01", "coverage@0.02")


def mean(variant: Variant, measure: str) -> float:
    """Return the mean of a measure over the networks."""
    return statistics.fmean(variant.values(measure))


def compare(one: Variant, other: Variant, measure: str) -> int:
    """Return 1 if the first is significantly better (95 % interval of paired differences), -1 if worse, else 0."""
    middle, half = t_interval(one.paired_differences(other, measure))
    return IMPROVEMENT_SIGN[measure] * ((middle > half) - (middle < -half))


def describe_comparison(one: Variant, other: Variant) -> str:
    """Describe how the first compares with the second: per measure if the measures disagree."""
    words = {1: "ahead of", 0: "not significantly different from", -1: "behind"}
    signs = [compare(one, other, measure) for measure in COMPARED_MEASURES]
    if len(set(signs)) == 1:
        return f"{words[signs[0]]} {other.row.label}"
    return " and ".join(
        f"{words[sign]} {other.row.label} {MEASURES[measure]}"
        for measure, sign in zip(COMPARED_MEASURES, signs, strict=True)
    )


def describe_differences(one: Variant, other: Variant, measures: Sequence[str] = COMPARED_MEASURES) -> str:
    """Return the paired differences with their intervals, such as "coverage at 1 % +6.9 (+5.5 to +8.3)"."""
    return ", ".join(
        f"{full_heading(measure)} {format_interval(one.paired_differences(other, measure), measure)}"
        for measure in measures
    )


def within_paper(variant: Variant, measure: str) -> bool | None:
    """Return whether a mean is within two of the paper's standard deviations or better; None where it gives none."""
    if variant.row.paper is None:
        return None
    published = variant.row.paper[list(MEASURES).index(measure)]
    if len(published) < 2:
        return None
    paper, spread = published
    ours = mean(variant, measure) * (1 if measure == "nll" else 100)
    return IMPROVEMENT_SIGN[measure] * (ours - paper) >= -spread
