"""Runs: what is written, what is not run again, and how a run goes on that was stopped."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.paper import pipeline
from experiments.paper.jobs import run as running
from experiments.paper.jobs.plan import Job, Plan, PlanError, Study
from experiments.paper.jobs.run import TimeLimit, has_record, record_path, run_job, run_study
from squad.data.images import load_images
from squad.fitting import fit_predictor
from squad.records import Record
from squad.search.search_record import read
from squad.search.space import Space
from squad.settings import fit_settings
from squad.train import SilentProgress
from tests.paper.examples import CPU, NO_LIMIT, TWO_ROWS, files, plan_of, refuse, run, study_of, trial

#: The second of two rows, otherwise.
OTHER = TWO_ROWS.replace('"relaxed 2"', '"relaxed 3"')
#: A study of few small trials, from which a row takes its settings.
SEARCHED = (
    'data = "digits"\nvalidation = 0.25\nnetwork = {hidden = [4]}\n'
    '[search]\ntrials = 2\nobjective = "accuracy"\nspaces = {"digits/mlp" = "space.toml"}\n'
    '[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\nfirst = 2\nways = ["mean"]\n'
)
SPACE = 'model = "mlp"\n[training]\nmax_epochs = 2\nlr = {low = 0.001, high = 0.1, log = true}\n'


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan, its study, which a run has made, and its record."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "space.toml").write_text(SPACE, encoding="utf-8")
    assert go(plan_of(folder, SEARCHED))
    return folder


def go(*plans: Plan, out: Path | None = None, clock: TimeLimit = NO_LIMIT, told: list[str] | None = None) -> bool:
    """All of it, studies too."""
    tell = ([] if told is None else told).append
    results = out or plans[0].folder / "results"
    return pipeline.run_plans(plans, results, CPU, clock, tell, lambda _: SilentProgress(), lambda _: None)


class Short(TimeLimit):
    """One that is over after so many looks at it."""

    def __init__(self, looks: int) -> None:
        super().__init__(None)
        self.looks = looks

    @property
    def over(self) -> bool:
        self.looks -= 1
        return self.looks < 0


# -- records


def test_one_record_a_row(made: Path) -> None:
    plan = plan_of(made, TWO_ROWS)
    assert files(made / "results").keys() == {"small/mlp.json", "small/squad.json"}
    for row in plan.rows:
        job = plan.job(row)
        record = Record.load(record_path(made / "results", job.name))
        assert (record.kind, record.name, record.settings, record.seed) == ("experiment", row.name, job.to_dict(), 0)
        assert has_record(job, made / "results")
        found = record.results
        assert found["rows"] == {"training": 113, "validation": 37, "test": 599}
        assert [member["seed"] for member in found["members"]] == [0, 1]
        assert found["epochs"] == 3
        assert found["training"]["max_epochs"] == 3
        assert any("hash of their pixels" in note for note in found["notes"])
        for way, told in zip(row.modes, found["ways"], strict=True):
            assert (told["sampling"], told["samples"], told["confidence"]) == (
                way.sampling,
                way.samples,
                way.confidence,
            )
            assert [one["seed"] for one in told["each"]] == [0, 1]
            assert {"accuracy", "nll", "halves@0.02"} <= told["ensemble"].keys()
            # Curves are of softmax responses: one a member, and the ensemble's.
            assert len(told.get("curves", [])) == (3 if way.confidence == "response" else 0)
    mlp, squad = (Record.load(made / "results" / "small" / f"{name}.json").results for name in ("mlp", "squad"))
    assert mlp["weights"] == 64 * 4 + 4 + 4 * 10 + 10  # of one network
    assert mlp["probes"].keys() == {"spread"}
    assert squad["probes"].keys() == {"information"}


def test_a_way_is_measured_by_its_own_confidence(made: Path) -> None:
    response, variance = Record.load(made / "results" / "small" / "squad.json").results["ways"]
    for one, other in zip(
        [*response["each"], response["ensemble"]], [*variance["each"], variance["ensemble"]], strict=True
    ):
        assert one["accuracy"] == other["accuracy"]
        assert one["nll"] == pytest.approx(other["nll"], rel=1e-9)
        assert one["aurc"] != other["aurc"]  # other rows come first


def test_figures_are_of_the_test_rows_by_the_networks_that_a_fit_gives(made: Path) -> None:
    plan = plan_of(made, TWO_ROWS)
    images = load_images("digits")
    told = Record.load(made / "results" / "small" / "mlp.json").results["ways"][0]
    settings = fit_settings(plan.job(plan.rows[0]).settings)
    together = fit_predictor(images.x_train[:150], images.y_train[:150], settings)
    answer = together.answer(images.x_test)
    right = np.asarray(answer.label) == images.y_test
    assert told["ensemble"]["accuracy"] == pytest.approx(right.mean(), abs=1e-9)
    assert told["ensemble"]["accuracy"] > 0.15  # they have learned something: chance is 0.1
    assert told["curves"][2][-1] == pytest.approx(1 - right.mean())


def test_nothing_is_run_twice(folder: Path, jobs_run: list[str]) -> None:
    before, told = files(folder), list[str]()
    assert run(plan_of(folder, TWO_ROWS), folder / "results", told=told)
    # Words are not settings.
    assert run(plan_of(folder, TWO_ROWS.replace('model = "mlp"', 'model = "mlp"\nlabel = "MLP"')), folder / "results")
    assert jobs_run == []
    assert told == []
    assert files(folder) == before


def test_a_row_with_other_settings_is_run_again_and_no_other(folder: Path, jobs_run: list[str]) -> None:
    before, told = files(folder), list[str]()
    assert run(plan_of(folder, OTHER), folder / "results", told=told)
    assert jobs_run == ["small/squad"]
    after = files(folder)
    assert after["results/small/mlp.json"] == before["results/small/mlp.json"]
    assert json.loads(after["results/small/squad.json"])["results"]["ways"][0]["samples"] == 3
    assert told[0] == "small: 1 of 2 records are there"
    assert told[1] == "small/squad: the record that is there is of other settings, and will be replaced"
    assert told[2].startswith("small/squad: coverage at 2 % ")


def test_rows_come_and_go(folder: Path, jobs_run: list[str]) -> None:
    assert run(plan_of(folder, TWO_ROWS + '[row.new]\nmodel = "mlp"\n'), folder / "results")
    assert jobs_run == ["small/new"]
    assert Record.load(folder / "results" / "small" / "new.json").results["ways"] == []
    assert run(plan_of(folder, TWO_ROWS), folder / "results")
    assert jobs_run == ["small/new"]


def test_the_same_job_gives_the_same_figures(folder: Path) -> None:
    path = folder / "results" / "small" / "squad.json"
    before = Record.load(path).results
    path.unlink()
    assert run(plan_of(folder, TWO_ROWS), folder / "results")
    after = Record.load(path).results
    assert after["ways"] == before["ways"]
    assert after["probes"] == before["probes"]


# -- stopped, and gone on


def test_a_run_whose_time_is_over_goes_on(tmp_path: Path, jobs_run: list[str]) -> None:
    plan = plan_of(tmp_path, TWO_ROWS)
    assert not run(plan, tmp_path / "results", TimeLimit(0))
    assert jobs_run == []
    assert not run(plan, tmp_path / "results", Short(1))
    assert jobs_run == ["small/mlp"]
    before = files(tmp_path)
    assert run(plan, tmp_path / "results", Short(1))
    assert jobs_run == ["small/mlp", "small/squad"]
    assert files(tmp_path)["results/small/mlp.json"] == before["results/small/mlp.json"]
    # With nothing left to do it does not matter that the time is over.
    assert run(plan, tmp_path / "results", TimeLimit(0))


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(tmp_path, TWO_ROWS)

    def stopped(job: Job, *others: Any) -> Record:
        if job.name == "small/squad":
            raise KeyboardInterrupt
        return run_job(job, *others)

    with monkeypatch.context() as patched:
        patched.setattr(running, "run_job", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(plan, tmp_path / "results")
    before = files(tmp_path)
    assert before.keys() == {"results/small/mlp.json"}
    assert run(plan, tmp_path / "results")
    assert files(tmp_path)["results/small/mlp.json"] == before["results/small/mlp.json"]
    assert files(tmp_path).keys() == {"results/small/mlp.json", "results/small/squad.json"}


def test_a_clock() -> None:
    assert TimeLimit(None).minutes is None
    assert not TimeLimit(None).over
    assert TimeLimit(0).minutes == 0.0
    assert TimeLimit(0).over
    left = TimeLimit(2).minutes
    assert left is not None
    assert 1.9 < left <= 2
    assert not TimeLimit(2).over


# -- studies


def test_a_missing_study_is_made_and_then_used(searched: Path) -> None:
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
    # The same rows, split as the first member's are: it is the trial's network.
    assert record.results["members"][0]["best_accuracy"] == pytest.approx(best.value, abs=1e-6)


def test_a_study_that_is_there_is_not_touched(
    searched: Path, jobs_run: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.stat().st_mtime_ns for path in searched.rglob("*")}
    monkeypatch.setattr("squad.search.tuning.tune", refuse)
    assert go(plan_of(searched, SEARCHED))
    assert jobs_run == []
    before.pop(searched / "small.toml")
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_study_goes_on_for_more_trials(searched: Path, tmp_path: Path) -> None:
    shutil.copytree(searched, tmp_path / "copy")
    assert go(
        plan_of(tmp_path / "copy", SEARCHED.replace("trials = 2", "trials = 3").replace("first = 2", "first = 3"))
    )
    found = read(tmp_path / "copy" / "search" / "digits" / "mlp").measured
    assert len(found) == 3
    assert found[:2] == read(searched / "search" / "digits" / "mlp").measured
    assert Record.load(tmp_path / "copy" / "results" / "small" / "mlp.json").settings["source"]["first"] == 3


def test_time_that_is_too_short_for_a_study(tmp_path: Path, jobs_run: list[str]) -> None:
    (tmp_path / "space.toml").write_text(SPACE, encoding="utf-8")
    plan, told = plan_of(tmp_path, SEARCHED), list[str]()
    assert not go(plan, clock=TimeLimit(0), told=told)
    assert told == ["small: the study digits/mlp is not complete"]
    assert not (tmp_path / "search").exists()
    assert not go(plan, clock=TimeLimit(1e-5))
    assert jobs_run == []
    assert not (tmp_path / "results").exists()


def test_time_that_is_over_while_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading SVHN takes seconds; a search of no minutes is an error of its own."""
    (tmp_path / "space.toml").write_text(SPACE, encoding="utf-8")
    plan, clock = plan_of(tmp_path, SEARCHED), TimeLimit(1)
    reading = running._load_images

    def slowly(name: str, data_dir: Path | None) -> Any:
        clock.end = 0.0
        return reading(name, data_dir)

    monkeypatch.setattr(running, "_load_images", slowly)
    assert not go(plan, clock=clock)


def test_with_everything_there_the_time_does_not_matter(searched: Path, jobs_run: list[str]) -> None:
    told: list[str] = []
    assert go(plan_of(searched, SEARCHED), clock=TimeLimit(0), told=told)
    assert told == []
    assert jobs_run == []


def test_quick_makes_no_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squad.search.tuning.tune", refuse)
    quick = SEARCHED + "[quick]\ntrain_rows = 150\ntraining = {max_epochs = 2}\n"
    assert go(plan_of(tmp_path, quick, quick=True), out=tmp_path / "out")
    record = Record.load(tmp_path / "out" / "small" / "mlp.json")
    assert record.settings["source"] == {"from": "the defaults: there is no whole study digits/mlp"}


@pytest.mark.parametrize(
    ("state", "ended", "value"),
    [("complete", "refused: settings that do not go together", None), ("pruned", "pruned", None)],
)
def test_a_study_is_complete_when_its_rows_can_take_their_settings_from_it(
    tmp_path: Path, state: str, ended: str, value: None
) -> None:
    """Or else neither this run nor any later one would come to an end."""
    study_of(tmp_path, [trial(0, 0.5), trial(1, value, state=state, ended=ended)])
    plan = plan_of(tmp_path, SEARCHED)
    (study,) = plan.studies().values()
    if running._is_complete(tmp_path / "search" / study.name, study):
        plan.job(plan.rows[0])
    else:
        with pytest.raises(PlanError):
            plan.job(plan.rows[0])


def test_how_many_trials_make_a_study(tmp_path: Path) -> None:
    study = Study("digits/mlp", "digits", "mlp", 3, "accuracy", {})
    place = tmp_path / "search" / "digits" / "mlp"
    assert not running._is_complete(place, study)
    ends = [trial(0, 0.5), trial(1, 0.0, ended="diverged"), trial(2, state="failed", ended=None)]
    study_of(tmp_path, ends)
    assert not running._is_complete(place, study)
    study_of(tmp_path, [*ends, trial(3, 0.5, retried_from=2)])
    assert running._is_complete(place, study)
    # Nothing is read of the data of a study that is complete.
    assert run_study(study, tmp_path, "cpu", NO_LIMIT, tmp_path / "nowhere", None)


def test_several_plans_in_their_order(tmp_path: Path, jobs_run: list[str]) -> None:
    plans = [plan_of(tmp_path, TWO_ROWS, name=name) for name in ("one", "two")]
    assert not go(*plans, clock=Short(3))
    assert jobs_run == ["one/mlp", "one/squad", "two/mlp"]
    assert go(*plans)
    assert jobs_run[3:] == ["two/squad"]


@pytest.mark.parametrize("model", ["squad", "mlp", "relu-dropout", "maxout-dropout", "dlgm"])
def test_the_papers_studies_can_be_gone_on_with(model: str) -> None:
    """Their space is the paper's, whatever the default one becomes; and none of their trials is the defaults."""
    folder = Path(__file__).parents[2] / "experiments" / "paper" / "search" / "fashion-mnist" / model
    found = read(folder)
    assert found.space == Space.paper(model)
    assert found.defaults() is None


def test_a_study_of_the_paper_is_searched_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr("squad.search.tuning.tune", lambda *_, **options: asked.update(options))
    study = Study("digits/mlp", "digits", "mlp", 3, "accuracy", {})
    assert not run_study(study, tmp_path, "cpu", NO_LIMIT, None, None)
    assert (asked["space"], asked["defaults"]) == ("paper", False)
