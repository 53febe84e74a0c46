"""Every private name of Optuna's that the search uses, and nothing else: what to look at when Optuna changes.

Optuna's public interface reads a study several times for one proposal, knows no kernels but its own, and says nothing
about heartbeats.  pyproject.toml keeps Optuna below its next major version, and a test fails if a name below is gone.
"""

import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import optuna
    import sqlalchemy
    from optuna.trial import FrozenTrial

__all__ = [
    "backend_of",
    "check_trial",
    "heartbeat_ages",
    "is_missing",
    "kernel_estimator",
    "run_callbacks",
    "set_estimator",
    "stale_trials",
    "stop_asked",
    "storage_id",
    "storage_of",
    "study_id",
    "tables",
]


def storage_of(study: "optuna.Study") -> Any:
    """A study's storage: for a database, Optuna's cache over its RDBStorage, which alone takes heartbeats."""
    return cast(Any, study._storage)


def backend_of(study: "optuna.Study") -> Any:
    """The RDBStorage below a study's cache."""
    return storage_of(study)._backend


def study_id(study: "optuna.Study") -> int:
    """A study's id in its storage."""
    return int(study._study_id)


def storage_id(trial: "FrozenTrial") -> int:
    """A trial's id in its storage, which is not its number."""
    return int(trial._trial_id)


def stale_trials(storage: "optuna.storages.RDBStorage", study: "optuna.Study") -> list[int]:
    """Ids of the trials that are running without a heartbeat for longer than the storage's grace period."""
    return list(storage._get_stale_trial_ids(study_id(study)))


def heartbeat_ages(study: "optuna.Study", trial_ids: Collection[int]) -> dict[int, float]:
    """Seconds since the last heartbeat of trials, by the clock of the database; without one, a trial is left out."""
    import sqlalchemy
    from optuna.storages._rdb.models import TrialHeartbeatModel

    with backend_of(study).engine.connect() as connection:
        now = connection.execute(sqlalchemy.select(sqlalchemy.func.now())).scalar_one().replace(tzinfo=None)
        columns = TrialHeartbeatModel.trial_id, TrialHeartbeatModel.heartbeat
        query = sqlalchemy.select(*columns).where(TrialHeartbeatModel.trial_id.in_(list(trial_ids)))
        found = connection.execute(query).all()
    return {int(number): (now - beat.replace(tzinfo=None)).total_seconds() for number, beat in found}


def tables() -> "list[sqlalchemy.Table]":
    """The tables of a study's database."""
    from optuna.storages._rdb.models import BaseModel

    return list(BaseModel.metadata.tables.values())


def is_missing(error: KeyError) -> bool:
    """Whether an error of a storage says that a study or a trial is not there."""
    from optuna.storages._rdb.models import NOT_FOUND_MSG

    return error.args == (NOT_FOUND_MSG,)


def check_trial(trial: "FrozenTrial") -> None:
    """That a trial is consistent: ValueError if it is not."""
    trial._validate()


@functools.cache
def kernel_estimator(least: "Callable[[Any, int], Any]") -> Any:
    """TPE's sum of kernels, with a lower bound of their widths.

    Args:
        least: the bound of a setting's kernels, from the n values that they stand at, (n,), and the number of settings.
    """
    import numpy as np
    from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator

    class Estimator(_ParzenEstimator):
        def _calculate_numerical_distributions(self, observations: Any, search_space: Any, parameters: Any) -> Any:
            """A kernel a trial, (n,), and the prior, all on the setting's own scale."""
            found: Any = super()._calculate_numerical_distributions(observations, search_space, parameters)
            count = len(observations)
            if count < 2:
                return found
            width = least(found.mu[:count], len(self._search_space))
            return found._replace(sigma=np.maximum(found.sigma, width))  # the prior's is the whole range: it stays

    return Estimator


def set_estimator(sampler: "optuna.samplers.TPESampler", estimator: Any) -> None:
    """Let TPE use another sum of kernels."""
    sampler._parzen_estimator_cls = estimator


@contextmanager
def run_callbacks(study: "optuna.Study") -> Iterator[None]:
    """Where ``study.stop()`` is allowed, as it is in the callbacks of Optuna's own loop."""
    before = study._thread_local.in_optimize_loop
    study._thread_local.in_optimize_loop = True
    try:
        yield
    finally:
        study._thread_local.in_optimize_loop = before


def stop_asked(study: "optuna.Study") -> bool:
    """Whether a callback has called ``study.stop()``."""
    return bool(study._stop_flag)
