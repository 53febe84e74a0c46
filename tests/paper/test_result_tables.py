"""Tables: numbers as people read them, and rows that say what was measured and what was not."""

import dataclasses
import itertools
import math
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from experiments.paper.jobs.measure import DEFAULT_METHOD, RISKS
from experiments.paper.jobs.plan import PLANS, Plan, PlanError, PredictionMode
from experiments.paper.jobs.plan_files import read_plan
from experiments.paper.jobs.run import record_path
from experiments.paper.pages import result_tables
from experiments.paper.pages.markdown import MEASURES, format_mean, table
from experiments.paper.pages.result_tables import RowResult, Variant, find_variant
from squad.errors import SquadError
from squad.records import Record, RecordError
from tests.paper.examples import PAPER, PLAN_START, plan_of

NAMES = list(MEASURES)
SHARES = st.floats(0, 1)


def cells_of(markdown: str) -> list[list[str]]:
    """The rows of a table, the heading first, without the line of dashes."""
    lines = markdown.splitlines()
    assert all(line.startswith("| ") and line.endswith(" |") for line in lines)
    rows = [line[2:-2].split(" | ") for line in lines]
    assert set(rows.pop(1)) == {"---"}
    assert len({len(row) for row in rows}) == 1  # rectangular
    return rows


# -- numbers


@pytest.mark.parametrize(
    ("value", "measure", "sign", "text"),
    [
        (0.4567, "accuracy", False, "45.7"),
        (0.4567, "accuracy", True, "+45.7"),
        (0.29349, "nll", False, "0.293"),
        (-0.00349, "nll", True, "-0.003"),
        (1.0, "", False, "100.0"),
        (0.0, "", True, "+0.0"),
        (-0.0001, "", True, "+0.0"),  # no minus before nothing
        (-0.0001, "", False, "0.0"),
        (None, "", False, ""),
        (math.nan, "", False, ""),
    ],
)
def test_a_number(value: float | None, measure: str, sign: bool, text: str) -> None:
    assert format_value(value, measure, sign=sign) == text


@given(st.floats(-10, 10), st.sampled_from(["nll", "accuracy"]))
def test_a_number_is_what_it_stands_for(value: float, measure: str) -> None:
    text = format_value(value, measure, sign=True)
    assert float(text) == pytest.approx(
        value * (1 if measure == "nll" else 100), abs=0.0501 if measure != "nll" else 0.000501
    )
    assert text[0] in "+-"
    assert float(format_value(value, measure)) == float(text)
    assert len(text.partition(".")[2]) == (3 if measure == "nll" else 1)


@given(st.lists(SHARES, min_size=1, max_size=5))
def test_mean_and_two_standard_deviations(values: list[float]) -> None:
    text = format_mean(values, "accuracy")
    mean, _, spread = text.partition(" (")
    assert float(mean) == pytest.approx(100 * statistics.fmean(values), abs=0.0501)
    if len(values) == 1:
        assert spread == ""
    else:
        assert float(spread[:-1]) == pytest.approx(200 * statistics.stdev(values), abs=0.0501)


def test_a_difference_in_the_papers_standard_deviations() -> None:
    # 2 below 60 with two standard deviations of 4 is one of them.
    assert format_difference([0.57, 0.59], [60.0, 4.0], "coverage@0.02") == "-1.0"
    assert format_difference([0.66], [60.0, 4.0], "coverage@0.02") == "+3.0"
    assert format_difference([0.316], [0.3, 0.008], "nll") == "+4.0"
    # Where the paper gives none, or 0, there is nothing to divide by.
    assert format_difference([0.5], [60.0], "accuracy") == ""
    assert format_difference([0.5], [0.0, 0.0], "coverage@0.005") == ""


def test_a_difference_of_nothing_has_no_minus() -> None:
    assert format_difference([0.59999], [60.0, 4.0], "coverage@0.02") == "+0.0"


@given(
    st.lists(st.tuples(SHARES, SHARES), min_size=2, max_size=12).filter(
        lambda pairs: statistics.pstdev([one - other for one, other in pairs]) > 1e-6
    ),
    st.sampled_from(["nll", "accuracy"]),
)
def test_an_interval_against_scipy(pairs: list[tuple[float, float]], measure: str) -> None:
    one, other = zip(*pairs, strict=True)
    text = format_interval([mine - theirs for mine, theirs in pairs], measure)
    found = re.fullmatch(r"(\S+) \((\S+) to (\S+)\)", text)
    assert found is not None
    expected: Any = ttest_rel(one, other).confidence_interval(0.95)
    scale, near = (1, 0.000501) if measure == "nll" else (100, 0.0501)
    mean = statistics.fmean(one) - statistics.fmean(other)
    for told, value in zip(found.groups(), (mean, expected.low, expected.high), strict=True):
        assert float(told) == pytest.approx(scale * value, abs=near)


def test_an_interval_of_one_is_none() -> None:
    assert format_interval([0.25], "accuracy") == "+25.0"
    assert format_interval([0.25, 0.25], "accuracy") == "+25.0 (+25.0 to +25.0)"
    assert format_interval([0.0, 0.0, 0.0], "accuracy") == "+0.0"


@pytest.mark.parametrize("measure", ["nll", "accuracy"])
@pytest.mark.parametrize("apart", [1e-5, 1e-7])
def test_on_which_side_of_0_a_bound_is_can_be_seen(measure: str, apart: float) -> None:
    """Differences whose interval ends just above 0, just below, and at a number that is shown as it is."""
    spread = [-0.01, 0.0, 0.01]
    _, half = t_interval(spread)
    for sign in (-1, 1):
        text = format_interval([half + sign * apart + one for one in spread], measure)
        low, high = re.findall(r"[+-][\d.]+", text)[1:]
        assert float(low) == pytest.approx(sign * apart * (1 if measure == "nll" else 100), rel=0.5)
        assert len(high.partition(".")[2]) == (3 if measure == "nll" else 1)


def test_a_table() -> None:
    assert table(["", "a"], [["x", "1"], ["y", ""]]) == "|  | a |\n| --- | --- |\n| x | 1 |\n| y |  |"


# -- rows

ROWS = (
    PLAN_START
    + '[row.one]\nlabel = "One"\nmodel = "mlp"\nways = ["mean"]\n'
    + "paper = [[40.0, 4.0], [50.0], [0.0, 0.0], [0.408, 0.036], [87.7, 0.42]]\n"
    + "paper_ensemble = [41.0, 51.0, 61.0, 0.3, 88.0]\n"
    + '[row.two]\nlabel = "Two"\nmodel = "maxout-dropout"\nways = ["sample 32", "sample 32 by variance"]\n'
    + '[row.three]\nlabel = "Three"\nmodel = "squad"\npaper = [1, 2, 3, 4, 5]\n'
    + '[row.four]\nlabel = "Four"\ngroup = "further"\nmodel = "squad"\nways = ["relaxed 32"]\n'
)


def figures(base: float, seed: int | None = None, halves: bool = True) -> dict[str, Any]:
    """Of a predictor."""
    found: dict[str, Any] = {name: base + 0.1 * place for place, name in enumerate(NAMES)} | {"aurc": base / 100}
    found |= {f"default@{risk}": base for risk in RISKS}
    if halves:
        told = {"coverage": base, "risk": 0.015, "violations": 0.25}
        found |= {f"halves@{risk}": {"sgr": told, DEFAULT_METHOD: {**told, "risk": None}} for risk in RISKS}
    return found if seed is None else {"seed": seed, **found}


def record_of(plan: Plan, name: str, bases: list[float], source: dict[str, Any] | None = None) -> Record:
    """Of a row, whose networks have these figures; the ensemble has 0.5."""
    row = next(row for row in plan.rows if row.name == f"small/{name}")
    ways = [
        {
            "sampling": way.sampling,
            "samples": way.samples,
            "confidence": way.confidence,
            "each": [figures(base, seed) for seed, base in enumerate(bases)],
            "ensemble": figures(0.5),
        }
        for way in row.modes
    ]
    settings = plan.job(row).to_dict()
    if source is not None:
        settings = {**settings, "source": source}
    members = [{"epochs": 10 * (place + 1)} for place in range(len(bases))]
    results = {"ways": ways, "members": members, "weights": 12345, "seconds": 61.5, "notes": []}
    return Record("experiment", row.name, settings, results, 0, machine={}, versions={})


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(tmp_path, ROWS)


@pytest.fixture
def measured(plan: Plan, tmp_path: Path) -> list[RowResult]:
    """All but the third have a record."""
    for name, bases in (("one", [0.2, 0.4]), ("two", [0.3, 0.3, 0.6]), ("four", [0.1])):
        record_of(plan, name, bases).save(record_path(tmp_path / "results", f"small/{name}"))
    return load_results(plan, tmp_path / "results")


def test_records_are_found(measured: list[RowResult]) -> None:
    assert [one.record is not None for one in measured] == [True, True, False, True]
    assert [len(one.variants()) for one in measured] == [1, 2, 0, 1]
    two = find_variant(measured, "two", "sample 32 by variance")
    assert two is not None
    assert two.mode == PredictionMode("sample", 32, "variance")
    assert two.values("accuracy") == pytest.approx([0.7, 0.7, 1.0])
    first = find_variant(measured, "two")
    assert first is not None
    assert first.mode.confidence == "response"
    assert find_variant(measured, "two", "mean") is None
    assert find_variant(measured, "three") is None
    assert find_variant(measured, "five") is None


def test_a_record_of_other_settings_is_not_the_rows(measured: list[RowResult], tmp_path: Path) -> None:
    changed = plan_of(tmp_path, ROWS.replace('"relaxed 32"', '"relaxed 8"'))
    found = load_results(changed, tmp_path / "results")
    assert [one.record is not None for one in found] == [True, True, False, False]
    assert [one.outdated for one in found] == [False, False, False, True]


def of_network(results: dict[str, Any], place: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = results["ways"][0]["each"][place]
    return found


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no ways": (lambda results: results.pop("ways"), "its ways are None"),
    "no weights": (lambda results: results.pop("weights"), "its weights are None"),
    "ways of another row": (lambda results: results["ways"].clear(), r"its ways are \[\], not"),
    "another way": (lambda results: results["ways"][0].update(sampling="hard"), "its ways are .*hard"),
    "no networks": (lambda results: results["ways"][0]["each"].clear(), "its way 1 has no networks"),
    "no nll": (lambda results: of_network(results).pop("nll"), "None as nll of network 2 in its way 1"),
    "no seed": (lambda results: of_network(results).pop("seed"), "None as seed of network 2 in its way 1"),
    "nothing": (lambda results: of_network(results).update(aurc=None), "None as aurc of network 2"),
    "a truth": (lambda results: of_network(results).update(accuracy=True), "True as accuracy"),
    "no number": (lambda results: results["ways"][0]["ensemble"].update(accuracy="x"), "'x' as accuracy of ensemble"),
    "no ensemble": (lambda results: results["ways"][0].update(ensemble=3), "3 in the place of the figures of ensemble"),
    "no default": (lambda results: of_network(results).pop("default@0.01"), "None as default@0.01 of network 2"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_named(measured: list[RowResult], tmp_path: Path, damage: str) -> None:
    path = record_path(tmp_path / "results", "small/one")
    record = Record.load(path)
    change, told = DAMAGE[damage]
    change(record.results)
    record.save(path)
    with pytest.raises(RecordError, match=rf"one\.json must be the record of an experiment; {told}.*Delete it"):
        load_results(plan_of(tmp_path, ROWS), tmp_path / "results")


@pytest.mark.parametrize(
    ("asked", "told"), [("halves = 3", "None as halves@0.01"), ('probes = ["spread"]', "no spread")]
)
def test_what_was_asked_for_must_be_there(tmp_path: Path, asked: str, told: str) -> None:
    plan = plan_of(tmp_path, ROWS.replace("[row.one]", f"{asked}\n[row.one]"))
    record = record_of(plan, "one", [0.1])
    del of_network(record.results, 0)["halves@0.01"]
    record.save(record_path(tmp_path / "results", "small/one"))
    with pytest.raises(RecordError, match=told):
        load_results(plan, tmp_path / "results")


def test_a_folder_in_the_place_of_a_record(measured: list[RowResult], tmp_path: Path) -> None:
    path = record_path(tmp_path / "results", "small/one")
    path.unlink()
    path.mkdir()
    with pytest.raises(SquadError, match=r"one\.json"):
        load_results(plan_of(tmp_path, ROWS), tmp_path / "results")


def test_what_is_wrong_in_a_plan_is_told_without_records_too(tmp_path: Path) -> None:
    wrong = plan_of(tmp_path, ROWS.replace('"relaxed 32"', '"sample 32"'))
    with pytest.raises(PlanError, match="sampling must be one of"):
        load_results(wrong, tmp_path / "nowhere")


def test_the_papers_figures_beside_ours(measured: list[RowResult]) -> None:
    rows = cells_of(result_tables.comparison_table(measured))
    assert rows == [
        ["", "coverage at .5 %", "at 1 %", "at 2 %", "NLL", "accuracy"],
        ["**One**, paper", "40.0 (4.00)", "50.0", "0.0 (0.00)", "0.408 (0.036)", "87.7 (0.42)"],
        ["One, ours", "30.0 (28.3)", "40.0 (28.3)", "50.0 (28.3)", "0.600 (0.283)", "70.0 (28.3)"],
        ["difference", "-5.0", "", "", "+10.7", "-84.3"],
        ["Two, ours", "40.0 (34.6)", "50.0 (34.6)", "60.0 (34.6)", "0.700 (0.346)", "80.0 (34.6)"],
        ["**Three**, paper", "1.0", "2.0", "3.0", "4.000", "5.0"],
        ["Three, ours", *["not run yet"] * 5],
    ]
    assert [row[0] for row in cells_of(result_tables.comparison_table(measured, ("further",)))[1:]] == [
        "Four, relaxed, T = 32, ours"
    ]


def test_a_row_of_the_papers_beside_several_of_ours_is_told_once(tmp_path: Path) -> None:
    paper = "paper = [1, 2, 3, 4, 5]\npaper_ensemble = [1, 2, 3, 4, 5]\n"
    rows = [f'[row.{name}]\nlabel = "SQUAD, {name}"\nmodel = "squad"\n{paper}' for name in ("found", "given")]
    found = load_results(plan_of(tmp_path, PLAN_START + "".join(rows)), tmp_path / "none")
    for text in (result_tables.comparison_table(found), result_tables.ensemble_table(found)):
        assert [row[0] for row in cells_of(text)[1:]] == [
            "**SQUAD**, paper",
            "SQUAD, found, ours",
            "SQUAD, given, ours",
        ]


def test_what_ensembles_gain(measured: list[RowResult]) -> None:
    rows = cells_of(result_tables.ensemble_table(measured))
    assert rows[1:4] == [
        ["**One**, paper", "41.0", "51.0", "61.0", "0.300", "88.0"],
        ["One, ours", "50.0", "60.0", "70.0", "0.800", "90.0"],
        ["minus the mean of its 2", "+20.0", "+20.0", "+20.0", "+0.200", "+20.0"],
    ]
    assert rows[4][0] == "Two, ours"
    assert rows[5][:2] == ["minus the mean of its 3", "+10.0"]


def test_pairs_are_of_the_same_seed(plan: Plan) -> None:
    def variant(name: str, seeds: dict[int, float]) -> Variant:
        row = next(row for row in plan.rows if row.name == f"small/{name}")
        each = [figures(base, seed) for seed, base in seeds.items()]
        content = {"sampling": "mean", "samples": 1, "confidence": "response", "each": each, "ensemble": figures(0.5)}
        return Variant(row, content, record_of(plan, name, [0.1]))

    one = variant("one", {0: 0.30, 1: 0.52, 2: 0.41, 7: 0.99})
    two = variant("two", {2: 0.20, 0: 0.25, 1: 0.50, 8: 0.01})  # another order, and one that has no like
    (row,) = cells_of(result_tables.paired_table([(one, two)]))[1:]
    assert row[0] == "One minus Two"
    expected: Any = ttest_rel([0.30, 0.52, 0.41], [0.25, 0.50, 0.20]).confidence_interval(0.95)
    mean = 100 * (0.05 + 0.02 + 0.21) / 3
    assert row[1] == f"{mean:+.1f} ({100 * expected.low:+.1f} to {100 * expected.high:+.1f})"
    # The other way round every sign turns.
    (back,) = cells_of(result_tables.paired_table([(two, one)]))[1:]
    assert back[1] == f"{-mean:+.1f} ({-100 * expected.high:+.1f} to {-100 * expected.low:+.1f})"


@pytest.mark.parametrize(
    ("way", "label"),
    [
        (PredictionMode("mean", 1), "One"),
        (PredictionMode("sample", 32), "One"),
        (PredictionMode("sample", 4), "One, sample, T = 4"),
        (PredictionMode("relaxed", 32), "One, relaxed, T = 32"),
        (PredictionMode("sample", 32, "variance"), "One, sample, T = 32, by variance"),
        (PredictionMode("mean", 1, "variance"), "One, mean, by variance"),
    ],
)
def test_labels(plan: Plan, way: PredictionMode, label: str) -> None:
    content = {"sampling": way.sampling, "samples": way.samples, "confidence": way.confidence}
    assert Variant(plan.rows[0], content, record_of(plan, "one", [0.1])).label == label


def test_no_two_ways_of_a_row_have_one_label(plan: Plan) -> None:
    ways = [
        PredictionMode("sample", samples, confidence)
        for samples in (1, 4, 32)
        for confidence in ("response", "variance")
    ]
    labels = [
        Variant(
            plan.rows[0],
            {"sampling": way.sampling, "samples": way.samples, "confidence": way.confidence},
            record_of(plan, "one", [0.1]),
        ).label
        for way in ways
    ]
    assert len(set(labels)) == len(ways)


def test_two_confidences_of_the_same_samples(measured: list[RowResult]) -> None:
    rows = cells_of(result_tables.confidence_table(measured))
    assert rows[0][-1] == "AURC x 1000"
    assert [row[0] for row in rows[1:]] == ["Two, softmax response", "Two, variance"]
    assert rows[1][1:] == ["40.0 (34.6)", "50.0 (34.6)", "60.0 (34.6)", "4.00"]


def test_certificates(measured: list[RowResult]) -> None:
    rows = cells_of(result_tables.certificate_table(measured, 0.02))
    assert len(rows[0]) == 1 + 2 + 2 * 3
    assert rows[1] == ["One", "50.0", "30.0", "30.0", "1.50", "25.0", "30.0", "", "25.0"]
    assert rows[2] == ["One, ensemble", "70.0", "50.0", "50.0", "1.50", "25.0", "50.0", "", "25.0"]
    # Every row and way, of every group; not the one without a record.
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
        "each": [figures(0.1, 0, halves=False)],
        "ensemble": figures(0.1, halves=False),
    }
    results = {**record.results, "ways": [bare]}
    found = Record("experiment", "x", {}, results, machine={}, versions={})
    assert len(cells_of(result_tables.certificate_table([RowResult(plan.rows[0], found)], 0.02))) == 1


def test_settings_and_where_they_come_from(plan: Plan) -> None:
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


# -- the repository's own


@pytest.fixture(scope="module")
def committed() -> dict[str, list[RowResult]]:
    return {name: load_results(read_plan(PAPER / f"{name}.toml"), PAPER / "results") for name in PLANS}


@pytest.mark.parametrize("name", PLANS)
def test_the_papers_tables_are_rectangular(name: str, committed: dict[str, list[RowResult]]) -> None:
    measured = committed[name]
    groups = sorted({one.row.group for one in measured})
    there = [one for one in measured if one.record is not None]
    against = cells_of(result_tables.comparison_table(measured, groups))
    assert sum("not run yet" in row for row in against) == len(measured) - len(there)
    assert len(cells_of(result_tables.ensemble_table(measured, groups))) > len(there)
    assert len(cells_of(result_tables.settings_table(measured))) == len(there) + 1
    cells_of(result_tables.confidence_table(measured))
    for risk in RISKS:
        cells_of(result_tables.certificate_table(measured, risk))
    variants = [variant for one in there for variant in one.variants()]
    cells_of(result_tables.paired_table(list(itertools.pairwise(variants))))


@pytest.mark.parametrize("name", PLANS)
def test_the_papers_rows_can_be_told_apart(name: str, committed: dict[str, list[RowResult]]) -> None:
    labels = [variant.label for one in committed[name] for variant in one.variants() if one.row.group == ""]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", PLANS)
def test_the_papers_records_are_those_of_its_plans(name: str) -> None:
    """A record that was made with other settings would be shown under a wrong name."""
    plan = read_plan(PAPER / f"{name}.toml")
    for row in plan.rows:
        path = record_path(PAPER / "results", row.name)
        if path.is_file():
            record = Record.load(path)
            assert (record.name, record.settings) == (row.name, plan.job(row).to_dict())
