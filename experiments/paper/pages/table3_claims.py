"""The paper's claims about its table 3, each with what was measured: from records alone."""

from dataclasses import replace

from experiments.paper.pages import table_claims
from experiments.paper.pages.claim import Claim, judge, untested
from experiments.paper.pages.comparison import COMPARED_MEASURES, compare, describe_comparison, describe_differences
from experiments.paper.pages.markdown import format_interval
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.pages.sample_claims import fewer_samples_on_svhn
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources
from squad.records import Record

__all__ = ["claims"]


def claims(sources: Sources) -> list[Claim]:
    """Return the claims of table 3 and of the text about it."""
    plain, factorized = (sources.variant(f"table3/{name}", "relaxed 32") for name in ("squad", "squad-factorized"))
    maxout = sources.variant("table3/maxout-dropout")
    return [
        table_claims.same_results(
            sources, "table3", "squad-factorized", "SQUAD-factorized has the results of table 3 on SVHN"
        ),
        _hindered(plain, maxout),
        _outperforms(factorized, plain),
        _compensates(factorized, maxout),
        _weights(factorized, maxout),
        _epoch(sources),
        fewer_samples_on_svhn(sources),
        _few_samples(sources),
        untested("One W' for all neurons helps with many bins", "the search has one W' per neuron only"),
    ]


def _hindered(plain: Variant | None, maxout: Variant | None) -> Claim:
    title = "Quantization hinders SQUAD on SVHN"
    if plain is None or maxout is None:
        return untested(title, NOT_RUN)
    return Claim(
        title,
        judge(compare(plain, maxout, measure) == -1 for measure in COMPARED_MEASURES),
        table_claims.difference(plain, maxout),
        format_interval(plain.paired_differences(maxout, "coverage@0.01"), "coverage@0.01"),
        [f"{plain.label} minus {maxout.label}: {describe_differences(plain, maxout)}"],
        "The paper says that it might; it holds if SQUAD is significantly behind Maxout MC dropout at 1 % and at 2 %.",
    )


def _outperforms(factorized: Variant | None, plain: Variant | None) -> Claim:
    sizes = [
        f"{one.row.label} has {one.record.settings['fit']['network']['bins']} bins and "
        f"{one.record.results['weights']:,} weights"
        for one in (plain, factorized)
        if one is not None
    ]
    return table_claims.ahead("SQUAD-factorized outperforms SQUAD", factorized, plain, details=sizes)


def _compensates(factorized: Variant | None, maxout: Variant | None) -> Claim:
    title = "SQUAD-factorized compensates for quantization"
    if factorized is None or maxout is None:
        return untested(title, NOT_RUN)
    return Claim(
        title,
        judge(compare(factorized, maxout, measure) >= 0 for measure in COMPARED_MEASURES),
        table_claims.difference(factorized, maxout),
        format_interval(factorized.paired_differences(maxout, "coverage@0.01"), "coverage@0.01"),
        [
            f"{factorized.label} minus {maxout.label}: {describe_differences(factorized, maxout)}",
            f"{factorized.row.label} is {describe_comparison(factorized, maxout)}",
        ],
        "It holds if SQUAD-factorized is not significantly behind Maxout MC dropout at 1 % and at 2 %.",
    )


def _few_samples(sources: Sources) -> Claim:
    squad = sources.variant("table3/squad-factorized", "relaxed 4")
    claim = table_claims.ahead(
        "SQUAD is favourable where resources are few",
        squad,
        sources.variant("table3/maxout-dropout", "sample 4"),
        "It holds if SQUAD-factorized with T = 4 is significantly ahead of Maxout MC dropout, at 1 % and at 2 %.",
    )
    return claim if claim.verdict == "not tested" else replace(claim, measure=f"{claim.measure}, T = 4")


def _weights(factorized: Variant | None, maxout: Variant | None) -> Claim:
    title = "SQUAD-factorized has fewer weights than Maxout"
    if factorized is None or maxout is None:
        return untested(title, NOT_RUN)
    one, other = factorized.record.results["weights"], maxout.record.results["weights"]
    return Claim(
        title,
        judge([one < other]),
        "its weights, relative to Maxout's",
        f"{one / other:.2f}",
        [f"{one:,} versus {other:,} weights; the paper has 3.4 versus 9.0 million"],
    )


def _epoch(sources: Sources) -> Claim:
    title = "SQUAD-factorized trains faster than Maxout"
    factorized, maxout = (sources.record(f"table3/{name}") for name in ("squad-factorized", "maxout-dropout"))
    if factorized is None or maxout is None:
        return untested(title, NOT_RUN)
    if factorized.machine != maxout.machine:
        return untested(title, "measured on different machines")
    one, other = (record.results["probes"]["epoch"] for record in (factorized, maxout))
    batches = "the same batch size" if one["batch_size"] == other["batch_size"] else "the batch size of its search"
    return Claim(
        title,
        judge([one["median"] < other["median"]]),
        "time of an epoch, relative to Maxout's, each with its own settings",
        f"{one['median'] / other['median']:.2f}",
        [
            f"{one['median']:.3f} s with a batch size of {one['batch_size']} versus {other['median']:.3f} s with "
            f"{other['batch_size']} on one {factorized.machine.get('gpu') or factorized.machine['cpu']}, each with "
            f"{batches}; the paper has 9 s versus 13 s on a Titan XP",
            *_epoch_at_equal_sizes(sources),
        ],
    )


def _epoch_at_equal_sizes(sources: Sources) -> list[str]:
    """Return the ratio of epochs with the paper's sizes and one batch size, if the benchmark has a record."""
    path = sources.folder.parents[1] / "benchmarks" / "results" / "svhn_epoch-cuda.json"
    if not path.is_file():
        return []
    record = Record.load(path)
    tf32, float32 = (record.results[precision]["ratio"] for precision in ("tf32", "float32"))
    return [
        f"with the paper's sizes and batches of {record.settings['batch']} for both: {tf32:.2f} in TF32, {float32:.2f} "
        "in float32 ([benchmark](../../docs/evidence/performance.md)); the paper has 0.69"
    ]
