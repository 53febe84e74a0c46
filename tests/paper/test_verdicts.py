"""Goals and claims: a verdict follows from the records, and changes with them."""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_rel

from experiments.paper.pages.claim import VERDICTS, Claim, judge, section, summary_table
from experiments.paper.pages.claims import all_claims
from experiments.paper.pages.conclusion import conclusion
from experiments.paper.pages.goals import GOALS
from experiments.paper.sources import Sources
from squad.records import Record

#: One number: with a sign, a share ("5 of 8"), or an interval in parentheses.
NUMBER = re.compile(r"[+-]?\d[\d.,]*( of \d+)?( \([+-]?\d[\d.]* to [+-]?\d[\d.]*\))?")
PAPER = Path(__file__).parents[2] / "experiments" / "paper"
Change = Callable[[dict[str, Any]], None]
Curve = Callable[[int], float]


def changed_sources(tmp_path: Path, changes: Mapping[str, Change]) -> Sources:
    """Copy the repository's records and change the results of some."""
    results = tmp_path / "results"
    shutil.copytree(PAPER / "results", results)
    for name, change in changes.items():
        record = Record.load(results / f"{name}.json")
        change(record.results)
        replace(record, results=record.results).save(results / f"{name}.json")
    return Sources(PAPER, results)


@pytest.fixture(scope="session")
def committed() -> dict[str, Claim]:
    """The claims judged from the committed records, by title."""
    return by_title(Sources(PAPER, PAPER / "results"))


def by_title(sources: Sources) -> dict[str, Claim]:
    """Return all claims by their titles."""
    return {claim.title: claim for _, claim in all_claims(sources)}


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


MAXOUT = "SQUAD has a slight advantage over Maxout MC dropout"


@pytest.mark.parametrize(("by", "verdict"), [(0.1, "holds"), (0.0, "fails"), (0.018, "holds"), (0.01, "partly")])
def test_squad_compared_with_maxout(tmp_path: Path, by: float, verdict: str) -> None:
    sources = changed_sources(tmp_path, {"table1/squad": raised(by, "coverage@0.01", "coverage@0.02")})
    claims = by_title(sources)
    assert claims[MAXOUT].verdict == verdict
    one, other = sources.variant("table1/squad", "relaxed 32"), sources.variant("table1/maxout-dropout")
    assert one is not None
    assert other is not None
    pair = [one.values("coverage@0.01"), other.values("coverage@0.01")]
    low, high = ttest_rel(*pair).confidence_interval(0.95)
    shown = [float(bound) for bound in re.findall(r"[(o] ?([+-][\d.]+)", claims[MAXOUT].number)]
    assert shown == pytest.approx([100 * low, 100 * high], abs=0.051)
    text = conclusion(sources, list(claims.values()))
    words = {0.1: "ahead of {} on Fashion", 0.0: "behind {} on Fashion", 0.018: "level with {} on Fashion"}
    assert words.get(by, "behind {} on Fashion").format("Maxout MC dropout") in text


def test_every_claim_has_one_verdict_and_one_number(committed: dict[str, Claim]) -> None:
    assert len(committed) >= 25
    for claim in committed.values():
        assert claim.verdict in VERDICTS
        if claim.verdict == "not tested":
            assert (claim.number, claim.details) == ("", ())
        else:
            assert NUMBER.fullmatch(claim.number), claim
            assert claim.details
        assert f"**{claim.verdict.capitalize()}.**" in section(claim)
    assert {claim.verdict for claim in committed.values()} == set(VERDICTS)


def test_verdicts_follow_from_comparisons() -> None:
    assert [judge(each) for each in ([True], [True, False], [False, False], [])] == list(VERDICTS)


def test_the_summary_links_to_the_section_of_a_claim() -> None:
    claim = Claim("It's 1 claim, or two", "partly", "a size", "+1.0 (-1.0 to +2.0)", ["a line"])
    assert summary_table([("page.md", claim)]).splitlines()[2] == (
        "| [It's 1 claim, or two](page.md#its-1-claim-or-two) | **partly** | a size: +1.0 (-1.0 to +2.0) |"
    )


def test_the_conclusion_has_three_sentences_from_the_records(committed: dict[str, Claim]) -> None:
    sources, claims = Sources(PAPER, PAPER / "results"), list(committed.values())
    text = conclusion(sources, claims)
    sentences = re.split(r"(?<=\.) (?=[A-Z])", text)
    assert len(sentences) == 3
    assert f"{sum(claim.verdict == 'holds' for claim in claims)} hold, " in sentences[0]
    for name in ("table1/squad", "table2/squad", "table3/squad-factorized", "table1/maxout-dropout"):
        variant = sources.variant(name)
        assert variant is not None
        assert f"{100 * variant.ensemble['coverage@0.01']:.1f} %" in sentences[2]


def test_there_is_no_verdict_without_records(tmp_path: Path) -> None:
    sources = Sources(PAPER, tmp_path)
    for name in ("table1", "table3"):
        for line in GOALS[name](sources).partition("| --- | --- | --- |\n")[2].splitlines():
            assert [cell.strip() for cell in line.strip("|").split("|")][1:] == ["not run yet", ""]
    claims = by_title(sources)
    assert {claim.verdict for claim in claims.values()} == {"not tested"}
    assert (
        conclusion(sources, list(claims.values()))
        == f"Of {len(claims)} claims of the paper, {len(claims)} are not tested."
    )
