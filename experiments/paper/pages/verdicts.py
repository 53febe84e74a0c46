"""Goals of the reproduction, whether they were met, and a summary: from records alone."""

import statistics

from experiments.paper.pages.markdown import (
    MEASURES,
    format_interval,
    format_value,
    full_heading,
    t_interval,
    table,
    yes_no,
)
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources

__all__ = ["COMPARED_MEASURES", "IMPROVEMENT_SIGN", "compare", "describe_comparison", "goals_table", "mean", "summary"]

#: Goals of SQUAD-factorized on SVHN.
SVHN_GOALS = {"coverage@0.01": 0.50, "coverage@0.02": 0.64, "accuracy": 0.858}
#: Maximum number of weights of SQUAD-factorized on SVHN: the paper's 3.4 million + 5 %.
SVHN_MAX_WEIGHTS = 3_570_000
#: Sign of an improvement of each measure.
IMPROVEMENT_SIGN = {name: -1 if name == "nll" else 1 for name in MEASURES}
#: Measures used in comparisons. At .5 %, many networks have no coverage and others much, so that a mean says little.
COMPARED_MEASURES = ("coverage@0.01", "coverage@0.02")


def mean(variant: Variant, measure: str) -> float:
    """Return the mean of a measure over the networks."""
    return statistics.fmean(variant.values(measure))


def compare(one: Variant, other: Variant, measure: str) -> int:
    """Return 1 if the first is significantly ahead (95 % interval of paired differences), -1 if behind, else 0."""
    middle, half = t_interval(one.paired_differences(other, measure))
    return (middle > half) - (middle < -half)


def describe_comparison(one: Variant, other: Variant, behind: str = "behind") -> str:
    """Describe how the first compares with the second: per measure if the measures disagree.

    Args:
        one: The first.
        other: The second.
        behind: Wording where the first is significantly behind.
    """
    words = {1: "ahead of", 0: "not significantly different from", -1: behind}
    signs = [compare(one, other, measure) for measure in COMPARED_MEASURES]
    if len(set(signs)) == 1:
        return f"{words[signs[0]]} {other.row.label}"
    return " and ".join(
        f"{words[sign]} {other.row.label} {MEASURES[measure]}"
        for measure, sign in zip(COMPARED_MEASURES, signs, strict=True)
    )


# -- goals


def goals_table(sources: Sources) -> str:
    """Return a table of goals, results, and whether they were met."""
    rows = [*_near_the_paper(sources), *_order(sources), *_svhn(sources)]
    return table(["goal", "result", "met"], rows)


def _near_the_paper(sources: Sources) -> list[list[str]]:
    rows = []
    for column, measure in enumerate(MEASURES):
        if measure == "coverage@0.005":
            continue  # no goal: its spread is a quarter of all rows
        goal = (
            f"SQUAD on Fashion-MNIST, {full_heading(measure)}: within two of the paper's standard deviations, or better"
        )
        for mode in ("relaxed 32", "hard 32", "stratified 8"):
            variant = sources.variant("table1/squad", mode)
            if variant is None or variant.row.paper is None:
                rows.append([goal, NOT_RUN, ""])
                continue
            paper, spread = variant.row.paper[column]
            ours = mean(variant, measure) * (1 if measure == "nll" else 100)
            result = (
                f"{variant.mode.text}: {format_value(mean(variant, measure), measure)} (paper: {paper:g} ± {spread:g})"
            )
            rows.append([goal, result, yes_no(IMPROVEMENT_SIGN[measure] * (ours - paper) >= -spread)])
    return rows


def _order(sources: Sources) -> list[list[str]]:
    rows = []
    labels = {row.name.partition("/")[2]: row.label for row in sources.plan("table1").rows}
    for first, second in (("squad", "mlp"), ("maxout-dropout", "mlp"), ("mlp", "dlgm")):
        for measure in COMPARED_MEASURES:
            one, other = sources.variant(f"table1/{first}"), sources.variant(f"table1/{second}")
            goal = f"{labels[first]} ahead of {labels[second]} on Fashion-MNIST, {full_heading(measure)}"
            rows.append(_ahead(goal, one, other, measure))
    return rows


def _ahead(goal: str, one: Variant | None, other: Variant | None, measure: str) -> list[str]:
    if one is None or other is None:
        return [goal, NOT_RUN, ""]
    result = f"{format_value(mean(one, measure))} versus {format_value(mean(other, measure))}"
    return [goal, result, yes_no(mean(one, measure) > mean(other, measure))]


def _svhn(sources: Sources) -> list[list[str]]:
    ours = sources.variant("table3/squad-factorized", "relaxed 32")
    plain = sources.variant("table3/squad", "relaxed 32")
    rows = []
    for measure, minimum in SVHN_GOALS.items():
        goal = f"SQUAD-factorized on SVHN, {full_heading(measure)}: at least {format_value(minimum)}"
        if ours is None:
            rows.append([goal, NOT_RUN, ""])
        else:
            value = mean(ours, measure)
            rows.append([goal, f"{ours.mode.text}: {format_value(value)}", yes_no(value >= minimum)])
    for measure in COMPARED_MEASURES:
        goal = f"SQUAD-factorized ahead of SQUAD on SVHN, {full_heading(measure)}"
        rows.append(_ahead(goal, ours, plain, measure))
    goal = f"SQUAD-factorized with at most {SVHN_MAX_WEIGHTS:,} weights (ensured by the search space)"
    if ours is None:
        rows.append([goal, NOT_RUN, ""])
    else:
        weights = ours.record.results["weights"]
        rows.append([goal, f"{weights:,}", yes_no(weights <= SVHN_MAX_WEIGHTS)])
    return rows


# -- summary


def summary(sources: Sources) -> str:
    """Return one list item per data set, which compares SQUAD with the paper and with Maxout MC dropout."""
    lines = []
    for table_name, data in (("table1", "Fashion-MNIST"), ("table2", "notMNIST"), ("table3", "SVHN")):
        row = "squad-factorized" if table_name == "table3" else "squad"
        one = sources.variant(f"{table_name}/{row}", "relaxed 32")
        other = sources.variant(f"{table_name}/maxout-dropout")
        if one is None or one.row.paper is None:
            lines.append(f"- {data}: {NOT_RUN}.")
            continue
        columns = [list(MEASURES).index(measure) for measure in COMPARED_MEASURES]
        coverages = " and ".join(
            f"{format_value(mean(one, measure))} {MEASURES[measure]} (paper: {one.row.paper[column][0]:g})"
            for measure, column in zip(COMPARED_MEASURES, columns, strict=True)
        )
        comparison = "" if other is None else f" {_compare_with(one, other)}"
        lines.append(f"- {data}: {one.row.label} has a coverage of {coverages}.{comparison}")
    if all(line.endswith(f"{NOT_RUN}.") for line in lines):
        return "\n".join(lines)
    lines.append(
        "\nAll results of SQUAD are with relaxed samples, T = 32. Intervals cover the variation over seeds and splits, "
        "not over test rows or over repeated searches."
    )
    return "\n".join(lines)


def _compare_with(one: Variant, other: Variant) -> str:
    """Compare single networks in pairs, then ensembles."""
    differences = ", ".join(
        f"{format_interval(one.paired_differences(other, measure), measure)} {MEASURES[measure]}"
        for measure in COMPARED_MEASURES
    )
    ensembles = " and ".join(
        f"{format_value(one.ensemble[measure])} versus {format_value(other.ensemble[measure])} {MEASURES[measure]}"
        for measure in COMPARED_MEASURES
    )
    return (
        f"Single networks are {describe_comparison(one, other)} (paired difference with its 95 % interval: "
        f"{differences}); ensembles of {len(one.networks)} have {ensembles}."
    )
