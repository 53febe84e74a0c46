"""A claim of the paper with its verdict, one number, and the measurements behind it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from experiments.paper.pages.markdown import table

__all__ = ["VERDICTS", "Claim", "Verdict", "anchor", "judge", "section", "summary_table", "untested"]

Verdict = Literal["holds", "partly", "fails", "not tested"]
#: All verdicts, in the order in which they are counted.
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        title: The claim in one short sentence; the heading of its measurements.
        verdict: Whether it holds.
        measure: What the number is; if it names no quantity, coverage at a risk of 1 %.
        number: One number, with its interval where there is one; "" if the claim was not tested.
        details: All measurements, one sentence each.
        criterion: When the claim holds, if that is not obvious.
        table: More measurements, as a Markdown table.
    """

    title: str
    verdict: Verdict
    measure: str
    number: str
    details: Sequence[str]
    criterion: str = ""
    table: str = ""


def untested(title: str, reason: str) -> Claim:
    """Return a claim without a verdict."""
    return Claim(title, "not tested", reason, "", ())


def judge(outcomes: Iterable[bool]) -> Verdict:
    """Return the verdict of a claim from its comparisons: whether each comes out as claimed.

    >>> judge([True, True]), judge([True, False]), judge([False]), judge([])
    ('holds', 'partly', 'fails', 'not tested')
    """
    each = list(outcomes)
    if not each:
        return "not tested"
    return "holds" if all(each) else "partly" if any(each) else "fails"


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it.

    >>> anchor("SQUAD's results, table 1")
    'squads-results-table-1'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def summary_table(claims: Iterable[tuple[str, Claim]]) -> str:
    """Return a table with one row per claim, each linked to its measurements.

    Args:
        claims: Names of pages with the claims that are on them.
    """
    rows = [
        [
            f"[{claim.title}]({page}#{anchor(claim.title)})",
            claim.verdict if claim.verdict == "holds" else f"**{claim.verdict}**",
            f"{claim.measure}: {claim.number}" if claim.number else claim.measure,
        ]
        for page, claim in claims
    ]
    return table(["claim of the paper", "verdict", "one number"], rows)


def section(claim: Claim) -> str:
    """Return the section of a claim: verdict, criterion and all measurements."""
    verdict = f"**{claim.verdict.capitalize()}.**"
    if claim.verdict == "not tested":
        verdict += f" {claim.measure[:1].upper()}{claim.measure[1:]}."
    if claim.criterion:
        verdict += f" {claim.criterion}"
    parts = [f"### {claim.title}", verdict, "\n".join(f"- {line}" for line in claim.details), claim.table]
    return "\n\n".join(filter(None, parts))
