"""README.md: the verdict on every claim, one picture, a conclusion, and where everything else is."""

from collections.abc import Mapping, Sequence

from experiments.paper.jobs.plan import PLANS, TABLES
from experiments.paper.pages.claim import summary_table
from experiments.paper.pages.claims import all_claims
from experiments.paper.pages.conclusion import conclusion
from experiments.paper.pages.figure_pages import show
from experiments.paper.pages.markdown import QUICK_NOTICE, joined
from experiments.paper.row_results import RowResult
from experiments.paper.sources import Sources

__all__ = ["PICTURE", "page"]

#: The only picture of the page.
PICTURE = "overview"
#: How to read the table of claims.
GUIDE = (
    "Numbers without a name are coverage: the percentage of test rows accepted at a guaranteed selective risk (error "
    "rate among accepted rows) of 1 %. SQUAD predicts with relaxed samples, T = 32. Parentheses: 95 % intervals over "
    "seeds and splits, not test rows or searches. A claim holds if every comparison that it makes comes out as "
    "claimed, and partly if some do. Methods are compared at risks of 1 and 2 %; at .5 %, single networks vary widely."
)
#: How to write the pages again.
COMMANDS = (
    "    python -m experiments.paper all --from-records   # rewrite pages and figures; no data, no GPU\n"
    "    python -m experiments.paper all --quick          # train small networks: minutes on two cores\n"
    "    python -m experiments.paper table1 --minutes 8   # part of a full run on a GPU; repeat to resume"
)
#: Where the pages come from, in a full and in a quick run.
PROVENANCE = (
    "Settings are TOML files in this folder, results are records in [results](results); the pages are written from "
    "these, the [studies](search) and the [notes](notes)."
)
QUICK_PROVENANCE = "Results are records in [results](results), from which the pages are written."


def page(sources: Sources, figures: Mapping[str, str]) -> str:
    """Return README.md.

    Args:
        sources: Plans and their records.
        figures: Captions of the existing figures, by path below the page's folder.
    """
    quick = sources.quick
    results = [result for name in PLANS for result in sources.row_results(name)]
    parts = [
        "# Reproduction of the paper",
        QUICK_NOTICE if quick else "",
        "*Predictive Uncertainty through Quantization* (Veeling, van den Berg and Welling, 2018), run again: every "
        "claim, table and figure.",
        _incomplete(results),
    ]
    if not quick:  # nothing can be concluded from a quick run
        claims = all_claims(sources)
        parts += [
            "## Claims",
            GUIDE,
            summary_table(claims),
            show(PICTURE, figures),
            "## Conclusion",
            conclusion(sources, [claim for _, claim in claims]),
        ]
    parts += ["## Pages", _pages(sources), "## Run it again", COMMANDS, QUICK_PROVENANCE if quick else PROVENANCE]
    return joined(parts)


def _pages(sources: Sources) -> str:
    titles = {
        **{f"{name}.md": f"Table {number}: {sources.plan(name).title}" for number, name in enumerate(TABLES, 1)},
        "networks.md": "The networks: samples, bins, depth, latents",
        "figures.md": "Figures of the paper",
    }
    if not sources.quick:
        titles |= {"deviations.md": "Deviations from the paper", "search.md": "Hyperparameter searches"}
    return "\n".join(f"- [{title}]({file})" for file, title in titles.items())


def _incomplete(results: Sequence[RowResult]) -> str:
    """Name rows without a usable record; "" if all have one."""
    missing = [result.row.name for result in results if result.record is None and not result.outdated]
    outdated = [result.row.name for result in results if result.outdated]
    sentences = []
    if missing:
        shown = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
        sentences.append(
            f"{len(results) - len(missing) - len(outdated)} of {len(results)} records exist. Not run yet: {shown}."
        )
    if outdated:
        sentences.append(
            f"These records do not match the current settings or their study is missing: {', '.join(outdated)}."
        )
    return " ".join(sentences)
