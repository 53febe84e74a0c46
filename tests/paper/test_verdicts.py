"""Aims and claims: a verdict follows from the records, and turns when they turn."""

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


def changed(tmp_path: Path, changes: dict[str, Change]) -> Sources:
    """The repository's records, with some of their results changed."""
    results = tmp_path / "results"
    shutil.copytree(PAPER / "results", results)
    for name, change in changes.items():
        record = Record.load(results / f"{name}.json")
        change(record.results)
        replace(record, results=record.results).save(results / f"{name}.json")
    return Sources(PAPER, results)


def row(text: str, begin: str) -> list[str]:
    """The row of a table that begins so."""
    (found,) = (line for line in text.splitlines() if line.startswith(f"| {begin}"))
    return [cell.strip() for cell in found.strip("|").split("|")]


def better(by: float, *measures: str) -> Change:
    """Every network of every way."""

    def change(results: dict[str, Any]) -> None:
        for way in results["ways"]:
            for one in way["each"]:
                for name in measures:
                    one[name] += by

    return change


def lifted(at_one: float, at_two: float) -> Change:
    """The two figures that are compared, each by its own."""

    def change(results: dict[str, Any]) -> None:
        for name, more in zip(("coverage@0.01", "coverage@0.02"), (at_one, at_two), strict=True):
            better(more, name)(results)

    return change


@pytest.mark.parametrize(
    ("by", "verdict"),
    [
        (0.1, "more than that: significant"),
        (0.0, "**no**, Maxout is ahead"),
        (0.018, "open"),
        (0.01, "at 1 %: **no**, Maxout is ahead; at 2 %: open"),
    ],
)
def test_beside_maxout(tmp_path: Path, by: float, verdict: str) -> None:
    sources = changed(tmp_path, {"table1/squad": better(by, "coverage@0.01", "coverage@0.02")})
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
        0.018: f"not clearly apart from {label}",
        0.01: f"behind {label} at 1 % and not clearly apart from {label} at 2 %",
    }
    told = verdicts.summary(sources)
    assert f"it is {words[by]} (" in told[: told.index("On notMNIST")]
    assert f"{100 * sum(pair[0]) / len(pair[0]):.1f} at 2 % (the paper's: 69.5)" in told


def test_what_is_not_there_is_not_judged(tmp_path: Path) -> None:
    sources = Sources(PAPER, tmp_path)
    for text in (verdicts.goals_table(sources), claims_table.claims(sources)):
        for line in text.splitlines()[2:]:
            *_, measured, verdict = (cell.strip() for cell in line.strip("|").split("|"))
            assert (measured, verdict) == ("not run yet", "")
    assert verdicts.summary(sources).count("nothing can be said yet") == 3
