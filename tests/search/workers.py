"""Workers that train nothing: a trial takes milliseconds, and its value is a function of its settings."""

import math
import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy

from squad.search.space import Space
from squad.search.storage import close_storage, open_storage
from squad.search.study import open_study
from squad.search.study_source import StudySource
from squad.search.trial import Outcome, Trial

#: Few settings, because a trial takes its storage a time proportional to their number.
SPACE = Space.of(
    "squad",
    {
        "network": {"bins": {"low": 5, "high": 21, "step": 2}, "dropout": {"low": 0.01, "high": 0.95},
                    "prior": {"choices": ["uniform", "gaussian"]}},
        "training": {"lr": {"low": 1e-4, "high": 1e-2, "log": True},
                     "batch_size": {"low": 16, "high": 512, "octaves": 0.5}},
    },
)  # fmt: skip
META = {"fingerprint": "one", "model": "squad"}


#: Storages that this process has opened.
OPENED: list[optuna.storages.RDBStorage] = []


def storage(url: str, stale_after: float = 60) -> optuna.storages.RDBStorage:
    OPENED.append(open_storage(url, stale_after=stale_after))
    return OPENED[-1]


def close_all() -> None:
    while OPENED:
        close_storage(OPENED.pop())


def value(settings: Mapping[str, Any]) -> float:
    """Best at dropout 0.3, 15 bins and a learning rate of 1e-3."""
    lr = math.log10(settings["training.lr"]) + 3
    return float(-abs(settings["network.dropout"] - 0.3) - abs(settings["network.bins"] - 15) / 16 - abs(lr))


def outcome(trial: Trial) -> Outcome:
    return Outcome(value(trial.settings), "stopped early", {"epochs": 3, "accuracy": 0.5})


def source(
    url: str, trials: int, *, name: str = "study", worker: str = "w", stale_after: float = 60, **options: Any
) -> StudySource:
    """A source with its own storage, as in a separate process."""
    study = open_study(storage(url, stale_after), name, META)
    return StudySource(study, SPACE, trials, worker=worker, **{"seed": 1, "shared": False, **options})


def work(source: StudySource, slots: int = 4, pause: float = 0.0, most: float = math.inf) -> list[Trial]:
    """Keep ``slots`` trials running and end the oldest, until the study is over or ``most`` have ended."""
    running: list[Trial] = []
    told = 0
    while True:
        while len(running) < slots and (trial := source.ask()) is not None:
            running.append(trial)
        if told >= most:
            return running
        time.sleep(pause)
        source.beat(running)
        if running:
            trial = running.pop(0)
            source.tell(trial, outcome(trial))
            told += 1
        elif source.over():
            return []
        else:
            time.sleep(0.05)


def process(url: str, trials: int, name: str, worker: str, mark: Path, slots: int, pause: float, shared: bool) -> None:
    """Run a worker in a process; it writes ``mark`` after its third trial."""
    mine = source(url, trials, name=name, worker=worker, shared=shared, stale_after=3)
    mine.reclaim()
    tell, count = mine.tell, 0

    def counted(trial: Trial, outcome: Outcome) -> None:
        nonlocal count
        tell(trial, outcome)
        count += 1
        if count == 3:
            mark.write_text(str(os.getpid()))

    mine.tell = counted  # type: ignore[method-assign]
    work(mine, slots, pause)
    close_all()


def must(trial: Trial | None) -> Trial:
    assert trial is not None
    return trial


def let_pass(seconds: float, *sources: StudySource) -> None:
    """Let time pass for sources and their database, by making everything they wrote older."""
    for each in sources:
        each._swept -= seconds
        each._beaten -= seconds
    with sources[0]._storage._backend.engine.begin() as connection:
        aged = sqlalchemy.text("UPDATE trial_heartbeats SET heartbeat = datetime(heartbeat, :by)")
        connection.execute(aged, {"by": f"-{seconds} seconds"})


def states(study: optuna.Study) -> Counter[str]:
    return Counter(trial.state.name for trial in study.get_trials(deepcopy=False))


def check_complete(study: optuna.Study, trials: int) -> None:
    """Check that ``trials`` trials are complete, none is running or waiting, and no settings count twice."""
    found = study.get_trials(deepcopy=False)
    assert [trial.number for trial in found] == list(range(len(found)))
    counted = [trial for trial in found if trial.state.name != "FAIL"]
    assert {trial.state.name for trial in counted} == {"COMPLETE"}
    assert len(counted) == trials
    assert len({tuple(sorted(trial.params.items())) for trial in counted}) == trials
    for trial in counted:
        assert trial.value == value(trial.user_attrs["settings"])
        assert trial.user_attrs["ended"] == "stopped early"
        assert trial.user_attrs["details"] == {"epochs": 3, "accuracy": 0.5}
        assert trial.user_attrs["worker"]
