"""Runs: the records they write, what is not run again, and how they are resumed."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.paper import pipeline
from experiments.paper.jobs import run as running
from experiments.paper.jobs.plan import Job, Plan, PlanError, PredictionMode, Study
from experiments.paper.jobs.run import TimeLimit, has_record, record_path, run_job, run_study
from squad.data.images import load_images
from squad.fitting import fit_predictor
from squad.records import Record
from squad.search.search_record import read
from squad.search.space import Space
from squad.settings import fit_settings
from squad.train import SilentProgress
from tests.paper.examples import CPU, NO_LIMIT, PAPER, TWO_ROWS, files, plan_of, refuse, run, study_of, trial

#: The same plan with another mode in the second row.
OTHER = TWO_ROWS.replace('"relaxed 2"', '"relaxed 3"')
#: A plan with a row that takes its settings from a study of two small trials.
SEARCHED = (
    'data = "digits"\nvalidation = 0.25\nnetwork = {hidden = [4]}\n'
    '[search]\ntrials = 2\nobjective = "accuracy"\nspaces = {"digits/mlp" = "space.toml"}\n'
    '[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\nfirst = 2\nways = ["mean"]\n'
)
SPACE = 'model = "mlp"\n[training]\nmax_epochs = 2\nlr = {low = 0.001, high = 0.1, log = true}\n'


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan, its study and its record, all made by a run."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "space.toml").write_text(SPACE, encoding="utf-8")
    assert run_all(plan_of(folder, SEARCHED))
    return folder


def run_all(
    *plans: Plan, out: Path | None = None, time_limit: TimeLimit = NO_LIMIT, lines: list[str] | None = None
) -> bool:
    """Run plans with their studies; log lines are appended to ``lines``."""
    log = ([] if lines is None else lines).append
    results = out or plans[0].folder / "results"
    return pipeline.run_plans(plans, results, CPU, time_limit, log, lambda _: SilentProgress(), lambda _: None)


class CountedChecks(TimeLimit):
    """A time limit that expires after a number of checks."""

    def __init__(self, checks: int) -> None:
        super().__init__(None)
        self.checks = checks

    @property
    def expired(self) -> bool:
        self.checks -= 1
        return self.checks < 0


# -- records


def test_there_is_one_record_per_row(finished: Path) -> None:
    plan = plan_of(finished, TWO_ROWS)
    assert files(finished / "results").keys() == {"small/mlp.json", "small/squad.json"}
    for row in plan.rows:
        job = plan.job(row)
        record = Record.load(record_path(finished / "results", job.name))
        assert (record.kind, record.name, record.settings, record.seed) == ("experiment", row.name, job.to_dict(), 0)
        assert has_record(job, finished / "results")
        results = record.results
        assert results["rows"] == {"training": 113, "validation": 37, "test": 599}
        assert [member["seed"] for member in results["members"]] == [0, 1]
        assert results["epochs"] == 3
        assert results["training"]["max_epochs"] == 3
        assert any("hash of their pixels" in note for note in results["notes"])
        for mode, content in zip(row.modes, results["ways"], strict=True):
            assert PredictionMode(content["sampling"], content["samples"], content["confidence"]) == mode
            assert [one["seed"] for one in content["each"]] == [0, 1]
            assert {"accuracy", "nll", "halves@0.02"} <= content["ensemble"].keys()
            # Curves are for softmax response: one per member, and the ensemble's.
            assert len(content.get("curves", [])) == (3 if mode.confidence == "response" else 0)
    mlp, squad = (Record.load(finished / "results" / "small" / f"{name}.json").results for name in ("mlp", "squad"))
    assert mlp["weights"] == 64 * 4 + 4 + 4 * 10 + 10  # per network
    assert mlp["probes"].keys() == {"spread"}
    assert squad["probes"].keys() == {"information"}


def test_modes_are_measured_by_their_own_confidence(finished: Path) -> None:
    response, variance = Record.load(finished / "results" / "small" / "squad.json").results["ways"]
    for one, other in zip(
        [*response["each"], response["ensemble"]], [*variance["each"], variance["ensemble"]], strict=True
    ):
        assert one["accuracy"] == other["accuracy"]
        assert one["nll"] == pytest.approx(other["nll"], rel=1e-9)
        assert one["aurc"] != other["aurc"]  # the ranking differs


def test_measures_equal_those_of_a_fitted_predictor(finished: Path) -> None:
    plan = plan_of(finished, TWO_ROWS)
    images = load_images("digits")
    content = Record.load(finished / "results" / "small" / "mlp.json").results["ways"][0]
    settings = fit_settings(plan.job(plan.rows[0]).settings)
    predictor = fit_predictor(images.x_train[:150], images.y_train[:150], settings)
    answer = predictor.answer(images.x_test)
    right = np.asarray(answer.label) == images.y_test
    assert content["ensemble"]["accuracy"] == pytest.approx(right.mean(), abs=1e-9)
    assert content["ensemble"]["accuracy"] > 0.15  # better than chance, 0.1
    assert content["curves"][2][-1] == pytest.approx(1 - right.mean())


def test_nothing_is_run_twice(folder: Path, jobs_run: list[str]) -> None:
    before, lines = files(folder), list[str]()
    assert run(plan_of(folder, TWO_ROWS), folder / "results", lines=lines)
    # Labels are not settings.
    assert run(plan_of(folder, TWO_ROWS.replace('model = "mlp"', 'model = "mlp"\nlabel = "MLP"')), folder / "results")
    assert jobs_run == []
    assert lines == []
    assert files(folder) == before


def test_only_rows_with_changed_settings_are_run_again(folder: Path, jobs_run: list[str]) -> None:
    before, lines = files(folder), list[str]()
    assert run(plan_of(folder, OTHER), folder / "results", lines=lines)
    assert jobs_run == ["small/squad"]
    after = files(folder)
    assert after["results/small/mlp.json"] == before["results/small/mlp.json"]
    assert json.loads(after["results/small/squad.json"])["results"]["ways"][0]["samples"] == 3
    assert lines[0].startswith("small: 1 of 2 records")
    assert "small/squad: replacing" in lines[1]
    assert lines[2].startswith("small/squad: coverage at 2 % ")


def test_rows_can_be_added_and_removed(folder: Path, jobs_run: list[str]) -> None:
    assert run(plan_of(folder, TWO_ROWS + '[row.new]\nmodel = "mlp"\n'), folder / "results")
    assert jobs_run == ["small/new"]
    assert Record.load(folder / "results" / "small" / "new.json").results["ways"] == []
    assert run(plan_of(folder, TWO_ROWS), folder / "results")
    assert jobs_run == ["small/new"]


def test_the_same_job_gives_the_same_results(folder: Path) -> None:
    path = folder / "results" / "small" / "squad.json"
    before = Record.load(path).results
    path.unlink()
    assert run(plan_of(folder, TWO_ROWS), folder / "results")
    after = Record.load(path).results
    assert after["ways"] == before["ways"]
    assert after["probes"] == before["probes"]


# -- stopping and resuming


def test_a_run_that_reached_its_time_limit_is_resumed(tmp_path: Path, jobs_run: list[str]) -> None:
    plan = plan_of(tmp_path, TWO_ROWS)
    assert not run(plan, tmp_path / "results", TimeLimit(0))
    assert jobs_run == []
    assert not run(plan, tmp_path / "results", CountedChecks(1))
    assert jobs_run == ["small/mlp"]
    before = files(tmp_path)
    assert run(plan, tmp_path / "results", CountedChecks(1))
    assert jobs_run == ["small/mlp", "small/squad"]
    assert files(tmp_path)["results/small/mlp.json"] == before["results/small/mlp.json"]
    # A complete run does not need any time.
    assert run(plan, tmp_path / "results", TimeLimit(0))


def test_an_interrupted_run_keeps_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(tmp_path, TWO_ROWS)

    def interrupted(job: Job, *others: Any) -> Record:
        if job.name == "small/squad":
            raise KeyboardInterrupt
        return run_job(job, *others)

    with monkeypatch.context() as patched:
        patched.setattr(running, "run_job", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(plan, tmp_path / "results")
    before = files(tmp_path)
    assert before.keys() == {"results/small/mlp.json"}
    assert run(plan, tmp_path / "results")
    assert files(tmp_path)["results/small/mlp.json"] == before["results/small/mlp.json"]
    assert files(tmp_path).keys() == {"results/small/mlp.json", "results/small/squad.json"}


def test_the_time_limit() -> None:
    assert TimeLimit(None).minutes_left is None
    assert not TimeLimit(None).expired
    assert TimeLimit(0).minutes_left == 0.0
    assert TimeLimit(0).expired
    left = TimeLimit(2).minutes_left
    assert left is not None
    assert 1.9 < left <= 2
    assert not TimeLimit(2).expired


# -- studies


def test_a_missing_study_is_run_and_used(searched: Path) -> None:
    study = read(searched / "search" / "digits" / "mlp")
    best = study.best()
    assert best is not None
    assert len(study.measured) == 2
    assert study.record.settings["base"]["validation"] == 0.25
    assert study.record.settings["base"]["network"] == {"hidden": [4]}
    record = Record.load(searched / "results" / "small" / "mlp.json")
    assert record.settings["source"] == {
        "from": "search",
        "study": "digits/mlp",
        "first": 2,
        "trial": best.number,
        "value": best.value,
    }
    assert record.settings["fit"]["training"]["lr"] == best.settings["training.lr"]
    assert record.results["training"]["lr"] == best.settings["training.lr"]
    assert record.results["training"]["max_epochs"] == 2
    # The first member has the trial's rows and split, so it is the trial's network.
    assert record.results["members"][0]["best_accuracy"] == pytest.approx(best.value, abs=1e-6)


def test_a_complete_study_is_not_touched(searched: Path, jobs_run: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.stat().st_mtime_ns for path in searched.rglob("*")}
    monkeypatch.setattr("squad.search.tuning.tune", refuse)
    assert run_all(plan_of(searched, SEARCHED))
    assert jobs_run == []
    before.pop(searched / "small.toml")
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_study_is_resumed_for_more_trials(searched: Path, tmp_path: Path) -> None:
    shutil.copytree(searched, tmp_path / "copy")
    assert run_all(
        plan_of(tmp_path / "copy", SEARCHED.replace("trials = 2", "trials = 3").replace("first = 2", "first = 3"))
    )
    found = read(tmp_path / "copy" / "search" / "digits" / "mlp").measured
    assert len(found) == 3
    assert found[:2] == read(searched / "search" / "digits" / "mlp").measured
    assert Record.load(tmp_path / "copy" / "results" / "small" / "mlp.json").settings["source"]["first"] == 3


def test_a_time_limit_that_is_too_short_for_a_study(tmp_path: Path, jobs_run: list[str]) -> None:
    (tmp_path / "space.toml").write_text(SPACE, encoding="utf-8")
    plan, lines = plan_of(tmp_path, SEARCHED), list[str]()
    assert not run_all(plan, time_limit=TimeLimit(0), lines=lines)
    assert [line for line in lines if "digits/mlp is not complete" in line] == lines != []
    assert not (tmp_path / "search").exists()
    assert not run_all(plan, time_limit=TimeLimit(1e-5))
    assert jobs_run == []
    assert not (tmp_path / "results").exists()


def test_the_time_limit_may_expire_while_data_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading SVHN takes seconds, and a search with no minutes left would be an error."""
    (tmp_path / "space.toml").write_text(SPACE, encoding="utf-8")
    plan, time_limit = plan_of(tmp_path, SEARCHED), TimeLimit(1)
    load = running._load_images

    def slow_load(name: str, data_dir: Path | None) -> Any:
        time_limit.end = 0.0
        return load(name, data_dir)

    monkeypatch.setattr(running, "_load_images", slow_load)
    assert not run_all(plan, time_limit=time_limit)


def test_a_complete_run_needs_no_time(searched: Path, jobs_run: list[str]) -> None:
    lines: list[str] = []
    assert run_all(plan_of(searched, SEARCHED), time_limit=TimeLimit(0), lines=lines)
    assert lines == []
    assert jobs_run == []


def test_quick_runs_no_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squad.search.tuning.tune", refuse)
    quick = SEARCHED + "[quick]\ntrain_rows = 150\ntraining = {max_epochs = 2}\n"
    assert run_all(plan_of(tmp_path, quick, quick=True), out=tmp_path / "out")
    record = Record.load(tmp_path / "out" / "small" / "mlp.json")
    assert record.settings["source"] == {"from": "the defaults: there is no whole study digits/mlp"}


@pytest.mark.parametrize(
    ("state", "ended", "value"),
    [("complete", "refused: settings that do not go together", None), ("pruned", "pruned", None)],
)
def test_a_complete_study_provides_settings(tmp_path: Path, state: str, ended: str, value: None) -> None:
    """Otherwise neither this run nor any later one would finish."""
    study_of(tmp_path, [trial(0, 0.5), trial(1, value, state=state, ended=ended)])
    plan = plan_of(tmp_path, SEARCHED)
    (study,) = plan.studies().values()
    if running._is_complete(tmp_path / "search" / study.name, study):
        plan.job(plan.rows[0])
    else:
        with pytest.raises(PlanError):
            plan.job(plan.rows[0])


def test_when_a_study_is_complete(tmp_path: Path) -> None:
    study = Study("digits/mlp", "digits", "mlp", 3, "accuracy", {})
    folder = tmp_path / "search" / "digits" / "mlp"
    assert not running._is_complete(folder, study)
    trials = [trial(0, 0.5), trial(1, 0.0, ended="diverged"), trial(2, state="failed", ended=None)]
    study_of(tmp_path, trials)
    assert not running._is_complete(folder, study)
    study_of(tmp_path, [*trials, trial(3, 0.5, retried_from=2)])
    assert running._is_complete(folder, study)
    # The data of a complete study is not read.
    assert run_study(study, tmp_path, "cpu", NO_LIMIT, tmp_path / "nowhere", None)


def test_plans_are_run_in_order(tmp_path: Path, jobs_run: list[str]) -> None:
    plans = [plan_of(tmp_path, TWO_ROWS, name=name) for name in ("one", "two")]
    assert not run_all(*plans, time_limit=CountedChecks(3))
    assert jobs_run == ["one/mlp", "one/squad", "two/mlp"]
    assert run_all(*plans)
    assert jobs_run[3:] == ["two/squad"]


@pytest.mark.parametrize("model", ["squad", "mlp", "relu-dropout", "maxout-dropout", "dlgm"])
def test_the_papers_studies_can_be_resumed(model: str) -> None:
    """Their search space is the paper's, whatever the default becomes, and none of their trials has the defaults."""
    search = read(PAPER / "search" / "fashion-mnist" / model)
    assert search.space == Space.paper(model)
    assert search.defaults() is None


def test_a_study_uses_the_papers_space_without_the_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    passed: dict[str, Any] = {}
    monkeypatch.setattr("squad.search.tuning.tune", lambda *_, **options: passed.update(options))
    study = Study("digits/mlp", "digits", "mlp", 3, "accuracy", {})
    assert not run_study(study, tmp_path, "cpu", NO_LIMIT, None, None)
    assert (passed["space"], passed["defaults"]) == ("paper", False)
