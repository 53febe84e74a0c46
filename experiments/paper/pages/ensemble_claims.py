"""The paper's claims about deep ensembles, and adversarial training, which it does not use."""

from collections.abc import Sequence
from typing import NamedTuple

from experiments.paper.jobs.plan import TABLES
from experiments.paper.pages.claim import Claim, judge, untested
from experiments.paper.pages.comparison import COMPARED_MEASURES, IMPROVEMENT_SIGN, mean
from experiments.paper.pages.markdown import MEASURES, format_value, full_heading
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources

__all__ = ["adversarial", "improve_all", "improve_squad"]

#: Maximum number of cells that are listed individually.
MAX_CELLS_LISTED = 3


class _Gains(NamedTuple):
    """In how many cells ensembles are better than the mean of their networks, and whether they are worse in any."""

    better: int
    cells: int
    worse: int
    text: str


def improve_all(sources: Sources) -> Claim:
    """Judge whether every ensemble is better than the mean of its networks."""
    title = "Deep ensembles improve results for all methods"
    rows = [result for name in TABLES for result in sources.row_results(name) if result.record is not None]
    paper, additional = (
        [result.variants()[0] for result in rows if bool(result.row.group) == grouped] for grouped in (False, True)
    )
    if not paper:
        return untested(title, NOT_RUN)
    details = []
    for words, variants in (("rows of the paper's tables", paper), ("additional rows", additional)):
        if variants:
            low, others = _gains(variants, ["coverage@0.005"]), _gains(variants, list(MEASURES)[1:])
            details += [
                f"{len(variants)} {words}, coverage at .5 %: better in {low.text}",
                f"{len(variants)} {words}, the other measures: better in {others.text}",
            ]
    every = _gains(paper, list(MEASURES))
    return Claim(
        title,
        "holds" if not every.worse else "partly" if 2 * every.better > every.cells else "fails",
        "cells in which an ensemble is better",
        f"{every.better} of {every.cells}",
        [
            *details,
            "at .5 %, some networks have a coverage of 0 and others much, so that their mean is a mixture",
            "an ensemble draws as many samples as all of its networks together",
        ],
        "It holds if no ensemble is worse than the mean of its networks in any measure, and partly if most are better.",
    )


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
    return _Gains(better, len(gains), len(worse), text)


def _describe_cell(variant: Variant, measure: str, gain: float) -> str:
    plan, _, _ = variant.row.name.partition("/")
    name = f"{variant.row.label} in {plan.replace('table', 'table ')}"
    return f"{name}, {full_heading(measure)}: {format_value(gain, measure, sign=True)}"


def improve_squad(sources: Sources) -> Claim:
    """Judge whether an ensemble gains more from SQUAD than from every other method of table 1."""
    title = "Deep ensembles improve SQUAD in particular"
    variants = sources.variants("table1", ("squad", "mlp", "maxout-dropout", "dlgm"))
    if variants is None:
        return untested(title, NOT_RUN)
    gains = {
        variant.row.label: [variant.ensemble[key] - mean(variant, key) for key in COMPARED_MEASURES]
        for variant in variants
    }
    (label, squad), *others = gains.items()
    return Claim(
        title,
        judge(one > other for _, each in others for one, other in zip(squad, each, strict=True)),
        f"{label}, ensemble minus its networks ({', '.join(_gain_at_one(*other) for other in others)})",
        format_value(squad[0], sign=True),
        [f"{name}: {_at_both_risks(each)}" for name, each in gains.items()],
        "It holds if SQUAD gains more coverage than every other method at 1 % and at 2 %. There is one ensemble per "
        "method, so that there is no interval.",
    )


def _gain_at_one(label: str, gains: Sequence[float]) -> str:
    return f"{label.removeprefix('Plain ').removesuffix(' MC dropout')}: {format_value(gains[0], sign=True)}"


def adversarial(sources: Sources) -> str:
    """Return a section about adversarial training; "" without records."""
    changes, helped, sizes = [], [], []
    for name in ("mlp", "maxout-dropout", "dlgm", "squad"):
        one, other = sources.variant(f"table1/{name}-adversarial"), sources.variant(f"table1/{name}")
        if one is None or other is None:
            return ""
        gains = [one.ensemble[key] - other.ensemble[key] for key in COMPARED_MEASURES]
        changes.append(f"- {other.row.label}: {_at_both_risks(gains)}")
        helped.append(min(gains) > 0)
        sizes.append(len(one.networks))
    verdict = (
        "It helps" if all(helped) else f"It helps {sum(helped)} of {len(helped)}" if any(helped) else "It does not help"
    )
    return "\n\n".join(
        [
            "## Adversarial training",
            "Deep ensembles were proposed with adversarial training, which the paper does not use. "
            f"{verdict} here. Change of the coverage of ensembles of {max(sizes)}, with settings that were found "
            "without it:",
            "\n".join(changes),
        ]
    )


def _at_both_risks(gains: Sequence[float]) -> str:
    return ", ".join(
        f"{format_value(gain, sign=True)} {MEASURES[key]}" for key, gain in zip(COMPARED_MEASURES, gains, strict=True)
    )
