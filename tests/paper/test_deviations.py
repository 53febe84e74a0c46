"""The table of deviations: results per choice, and paired differences for the crops."""

import shutil
from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from experiments.paper.pages.deviations import deviations
from experiments.paper.sources import Sources
from squad.records import Record
from tests.paper.examples import PAPER


@pytest.fixture(scope="module")
def committed() -> str:
    """The table of the committed records."""
    return deviations(Sources(PAPER, PAPER / "results"))


def row(text: str, begin: str) -> str:
    (found,) = (line for line in text.splitlines() if begin in line)
    return found


@pytest.mark.parametrize(("name", "words"), [("tighter", "two pixels tighter"), ("softer", "softened by a filter")])
def test_crops_are_compared_by_paired_differences(committed: str, name: str, words: str) -> None:
    found = row(committed, words)
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


@pytest.mark.parametrize("accuracies", [(0.80, 0.90, 0.85)])  # tests/slow has more cases
def test_nothing_is_extrapolated_where_accuracy_does_not_rise(tmp_path: Path, accuracies: tuple[float, ...]) -> None:
    results = shutil.copytree(PAPER / "results" / "table2", tmp_path / "results" / "table2").parent
    assert "On notMNIST accuracy rises" in deviations(Sources(PAPER, results))
    for name, accuracy in zip(("quarter", "half", "paper"), accuracies, strict=True):
        record = Record.load(results / "table2" / f"squad-{name}.json")
        for one in record.results["ways"][0]["each"]:
            one["accuracy"] = accuracy
        record.save(results / "table2" / f"squad-{name}.json")
    assert "On notMNIST accuracy rises" not in deviations(Sources(PAPER, results))
