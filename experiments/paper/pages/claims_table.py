"""The claims of the paper's text, each with what was measured: from records alone."""

from collections.abc import Sequence
from typing import NamedTuple

from experiments.paper.jobs.plan import TABLES
from experiments.paper.pages import network_claims
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
from experiments.paper.pages.verdicts import COMPARED_MEASURES, IMPROVEMENT_SIGN, compare, describe_comparison, mean
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources

__all__ = ["claims"]

#: Two claims of the paper that compare SQUAD with other methods.
HELD_OUT = "SQUAD exhibits strong performance on a held-out data set (notMNIST) without tuning for it"
BETTER_THAN = "SQUAD is significantly better than plain MLPs and deep Gaussian information bottlenecks"
#: Maximum number of cells that are listed individually.
MAX_CELLS_LISTED = 3


def claims(sources: Sources) -> str:
    """Return a table of claims, measurements, and whether they agree."""
    rows = [
        _maxout(sources),
        _against(sources, "table2", ("mlp", "maxout-dropout"), HELD_OUT),
        _against(sources, "table1", ("mlp", "dlgm"), BETTER_THAN),
        _ensembles(sources),
        _adversarial(sources),
        _relu(sources),
        _response(sources),
        *network_claims.rows(sources),
        _factorized(sources),
        _efficiency(sources),
        _epoch(sources),
    ]
    return table(["claim", "measured", "confirmed"], rows)


def _maxout(sources: Sources) -> list[str]:
    claim = "SQUAD has a slight, not significant advantage over Maxout MC dropout"
    maxout = sources.variant("table1/maxout-dropout")
    found = [sources.variant("table1/squad", mode) for mode in ("relaxed 32", "hard 32")]
    variants = [variant for variant in found if variant is not None]
    if maxout is None or not variants:
        return [claim, NOT_RUN, ""]
    measured = "; ".join(
        f"{variant.mode.text}: {_intervals(variant, maxout, COMPARED_MEASURES)}" for variant in variants
    )
    words = {1: "exceeded: significant", 0: "inconclusive", -1: "**no**, Maxout is ahead"}
    verdicts = [words[compare(variants[0], maxout, measure)] for measure in COMPARED_MEASURES]
    per_measure = (f"{MEASURES[key]}: {verdict}" for key, verdict in zip(COMPARED_MEASURES, verdicts, strict=True))
    verdict = verdicts[0] if len(set(verdicts)) == 1 else "; ".join(per_measure)
    return [claim, f"SQUAD minus Maxout, {measured}", verdict]


def _against(sources: Sources, plan: str, names: Sequence[str], claim: str) -> list[str]:
    """Compare SQUAD with some of the other rows of a table."""
    squad = sources.variant(f"{plan}/squad", "relaxed 32")
    found = [sources.variant(f"{plan}/{name}") for name in names]
    others = [other for other in found if other is not None]
    if squad is None or len(others) < len(found):
        return [claim, NOT_RUN, ""]
    measured = "; ".join(f"minus {other.row.label}: {_intervals(squad, other, COMPARED_MEASURES)}" for other in others)
    return [claim, measured, ", ".join(describe_comparison(squad, other, "**behind**") for other in others)]


def _intervals(one: Variant, other: Variant, measures: Sequence[str]) -> str:
    return ", ".join(
        f"{full_heading(measure)} {format_interval(one.paired_differences(other, measure), measure)}"
        for measure in measures
    )


def _ensembles(sources: Sources) -> list[str]:
    claim = "Deep ensembles improve results for all methods"
    rows = [result for name in TABLES for result in sources.row_results(name) if result.record is not None]
    paper, additional = (
        [result.variants()[0] for result in rows if bool(result.row.group) == grouped] for grouped in (False, True)
    )
    if not paper:
        return [claim, NOT_RUN, ""]
    parts, verdicts = [], []
    for words, variants in (("rows of the paper's tables", paper), ("additional rows", additional)):
        if not variants:
            continue
        low, others = _gains(variants, ["coverage@0.005"]), _gains(variants, list(MEASURES)[1:])
        parts.append(
            f"{len(variants)} {words}: coverage at .5 % better than the mean of the networks in {low.text}; the other "
            f"measures in {others.text}"
        )
        always = "always" if not others.worse else f"in {others.better} of {others.cells} cells"
        if words == "additional rows":
            verdicts.append(f"additional rows: {always}")
        else:
            exception = ", except for coverage at .5 %" * low.worse
            verdicts.append(("**no**: " + always if others.worse else "yes") + exception)
    parts.append(
        "At .5 %, some networks have a coverage of 0 and others much, so that their mean is a mixture. An ensemble "
        "draws as many samples as all of its networks together"
    )
    return [claim, ". ".join(parts), "; ".join(verdicts)]


class _Gains(NamedTuple):
    """In how many cells ensembles are better than the mean of their networks, and whether they are worse in any."""

    better: int
    cells: int
    worse: bool
    text: str


def _gains(variants: Sequence[Variant], measures: Sequence[str]) -> _Gains:
    gains = [
        (variant, measure, variant.ensemble[measure] - mean(variant, measure))
        for variant in variants
        for measure in measures
    ]
    worse = [(variant, measure, gain) for variant, measure, gain in gains if IMPROVEMENT_SIGN[measure] * gain < 0]
    equal = sum(gain == 0 for _, _, gain in gains)
    better = len(gains) - len(worse) - equal
    text = f"{better} of {len(gains)} cells, equal in {equal}, worse in {len(worse)}"
    if 0 < len(worse) <= MAX_CELLS_LISTED:
        text += f" ({'; '.join(_describe_cell(*cell) for cell in worse)})"
    return _Gains(better, len(gains), bool(worse), text)


def _describe_cell(variant: Variant, measure: str, gain: float) -> str:
    plan, _, _ = variant.row.name.partition("/")
    name = f"{variant.row.label} in {plan.replace('table', 'table ')}"
    return f"{name}, {full_heading(measure)}: {format_value(gain, measure, sign=True)}"


def _adversarial(sources: Sources) -> list[str]:
    claim = "(Not in the paper: deep ensembles were proposed with adversarial training)"
    changes, helped, sizes = [], [], []
    for name in ("mlp", "maxout-dropout", "dlgm", "squad"):
        one, other = sources.variant(f"table1/{name}-adversarial"), sources.variant(f"table1/{name}")
        if one is None or other is None:
            return [claim, NOT_RUN, ""]
        gains = [one.ensemble[key] - other.ensemble[key] for key in COMPARED_MEASURES]
        shown = (
            f"{format_value(gain, sign=True)} {MEASURES[key]}"
            for key, gain in zip(COMPARED_MEASURES, gains, strict=True)
        )
        changes.append(f"{other.row.label}: {', '.join(shown)}")
        helped.append(min(gains) > 0)
        sizes.append(len(one.networks))
    verdict = (
        "it helps" if all(helped) else f"it helps {sum(helped)} of {len(helped)}" if any(helped) else "it does not help"
    )
    return [
        claim,
        f"change of the coverage of ensembles of {max(sizes)} on Fashion-MNIST: {'; '.join(changes)}. The settings "
        "were found without adversarial training",
        f"coverage at 1 and 2 %: {verdict}",
    ]


def _relu(sources: Sources) -> list[str]:
    claim = "Maxout is a stronger MC dropout than ReLU with equally many units"
    maxout, relu = (sources.variant(f"table1/{name}") for name in ("maxout-dropout", "relu-dropout"))
    if maxout is None or relu is None:
        return [claim, NOT_RUN, ""]
    weights = f"with {maxout.record.results['weights']:,} versus {relu.record.results['weights']:,} weights"
    measured = f"Maxout minus ReLU: {_intervals(maxout, relu, COMPARED_MEASURES)}; {weights}"
    return [claim, measured, yes_no(all(compare(maxout, relu, key) == 1 for key in COMPARED_MEASURES))]


def _response(sources: Sources) -> list[str]:
    claim = "Softmax response serves MC dropout better than variance"
    measured: list[str] = []
    cells: dict[int, list[str]] = {1: [], 0: [], -1: []}
    for name, data in (
        ("table1/maxout-dropout", "Fashion-MNIST"),
        ("table1/relu-dropout", "Fashion-MNIST"),
        ("table2/maxout-dropout", "notMNIST"),
        ("table3/maxout-dropout", "SVHN"),
    ):
        response, variance = (sources.variant(name, mode) for mode in ("sample 32", "sample 32 by variance"))
        if response is not None and variance is not None:
            measured.append(f"{response.row.label} on {data} {_intervals(response, variance, COMPARED_MEASURES)}")
            for key in COMPARED_MEASURES:
                cells[compare(response, variance, key)].append(f"{response.row.label} on {data} {MEASURES[key]}")
    if not measured:
        return [claim, NOT_RUN, ""]
    better, undecided, worse = cells.values()
    verdicts = [yes_no(len(better) > len(undecided) and not worse)]
    if undecided or worse:
        verdicts[0] += f", in {len(better)} of {sum(map(len, cells.values()))} cells"
    if undecided:
        verdicts.append(f"inconclusive: {', '.join(undecided)}")
    if worse:
        verdicts.append(f"**worse**: {', '.join(worse)}")
    return [claim, f"response minus variance: {'; '.join(measured)}", "; ".join(verdicts)]


def _factorized(sources: Sources) -> list[str]:
    claim = (
        "On SVHN quantization might hinder SQUAD, which SQUAD-factorized, using a larger amount of bins, effectively "
        "compensates"
    )
    plain, factorized = (sources.variant(f"table3/{name}", "relaxed 32") for name in ("squad", "squad-factorized"))
    maxout = sources.variant("table3/maxout-dropout")
    if plain is None or factorized is None or maxout is None:
        return [claim, NOT_RUN, ""]
    pairs = ((plain, maxout), (factorized, plain), (factorized, maxout))
    differences = (
        f"{one.row.label} minus {other.row.label}: {_intervals(one, other, COMPARED_MEASURES)}" for one, other in pairs
    )
    sizes = (
        f"{one.row.label} has {one.record.settings['fit']['network']['bins']} bins and "
        f"{one.record.results['weights']:,} weights"
        for one in (plain, factorized)
    )
    verdicts = (f"{one.row.label} is {describe_comparison(one, other)}" for one, other in pairs)
    return [claim, "; ".join((*differences, *sizes)), "; ".join(verdicts)]


def _efficiency(sources: Sources) -> list[str]:
    claim = "SQUAD's results suffer less from few samples than MC dropout's"
    pairs = {
        "Fashion-MNIST": ("figures/samples-squad", "figures/samples-maxout-dropout", ("hard", "relaxed", "stratified")),
        "SVHN": ("table3/squad", "table3/maxout-dropout", ("hard", "relaxed")),
        "SVHN, factorized": ("table3/squad-factorized", "table3/maxout-dropout", ("hard", "relaxed")),
    }
    measured, verdicts = [], []
    for data, (squad, maxout, samplings) in pairs.items():
        for sampling in samplings:
            found = [
                *(sources.variant(squad, f"{sampling} {count}") for count in (4, 32)),
                *(sources.variant(maxout, f"sample {count}") for count in (4, 32)),
            ]
            variants = [variant for variant in found if variant is not None]
            if len(variants) < len(found):
                break
            few, many, maxout_few, maxout_many = variants
            parts, words = [], []
            for measure in COMPARED_MEASURES:
                changes = zip(
                    few.paired_differences(many, measure),
                    maxout_few.paired_differences(maxout_many, measure),
                    strict=True,
                )
                differences = [change - maxout_change for change, maxout_change in changes]
                middle, half = t_interval(differences)
                word = "less" if middle > half else "**more**" if middle < -half else "inconclusive"
                words.append(f"{word} {MEASURES[measure]}")
                parts.append(f"{format_interval(differences, measure)} {MEASURES[measure]}")
            measured.append(f"{data}, {sampling}: {', '.join(parts)}")
            verdicts.append(f"{data}, {sampling}: {', '.join(words)}")
    if not measured:
        return [claim, NOT_RUN, ""]
    text = (
        f"change from T = 32 to T = 4, SQUAD's minus Maxout's: {'; '.join(measured)}. On Fashion-MNIST SQUAD has the "
        "paper's settings, Maxout those of its search"
    )
    return [claim, text, "; ".join(verdicts)]


def _epoch(sources: Sources) -> list[str]:
    claim = (
        "On SVHN an epoch of SQUAD-factorized takes less time than one of Maxout (9 s versus 13 s on a Titan XP, with "
        "3.4 versus 9.0 million weights)"
    )
    factorized, maxout = (sources.record(f"table3/{name}") for name in ("squad-factorized", "maxout-dropout"))
    if factorized is None or maxout is None:
        return [claim, NOT_RUN, ""]
    if factorized.machine != maxout.machine:
        return [claim, "measured on different machines", ""]
    one, other = (record.results["probes"]["epoch"] for record in (factorized, maxout))
    weights = [record.results["weights"] for record in (factorized, maxout)]
    measured = (
        f"{one['median']:.3f} s with a batch size of {one['batch_size']} versus {other['median']:.3f} s with "
        f"{other['batch_size']} on one {factorized.machine.get('gpu') or factorized.machine['cpu']}; with "
        f"{weights[0]:,} versus {weights[1]:,} weights"
    )
    verdict = yes_no(one["median"] < other["median"])
    if one["batch_size"] != other["batch_size"]:
        verdict += ", each with the batch size of its search"
    return [claim, measured, verdict]
