"""User-defined samplers and callbacks, with Optuna's interfaces."""

from pathlib import Path
from typing import Any

import optuna
import pytest

from squad.errors import ArgumentError
from squad.search.search_record import read
from squad.search.storage import SearchError
from tests.search.test_tuning import tune

LR = {"training": {"lr": {"low": 1e-3, "high": 1e-1, "log": True}}}
GRID = {"training.lr": [0.001, 0.01, 0.1]}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "study"


def rates(found: Any) -> list[float]:
    return [trial.settings["training.lr"] for trial in found.trials if not trial.defaults]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_random_sampler(out: Path) -> None:
    drawn = [rates(tune(out.with_name(name), space=LR, trials=3, sampler=sampler)) for name, sampler in (
        ("a", optuna.samplers.RandomSampler(seed=1)),
        ("b", optuna.samplers.RandomSampler(seed=1)),
        ("c", optuna.samplers.RandomSampler(seed=2)),
        ("d", None),
    )]  # fmt: skip
    assert drawn[0] == drawn[1]
    assert len({tuple(found) for found in drawn}) == 3
    assert read(out.with_name("a")).record.settings["sampler"] == "RandomSampler"
    assert "sampler" not in read(out.with_name("d")).record.settings


def test_a_grid_search_is_resumed(out: Path) -> None:
    """What a sampler stores in its trials is in the study, so that no point is tried twice."""
    for trials in (2, 4):
        found = tune(out, space=LR, trials=trials, sampler=optuna.samplers.GridSampler(GRID, seed=0))
    assert sorted(rates(found)) == GRID["training.lr"]


def test_callbacks(out: Path) -> None:
    told: list[tuple[str, int, str, float | None]] = []

    def note(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        told.append((study.study_name, trial.number, trial.state.name, trial.value))
        assert study.trials[trial.number].value == trial.value

    found = tune(out, trials=3, callbacks=[note])
    assert sorted(told) == [("study", trial.number, "COMPLETE", trial.value) for trial in found.trials]
    tune(out, trials=3, callbacks=[note])
    assert len(told) == 3


def test_a_callback_stops_the_search(out: Path) -> None:
    found = tune(out, trials=9, slots=1, callbacks=[optuna.study.MaxTrialsCallback(3)])
    assert sum(trial.state == "complete" for trial in found.trials) == 3
    assert not [trial for trial in found.trials if trial.state == "running"]
    again = tune(out, trials=5)
    assert sum(trial.state == "complete" for trial in again.trials) == 5


def test_an_exception_in_a_callback_ends_the_search(out: Path) -> None:
    def fail(study: object, trial: object) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        tune(out, callbacks=[fail])
    assert len(read(out).measured) == 1  # earlier outcomes are kept


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"sampler": "random"}, "sampler must be .*Optuna.*got 'random'"),
        ({"sampler": optuna.samplers.RandomSampler}, r"RandomSampler\(seed=1\)"),
        ({"callbacks": print}, "callbacks must be .*got "),
        ({"callbacks": [print, 3]}, "callbacks must be .*got "),
    ],
)
def test_invalid_samplers_and_callbacks(out: Path, options: dict[str, Any], pattern: str) -> None:
    with pytest.raises(ArgumentError, match=pattern):
        tune(out, **options)
    assert not out.exists()


def test_a_failing_sampler(out: Path) -> None:
    grid = optuna.samplers.GridSampler({"x": [1.0, 2.0]})
    with pytest.raises(SearchError, match=r"sampler GridSampler .*sampler="):
        tune(out, space=LR, sampler=grid)


def test_workers_reseed_the_sampler(url: str) -> None:
    """All workers receive the same sampler."""
    from tests.search.workers import must, source

    drawn = [
        must(source(url, 9, name=name, worker=name, shared=True, sampler=optuna.samplers.RandomSampler(seed=1)).ask())
        for name in ("a", "b")
    ]
    assert drawn[0].settings != drawn[1].settings
