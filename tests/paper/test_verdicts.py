"""Goals and claims: a verdict follows from the records, and changes with them."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_rel

from experiments.paper.pages import claims_table, verdicts
from experiments.paper.sources import Sources
from squad.records import Record

PAPER = Path(__file__).parents[2] / "experiments" / "paper"
Change = Callable[[dict[str, Any]], None]
Curve = Callable[[int], float]


def changed_sources(tmp_path: Path, changes: dict[str, Change]) -> Sources:
    """Copy the repository's records and change the results of some."""
    results = tmp_path / "results"
    shutil.copytree(PAPER / "results", results)
    for name, change in changes.items():
        record = Record.load(results / f"{name}.json")
        change(record.results)
        replace(record, results=record.results).save(results / f"{name}.json")
    return Sources(PAPER, results)


def row(text: str, begin: str) -> list[str]:
    """Return the cells of the only row that begins with a text."""
    (found,) = (line for line in text.splitlines() if line.startswith(f"| {begin}"))
    return [cell.strip() for cell in found.strip("|").split("|")]


def raised(by: float, *measures: str) -> Change:
    """Raise measures of every network in every prediction mode."""

    def change(results: dict[str, Any]) -> None:
        for way in results["ways"]:
            for one in way["each"]:
                for name in measures:
                    one[name] += by

    return change


def raised_coverage(at_one: float, at_two: float) -> Change:
    """Raise the coverages at 1 % and at 2 %."""

    def change(results: dict[str, Any]) -> None:
        for name, gain in zip(("coverage@0.01", "coverage@0.02"), (at_one, at_two), strict=True):
            raised(gain, name)(results)

    return change


@pytest.mark.parametrize(
    ("by", "verdict"),
    [
        (0.1, "exceeded: significant"),
        (0.0, "**no**, Maxout is ahead"),
        (0.018, "inconclusive"),
        (0.01, "at 1 %: **no**, Maxout is ahead; at 2 %: inconclusive"),
    ],
)
def test_squad_compared_with_maxout(tmp_path: Path, by: float, verdict: str) -> None:
    sources = changed_sources(tmp_path, {"table1/squad": raised(by, "coverage@0.01", "coverage@0.02")})
    found = row(claims_table.claims(sources), "SQUAD has a slight")
    assert found[2] == verdict
    one, other = sources.variant("table1/squad", "relaxed 32"), sources.variant("table1/maxout-dropout")
    assert one is not None
    assert other is not None
    pair = [one.values("coverage@0.02"), other.values("coverage@0.02")]
    low, high = ttest_rel(*pair).confidence_interval(0.95)
    assert f"({100 * low:+.1f} to {100 * high:+.1f})" in found[1]
    label = "Maxout MC dropout"
    words = {
        0.1: f"ahead of {label}",
        0.0: f"behind {label}",
        0.018: f"not significantly different from {label}",
        0.01: f"behind {label} at 1 % and not significantly different from {label} at 2 %",
    }
    text = verdicts.summary(sources)
    assert f"Single networks are {words[by]} (" in text[: text.index("- notMNIST")]
    assert f"{100 * sum(pair[0]) / len(pair[0]):.1f} at 2 % (paper: 69.5)" in text


def test_there_is_no_verdict_without_records(tmp_path: Path) -> None:
    sources = Sources(PAPER, tmp_path)
    for text in (verdicts.goals_table(sources), claims_table.claims(sources)):
        for line in text.splitlines()[2:]:
            *_, measured, verdict = (cell.strip() for cell in line.strip("|").split("|"))
            assert (measured, verdict) == ("not run yet", "")
    assert verdicts.summary(sources).count("not run yet") == 3
