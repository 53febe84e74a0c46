"""Tables of results: their cells and labels."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_rel

from experiments.paper.jobs.measure import RISKS
from experiments.paper.jobs.plan import PLANS, Plan
from experiments.paper.jobs.plan_files import read_plan
from experiments.paper.pages import result_tables
from experiments.paper.row_results import RowResult, Variant, load_results
from squad.records import Record
from tests.paper.examples import PAPER, PLAN_START, plan_of
from tests.paper.table_examples import measures, record_of


def cells_of(markdown: str) -> list[list[str]]:
    """Return the cells of a Markdown table, the header first, without the line of dashes."""
    lines = markdown.splitlines()
    assert all(line.startswith("| ") and line.endswith(" |") for line in lines)
    rows = [line[2:-2].split(" | ") for line in lines]
    assert set(rows.pop(1)) == {"---"}
    assert len({len(row) for row in rows}) == 1  # rectangular
    return rows


def test_comparison_with_the_paper(results: list[RowResult]) -> None:
    rows = cells_of(result_tables.comparison_table(results))
    assert rows == [
        ["", "coverage at .5 %", "at 1 %", "at 2 %", "NLL", "accuracy"],
        ["**One**, paper", "40.0 (4.00)", "50.0", "0.0 (0.00)", "0.408 (0.036)", "87.7 (0.42)"],
        ["One, ours", "30.0 (28.3)", "40.0 (28.3)", "50.0 (28.3)", "0.600 (0.283)", "70.0 (28.3)"],
        ["difference", "-5.0", "", "", "+10.7", "-84.3"],
        ["Two, ours", "40.0 (34.6)", "50.0 (34.6)", "60.0 (34.6)", "0.700 (0.346)", "80.0 (34.6)"],
        ["**Three**, paper", "1.0", "2.0", "3.0", "4.000", "5.0"],
        ["Three, ours", *["not run yet"] * 5],
    ]
    assert [row[0] for row in cells_of(result_tables.comparison_table(results, ("further",)))[1:]] == [
        "Four, relaxed, T = 32, ours"
    ]


def test_a_row_of_the_paper_is_shown_once(tmp_path: Path) -> None:
    paper = "paper = [1, 2, 3, 4, 5]\npaper_ensemble = [1, 2, 3, 4, 5]\n"
    rows = [f'[row.{name}]\nlabel = "SQUAD, {name}"\nmodel = "squad"\n{paper}' for name in ("found", "given")]
    results = load_results(plan_of(tmp_path, PLAN_START + "".join(rows)), tmp_path / "none")
    for text in (result_tables.comparison_table(results), result_tables.ensemble_table(results)):
        assert [row[0] for row in cells_of(text)[1:]] == [
            "**SQUAD**, paper",
            "SQUAD, found, ours",
            "SQUAD, given, ours",
        ]


def test_gains_of_ensembles(results: list[RowResult]) -> None:
    rows = cells_of(result_tables.ensemble_table(results))
    assert rows[1:4] == [
        ["**One**, paper", "41.0", "51.0", "61.0", "0.300", "88.0"],
        ["One, ours", "50.0", "60.0", "70.0", "0.800", "90.0"],
        ["minus the mean of its 2", "+20.0", "+20.0", "+20.0", "+0.200", "+20.0"],
    ]
    assert rows[4][0] == "Two, ours"
    assert rows[5][:2] == ["minus the mean of its 3", "+10.0"]


def test_networks_are_paired_by_seed(plan: Plan) -> None:
    def variant(name: str, seeds: dict[int, float]) -> Variant:
        row = next(row for row in plan.rows if row.name == f"small/{name}")
        each = [measures(base, seed) for seed, base in seeds.items()]
        content = {"sampling": "mean", "samples": 1, "confidence": "response", "each": each, "ensemble": measures(0.5)}
        return Variant(row, content, record_of(plan, name, [0.1]))

    one = variant("one", {0: 0.30, 1: 0.52, 2: 0.41, 7: 0.99})
    two = variant("two", {2: 0.20, 0: 0.25, 1: 0.50, 8: 0.01})  # another order, and a seed without a counterpart
    (row,) = cells_of(result_tables.paired_table([(one, two)]))[1:]
    assert row[0] == "One minus Two"
    expected: Any = ttest_rel([0.30, 0.52, 0.41], [0.25, 0.50, 0.20]).confidence_interval(0.95)
    mean = 100 * (0.05 + 0.02 + 0.21) / 3
    assert row[1] == f"{mean:+.1f} ({100 * expected.low:+.1f} to {100 * expected.high:+.1f})"
    # Swapping the two changes every sign.
    (back,) = cells_of(result_tables.paired_table([(two, one)]))[1:]
    assert back[1] == f"{-mean:+.1f} ({-100 * expected.high:+.1f} to {-100 * expected.low:+.1f})"


def test_comparison_of_confidences(results: list[RowResult]) -> None:
    rows = cells_of(result_tables.confidence_table(results))
    assert rows[0][-1] == "AURC x 1000"
    assert [row[0] for row in rows[1:]] == ["Two, softmax response", "Two, variance"]
    assert rows[1][1:] == ["40.0 (34.6)", "50.0 (34.6)", "60.0 (34.6)", "4.00"]


def test_certificates(results: list[RowResult]) -> None:
    rows = cells_of(result_tables.certificate_table(results, 0.02))
    assert len(rows[0]) == 1 + 2 + 2 * 3
    assert rows[1] == ["One", "50.0", "30.0", "30.0", "1.50", "25.0", "30.0", "", "25.0"]
    assert rows[2] == ["One, ensemble", "70.0", "50.0", "50.0", "1.50", "25.0", "50.0", "", "25.0"]
    # All rows and modes of all groups, except for the row without a record.
    assert {row[0].removesuffix(", ensemble") for row in rows[1:]} == {
        "One",
        "Two",
        "Two, sample, T = 32, by variance",
        "Four, relaxed, T = 32",
    }


def test_rows_without_halves_have_no_certificates(plan: Plan) -> None:
    record = record_of(plan, "one", [0.1])
    bare = {
        **record.results["ways"][0],
        "each": [measures(0.1, 0, halves=False)],
        "ensemble": measures(0.1, halves=False),
    }
    results = {**record.results, "ways": [bare]}
    found = Record("experiment", "x", {}, results, machine={}, versions={})
    assert len(cells_of(result_tables.certificate_table([RowResult(plan.rows[0], found)], 0.02))) == 1


def test_settings_and_their_sources(plan: Plan) -> None:
    source = {"from": "search", "study": "digits/mlp", "first": 150, "trial": 77, "value": 0.7654}
    given, searched = record_of(plan, "four", [0.1, 0.2]), record_of(plan, "one", [0.1], source)
    searched = dataclasses.replace(searched, machine={"gpu": "one"})
    searched.settings["fit"]["training"] = {"lr": 0.00123456, "batch_size": 64}
    searched.settings["fit"]["network"] = {"hidden": [4]}
    rows = cells_of(
        result_tables.settings_table(
            [RowResult(plan.rows[0], searched), RowResult(plan.rows[3], given), RowResult(plan.rows[2], None)]
        )
    )
    assert rows[1:] == [
        ["One", "best of 150 trials, number 77: 76.5 %", "lr 0.00123, batch_size 64", "12,345", "10", "62 s"],
        ["Four", "given", "", "12,345", "15", "62 s, on a CPU"],
    ]


# -- the tables of the repository


@pytest.fixture(scope="module")
def committed() -> dict[str, list[RowResult]]:
    return {name: load_results(read_plan(PAPER / f"{name}.toml"), PAPER / "results") for name in PLANS}


@pytest.mark.parametrize("name", PLANS)
def test_the_papers_tables_are_rectangular(name: str, committed: dict[str, list[RowResult]]) -> None:
    results = committed[name]
    groups = sorted({one.row.group for one in results})
    existing = [one for one in results if one.record is not None]
    against = cells_of(result_tables.comparison_table(results, groups))
    assert sum("not run yet" in row for row in against) == len(results) - len(existing)
    assert len(cells_of(result_tables.ensemble_table(results, groups))) > len(existing)
    assert len(cells_of(result_tables.settings_table(results))) == len(existing) + 1
    cells_of(result_tables.confidence_table(results))
    for risk in RISKS:
        cells_of(result_tables.certificate_table(results, risk))
    variants = [variant for one in existing for variant in one.variants()]
    cells_of(result_tables.paired_table(list(itertools.pairwise(variants))))


@pytest.mark.parametrize("name", PLANS)
def test_labels_are_distinct(name: str, committed: dict[str, list[RowResult]]) -> None:
    labels = [variant.label for one in committed[name] for variant in one.variants() if one.row.group == ""]
    assert len(set(labels)) == len(labels)
