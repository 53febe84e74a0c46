"""The pages of a reproduction, written from records: README.md, one page a table, and one of the searches."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.paper.jobs.plan import PLANS, TABLES, PlanError
from experiments.paper.pages import claims_table, result_tables, studies, verdicts
from experiments.paper.pages.deviations import deviations
from experiments.paper.pages.markdown import table
from experiments.paper.pages.result_tables import Measured, of_name
from experiments.paper.sources import Sources
from squad.files import write_text

__all__ = ["write"]

QUICK = (
    "**This is a quick run**: fewer networks, epochs and training rows than the paper's. It shows that everything "
    "runs; its figures are not comparable with the paper's, nor with those of a whole run."
)
MADE = (
    "Settings are in the TOML files of this folder, each a diff from the defaults; results are records in "
    "[results](results). Pages and figures are written from these and the [studies](search); what records cannot tell "
    "is in [notes](notes), whose words are on the pages, too:"
)
SMALL = "Results are records in [results](results), from which pages and figures are written:"
READING = (
    "Coverage in per cent of the test rows, by SGR on the test rows themselves at delta = .01, as in the paper. Ours: "
    "mean over the networks, in parentheses two standard deviations. Difference: ours minus the paper's, in the "
    "paper's standard deviations (half of its parentheses); blank where it gives none or 0; of an NLL less is better. "
    "The spread is over seeds and splits into training and validation rows; the test rows are always the same."
)
AIMS = (
    "On Fashion-MNIST SQUAD is to be within two of the paper's standard deviations (half of the parentheses of its "
    "table is one); they are those of single networks, ours is a mean. What is compared with the paper are relaxed "
    "samples, T = 32; stratified ones are this library's default. On SVHN, whose crops are not the paper's, figures "
    "somewhat below the paper's were named, and a number of weights. Coverage at .5 % has no aim: many single networks "
    "have none there, and others much. Nor has notMNIST, since the paper does not say which one it had."
)
CERTIFICATES = (
    "SGR on the test rows uses them up: what it accepts was chosen on them. So beside it, for every row: the coverage "
    "by this library's default method (`squad.certify`) on the same rows; and, over {halves} random halves of the test "
    "rows, certified on one half and looked at on the other, the share answered there, the share of wrong answers "
    "among these, and how often that share was above r, all in per cent and means over the networks. A certificate is "
    "about the risk over all cases to come, at most r with 99 % certainty; among a few thousand rows it varies around "
    "that, so it may be above r in more than 1 % of the halves although the promise is kept. The share of wrong "
    "answers is a mean over halves in which anything was answered, few of them at r = .5 %; above r is a share of all. "
    "(The ways to sample were "
    "chosen in view of Fashion-MNIST's test rows: see search.md.)"
)
#: Which rows a table's page compares in pairs: the first minus the second.
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
#: The paper's figures in its order, and where ours are.
PAPERS = (
    ("Latent layers", ["diagram-latent-layers"]),
    ("Approximation", ["diagram-approximation"]),
    ("The quantized domain", ["diagram-quantized-domain"]),
    ("The sampling graph, and its factorized variant", ["diagram-sampling"]),
    ("Priors and spacings", ["diagram-priors"]),
    ("Risk and coverage on notMNIST", ["risk-coverage"]),
    ("Stereotypes of predicted distributions", ["stereotypes-layer1", "stereotypes-layer2"]),
    ("A learned activation function", ["activation"]),
    ("Weights behind a unit's bins, and five cases", ["weights"]),
    ("Settings in pairs", ["pairwise"]),
)


def write(sources: Sources, out: Path, figures: Mapping[str, str]) -> list[Path]:
    """Write all pages.

    Args:
        sources: plans and their records.
        out: where the pages go.
        figures: captions of the figures that are there, by file below ``out``.

    Returns:
        The files.
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
    every = [one for name in PLANS for one in sources.measured(name)]
    quick = sources.quick
    missing = [one.row.name for one in every if one.record is None and not one.other]
    parts = [
        "# The paper, run again",
        QUICK if quick else "",
        "Every table and figure of *Predictive Uncertainty through Quantization* (Veeling, van den Berg, Welling), "
        "with the paper's figures beside ours. " + (SMALL if quick else MADE),
        "    python -m experiments.paper all --from-records   # rewrite these pages and figures; no data, no GPU\n"
        "    python -m experiments.paper all --quick          # train small networks: minutes on two cores\n"
        "    python -m experiments.paper table1 --minutes 8   # part of a full run on a GPU; repeat it to resume",
        f"{sum(one.record is not None for one in every)} of {len(every)} records are there." + _listed(missing),
        _of_other_settings(every),
    ]
    if not quick:  # of a quick run nothing can be concluded
        parts += [
            "How settings were found: [search.md](search.md).",
            f"**In short**\n\n{verdicts.summary(sources)}",
            "## What was aimed at",
            AIMS,
            verdicts.aims(sources),
        ]
    for place, name in enumerate(TABLES, 1):
        rows = sources.measured(name)
        parts += [
            f"## Table {place}: {sources.plan(name).title}",
            READING if place == 1 else "",
            "" if quick else notes.get(name, ""),
            result_tables.against_paper(rows, differences=not quick),
            _further(rows, differences=not quick),
            "Deep ensembles of the same networks:" if any(one.record for one in rows) else "",
            result_tables.ensembles(rows, ("", "adversarial")) if any(one.record for one in rows) else "",
            *_pairs(rows),
            f"Certificates, settings and costs of every row, and ensembles of the others: [{name}.md]({name}.md).",
        ]
    if not quick:
        parts += [
            "## What the paper says, and what was measured",
            claims_table.claims(sources),
            notes.get("claims", ""),
            "## Where we deviate, and what that changes",
            deviations(sources),
            _machines(every),
            notes.get("deviations", ""),
        ]
    parts += ["## Figures", _drawn(figures), *(f"![{text}]({file})\n\n{text}" for file, text in figures.items())]
    return _joined(parts)


def _drawn(figures: Mapping[str, str]) -> str:
    """The paper's figures, and which of ours is which; those that are none of the paper's."""
    ours = {Path(file).stem: file for file in figures}
    rows = []
    for place, (what, stems) in enumerate(PAPERS, 1):
        links = [f"[{stem}]({ours[stem]})" for stem in stems if stem in ours]
        rows.append([str(place), what, ", ".join(links) or "not drawn yet"])
    own = [f"[{stem}]({file})" for stem, file in ours.items() if not any(stem in stems for _, stems in PAPERS)]
    rest = f"Not in the paper: {', '.join(own)}." if own else ""
    return "\n\n".join(filter(None, [table(["the paper's", "what it shows", "ours"], rows), rest]))


def _of_other_settings(every: Sequence[Measured]) -> str:
    names = [one.row.name for one in every if one.other]
    if not names:
        return ""
    return (
        "There are records of other settings than the files have now, or of a study that is not there: "
        f"{', '.join(names)}."
    )


def _machines(every: Sequence[Measured]) -> str:
    """Which rows were trained on what."""
    on: dict[str, list[str]] = {}
    for one in every:
        if one.record is not None:
            machine = one.record.machine
            on.setdefault(machine.get("gpu") or machine["cpu"], []).append(one.row.name)
    if len(on) < 2:
        return ""
    usual = max(on, key=lambda name: len(on[name]))
    others = "; ".join(f"{', '.join(names)} on one {machine}" for machine, names in on.items() if machine != usual)
    return f"Networks were trained on one {usual}, but for {others}."


def _listed(missing: Sequence[str]) -> str:
    if not missing:
        return ""
    shown = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
    return f" Not run yet: {shown}."


def _further(rows: Sequence[Measured], *, differences: bool) -> str:
    """Rows that the paper has not, or not so."""
    groups = [group for group in dict.fromkeys(one.row.group for one in rows) if group]
    if not groups:
        return ""
    return "Further rows:\n\n" + result_tables.against_paper(rows, groups, differences=differences)


def _pairs(rows: Sequence[Measured]) -> list[str]:
    found = []
    for (first, first_way), (second, second_way) in PAIRS:
        one, other = of_name(rows, first, first_way), of_name(rows, second, second_way)
        if one is not None and other is not None:
            found.append((one, other))
    if not found:
        return []
    return [
        "Differences between networks with the same seed and split, mean and a 95 % interval (Student's t):",
        result_tables.paired(found),
    ]


def _table_page(sources: Sources, name: str, note: str) -> str:
    rows, plan, quick = sources.measured(name), sources.plan(name), sources.quick
    halves = next((one.record.settings["halves"] for one in rows if one.record), 0)
    groups = list(dict.fromkeys(one.row.group for one in rows))
    scores = result_tables.scores_compared(rows)
    parts = [
        f"# {plan.title}",
        QUICK if quick else "",
        f"Written by `python -m experiments.paper {name} --from-records` from the records in [results](results).",
        "" if quick else note,
        "## Beside the paper",
        READING,
        result_tables.against_paper(rows, groups, differences=not quick),
        "## Ensembles",
        result_tables.ensembles(rows, groups),
        *(["## In pairs", *_pairs(rows)] if _pairs(rows) else []),
        *(["## Softmax response and variance", scores] if scores.count("\n") > 1 else []),
    ]
    if halves:
        parts += ["## Certificates", CERTIFICATES.format(halves=halves)]
        for risk, text in result_tables.RISK_TEXT.items():
            parts += [f"### r = {text}", result_tables.certificates(rows, risk)]
    if any(one.record for one in rows):
        parts += ["## Settings and costs", result_tables.settings(rows), *_notes(rows)]
    return _joined(parts)


def _notes(rows: Sequence[Measured]) -> list[str]:
    found = dict.fromkeys(note for one in rows if one.record for note in one.record.results["notes"])
    return ["About the data: " + " ".join(found)] if found else []
