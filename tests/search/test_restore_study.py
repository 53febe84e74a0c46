"""Restore a study from its record."""

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.trial import TrialState

import squad
from squad.search.export import export_record
from squad.search.population import Population
from squad.search.restore_study import restore
from squad.search.search_record import Search, read
from squad.search.storage import SearchError, close_storage, file_url, open_storage, quiet_optuna
from squad.search.study import load_study, open_study
from squad.search.study_source import StudySource
from squad.search.trial import Outcome
from tests.search.sources import problem
from tests.search.test_tuning import FEW
from tests.search.workers import SPACE

SMALL: dict[str, Any] = {"network": {"hidden": [4]}, "training": {"max_epochs": 3}}


def tune(out: Path, **options: Any) -> Search:
    random = np.random.default_rng(0)
    labels = np.arange(90) % 3
    x = random.normal(size=(90, 5)) + 1.5 * np.eye(5)[labels]
    return squad.tune(
        x, labels, **{"objective": "aurc", "settings": SMALL, "out": out, "trials": 2, "space": FEW, **options}
    )


def without_database(out: Path, to: Path) -> Path:
    """Copy the record alone to a new folder."""
    to.mkdir()
    shutil.copy(out / "trials.json", to)
    return to


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two trials."""
    folder = tmp_path_factory.mktemp("made") / "study"
    tune(folder)
    return folder


@pytest.fixture
def sent(made: Path, tmp_path: Path) -> Path:
    """The record of that study without its database."""
    return without_database(made, tmp_path / "sent")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with complete, pruned, given back and surplus trials."""
    folder = tmp_path_factory.mktemp("original") / "troubled"
    folder.mkdir()
    posed = problem(space=SPACE)
    storage = open_storage(file_url(folder / "study.db"), stale_after=600)
    meta = {**posed.meta(), "study": "troubled", "slots": 3, "notes": ["one", "two"]}
    study = open_study(storage, "troubled", meta)
    source = StudySource(study, posed.space, 18, worker="first", seed=7, shared=False, prune=True)
    for number in range(16):
        trial = source.ask()
        assert trial is not None
        for epoch in (5, 25):
            source.prunes(trial, epoch, 0.5 + number / 100 + epoch / 1000)
        pruned = number % 4 == 3
        details = {"epochs": 30, "aurc": 0.1, "nll": 0.2, "interval": [0.1, 0.2]}
        source.tell(trial, Outcome(None if pruned else -0.1 * number, "pruned" if pruned else "stopped early", details))
    held = [source.ask(), source.ask()]
    assert all(trial is not None for trial in held)
    source.give_back([trial for trial in held if trial is not None])
    greedy = StudySource(study, posed.space, 19, worker="second", seed=7, shared=False)
    taken = greedy.ask()
    assert taken is not None
    greedy.give_back([taken], lost=True)
    with quiet_optuna():  # one too many, as of workers that race for the last trial
        late = study.ask(posed.space.distributions())
        late.set_user_attr("ended", "surplus")
        study.tell(late, state=TrialState.FAIL)
    source.give_back([trial for trial in [source.ask()] if trial is not None])
    export_record(study, meta).save(folder / "trials.json")
    close_storage(storage)
    return folder


@pytest.fixture
def troubled(original: Path, tmp_path: Path) -> Path:
    """A copy of that study."""
    return Path(shutil.copytree(original, tmp_path / "troubled"))


def exported(folder: Path) -> Any:
    storage = open_storage(file_url(folder / "study.db"), stale_after=600)
    try:
        return export_record(*load_study(storage, "troubled"), earlier=read(folder).record)
    finally:
        close_storage(storage)


def test_all_trials_are_restored(troubled: Path, tmp_path: Path) -> None:
    record = read(troubled).record
    states = {trial.state for trial in read(troubled).trials}
    assert states == {"complete", "pruned", "failed", "waiting"}
    numbers = [trial.number for trial in read(troubled).trials]
    assert len(numbers) < numbers[-1] + 1  # the surplus one is not in the record
    folder = without_database(troubled, tmp_path / "sent")
    assert restore(folder, folder / "study.db") == len(numbers)
    again = exported(folder)
    assert again == record
    assert any(trial["accuracies"] for trial in again.results["trials"])
    assert restore(folder, folder / "study.db") is None  # it is there


def test_an_old_write_ahead_log_is_not_applied(troubled: Path, tmp_path: Path) -> None:
    folder = without_database(troubled, tmp_path / "sent")
    leftovers = [folder / f"study.db-{kind}" for kind in ("wal", "shm")]
    for path in leftovers:
        path.write_bytes(b"of another database")
    restore(folder, folder / "study.db")
    assert not any(path.exists() for path in leftovers)


def test_the_next_proposals_are_the_same(troubled: Path, tmp_path: Path) -> None:
    folder = without_database(troubled, tmp_path / "sent")
    restore(folder, folder / "study.db")
    asked = []
    for place in (troubled, folder):
        storage = open_storage(file_url(place / "study.db"), stale_after=600)
        study, _ = load_study(storage, "troubled")
        source = StudySource(study, problem(space=SPACE).space, 40, worker="first", seed=7, shared=False, prune=True)
        source.reclaim()
        trials = [source.ask() for _ in range(8)]
        asked.append([(trial.number, trial.settings) for trial in trials if trial is not None])
        assert len(asked[-1]) == 8
        verdicts = [source.prunes(trial, 25, accuracy) for trial in trials[:1] if trial for accuracy in (0.2, 0.9)]
        assert verdicts == [True, False]
        close_storage(storage)
    assert asked[0] == asked[1]


def test_restoring_is_announced(sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from squad.search.progress import make_progress

    tune(sent, trials=2, progress=make_progress(label="search"))
    assert re.search(r"study\.db .*2 trials from trials\.json", capsys.readouterr().err)


def test_killed_while_restoring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tune(tmp_path / "study", trials=3)
    sent = without_database(tmp_path / "study", tmp_path / "sent")
    from optuna.storages import RDBStorage

    create, made = RDBStorage.create_new_trial, []

    def killed(self: Any, *args: Any, **options: Any) -> int:
        made.append(1)
        if len(made) == 3:
            raise KeyboardInterrupt
        return create(self, *args, **options)

    monkeypatch.setattr(RDBStorage, "create_new_trial", killed)
    with pytest.raises(KeyboardInterrupt):
        tune(sent, trials=3)
    monkeypatch.undo()
    assert not (sent / "study.db").exists()
    assert read(sent).trials == found.trials
    monkeypatch.setattr(Population, "run", None)  # nothing is trained
    assert tune(sent, trials=2).trials == found.trials


def test_the_record_of_another_search_is_not_resumed(sent: Path, made: Path) -> None:
    with pytest.raises(SearchError, match=r"base\.network\.hidden is \[4\] there and \[5\] here"):
        tune(sent, settings={**SMALL, "network": {"hidden": [5]}})
    assert read(sent).trials == read(made).trials


MEDDLING: dict[str, tuple[dict[str, Any], str]] = {
    "a setting that was not searched": ({"params": {"zzz": 1}}, "zzz"),
    "a state that is none": ({"state": "asleep"}, "asleep"),
    "a date that is none": ({"started": "yesterday"}, "yesterday"),
    "no value": ({"value": None}, "value"),
    "a value out of range": ({"params": {"network.bins": 4444}}, ""),
    "no accuracies": ({"accuracies": None}, ""),
    "accuracies that are no numbers": ({"accuracies": {"5": "x"}}, ""),
    "a trial that comes later": ({"retried_from": 7}, "retries 7"),
}


@pytest.mark.parametrize("what", MEDDLING)
def test_an_edited_record_is_not_overwritten(sent: Path, what: str) -> None:
    record = read(sent).record
    change, word = MEDDLING[what]
    trial = record.results["trials"][1]
    trial.update({**change, "params": {**trial["params"], **change.get("params", {})}})
    record.save(sent / "trials.json")
    before = (sent / "trials.json").read_bytes()
    with pytest.raises(SearchError, match=rf"trials\.json .*: trial 1\b.*{word}.*--restart"):
        tune(sent)
    assert (sent / "trials.json").read_bytes() == before
    assert sorted(path.name for path in sent.iterdir()) == ["trials.json"]


@pytest.mark.parametrize("number", [-1, 1.5, 10**6, "1"])
def test_invalid_trial_numbers(sent: Path, number: Any) -> None:
    record = read(sent).record
    record.results["trials"][1]["number"] = number
    record.save(sent / "trials.json")
    with pytest.raises(SearchError, match="--restart"):
        tune(sent)


def test_duplicate_trial_numbers(sent: Path) -> None:
    record = read(sent).record
    record.results["trials"][1]["number"] = 0
    record.save(sent / "trials.json")
    with pytest.raises(SearchError, match=r"two trials.*number"):
        tune(sent)


@pytest.mark.parametrize("damage", ["half of it", "of the future"])
def test_an_unreadable_record_is_not_overwritten(sent: Path, damage: str) -> None:
    text = (sent / "trials.json").read_text()
    damaged = text[: len(text) // 2] if damage == "half of it" else text.replace('"schema": 1', '"schema": 99')
    assert damaged != text
    (sent / "trials.json").write_text(damaged)
    with pytest.raises(SearchError, match="--restart"):
        tune(sent, trials=3)
    assert (sent / "trials.json").read_text() == damaged
    assert len(tune(sent, trials=1, restart=True).trials) == 1


def test_running_trials_are_queued(troubled: Path, tmp_path: Path) -> None:
    """Also with several workers, which leave trials of others alone."""
    folder = without_database(troubled, tmp_path / "sent")
    record = read(folder).record
    trial = record.results["trials"][2]
    trial.update(state="running", value=None, finished=None, ended=None, details={})
    record.save(folder / "trials.json")
    restore(folder, folder / "study.db")
    storage = open_storage(file_url(folder / "study.db"), stale_after=600)
    study, _ = load_study(storage, "troubled")
    source = StudySource(study, problem(space=SPACE).space, 18, worker="new", seed=7, shared=True)
    taken = [source.ask() for _ in range(4)]
    assert 2 in {trial.number for trial in taken if trial is not None}
    close_storage(storage)


def test_the_machine_is_kept(sent: Path) -> None:
    record = dataclasses.replace(read(sent).record, machine={"gpu": "a large one"}, versions={"torch": "9"})
    record.save(sent / "trials.json")
    assert tune(sent).record.machine == {"gpu": "a large one"}
    assert read(sent).record == record
    assert tune(sent, trials=3).record.machine != {"gpu": "a large one"}  # here, then


def test_an_older_record_without_accuracies(sent: Path) -> None:
    record = read(sent).record
    for trial in record.results["trials"]:
        del trial["accuracies"]
    record.save(sent / "trials.json")
    assert len(tune(sent, trials=3).trials) == 3
