"""squad.tune: from rows to the best settings."""

import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

import squad
from squad.data.tables import Table
from squad.errors import ArgumentError, SquadError
from squad.fitting import fit_predictor
from squad.output_paths import exclusive_output
from squad.search.population import Population
from squad.search.progress import Snapshot
from squad.search.request import build_problem
from squad.search.search_options import SearchOptions
from squad.search.search_record import Search, read
from squad.search.storage import SearchError, close_storage, file_url, open_storage
from squad.search.study import delete_study
from squad.search.trial import Outcome, Trial
from squad.train.slots import Slots
from tests.search.sources import Listed, problem

SMALL: dict[str, Any] = {"network": {"hidden": [4]}, "training": {"max_epochs": 3}}
#: A part of the default space: a trial takes its storage a time proportional to the number of settings.
FEW: dict[str, Any] = {
    "network": {"bins": {"low": 5, "high": 21, "step": 2}, "dropout": {"low": 0.0, "high": 0.95}},
    "training": {"lr": {"low": 1e-4, "high": 1e-2, "log": True}},
}


def rows(count: int = 120, classes: int = 3, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Gaussian classes in five dimensions."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    return random.normal(size=(count, 5)) + 2 * np.eye(5)[labels], labels


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "study"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Install Python's own handler of Ctrl-C, which processes in a shell's background ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def tune(out: Path, x: Any = None, labels: Any = None, **options: Any) -> Search:
    """Run a small search, unless ``options`` say otherwise; of the default space for other rows or settings."""
    own = rows()
    if x is None and not options.keys() & {"settings", "model", "space"}:
        options["space"] = FEW
    return squad.tune(
        own[0] if x is None else x,
        own[1] if labels is None else labels,
        **{"trials": 2, "settings": SMALL, "out": out, "progress": RecordedProgress(), **options},
    )


class RecordedProgress:
    """A progress that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def start(self, done: int, total: int) -> None:
        self.calls.append(("start", (done, total)))

    def update(self, snapshot: Snapshot) -> None:
        self.calls.append(("update", snapshot))

    def message(self, text: str) -> None:
        self.calls.append(("message", text))

    def close(self) -> None:
        self.calls.append(("close", None))


def test_result_of_tune(out: Path) -> None:
    found = tune(out, trials=4)
    assert isinstance(found, Search)
    best = found.best()
    assert best is not None
    assert best.value == max(trial.value for trial in found.trials if trial.value is not None)
    assert len(found.table()) == 4
    assert {"number", "value", "network.bins", "details.accuracy"} <= set(found.table().columns)
    settings = found.best_settings()
    assert settings.network.name == "squad"
    assert settings.network.hidden == (4,)
    assert (settings.training.lr, settings.training.max_epochs) == (best.settings["training.lr"], 3)
    # The settings train the best trial's network again.
    member = fit_predictor(*rows(), settings).record["members"][0]
    assert member["best_accuracy"] == pytest.approx(best.details["accuracy"], abs=1e-6)
    assert (member["epochs"], member["best_epoch"]) == (best.details["epochs"], best.details["best_epoch"])
    # A second call trains nothing.
    assert tune(out, trials=4).trials == found.trials
    assert tune(str(out), trials=5).trials[:4] == found.trials  # type: ignore[arg-type]


def test_a_table(out: Path) -> None:
    x, labels = rows()
    frame = pd.DataFrame(x, columns=list("abcde")).assign(y=labels, site=[f"s{row // 4}" for row in range(len(x))])
    table = Table.of(frame)
    by_group = tune(out, table, frame["y"], target="y", group="site", groups=frame["site"], drop=["e"])
    assert by_group.record.settings["base"] == {**SMALL, "target": "y", "group": "site", "drop": ["e"]}
    assert by_group.record.settings["data"]["features"] == 4
    assert by_group.record.settings["data"]["rows"]["validation"] % 4 == 0  # complete groups
    # An array and a data frame of the same numbers are the same rows.
    array, numbers = tune(out.with_name("array"), x), tune(out.with_name("frame"), frame[list("abcde")])
    assert [trial.value for trial in array.trials] == [trial.value for trial in numbers.trials]
    with pytest.raises(ArgumentError, match=r"target .*got None"):
        tune(out, table, labels)
    with pytest.raises(ArgumentError, match=r"x must be a table.*Table\.of\(frame\)"):
        tune(out, x, labels, target="y")


def test_a_change_of_the_objective_is_never_silent(out: Path) -> None:
    with pytest.warns(UserWarning, match="-AURC is maximized instead of coverage") as caught:
        tune(out, progress=None)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    tune(out.with_name("aurc"), progress=None, objective="aurc")  # warnings are errors in tests


def test_the_model_of_a_space(out: Path) -> None:
    lr = {"training": {"lr": {"low": 0.001, "high": 0.1, "log": True}}}
    found = tune(out, space={"model": "mlp", **lr})
    assert found.model == found.best_settings().network.name == "mlp"
    assert 'model = "mlp"' in (out / "best.toml").read_text()
    file = out.with_name("space.toml")
    file.write_text('model = "mlp"\n[training]\nlr = {low = 0.001, high = 0.1, log = true}\n')
    assert tune(out, space=file).trials == found.trials
    assert tune(out, space=file, model="mlp").trials == found.trials
    for options in ({"model": "squad"}, {"settings": {**SMALL, "model": "squad"}}):
        with pytest.raises(SquadError, match="This space is for mlp"):
            tune(out, space=file, **options)


def test_one_slot_trains_one_trial_after_the_other(out: Path) -> None:
    """Each trial is proposed after all earlier ones have ended."""
    times = [(trial.started, trial.finished) for trial in tune(out, trials=3, slots=1).trials]
    assert all(before[1] <= after[0] for before, after in pairwise(times) if before[1] and after[0])
    assert all(all(each) for each in times)


def test_a_space_of_few_points(out: Path) -> None:
    space = {"network": {"bins": {"choices": [3, 5]}}}
    for trials, notes in ((2, 0), (3, 1)):
        told = RecordedProgress()
        tune(out, space=space, trials=trials, progress=told, objective="aurc", defaults=False)
        said = [text for name, text in told.calls if name == "message"]
        assert len(said) == notes
        assert all(re.search("2 points.*3 trials", text) for text in said)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of three trials, to be copied."""
    folder = tmp_path_factory.mktemp("made") / "study"
    tune(folder, trials=3)
    return folder


def test_fewer_trials_than_exist(made: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(made, out)
    found = read(made)
    monkeypatch.setattr(Population, "run", None)  # nothing is trained
    told = RecordedProgress()
    assert tune(out, trials=2, progress=told).trials == found.trials
    assert ("start", (3, 3)) in told.calls


def test_restart_after_damage(made: Path, out: Path) -> None:
    shutil.copytree(made, out)
    whole = (out / "study.db").read_bytes()
    (out / "history.png").touch()
    for damaged in (b"not a database\n" * 100, whole[:4096] + b"\x7f" * (len(whole) - 4096)):
        (out / "study.db").write_bytes(damaged)
        with pytest.raises(SearchError) as caught:
            tune(out)
        assert re.search(r"3 trials from trials\.json.*--restart", str(caught.value))
    assert len(tune(out, restart=True).trials) == 2
    assert not (out / "history.png").exists()


def test_a_shared_study_in_use_is_not_restarted(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = {"storage": file_url(out.with_name("shared.db")), "study": "s"}
    finish = Population._finish

    def meanwhile(self: Population, group: Any) -> None:
        finish(self, group)
        if not refused:
            with pytest.raises(SearchError, match=r"running trials of .*600 seconds \(--stale-after\)") as caught:
                tune(out.with_name("other"), **shared, restart=True)
            refused.append(str(caught.value))

    refused: list[str] = []
    monkeypatch.setattr(Population, "_finish", meanwhile)
    assert len(tune(out, **shared).trials) == 2
    assert len(refused) == 1
    assert len(tune(out, **shared, restart=True, trials=1).trials) == 1  # no active workers


def test_a_deleted_study_is_a_one_line_error(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = file_url(out.with_name("shared.db"))
    finish = Population._finish

    def deleted(self: Population, group: Any) -> None:
        storage = open_storage(url, stale_after=600)
        delete_study(storage, "s")
        close_storage(storage)
        finish(self, group)

    monkeypatch.setattr(Population, "_finish", deleted)
    with pytest.raises(SearchError, match=r"study is gone.*--restart"):
        tune(out, storage=url, study="s")


def test_groups_of_an_array_are_not_split(out: Path) -> None:
    x, labels = rows()
    groups = np.arange(len(x)) // 6
    found = tune(out, x, labels, groups=groups)
    assert found.record.settings["data"]["rows"]["validation"] % 6 == 0
    posed = build_problem(x, labels, SMALL, None, "aurc", groups=groups)
    train, validation = (set(groups[part[0].numpy()]) for part in (posed.data.train, posed.data.validation))
    assert not train & validation
    with pytest.raises(SquadError, match="groups must be"):
        tune(out.with_name("other"), groups=groups[:5])


def test_images(out: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (60, 4, 4), dtype=np.uint8)
    assert tune(out, x, np.arange(60) % 2).record.settings["data"]["features"] == 16


def test_user_defined_progress(out: Path) -> None:
    told = RecordedProgress()
    tune(out, trials=3, progress=told)
    names = [name for name, _ in told.calls]
    assert names[0] == "message"
    assert "-AURC is maximized instead of coverage." in told.calls[0][1]
    assert told.calls[1] == ("start", (0, 3))
    assert names[-2:] == ["update", "close"]
    assert names.count("close") == 1
    last = told.calls[-2][1]
    assert (last.done, last.total, last.running, last.objective) == (3, 3, 0, "aurc")
    again = RecordedProgress()
    tune(out, trials=4, progress=again)
    assert again.calls[1] == ("start", (3, 4))


def test_the_model_argument_wins(out: Path) -> None:
    settings = {**SMALL, "model": "mlp"}
    assert tune(out, settings=settings).model == "mlp"
    assert tune(out.with_name("other"), settings=settings, model="relu-dropout").model == "relu-dropout"


def test_numpy_numbers(out: Path) -> None:
    """As read from an array or a data frame; the record has plain numbers."""
    settings = {"network": {"hidden": (4,)}, "training": {"max_epochs": np.int64(3), "lr": np.float64(0.01)}}
    found = tune(out, settings=settings)
    assert found.record.settings["base"]["training"] == {"max_epochs": 3, "lr": 0.01}
    assert "lr = 0.01\n" in (out / "best.toml").read_text()
    # The same study as with plain numbers.
    plain = {"network": {"hidden": [4]}, "training": {"max_epochs": 3, "lr": 0.01}}
    assert tune(out, settings=plain).trials == found.trials


@pytest.mark.parametrize(
    ("x", "labels"),
    [
        (rows(12, 2)[0], ["one"] * 11 + ["other"]),
        (rows(5, 5)[0], list("abcde")),  # one row per class: validated on the training rows
        (rows(2, 2)[0], [False, True]),
    ],
)
def test_few_rows(out: Path, x: Any, labels: Sequence[Any]) -> None:
    """Fewer rows than the smallest batch."""
    found = tune(out, x, labels)
    assert [trial.state for trial in found.trials] == ["complete"] * 2
    assert found.notes[-1].endswith("-AURC is maximized instead of coverage.")
    assert (len(set(labels)) == len(labels)) == any("accuracy" in note for note in found.notes)
    assert found.best_settings()


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"trials": 0}, "trials must be .*1, got 0"),
        ({"trials": 2.5}, r"trials must be .*got 2\.5"),
        ({"slotz": 3}, r"slotz .*Did you mean slots\?"),
        ({"max_epochs": 3}, r'max_epochs .*settings=\{"training": \{"max_epochs": \.\.\.\}\}'),
        ({"hidden": [4]}, r'hidden .*settings=\{"network": \{"hidden": \.\.\.\}\}'),
        ({"num_samples": 4}, r'num_samples .*settings=\{"prediction": \{"num_samples": \.\.\.\}\}'),
        ({"seed": 4}, r'seed .*settings=\{"seed": \.\.\.\}'),
        ({"slots": 0}, "slots must be .*1, got 0"),
        ({"minutes": -1}, "minutes must be .*0, got -1"),
        ({"device": "tpu"}, "device must be .*got 'tpu'"),
        ({"workers": 2}, "workers = 2 needs .*ray"),
        ({"storage": "nonsense"}, "storage must be sqlite:///FILE"),
        ({"storage": "sqlite://"}, "storage must be sqlite:///FILE.*memory"),
        ({"model": "sqad"}, r"Did you mean 'squad'\?"),
        ({"objective": "x"}, "objective must be one of 'coverage', 'aurc', 'accuracy'"),
        ({"space": {"network": {"binz": 3}}}, r"network\.binz is not .*squad"),
        ({"space": "missing.toml"}, r"missing\.toml cannot be read"),
        (
            {"space": {"training": {"anneal_epochs": {"choices": [1, 5]}}}},
            r"anneal_epochs: anneal_epochs .*max_epochs.*3.*5",
        ),
        ({"settings": {"netwrk": {}}}, r"netwrk .*Did you mean network\?"),
        ({"settings": {"training": {"lr": float("inf")}}}, "lr must be .*got inf"),
        ({"settings": {"training": {"lr": (0.1, 0.2)}}}, "lr must be one number.*got 2"),
        ({"labels": np.zeros(120)}, "two classes"),
        ({"labels": np.arange(3)}, "labels must be"),
        ({"x": np.full((120, 5), np.nan)}, "x must be finite"),
    ],
)
def test_invalid_arguments(out: Path, options: dict[str, Any], pattern: str) -> None:
    with pytest.raises(SquadError, match=pattern) as caught:
        tune(out, **options)
    assert "\n" not in str(caught.value)
    assert not out.exists()


def test_a_study_needs_a_folder() -> None:
    with pytest.raises(ArgumentError, match=r"out must be .*folder.*got None"):
        squad.tune(*rows(), out=None)  # type: ignore[arg-type]


def test_folders_that_cannot_be_written(out: Path) -> None:
    out.write_text("a file")
    with pytest.raises(SquadError, match="is a file"):
        tune(out)
    assert out.read_text() == "a file"
    with exclusive_output(out.with_name("taken")), pytest.raises(SquadError, match=r"Another process.*taken"):
        tune(out.with_name("taken"))


def test_space_and_settings_must_be_compatible(out: Path) -> None:
    """Both ends of both settings if both are searched; a space alone compares them only with each other."""
    both = {"training": {"max_epochs": {"low": 300, "high": 301}, "anneal_epochs": {"low": 201, "high": 299}}}
    x, labels = rows(20, 2)
    assert build_problem(x, labels, {}, both, "aurc").space.entries.keys() == {
        "training.max_epochs",
        "training.anneal_epochs",
    }
    with pytest.raises(ArgumentError, match=r"training\.max_epochs: anneal_epochs .*max_epochs.*3.*5"):
        build_problem(
            x, labels, {"training": {"anneal_epochs": 5}}, {"training": {"max_epochs": {"low": 3, "high": 9}}}, "aurc"
        )


def test_fingerprint() -> None:
    x, labels = rows()
    base = build_problem(x, labels, SMALL, None, "aurc")

    def same(**changes: Any) -> bool:
        asked = {"x": x, "labels": labels, "settings": SMALL, "space": None, "objective": "aurc", **changes}
        return build_problem(**asked).fingerprint() == base.fingerprint()

    assert same()
    assert same(objective="coverage@risk=.02")  # which becomes -AURC with few rows
    assert same(settings={**SMALL, "model": "squad", "seed": 0, "validation": 0.1})
    assert same(settings={**SMALL, "members": 3})  # a setting of the final fit
    assert same(source="elsewhere.csv")
    assert not same(objective="accuracy")
    assert not same(settings={**SMALL, "seed": 1})
    assert not same(settings={**SMALL, "model": "mlp"})
    assert not same(settings={**SMALL, "validation": 0.2})
    assert not same(settings={**SMALL, "prediction": {"sampling": "hard"}})
    assert not same(space={"network": {"bins": {"low": 5, "high": 21, "step": 2}}})
    assert not same(labels=labels[::-1].copy())
    other = x.copy()
    other[3, 2] += 1e-3
    assert not same(x=other)


@pytest.mark.parametrize(
    ("trials", "workers", "slots", "found"),
    [(1, 1, None, 1), (9, 1, None, 1), (10, 1, None, 2), (700, 1, None, 32), (100, 4, None, 5), (700, 1, 3, 3)],
)
def test_default_slots(trials: int, workers: int, slots: int | None, found: int) -> None:
    assert SearchOptions(trials=trials, slots=slots).slots_of(workers) == found


def test_options_of_a_cluster_are_checked_by_its_workers() -> None:
    """Workers look for GPUs; values that are invalid everywhere are refused here."""
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match=r"device must be .*cuda"):
            SearchOptions(device="cuda")
    assert SearchOptions(device="cuda", ray="10.0.0.1:6379", workers=2).workers == 2
    with pytest.raises(ArgumentError, match=r"workers must be .*1, got 0"):
        SearchOptions(ray="auto", workers=0)
    with pytest.raises(ArgumentError, match=r"ray must be .*got 'somewhere'"):
        SearchOptions(ray="somewhere")


def test_a_lost_database_is_a_one_line_error(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record cannot be written either, which must not hide the cause."""
    import optuna

    def lost(*_: object, **__: object) -> None:
        raise optuna.exceptions.StorageInternalError("the server is gone\nand more")

    def run(self: Population, *_: object) -> None:
        trial = self.source.ask()
        assert trial is not None
        monkeypatch.setattr(optuna.storages.RDBStorage, "record_heartbeat", lost)
        monkeypatch.setattr(optuna.storages.RDBStorage, "get_all_trials", lost)
        self.source.beat([trial])

    monkeypatch.setattr(Population, "run", run)
    told = RecordedProgress()
    with pytest.raises(SearchError, match="The study's database failed: the server is gone"):
        tune(out, progress=told)
    assert told.calls[-1] == ("close", None)


def test_an_interrupt_leaves_a_record_and_queued_trials(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Population._finish

    def interrupted(self: Population, group: Any) -> None:
        finish(self, group)
        if self.epochs >= 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Population, "_finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune(out, trials=4)
    stopped = read(out)
    assert [trial.state for trial in stopped.trials] == ["complete", "failed", "waiting"]
    found = tune(out, trials=4)
    assert found.trials[0] == stopped.trials[0]
    assert [trial.state for trial in found.trials] == ["complete", "failed", *["complete"] * 3]
    assert found.trials[2].params == found.trials[1].params
    assert found.trials[2].retried_from == 1


def test_a_trial_that_diverges_late_has_the_worst_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had good weights before, but a diverged trial does not count as measured."""
    wait = Slots.wait

    def diverging(self: Slots) -> dict[int, tuple[float, float]]:
        found = wait(self)
        for slot, (_, kl) in found.items():
            run = self.runs[slot]
            if run is not None and run.epoch == 4:
                found[slot] = (float("nan"), kl)
        return found

    monkeypatch.setattr(Slots, "wait", diverging)
    source = Listed([{"network.dropout": 0.1, "training.batch_size": 16, "training.lr": 0.01}])
    Population(problem(), source, 1).run()
    assert (source.told[0].ended, source.told[0].value) == ("diverged", -1.0)
    assert source.told[0].details["best_epoch"] == 4
    assert "accuracy" not in source.told[0].details


def test_an_interrupt_waits_for_the_database(interruptible: None) -> None:
    """In the middle of a transaction it would print a long traceback, or be lost."""

    class Interrupted(Listed):
        def tell(self, trial: Trial, outcome: Outcome) -> None:
            signal.raise_signal(signal.SIGINT)
            super().tell(trial, outcome)

    handler = signal.getsignal(signal.SIGINT)
    source = Interrupted([{"training.batch_size": 16}, {"training.batch_size": 16, "training.lr": 0.01}])
    population = Population(problem(), source, 1)
    with pytest.raises(KeyboardInterrupt):
        population.run()
    assert source.told.keys() == {0}
    assert [trial.number for trial in population.running] == [1]
    seen: list[int] = []

    def progress() -> None:
        signal.raise_signal(signal.SIGINT)
        seen.append(population.epochs)

    with pytest.raises(KeyboardInterrupt):
        population.run(tell=progress)
    assert len(seen) == 1
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize(("name", "calls"), [("put", 1), ("launch", 7)])  # tests/slow has the others
def test_an_interrupt_anywhere_in_training(out: Path, monkeypatch: pytest.MonkeyPatch, name: str, calls: int) -> None:
    """Also while a trial moves between the lists of waiting, training and ended trials."""
    method, count = getattr(Slots, name), 0

    def interrupted(self: Slots, *arguments: Any) -> Any:
        nonlocal count
        result = method(self, *arguments)
        count += 1
        if count == calls:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Slots, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune(out, trials=4, slots=2, space=None)  # with batch sizes, which separate groups
    stopped = read(out).trials
    assert not [trial for trial in stopped if trial.state == "running"]
    assert sum(trial.state == "waiting" for trial in stopped) == 2
    found = [trial for trial in tune(out, trials=4, slots=2, space=None).trials if trial.state != "failed"]
    assert [trial.state for trial in found] == ["complete"] * 4
    assert len({tuple(trial.params.items()) for trial in found}) == 4


def test_a_search_in_a_thread(out: Path) -> None:
    """Signal handlers cannot be installed in a thread."""
    with ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(tune, out).result().trials) == 2


def test_too_little_time_is_reported(out: Path) -> None:
    told = RecordedProgress()
    tune(out, minutes=1e-9, progress=told)
    assert any("no trial ended" in str(text) for name, text in told.calls if name == "message")


def test_many_batch_sizes_are_reported(out: Path) -> None:
    told = RecordedProgress()
    space = {"training": {"batch_size": {"low": 16, "high": 60}}}
    tune(out, space=space, trials=1, progress=told)
    assert any("octaves = 0.5" in str(text) for name, text in told.calls if name == "message")
