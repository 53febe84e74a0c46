"""All uses of Optuna's private names, to be reviewed when Optuna changes.

Optuna's public interface reads a study several times per proposal, has no parameter for TPE's kernels, and does not
expose heartbeats.  pyproject.toml excludes Optuna's next major version, and a test fails if a name used here is gone.
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
    "backend_of", "check_trial", "heartbeat_ages", "is_missing", "kernel_estimator", "run_callbacks",
    "set_estimator", "stale_trials", "stop_requested", "storage_id", "storage_of", "study_id", "tables",
]  # fmt: skip


def storage_of(study: "optuna.Study") -> Any:
    """Return a study's storage: for a database, Optuna's cache over its RDBStorage."""
    return cast(Any, study._storage)


def backend_of(study: "optuna.Study") -> Any:
    """Return the RDBStorage below a study's cache."""
    return storage_of(study)._backend


def study_id(study: "optuna.Study") -> int:
    """Return a study's id in its storage."""
    return int(study._study_id)


def storage_id(trial: "FrozenTrial") -> int:
    """Return a trial's id in its storage, which is not its number."""
    return int(trial._trial_id)


def stale_trials(storage: "optuna.storages.RDBStorage", study: "optuna.Study") -> list[int]:
    """Return the ids of running trials whose last heartbeat is older than the storage's grace period.

    Args:
        storage: Storage of the study.
        study: The study.

    Returns:
        Optuna's ids of the trials.
    """
    return list(storage._get_stale_trial_ids(study_id(study)))


def heartbeat_ages(study: "optuna.Study", trial_ids: Collection[int]) -> dict[int, float]:
    """Return the seconds since the last heartbeat, by trial id; trials without a heartbeat are left out.

    Times are those of the database's clock.

    Args:
        study: The study.
        trial_ids: Optuna's ids of trials.

    Returns:
        Seconds by trial id.
    """
    import sqlalchemy
    from optuna.storages._rdb.models import TrialHeartbeatModel

    with backend_of(study).engine.connect() as connection:
        now = connection.execute(sqlalchemy.select(sqlalchemy.func.now())).scalar_one().replace(tzinfo=None)
        columns = TrialHeartbeatModel.trial_id, TrialHeartbeatModel.heartbeat
        query = sqlalchemy.select(*columns).where(TrialHeartbeatModel.trial_id.in_(list(trial_ids)))
        rows = connection.execute(query).all()
    return {int(number): (now - beat.replace(tzinfo=None)).total_seconds() for number, beat in rows}


def tables() -> "list[sqlalchemy.Table]":
    """Return the tables of a study's database."""
    from optuna.storages._rdb.models import BaseModel

    return list(BaseModel.metadata.tables.values())


def is_missing(error: KeyError) -> bool:
    """Return whether a storage's error means that a study or trial does not exist."""
    from optuna.storages._rdb.models import NOT_FOUND_MSG

    return error.args == (NOT_FOUND_MSG,)


def check_trial(trial: "FrozenTrial") -> None:
    """Raise ValueError if a trial is inconsistent."""
    trial._validate()


@functools.cache
def kernel_estimator(minimum_width: "Callable[[Any, int], Any]") -> Any:
    """Return TPE's kernel density estimator with a lower bound of the kernel widths.

    Args:
        minimum_width: Function of the kernels' centres (n,) and the number of parameters that returns the bound.

    Returns:
        A class for :func:`set_estimator`.
    """
    import numpy as np
    from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator

    class Estimator(_ParzenEstimator):
        def _calculate_numerical_distributions(self, observations: Any, search_space: Any, parameters: Any) -> Any:
            """Return one kernel per trial (n,) and the prior, on the scale of the parameter."""
            kernels: Any = super()._calculate_numerical_distributions(observations, search_space, parameters)
            count = len(observations)
            if count < 2:
                return kernels
            width = minimum_width(kernels.mu[:count], len(self._search_space))
            return kernels._replace(sigma=np.maximum(kernels.sigma, width))  # no effect on the prior, which is wider

    return Estimator


def set_estimator(sampler: "optuna.samplers.TPESampler", estimator: Any) -> None:
    """Replace the kernel density estimator of TPE.

    Args:
        sampler: Sampler to change.
        estimator: Class of the estimator.
    """
    sampler._parzen_estimator_cls = estimator


@contextmanager
def run_callbacks(study: "optuna.Study") -> Iterator[None]:
    """Allow ``study.stop()`` inside the block, as in the callbacks of Optuna's own loop."""
    before = study._thread_local.in_optimize_loop
    study._thread_local.in_optimize_loop = True
    try:
        yield
    finally:
        study._thread_local.in_optimize_loop = before


def stop_requested(study: "optuna.Study") -> bool:
    """Return whether a callback has called ``study.stop()``."""
    return bool(study._stop_flag)
