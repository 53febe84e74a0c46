"""The paper's claims about its table 1, each with what was measured: from records alone."""

from experiments.paper.pages import table_claims
from experiments.paper.pages.claim import Claim, judge, untested
from experiments.paper.pages.comparison import COMPARED_MEASURES, compare, describe_differences
from experiments.paper.pages.ensemble_claims import improve_all, improve_squad
from experiments.paper.pages.markdown import MEASURES, format_interval, full_heading
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.sources import Sources

__all__ = ["claims"]


def claims(sources: Sources) -> list[Claim]:
    """Return the claims of table 1 and of the text about it."""
    return [
        table_claims.same_results(sources, "table1", "squad", "SQUAD has the results of table 1 on Fashion-MNIST"),
        _better(sources, "mlp", "SQUAD is significantly better than plain MLPs"),
        _better(sources, "dlgm", "SQUAD is significantly better than deep Gaussian bottlenecks"),
        _maxout(sources),
        _low_risk(sources),
        _likelihood(sources),
        improve_all(sources),
        improve_squad(sources),
        _relu(sources),
        _response(sources),
        _settings(sources),
    ]


def _better(sources: Sources, name: str, title: str) -> Claim:
    return table_claims.ahead(title, sources.variant("table1/squad", "relaxed 32"), sources.variant(f"table1/{name}"))


def _maxout(sources: Sources) -> Claim:
    title = "SQUAD has a slight advantage over Maxout MC dropout"
    maxout = sources.variant("table1/maxout-dropout")
    found = [sources.variant("table1/squad", mode) for mode in ("relaxed 32", "hard 32")]
    variants = [variant for variant in found if variant is not None]
    if maxout is None or len(variants) < len(found):
        return untested(title, NOT_RUN)
    squad = variants[0]
    return Claim(
        title,
        judge(compare(squad, maxout, measure) >= 0 for measure in COMPARED_MEASURES),
        table_claims.difference(squad, maxout),
        format_interval(squad.paired_differences(maxout, "coverage@0.01"), "coverage@0.01"),
        [f"{variant.label} minus {maxout.label}: {describe_differences(variant, maxout)}" for variant in variants],
        "The paper calls the advantage not significant; it holds if SQUAD, with relaxed samples, is not significantly "
        "behind at 1 % and at 2 %.",
    )


def _low_risk(sources: Sources) -> Claim:
    title = "That advantage is largest at low risk"
    squad, maxout = sources.variant("table1/squad", "relaxed 32"), sources.variant("table1/maxout-dropout")
    if squad is None or maxout is None:
        return untested(title, NOT_RUN)
    low, high = (squad.paired_differences(maxout, f"coverage@{risk}") for risk in (0.005, 0.02))
    return Claim(
        title,
        judge([sum(low) > 0, sum(low) > sum(high)]),
        f"{table_claims.short(squad)} minus {table_claims.short(maxout)}, coverage at .5 %",
        format_interval(low, "coverage@0.005"),
        [f"{squad.label} minus {maxout.label}: {describe_differences(squad, maxout, list(MEASURES)[:3])}"],
        "It holds if the mean difference at .5 % is positive and larger than at 2 %.",
    )


def _likelihood(sources: Sources) -> Claim:
    title = "SQUAD has a lower NLL than Maxout MC dropout"
    squad, maxout = sources.variant("table1/squad", "relaxed 32"), sources.variant("table1/maxout-dropout")
    if squad is None or maxout is None:
        return untested(title, NOT_RUN)
    number = format_interval(squad.paired_differences(maxout, "nll"), "nll")
    return Claim(
        title,
        judge([compare(squad, maxout, "nll") == 1]),
        f"{table_claims.short(squad)} minus {table_claims.short(maxout)}, NLL",
        number,
        [f"{squad.label} minus {maxout.label}: NLL {number}"],
        "It holds if the difference is significant.",
    )


def _relu(sources: Sources) -> Claim:
    title = "Maxout is a stronger MC dropout than ReLU"
    maxout, relu = (sources.variant(f"table1/{name}") for name in ("maxout-dropout", "relu-dropout"))
    details = []
    if maxout is not None and relu is not None:
        sizes = [one.record.results["weights"] for one in (maxout, relu)]
        details = [f"with equally many units, but {sizes[0]:,} versus {sizes[1]:,} weights"]
    return table_claims.ahead(title, maxout, relu, details=details)


def _response(sources: Sources) -> Claim:
    title = "Softmax response suits MC dropout better than variance"
    details, outcomes, number = [], [], ""
    for name, data in (
        ("table1/maxout-dropout", "Fashion-MNIST"),
        ("table1/relu-dropout", "Fashion-MNIST"),
        ("table2/maxout-dropout", "notMNIST"),
        ("table3/maxout-dropout", "SVHN"),
    ):
        response, variance = (sources.variant(name, mode) for mode in ("sample 32", "sample 32 by variance"))
        if response is None or variance is None:
            continue
        number = number or format_interval(response.paired_differences(variance, "coverage@0.01"), "coverage@0.01")
        details.append(f"{response.row.label} on {data}: {describe_differences(response, variance)}")
        outcomes += [compare(response, variance, key) == 1 for key in COMPARED_MEASURES]
    if not outcomes:
        return untested(title, NOT_RUN)
    return Claim(
        title,
        judge(outcomes),
        "Maxout, response minus variance",
        number,
        [*details, f"significantly better in {sum(outcomes)} of {len(outcomes)} comparisons"],
        "It holds if response is significantly better for both networks, on every data set, at 1 % and at 2 %.",
    )


def _settings(sources: Sources) -> Claim:
    title = "The settings of the appendix are the best of 700 trials"
    ours, published = (sources.variant(f"table1/squad-{name}", "relaxed 32") for name in ("700", "paper"))
    if ours is None or published is None:
        return untested(title, NOT_RUN)
    measures = [name for name in MEASURES if name != "coverage@0.005"]
    details = [
        f"{full_heading(measure)}: {format_interval(ours.paired_differences(published, measure), measure)}"
        for measure in measures
    ]
    return Claim(
        title,
        judge(compare(ours, published, measure) <= 0 for measure in COMPARED_MEASURES),
        "ours minus the paper's settings",
        format_interval(ours.paired_differences(published, "coverage@0.01"), "coverage@0.01"),
        [f"best of our 700 trials minus the paper's settings, on the test rows: {', '.join(details)}"],
        "It holds if the best of our trials is not significantly better at 1 % and at 2 %.",
    )
