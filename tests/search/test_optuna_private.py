"""Optuna's private names exist, and are used in one file only."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import squad.search
from squad.search import optuna_private
from tests.search.workers import SPACE, must, source

FOLDER = Path(squad.search.__file__).parent
#: What is private of Optuna's objects; self._storage and the like are our own.
PRIVATE = re.compile(
    r"(?<!self)\._(study_id|trial_id|storage|backend|validate|stop_flag|thread_local|get_stale_trial_ids)\b"
    r"|_parzen_estimator_cls|_ParzenEstimator|optuna(\.\w+)*\._(?!_)"
)


def test_private_names_are_used_in_one_file() -> None:
    found = {path.name for path in FOLDER.glob("*.py") if PRIVATE.search(path.read_text(encoding="utf-8"))}
    assert found == {"optuna_private.py"}


def test_names_for_a_study_in_a_database(url: str) -> None:
    """Each function is called; a missing name fails here."""
    mine = source(url, 3)
    trial = must(mine.ask())
    study = mine.study
    [frozen] = study.get_trials()
    assert optuna_private.storage_of(study).get_trial(optuna_private.storage_id(frozen)).number == trial.number
    assert optuna_private.backend_of(study).get_study_name_from_id(optuna_private.study_id(study)) == "study"
    assert optuna_private.stale_trials(optuna_private.backend_of(study), study) == []
    ages = optuna_private.heartbeat_ages(study, [optuna_private.storage_id(frozen), 99])
    assert ages.keys() == {optuna_private.storage_id(frozen)}
    assert 0 <= ages[optuna_private.storage_id(frozen)] < 60
    assert {"studies", "trials", "trial_heartbeats"} <= {table.name for table in optuna_private.tables()}
    with pytest.raises(KeyError) as caught:
        optuna_private.backend_of(study).get_study_id_from_name("nothing")
    assert optuna_private.is_missing(caught.value)
    assert not optuna_private.is_missing(KeyError("other"))


def test_an_inconsistent_trial() -> None:
    frozen = optuna.create_trial(value=1.0, params={}, distributions={})
    optuna_private.check_trial(frozen)
    frozen.params["x"] = 1
    with pytest.raises(ValueError, match="x"):
        optuna_private.check_trial(frozen)


def test_kernel_widths() -> None:
    """The bound is used and respected: with another one, TPE proposes something else."""
    asked = []

    def wide(places: Any, settings: int) -> float:
        asked.append((np.shape(places), settings))
        return 1e9

    sampler = optuna.samplers.TPESampler(seed=1, n_startup_trials=2, multivariate=True)
    optuna_private.set_estimator(sampler, optuna_private.kernel_estimator(wide))
    study = optuna.create_study(sampler=sampler)
    names = {name: found for name, found in SPACE.distributions().items() if "dropout" in name or "lr" in name}
    for n in range(8):
        study.tell(study.ask(names), float(n))
    assert asked
    assert {settings for _, settings in asked} == {2}


def test_stopping_from_a_callback() -> None:
    study = optuna.create_study()
    with pytest.raises(RuntimeError):
        study.stop()
    assert not optuna_private.stop_requested(study)
    with optuna_private.run_callbacks(study):
        study.stop()
    assert optuna_private.stop_requested(study)
    with pytest.raises(RuntimeError):
        study.stop()
