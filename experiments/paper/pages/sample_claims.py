"""The paper's claims about few samples at test time, each with what was measured: from records alone."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.paper.pages.claim import Claim, judge, untested
from experiments.paper.pages.comparison import COMPARED_MEASURES
from experiments.paper.pages.markdown import MEASURES, format_interval, t_interval
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.sources import Sources

__all__ = ["fewer_samples_on_fashion_mnist", "fewer_samples_on_svhn"]

#: What the number of both claims is.
NUMBER = "{} minus Maxout, change with few samples"
#: When both claims hold.
CRITERION = (
    "It holds if SQUAD's coverage falls significantly less from T = 32 to T = 4 samples than that of Maxout MC "
    "dropout, in every sampling mode, at 1 % and at 2 %. Change of SQUAD's coverage minus that of Maxout's:"
)


class _Change(NamedTuple):
    """How much less SQUAD's coverage falls, per measure and network, in one sampling mode."""

    text: str
    differences: Mapping[str, Sequence[float]]


def fewer_samples_on_svhn(sources: Sources) -> Claim:
    """Judge the claim on SVHN, as in the paper."""
    title = "Few samples harm SQUAD less than MC dropout"
    changes = [
        change
        for row, label in (("squad-factorized", "SQUAD-factorized"), ("squad", "SQUAD"))
        for sampling in ("relaxed", "hard")
        for change in _changes(sources, f"table3/{row}", "table3/maxout-dropout", sampling, label)
    ]
    return _claim(title, changes, "SQUAD-factorized")


def fewer_samples_on_fashion_mnist(sources: Sources) -> Claim:
    """Judge the claim on Fashion-MNIST, where the paper makes it in general."""
    changes = [
        change
        for sampling in ("relaxed", "hard", "stratified")
        for change in _changes(
            sources,
            "figures/samples-squad",
            "figures/samples-maxout-dropout",
            sampling,
            "SQUAD with the paper's settings",
        )
    ]
    return _claim("SQUAD is sample efficient on Fashion-MNIST too", changes, "SQUAD")


def _changes(sources: Sources, squad: str, maxout: str, sampling: str, label: str) -> list[_Change]:
    found = [
        *(sources.variant(squad, f"{sampling} {count}") for count in (4, 32)),
        *(sources.variant(maxout, f"sample {count}") for count in (4, 32)),
    ]
    variants = [variant for variant in found if variant is not None]
    if len(variants) < len(found):
        return []
    few, many, maxout_few, maxout_many = variants
    differences = {
        measure: [
            change - maxout_change
            for change, maxout_change in zip(
                few.paired_differences(many, measure), maxout_few.paired_differences(maxout_many, measure), strict=True
            )
        ]
        for measure in COMPARED_MEASURES
    }
    return [_Change(f"{label}, {sampling}", differences)]


def _claim(title: str, changes: Sequence[_Change], whose: str) -> Claim:
    if not changes:
        return untested(title, NOT_RUN)
    outcomes, details = [], []
    for change in changes:
        parts = []
        for measure, values in change.differences.items():
            middle, half = t_interval(values)
            outcomes.append(middle > half)
            word = "less" if middle > half else "**more**" if middle < -half else "inconclusive"
            parts.append(f"{format_interval(values, measure)} {MEASURES[measure]} ({word})")
        details.append(f"{change.text}: {', '.join(parts)}")
    number = format_interval(changes[0].differences["coverage@0.01"], "coverage@0.01")
    return Claim(title, judge(outcomes), NUMBER.format(whose), number, details, CRITERION)
