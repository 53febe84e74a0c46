"""The page of one table: results next to the paper's, differences, ensembles, claims, goals, certificates, costs."""

import re
from collections.abc import Mapping, Sequence

from experiments.paper.pages import result_tables
from experiments.paper.pages.claim import section
from experiments.paper.pages.claims import CLAIMS
from experiments.paper.pages.ensemble_claims import adversarial
from experiments.paper.pages.figure_pages import show
from experiments.paper.pages.goals import GOALS
from experiments.paper.pages.markdown import QUICK_NOTICE, joined
from experiments.paper.row_results import RowResult, find_variant
from experiments.paper.sources import Sources

__all__ = ["FIGURES", "page"]

#: The page that explains the columns of all tables.
GUIDE_PAGE = "table1"
#: How to read the tables.
READING_GUIDE = (
    "Coverage is in percent of the test rows, by SGR on the test rows themselves with delta = .01, as in the paper. "
    "Ours: mean over the networks and, in parentheses, two standard deviations. Difference: ours minus the paper's, in "
    "the paper's standard deviations (half of its parentheses); blank where the paper gives none or 0; a lower NLL is "
    "better. The spread is over seeds and splits into training and validation rows; the test rows are always the same."
)
#: What the tables of certificates show.
CERTIFICATES = (
    "SGR on the test rows uses them up: its threshold was chosen on them. The tables therefore also show, for every "
    "row, the coverage of this library's default method (`squad.certify`) on the same rows and, over {halves} random "
    "splits of the test rows into a half for certification and a half for evaluation, the coverage of the evaluation "
    "half, its selective risk (the error rate among accepted rows), and how often that risk was above r; all in "
    "percent, means over the networks. A certificate guarantees that the risk on new cases from the same distribution "
    "is at most r, at a confidence level of 99 %. The error rate among a few thousand rows varies around that risk, so "
    "it may exceed r in more than 1 % of the halves although the guarantee holds. The risk is a mean over halves in "
    'which rows were accepted, few of them at r = .5 %; "above r" is a fraction of all halves. (Sampling modes were '
    "selected with knowledge of Fashion-MNIST's test rows: see [search.md](search.md).)"
)
#: A note about notMNIST as the records have it, and as ``squad.data`` words it now.
OLD_NOTE = re.compile(r"No official test part: ([\d,]+) of ([\d,]+) images, by a hash of their pixels, are it\.")
NEW_NOTE = r"There is no official test set: \1 of \2 images were chosen by a hash of their pixels."
#: Figures of the tables.
FIGURES = {"table1": "coverage-table1"}
#: Pairs of rows that a table's page compares: the first minus the second.
PAIRS = (
    (("squad", "relaxed 32"), ("maxout-dropout", None)),
    (("squad", "stratified 8"), ("maxout-dropout", None)),
    (("squad-factorized", "relaxed 32"), ("maxout-dropout", None)),
    (("squad-factorized", "relaxed 32"), ("squad", "relaxed 32")),
    (("squad", "relaxed 32"), ("mlp", None)),
    (("maxout-dropout", None), ("mlp", None)),
    (("maxout-dropout", None), ("relu-dropout", None)),
    (("mlp", None), ("dlgm", None)),
    (("squad-700", "relaxed 32"), ("squad-paper", "relaxed 32")),
    (("squad-700", "relaxed 32"), ("maxout-dropout", None)),
    (("squad-paper", "relaxed 32"), ("maxout-dropout", None)),
)


def page(sources: Sources, name: str, note: str, figures: Mapping[str, str]) -> str:
    """Return the page of a table.

    Args:
        sources: Plans and their records.
        name: Name of the table's plan.
        note: What its records do not contain.
        figures: Captions of the existing figures, by path.
    """
    results, plan, quick = sources.row_results(name), sources.plan(name), sources.quick
    groups = [group for group in dict.fromkeys(result.row.group for result in results) if group]
    measured = any(result.record for result in results)
    parts = [
        f"# {plan.title}",
        QUICK_NOTICE if quick else "",
        "" if quick else note,
        "## Results",
        READING_GUIDE if name == GUIDE_PAGE else _see("how to read the columns", "results"),
        result_tables.comparison_table(results, differences=not quick),
        show(FIGURES[name], figures) if name in FIGURES else "",
    ]
    if groups:
        parts += ["### Additional rows", result_tables.comparison_table(results, groups, differences=not quick)]
    parts += _pairs(results)
    if measured:
        parts += ["## Ensembles", result_tables.ensemble_table(results, ["", *groups])]
    if not quick:
        parts += ["## Claims", *(section(claim) for claim in CLAIMS[name](sources))]
        parts += [adversarial(sources) if name == "table1" else "", "## Goals", GOALS[name](sources)]
    return joined([*parts, *_details(results, name)])


def _see(what: str, heading: str) -> str:
    return f"See [{what}]({GUIDE_PAGE}.md#{heading})."


def _pairs(results: Sequence[RowResult]) -> list[str]:
    pairs = []
    for (first, first_mode), (second, second_mode) in PAIRS:
        one, other = find_variant(results, first, first_mode), find_variant(results, second, second_mode)
        if one is not None and other is not None:
            pairs.append((one, other))
    if not pairs:
        return []
    return [
        "## Paired differences",
        "Networks with the same seed and split: mean and 95 % interval (Student's t).",
        result_tables.paired_table(pairs),
    ]


def _details(results: Sequence[RowResult], name: str) -> list[str]:
    """Return the sections about confidences, certificates, settings and costs."""
    parts = []
    confidences = result_tables.confidence_table(results)
    if confidences.count("\n") > 1:
        parts += ["## Softmax response and variance", confidences]
    halves = next((result.record.settings["halves"] for result in results if result.record), 0)
    if halves:
        explained = name == GUIDE_PAGE
        parts += [
            "## Certificates",
            CERTIFICATES.format(halves=halves) if explained else _see("what the columns mean", "certificates"),
        ]
        for risk, text in result_tables.RISK_TEXT.items():
            parts += [f"### r = {text}", result_tables.certificate_table(results, risk)]
    if any(result.record for result in results):
        parts += ["## Settings and costs", result_tables.settings_table(results), *_data_notes(results)]
    return parts


def _data_notes(results: Sequence[RowResult]) -> list[str]:
    stored = (note for result in results if result.record for note in result.record.results["notes"])
    notes = dict.fromkeys(OLD_NOTE.sub(NEW_NOTE, note) for note in stored)
    return ["Notes on the data: " + " ".join(notes)] if notes else []
