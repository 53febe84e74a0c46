"""The pages of the reproduction, written from records: README.md, one page per table, and one about the searches."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.paper.jobs.plan import PLANS, TABLES, PlanError
from experiments.paper.pages import claims_table, result_tables, studies, verdicts
from experiments.paper.pages.deviations import deviations
from experiments.paper.pages.markdown import table
from experiments.paper.row_results import RowResult, find_variant
from experiments.paper.sources import Sources
from squad.files import write_text

__all__ = ["write"]

#: Notice on all pages of a quick run.
QUICK_NOTICE = (
    "**This is a quick run** with fewer networks, epochs and training rows than the paper. It shows that everything "
    "runs; its results are not comparable with the paper's or with those of a full run."
)
#: Where the pages come from, in a full and in a quick run.
PROVENANCE = (
    "Settings are in the TOML files of this folder, each a diff from the defaults; results are records in "
    "[results](results). Pages and figures are written from these and the [studies](search). What the records do not "
    "contain is in [notes](notes), whose text is included in the pages:"
)
QUICK_PROVENANCE = "Results are records in [results](results), from which pages and figures are written:"
#: How to read the tables.
READING_GUIDE = (
    "Coverage is in percent of the test rows, by SGR on the test rows themselves with delta = .01, as in the paper. "
    "Ours: mean over the networks and, in parentheses, two standard deviations. Difference: ours minus the paper's, in "
    "the paper's standard deviations (half of its parentheses); blank where the paper gives none or 0; a lower NLL is "
    "better. The spread is over seeds and splits into training and validation rows; the test rows are always the same."
)
#: How the goals were set.
GOALS = (
    "On Fashion-MNIST the goal is a mean of SQUAD within two of the paper's standard deviations (one is half of the "
    "parentheses in its table); the paper's standard deviations are those of single networks. Relaxed samples, T = 32, "
    "are what is compared with the paper; stratified samples are this library's default. On SVHN, where our crops "
    "differ from the paper's, the goals are results somewhat below the paper's, and a maximum number of weights. There "
    "is no goal for coverage at .5 %, where many single networks have no coverage and others much, and none for "
    "notMNIST, because the paper does not say which version it used."
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
    "selected with knowledge of Fashion-MNIST's test rows: see search.md.)"
)
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
#: The paper's figures in its order, with the names of ours.
PAPER_FIGURES = (
    ("Latent layers", ["diagram-latent-layers"]),
    ("Approximation", ["diagram-approximation"]),
    ("The quantized domain", ["diagram-quantized-domain"]),
    ("The sampling graph, and its factorized variant", ["diagram-sampling"]),
    ("Priors and spacings", ["diagram-priors"]),
    ("Risk and coverage on notMNIST", ["risk-coverage"]),
    ("Stereotypes of predicted distributions", ["stereotypes-layer1", "stereotypes-layer2"]),
    ("A learned activation function", ["activation"]),
    ("Weights of a unit's bins, and five examples", ["weights"]),
    ("Pairs of settings", ["pairwise"]),
)


def write(sources: Sources, out: Path, figures: Mapping[str, str]) -> list[Path]:
    """Write all pages.

    Args:
        sources: Plans and their records.
        out: Output folder.
        figures: Captions of the existing figures, by path below ``out``.

    Returns:
        The files written.
    """
    notes = {path.stem: _text(path) for path in sorted((sources.folder / "notes").glob("*.md"))}
    pages = {
        "README.md": _readme(sources, figures, notes),
        **{f"{name}.md": _table_page(sources, name, notes.get(name, "")) for name in TABLES},
    }
    if not sources.quick:
        pages["search.md"] = studies.page([sources.plan(name) for name in PLANS], notes.get("attempts", ""))
    out.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        write_text(out / name, text)
    return [out / name for name in pages]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise PlanError(f"{path} cannot be read: {cause}.") from cause


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _readme(sources: Sources, figures: Mapping[str, str], notes: Mapping[str, str]) -> str:
    every = [result for name in PLANS for result in sources.row_results(name)]
    quick = sources.quick
    missing = [result.row.name for result in every if result.record is None and not result.outdated]
    parts = [
        "# Reproduction of the paper",
        QUICK_NOTICE if quick else "",
        "Every table and figure of *Predictive Uncertainty through Quantization* (Veeling, van den Berg, Welling), "
        "with the paper's results next to ours. " + (QUICK_PROVENANCE if quick else PROVENANCE),
        "    python -m experiments.paper all --from-records   # rewrite these pages and figures; no data, no GPU\n"
        "    python -m experiments.paper all --quick          # train small networks: minutes on two cores\n"
        "    python -m experiments.paper table1 --minutes 8   # part of a full run on a GPU; repeat it to resume",
        f"{sum(result.record is not None for result in every)} of {len(every)} records exist." + _listed(missing),
        _outdated_records(every),
    ]
    if not quick:  # nothing can be concluded from a quick run
        parts += [
            "How settings were found: [search.md](search.md).",
            f"**Summary**\n\n{verdicts.summary(sources)}",
            "## Goals",
            GOALS,
            verdicts.goals_table(sources),
        ]
    for number, name in enumerate(TABLES, 1):
        results = sources.row_results(name)
        measured = any(result.record for result in results)
        parts += [
            f"## Table {number}: {sources.plan(name).title}",
            READING_GUIDE if number == 1 else "",
            "" if quick else notes.get(name, ""),
            result_tables.comparison_table(results, differences=not quick),
            _additional_rows(results, differences=not quick),
            "Deep ensembles of the same networks:" if measured else "",
            result_tables.ensemble_table(results, ("", "adversarial")) if measured else "",
            *_pairs(results),
            f"Certificates, settings and costs of every row, and the other ensembles: [{name}.md]({name}.md).",
        ]
    if not quick:
        parts += [
            "## Claims of the paper",
            claims_table.claims(sources),
            notes.get("claims", ""),
            "## Deviations from the paper",
            deviations(sources),
            _machines(every),
            notes.get("deviations", ""),
        ]
    parts += ["## Figures", _figure_index(figures), *(f"![{text}]({file})\n\n{text}" for file, text in figures.items())]
    return _joined(parts)


def _figure_index(figures: Mapping[str, str]) -> str:
    """Return a table of the paper's figures with links to ours, and a list of those that are not in the paper."""
    ours = {Path(file).stem: file for file in figures}
    rows = []
    for number, (title, stems) in enumerate(PAPER_FIGURES, 1):
        links = [f"[{stem}]({ours[stem]})" for stem in stems if stem in ours]
        rows.append([str(number), title, ", ".join(links) or "not drawn yet"])
    own = [f"[{stem}]({file})" for stem, file in ours.items() if not any(stem in stems for _, stems in PAPER_FIGURES)]
    rest = f"Not in the paper: {', '.join(own)}." if own else ""
    return "\n\n".join(filter(None, [table(["figure of the paper", "title", "ours"], rows), rest]))


def _outdated_records(results: Sequence[RowResult]) -> str:
    names = [result.row.name for result in results if result.outdated]
    if not names:
        return ""
    return f"These records do not match the current settings or their study is missing: {', '.join(names)}."


def _machines(results: Sequence[RowResult]) -> str:
    """Describe which rows were trained on which device; "" if there is only one."""
    by_device: dict[str, list[str]] = {}
    for result in results:
        if result.record is not None:
            machine = result.record.machine
            by_device.setdefault(machine.get("gpu") or machine["cpu"], []).append(result.row.name)
    if len(by_device) < 2:
        return ""
    usual = max(by_device, key=lambda name: len(by_device[name]))
    others = "; ".join(f"{', '.join(names)} on one {device}" for device, names in by_device.items() if device != usual)
    return f"Networks were trained on one {usual}, except for {others}."


def _listed(missing: Sequence[str]) -> str:
    if not missing:
        return ""
    shown = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
    return f" Not run yet: {shown}."


def _additional_rows(results: Sequence[RowResult], *, differences: bool) -> str:
    """Return the table of rows that are not in the paper's own table."""
    groups = [group for group in dict.fromkeys(result.row.group for result in results) if group]
    if not groups:
        return ""
    return "Additional rows:\n\n" + result_tables.comparison_table(results, groups, differences=differences)


def _pairs(results: Sequence[RowResult]) -> list[str]:
    pairs = []
    for (first, first_mode), (second, second_mode) in PAIRS:
        one, other = find_variant(results, first, first_mode), find_variant(results, second, second_mode)
        if one is not None and other is not None:
            pairs.append((one, other))
    if not pairs:
        return []
    return [
        "Differences between networks with the same seed and split, mean and 95 % interval (Student's t):",
        result_tables.paired_table(pairs),
    ]


def _table_page(sources: Sources, name: str, note: str) -> str:
    results, plan, quick = sources.row_results(name), sources.plan(name), sources.quick
    halves = next((result.record.settings["halves"] for result in results if result.record), 0)
    groups = list(dict.fromkeys(result.row.group for result in results))
    confidences = result_tables.confidence_table(results)
    parts = [
        f"# {plan.title}",
        QUICK_NOTICE if quick else "",
        f"Written by `python -m experiments.paper {name} --from-records` from the records in [results](results).",
        "" if quick else note,
        "## Comparison with the paper",
        READING_GUIDE,
        result_tables.comparison_table(results, groups, differences=not quick),
        "## Ensembles",
        result_tables.ensemble_table(results, groups),
        *(["## Paired differences", *_pairs(results)] if _pairs(results) else []),
        *(["## Softmax response and variance", confidences] if confidences.count("\n") > 1 else []),
    ]
    if halves:
        parts += ["## Certificates", CERTIFICATES.format(halves=halves)]
        for risk, text in result_tables.RISK_TEXT.items():
            parts += [f"### r = {text}", result_tables.certificate_table(results, risk)]
    if any(result.record for result in results):
        parts += ["## Settings and costs", result_tables.settings_table(results), *_data_notes(results)]
    return _joined(parts)


def _data_notes(results: Sequence[RowResult]) -> list[str]:
    notes = dict.fromkeys(note for result in results if result.record for note in result.record.results["notes"])
    return ["Notes on the data: " + " ".join(notes)] if notes else []
