"""The record of a search: what it has of a study, and reading it without Optuna."""

import csv
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from squad.errors import ArgumentError
from squad.records import Record, RecordError
from squad.search.export import export_record, write_csv
from squad.search.measure import Measure
from squad.search.search_record import CSV, META, TRIALS, Search, TrialRecord, TrialsError, read
from tests.search.searches import COVERAGE, record, saved

DISTRIBUTIONS: dict[str, Any] = {"training.lr": optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True)}
EXAMPLE_META: dict[str, Any] = {
    "model": "squad",
    "objective": {"asked": COVERAGE, "used": "aurc"},
    "base": {"seed": 3, "network": {"hidden": (32, 32)}},
    "space": {"training": {"lr": {"low": 1e-4, "high": 1e-2, "log": True}}},
    "seed": 3,
    "slots": 8,
    "data": {"source": "train.csv"},
    "fingerprint": "abc",
    "notes": ["There are few rows."],
}


def add(study: optuna.Study, state: TrialState, value: float | None = None, **attrs: Any) -> None:
    lr = 1e-3 * (1 + len(study.trials))
    study.add_trial(
        optuna.create_trial(
            state=state,
            value=value,
            params={"training.lr": lr},
            distributions=DISTRIBUTIONS,
            user_attrs={"settings": {"training.lr": lr}, "worker": "w", **attrs},
            # Accuracies reported for pruning, which are not values of the objective.
            intermediate_values={5: 0.87},
        )
    )


@pytest.fixture
def study() -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    add(study, TrialState.COMPLETE, -0.02, ended="stopped early", details={"accuracy": 0.9, "nll": math.nan})
    add(study, TrialState.PRUNED, 0.87, ended="pruned", details={"epochs": 20})
    add(study, TrialState.FAIL, None, ended="surplus")
    add(study, TrialState.FAIL, None)
    add(study, TrialState.COMPLETE, -1.0, ended="diverged", details={"epochs": 3})
    add(study, TrialState.COMPLETE, -0.01, ended="at max_epochs", details={"accuracy": 0.93})
    add(study, TrialState.COMPLETE, -0.01, ended="at max_epochs", details={"accuracy": 0.94})
    study.add_trial(optuna.create_trial(state=TrialState.WAITING, system_attrs={"failed_trial": 3}))
    add(study, TrialState.RUNNING)
    return study


def test_the_record_has_all_trials(study: optuna.Study, tmp_path: Path) -> None:
    export_record(study, EXAMPLE_META).save(tmp_path / TRIALS)
    search = read(tmp_path)
    assert search.model == "squad"
    assert search.notes == ["There are few rows."]
    assert search.record.kind == "search"
    assert search.record.seed == 3
    assert search.record.versions["optuna"] == optuna.__version__
    assert all(name in search.record.settings for name in META)
    assert search.record.settings["fingerprint"] == "abc"
    # All trials except the surplus one, by number.
    assert [trial.number for trial in search.trials] == [0, 1, 3, 4, 5, 6, 7, 8]
    states = ["complete", "pruned", "failed", "complete", "complete", "complete", "waiting", "running"]
    assert [trial.state for trial in search.trials] == states
    first = search.trials[0]
    assert first.value == -0.02
    assert first.settings == {"training.lr": 1e-3}
    assert first.params == {"training.lr": 1e-3}
    assert first.worker == "w"
    assert first.details == {"accuracy": 0.9, "nll": None}  # JSON has no NaN
    assert search.trials[6].retried_from == 3
    assert search.trials[7].ended is None


def test_only_complete_trials_have_a_value(study: optuna.Study) -> None:
    trials = {trial["number"]: trial for trial in export_record(study, EXAMPLE_META).results["trials"]}
    # Optuna's value of a pruned trial is its last accuracy.
    assert study.trials[1].value == 0.87
    assert trials[1]["value"] is None
    assert [number for number, trial in trials.items() if trial["value"] is not None] == [0, 4, 5, 6]


def test_the_best_is_the_first_of_ties_and_never_diverged(study: optuna.Study, tmp_path: Path) -> None:
    export_record(study, EXAMPLE_META).save(tmp_path / TRIALS)
    search = read(tmp_path)
    best = search.best()
    assert best is not None
    assert best.number == 5
    assert [trial.number for trial in search.top(10)] == [5, 6, 0]
    assert [trial.number for trial in search.top(2)] == [5, 6]


def measured(number: int, value: float, **details: float | None) -> TrialRecord:
    return TrialRecord(number, "complete", value, {}, {}, "stopped early", details, None, None, None, None)


def test_ties_are_broken_by_aurc_and_then_nll() -> None:
    trials = (
        measured(0, 0.0),  # no details
        measured(1, 0.0, aurc=0.2, nll=0.1),
        measured(2, 0.0, aurc=0.1, nll=None),
        measured(3, 0.0, aurc=0.1, nll=0.5),
        measured(4, 0.0, aurc=0.1, nll=0.4),
        measured(5, 0.0, aurc=0.1, nll=0.4),
        measured(6, 0.1, aurc=0.9, nll=0.9),  # the value comes first
    )
    search = Search(record(1), trials)
    assert [trial.number for trial in search.top(10)] == [6, 4, 5, 3, 2, 1, 0]
    best = search.best()
    assert best is not None
    assert best.number == 6


def attempt(number: int, state: str, retried_from: int | None = None) -> TrialRecord:
    return TrialRecord(number, state, None, {}, {}, None, {}, None, None, retried_from, None)


def test_retried_attempts_are_not_failures() -> None:
    trials = (
        attempt(0, "failed"),  # retried by 3, and again by 5
        attempt(1, "failed"),  # never retried
        attempt(2, "failed"),  # retried by 4, the last attempt
        attempt(3, "failed", 0),
        attempt(4, "failed", 2),
        replace(measured(5, 0.5), retried_from=0),
        attempt(6, "running"),
    )
    search = Search(record(1), trials)
    assert search.interrupted == {0, 2, 3}
    assert [trial.number for trial in search.counted] == [1, 4, 5, 6]
    fates = ["interrupted", "failed", "interrupted", "interrupted", "failed", "measured", "running"]
    assert [search.fate(trial) for trial in trials] == fates
    # The table has the study's states.
    states = [row[1] for row in search.rows()[1]]
    assert states == ["failed"] * 5 + ["complete", "running"]


def test_repr(tmp_path: Path) -> None:
    search = saved(tmp_path, count=40, objective="aurc")
    best = search.best()
    assert best is not None
    assert best.value is not None
    assert repr(search) == f"Search(squad: 40 trials, best {search.measure.text(best.value)} in trial {best.number})"
    assert repr(Search(search.record, (attempt(0, "running"),))) == "Search(squad: 1 trial, none measured)"


def test_no_best_without_a_measured_trial() -> None:
    study = optuna.create_study(direction="maximize")
    add(study, TrialState.COMPLETE, 0.0, ended="diverged")
    found = export_record(study, EXAMPLE_META)
    search = Search(found, tuple(TrialRecord(**trial) for trial in found.results["trials"]))
    assert search.best() is None
    assert search.top(60) == []


def test_the_same_study_gives_the_same_file(study: optuna.Study, tmp_path: Path) -> None:
    files = [export_record(study, EXAMPLE_META).save(tmp_path / name).read_bytes() for name in ("a", "b")]
    assert files[0] == files[1]
    record = export_record(study, EXAMPLE_META)
    times = [(trial.datetime_start, trial.datetime_complete) for trial in study.trials if trial.number != 2]
    last = max(at for both in times for at in both if at is not None)
    assert record.date == last.astimezone(UTC).isoformat(timespec="milliseconds")


def test_machine_and_versions_are_kept(study: optuna.Study) -> None:
    earlier = Record("search", "squad", {}, {}, machine={"gpu": "a large one"}, versions={"torch": "0"})
    found = export_record(study, EXAMPLE_META, earlier)
    assert found.machine == {"gpu": "a large one"}
    assert found.versions == {"torch": "0"}


def test_incomplete_meta_is_refused(study: optuna.Study) -> None:
    with pytest.raises(ArgumentError, match="slots, data"):
        export_record(study, {name: EXAMPLE_META[name] for name in META if name not in ("slots", "data")})


@pytest.fixture
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as change:
        change.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_in_tokyo")
def test_times_are_in_utc() -> None:
    study = optuna.create_study(direction="maximize")
    add(study, TrialState.COMPLETE, 0.5)
    (first, *_) = export_record(study, EXAMPLE_META).results["trials"]
    then = study.trials[0].datetime_complete
    assert then is not None
    assert first["finished"].endswith("+00:00")
    assert abs(datetime.fromisoformat(first["finished"]).timestamp() - then.timestamp()) < 0.001


def timed(number: int, started: float, finished: float | None, state: str = "complete") -> TrialRecord:
    begin, end = (None if at is None else datetime.fromtimestamp(at, UTC).isoformat() for at in (started, finished))
    return TrialRecord(number, state, 0.5, {}, {}, None, {}, begin, end, None, None)


def test_seconds_of_training() -> None:
    trials = (
        timed(0, 0, 50),
        timed(1, 10, 60),  # concurrent
        timed(2, 20, 30),  # inside the first
        timed(3, 1000, 1040),  # after a pause
        timed(4, 10, 90000, "failed"),  # lost, and noticed the next day
        timed(5, 2000, None, "running"),
    )
    assert Search(record(1), trials).seconds() == pytest.approx(100)
    assert Search(record(1), ()).seconds() == 0


@pytest.mark.parametrize(
    ("objective", "title", "value", "text"),
    [
        (COVERAGE, "coverage at risk 2 %", 0.6951, "coverage 69.5 %"),
        ("coverage@risk=0.005,delta=0.1", "coverage at risk 0.5 %", 0.1, "coverage 10.0 %"),
        ("accuracy", "accuracy", 0.5, "accuracy 50.0 %"),
        ("aurc", "AURC", -0.0123, "AURC 0.01230"),
        ("aurc", "AURC", -0.00314, "AURC 0.003140"),  # not the same as the next
        ("aurc", "AURC", -0.00306, "AURC 0.003060"),
        ("aurc", "AURC", -3.14e-5, "AURC 3.140e-5"),
        ("aurc", "AURC", 0.0, "AURC 0"),
    ],
)
def test_measures(objective: str, title: str, value: float, text: str) -> None:
    from squad.search.objective import Objective

    assert Objective.parse(objective).text == objective
    measure = Measure.of(objective)
    assert measure.title == title
    assert measure.text(value) == text
    # Better values are in the direction of the sign.
    assert measure.sign * (measure.shown(value + 0.01) - measure.shown(value)) > 0


def test_the_table_has_one_row_per_trial(tmp_path: Path) -> None:
    search = saved(tmp_path, count=30)
    frame = search.table()
    assert list(frame["number"]) == list(range(30))
    assert frame["network.bins"][4] == search.trials[4].settings["network.bins"]
    assert frame["details.accuracy"][4] == search.trials[4].details["accuracy"]
    assert "details.accuracy_interval" not in frame
    assert frame["value"].isna().sum() == 2  # the pruned ones


def test_csv(tmp_path: Path) -> None:
    search = saved(tmp_path, count=30, model="squad-factorized")
    path = write_csv(search, tmp_path / CSV)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    assert rows[11]["state"] == "pruned"
    assert rows[11]["value"] == ""
    assert float(rows[0]["value"]) == search.trials[0].value
    assert {row["network.shared"] for row in rows} == {"true", "false"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [CSV, TRIALS]


def test_invalid_records(tmp_path: Path) -> None:
    with pytest.raises(TrialsError, match=r"folder of a search.*trials\.json"):
        read(tmp_path)
    with pytest.raises(TrialsError, match=r"nowhere .*folder of a search"):
        read(tmp_path / "nowhere")
    Record("benchmark", "x", {}, {}).save(tmp_path / TRIALS)
    with pytest.raises(TrialsError, match="kind 'benchmark'"):
        read(tmp_path)
    Record("search", "squad", {"model": "squad"}, {"trials": []}).save(tmp_path / TRIALS)
    with pytest.raises(RecordError, match="objective"):
        read(tmp_path)
    found = record(2)
    del found.results["trials"][1]["ended"]
    found.save(tmp_path / TRIALS)
    with pytest.raises(RecordError, match="'ended'"):
        read(tmp_path)
    (tmp_path / TRIALS).write_text("{", encoding="utf-8")
    with pytest.raises(RecordError, match=r"trials\.json"):
        read(tmp_path)


def test_a_record_is_read_without_optuna(tmp_path: Path) -> None:
    record(30).save(tmp_path / TRIALS)
    code = (
        "import sys; sys.modules['optuna'] = None; from squad.search import search_record, summary; "
        f"s = search_record.read({str(tmp_path)!r}); summary.rows(s); summary.best_toml(s); "
        "assert not {'pandas', 'matplotlib', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
