"""Rows and their records: which are used, and which are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.paper.jobs.plan import Plan, PlanError, PredictionMode
from experiments.paper.jobs.run import record_path
from experiments.paper.row_results import RowResult, Variant, find_variant, load_results
from squad.errors import SquadError
from squad.records import Record, RecordError
from tests.paper.examples import plan_of
from tests.paper.table_examples import ROWS, record_of


def test_variants_are_found_by_name_and_mode(results: list[RowResult]) -> None:
    assert [one.record is not None for one in results] == [True, True, False, True]
    assert [len(one.variants()) for one in results] == [1, 2, 0, 1]
    two = find_variant(results, "two", "sample 32 by variance")
    assert two is not None
    assert two.mode == PredictionMode("sample", 32, "variance")
    assert two.values("accuracy") == pytest.approx([0.7, 0.7, 1.0])
    first = find_variant(results, "two")
    assert first is not None
    assert first.mode.confidence == "response"
    assert find_variant(results, "two", "mean") is None
    assert find_variant(results, "three") is None
    assert find_variant(results, "five") is None


def test_outdated_records_are_not_used(results: list[RowResult], tmp_path: Path) -> None:
    changed = plan_of(tmp_path, ROWS.replace('"relaxed 32"', '"relaxed 8"'))
    reloaded = load_results(changed, tmp_path / "results")
    assert [one.record is not None for one in reloaded] == [True, True, False, False]
    assert [one.outdated for one in reloaded] == [False, False, False, True]


def network(results: dict[str, Any], index: int = 1) -> dict[str, Any]:
    """Return the measures of a network in the first mode."""
    measures: dict[str, Any] = results["ways"][0]["each"][index]
    return measures


#: Changes that damage a record, with what the error must say.
DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no ways": (lambda results: results.pop("ways"), "ways is None"),
    "no weights": (lambda results: results.pop("weights"), "weights is None"),
    "ways of another row": (lambda results: results["ways"].clear(), r"ways is \[\], not"),
    "another way": (lambda results: results["ways"][0].update(sampling="hard"), "ways is .*hard"),
    "no networks": (lambda results: results["ways"][0]["each"].clear(), "way 1 has no networks"),
    "no nll": (lambda results: network(results).pop("nll"), "None as nll of network 2 in way 1"),
    "no seed": (lambda results: network(results).pop("seed"), "None as seed of network 2 in way 1"),
    "a null": (lambda results: network(results).update(aurc=None), "None as aurc of network 2"),
    "a boolean": (lambda results: network(results).update(accuracy=True), "True as accuracy"),
    "a string": (lambda results: results["ways"][0]["ensemble"].update(accuracy="x"), "'x' as accuracy of ensemble"),
    "no ensemble": (lambda results: results["ways"][0].update(ensemble=3), "3 instead of the measures of ensemble"),
    "no default": (lambda results: network(results).pop("default@0.01"), "None as default@0.01 of network 2"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_records_are_refused(results: list[RowResult], tmp_path: Path, damage: str) -> None:
    path = record_path(tmp_path / "results", "small/one")
    record = Record.load(path)
    change, problem = DAMAGE[damage]
    change(record.results)
    record.save(path)
    with pytest.raises(RecordError, match=rf"one\.json .*{problem}.*Delete it"):
        load_results(plan_of(tmp_path, ROWS), tmp_path / "results")


@pytest.mark.parametrize(
    ("entry", "problem"), [("halves = 3", "None as halves@0.01"), ('probes = ["spread"]', "probe spread is missing")]
)
def test_records_must_have_what_the_plan_asks_for(tmp_path: Path, entry: str, problem: str) -> None:
    plan = plan_of(tmp_path, ROWS.replace("[row.one]", f"{entry}\n[row.one]"))
    record = record_of(plan, "one", [0.1])
    del network(record.results, 0)["halves@0.01"]
    record.save(record_path(tmp_path / "results", "small/one"))
    with pytest.raises(RecordError, match=problem):
        load_results(plan, tmp_path / "results")


def test_a_folder_instead_of_a_record_is_refused(results: list[RowResult], tmp_path: Path) -> None:
    path = record_path(tmp_path / "results", "small/one")
    path.unlink()
    path.mkdir()
    with pytest.raises(SquadError, match=r"one\.json"):
        load_results(plan_of(tmp_path, ROWS), tmp_path / "results")


def test_errors_in_a_plan_are_reported_without_records(tmp_path: Path) -> None:
    wrong = plan_of(tmp_path, ROWS.replace('"relaxed 32"', '"sample 32"'))
    with pytest.raises(PlanError, match=r"sampling .*'sample'"):
        load_results(wrong, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("mode", "label"),
    [
        (PredictionMode("mean", 1), "One"),
        (PredictionMode("sample", 32), "One"),
        (PredictionMode("sample", 4), "One, sample, T = 4"),
        (PredictionMode("relaxed", 32), "One, relaxed, T = 32"),
        (PredictionMode("sample", 32, "variance"), "One, sample, T = 32, by variance"),
        (PredictionMode("mean", 1, "variance"), "One, mean, by variance"),
    ],
)
def test_labels(plan: Plan, mode: PredictionMode, label: str) -> None:
    content = {"sampling": mode.sampling, "samples": mode.samples, "confidence": mode.confidence}
    assert Variant(plan.rows[0], content, record_of(plan, "one", [0.1])).label == label


def test_labels_of_a_rows_modes_are_distinct(plan: Plan) -> None:
    modes = [
        PredictionMode("sample", samples, confidence)
        for samples in (1, 4, 32)
        for confidence in ("response", "variance")
    ]
    labels = [
        Variant(
            plan.rows[0],
            {"sampling": mode.sampling, "samples": mode.samples, "confidence": mode.confidence},
            record_of(plan, "one", [0.1]),
        ).label
        for mode in modes
    ]
    assert len(set(labels)) == len(modes)
