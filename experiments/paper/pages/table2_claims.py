"""The paper's claims about its table 2, each with what was measured: from records alone."""

from experiments.paper.pages import table_claims
from experiments.paper.pages.claim import Claim, judge, untested
from experiments.paper.pages.comparison import COMPARED_MEASURES, compare, describe_differences
from experiments.paper.pages.markdown import format_interval
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.sources import Sources

__all__ = ["claims"]


def claims(sources: Sources) -> list[Claim]:
    """Return the claims of table 2 and of the text about it."""
    return [
        table_claims.same_results(sources, "table2", "squad", "SQUAD has the results of table 2 on notMNIST"),
        _held_out(sources),
    ]


def _held_out(sources: Sources) -> Claim:
    title = "SQUAD is strong on a new data set without tuning"
    squad = sources.variant("table2/squad", "relaxed 32")
    others = sources.variants("table2", ("mlp", "maxout-dropout"))
    if squad is None or others is None:
        return untested(title, NOT_RUN)
    maxout = others[-1]
    return Claim(
        title,
        judge(compare(squad, other, measure) >= 0 for other in others for measure in COMPARED_MEASURES),
        table_claims.difference(squad, maxout),
        format_interval(squad.paired_differences(maxout, "coverage@0.01"), "coverage@0.01"),
        [f"{squad.label} minus {other.label}: {describe_differences(squad, other)}" for other in others],
        "In the paper SQUAD is ahead of both other methods; the claim holds if it is not significantly behind either "
        "at 1 % and at 2 %.",
    )
