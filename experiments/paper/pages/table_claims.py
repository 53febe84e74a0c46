"""Claims that two or three tables share: agreement with the paper's results, and comparisons of two rows."""

from collections.abc import Sequence

from experiments.paper.pages.claim import Claim, judge, untested
from experiments.paper.pages.comparison import COMPARED_MEASURES, compare, describe_differences, mean, within_paper
from experiments.paper.pages.markdown import MEASURES, format_interval, format_value, full_heading
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources

__all__ = ["ahead", "difference", "same_results", "short"]

#: The measure in which many networks have no coverage and others much.
LOWEST_RISK = ("coverage@0.005",)


def same_results(sources: Sources, plan: str, row: str, title: str) -> Claim:
    """Judge whether a row of the paper's table has the paper's results."""
    variant = sources.variant(f"{plan}/{row}", "relaxed 32")
    if variant is None or variant.row.paper is None:
        return untested(title, NOT_RUN)
    details, outcomes = [], []
    for (measure, published), near in zip(
        zip(MEASURES, variant.row.paper, strict=True), (within_paper(variant, one) for one in MEASURES), strict=True
    ):
        if near is None:
            continue
        outcomes.append(near)
        details.append(
            f"{full_heading(measure)}: {format_value(mean(variant, measure), measure)}; the paper has "
            f"{published[0]:g} ± {published[1]:g}: {'within' if near else 'outside'}"
        )
    position = list(MEASURES).index("coverage@0.01")
    return Claim(
        title,
        judge(outcomes),
        f"{variant.row.label} (paper: {variant.row.paper[position][0]:g})",
        format_interval(variant.values("coverage@0.01"), "coverage@0.01", sign=False),
        details,
        f"It holds if the mean of {variant.label} is within two of the paper's standard deviations, or better, in "
        "every measure. Coverage at .5 % was added to the criterion after the results were known.",
    )


def short(variant: Variant) -> str:
    """Return the name of a method in one word."""
    return variant.row.label.removeprefix("Plain ").removesuffix(" MC dropout")


def difference(one: Variant, other: Variant) -> str:
    """Return the name of the number of a comparison of two rows."""
    return f"{short(one)} minus {short(other)}"


def ahead(
    title: str, one: Variant | None, other: Variant | None, criterion: str = "", details: Sequence[str] = ()
) -> Claim:
    """Judge whether one row is significantly ahead of another at 1 % and at 2 %."""
    if one is None or other is None:
        return untested(title, NOT_RUN)
    return Claim(
        title,
        judge(compare(one, other, measure) == 1 for measure in COMPARED_MEASURES),
        difference(one, other),
        format_interval(one.paired_differences(other, "coverage@0.01"), "coverage@0.01"),
        [
            f"{one.label} minus {other.label}: {describe_differences(one, other)}",
            f"not judged, as many networks have no coverage there: {describe_differences(one, other, LOWEST_RISK)}",
            *details,
        ],
        criterion or "It holds if the difference is significant at 1 % and at 2 %.",
    )
