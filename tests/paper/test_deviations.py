"""The table of deviations: results per choice, and paired differences for the crops."""

from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from experiments.paper.pages.deviations import deviations
from experiments.paper.sources import Sources
from squad.records import Record
from tests.paper.examples import PAPER


def row(text: str, begin: str) -> str:
    (found,) = (line for line in text.splitlines() if begin in line)
    return found


@pytest.mark.parametrize(("name", "words"), [("tighter", "two pixels tighter"), ("softer", "softened by a filter")])
def test_crops_are_compared_by_paired_differences(name: str, words: str) -> None:
    found = row(deviations(Sources(PAPER, PAPER / "results")), words)
    each = {
        which: Record.load(PAPER / "results" / "table3" / f"mlp-{which}.json").results["ways"][0]["each"]
        for which in (name, "as-is")
    }
    assert [one["seed"] for one in each[name]] == [one["seed"] for one in each["as-is"]] == [0, 1, 2]
    pair = [[100 * one["accuracy"] for one in each[which]] for which in (name, "as-is")]
    low, high = ttest_rel(*pair).confidence_interval(0.95)
    middle = sum(pair[0]) / 3 - sum(pair[1]) / 3
    assert found.endswith(f"accuracy {middle:+.1f} ({low:+.1f} to {high:+.1f}) |")


def test_missing_records_are_marked(tmp_path: Path) -> None:
    text = deviations(Sources(PAPER, tmp_path))
    assert all(line.endswith("| not run yet |") for line in text.splitlines()[2:])
