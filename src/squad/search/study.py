"""Optuna studies in their storage: create, resume, load, delete, and count trials."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from squad.files.plain import plain_json
from squad.search import optuna_private
from squad.search.storage import DamagedError, SearchError, quiet_optuna
from squad.search.worker_names import has_ended_here

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

__all__ = ["Standing", "active_workers", "delete_study", "load_study", "open_study", "standing"]

#: Attribute of a study with the description of its search.
META = "squad"
#: Seconds to wait for the worker that created a study to write its description.
META_TIMEOUT = 5.0


def open_study(storage: "optuna.storages.RDBStorage", name: str, meta: Mapping[str, Any]) -> "optuna.Study":
    """Return the study of this name, which is created if it does not exist; its values are maximized.

    Args:
        storage: Storage from :func:`open_storage`.
        name: Name of the study, unique in the storage.
        meta: Description of the search as plain data.  Workers with the same ``meta["fingerprint"]`` share a study;
            the other keys are used to explain how two searches differ.

    Returns:
        The study.
    """
    import optuna

    mine = json.loads(json.dumps(plain_json(meta)))
    with quiet_optuna():
        try:
            # If several workers start at once, one of them creates the study and describes it.
            study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
        except optuna.exceptions.DuplicatedStudyError:
            study = optuna.load_study(storage=storage, study_name=name)
        else:
            study.set_user_attr(META, mine)
            return study
        stored = _meta(study)
        if stored is None and not study.get_trials(deepcopy=False):
            study.set_user_attr(META, mine)  # the worker that created it was killed in between
            return study
    if stored is None:
        raise SearchError(
            f"Study {name!r} in this storage was not created by squad. Choose another name: --study NAME."
        )
    if stored.get("fingerprint") != mine.get("fingerprint"):
        raise SearchError(
            f"Study {name!r} belongs to another search: {_differences(stored, mine)}. "
            "Use its settings to resume it, choose another --out or --study, or start over with --restart."
        )
    return study


def load_study(storage: "optuna.storages.RDBStorage", name: str) -> tuple["optuna.Study", dict[str, Any]]:
    """Return an existing study and its description.

    Args:
        storage: Storage from :func:`open_storage`.
        name: Name of the study.

    Returns:
        The study, and the description that :func:`open_study` stored.
    """
    import optuna

    with quiet_optuna():
        try:
            study = optuna.load_study(storage=storage, study_name=name)
        except KeyError:
            names = ", ".join(sorted(optuna.get_all_study_names(storage)))
            known = f"Choose one of: {names}." if names else "It is empty."
            raise SearchError(f"There is no study {name!r} in this storage. {known}") from None
        meta = study.user_attrs.get(META, {})
        if not isinstance(meta, dict):
            raise DamagedError(f"The study's database is damaged: the description of study {name!r} is {meta!r:.40}.")
        return study, dict(meta)


def delete_study(storage: "optuna.storages.RDBStorage", name: str) -> None:
    """Delete a study if it exists.

    Args:
        storage: Storage from :func:`open_storage`.
        name: Name of the study.
    """
    import optuna

    with quiet_optuna(), suppress(KeyError):
        optuna.delete_study(storage=storage, study_name=name)


def active_workers(storage: "optuna.storages.RDBStorage", name: str) -> list[str]:
    """Return the names of workers that have running trials and a heartbeat within ``stale_after``.

    A worker that was killed on another machine is included until its heartbeat is stale.

    Args:
        storage: Storage from :func:`open_storage`.
        name: Name of the study.

    Returns:
        Names of workers; empty if the study does not exist.
    """
    import optuna

    with quiet_optuna():
        try:
            study = optuna.load_study(storage=storage, study_name=name)
        except KeyError:
            return []
        running = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
        stale = optuna_private.stale_trials(storage, study)
    alive = [trial for trial in running if optuna_private.storage_id(trial) not in stale]
    return sorted(
        name for name in {str(trial.user_attrs.get("worker", "?")) for trial in alive} if not has_ended_here(name)
    )


@dataclass(frozen=True)
class Standing:
    """Number of trials by state, and the best value.

    Attributes:
        complete: Number of complete trials.
        pruned: Number of pruned trials.
        running: Number of running trials.
        waiting: Number of trials in the queue.
        failed: Number of failed trials, which do not count as trials of a search.
        best: Best value of a trial that did not diverge; None before the first.
        best_trial: Number of that trial; of several with the same value the defaults, or else the first.
    """

    complete: int = 0
    pruned: int = 0
    running: int = 0
    waiting: int = 0
    failed: int = 0
    best: float | None = None
    best_trial: int | None = None

    @classmethod
    def of(cls, trials: Sequence["FrozenTrial"]) -> "Standing":
        """Count the trials of a study.

        Returns:
            Number of trials by state, and the best trial.
        """
        counts = Counter(trial.state.name for trial in trials)
        best: tuple[float, int] | None = None
        for trial in trials:
            ended = str(trial.user_attrs.get("ended"))
            if trial.state.name == "COMPLETE" and ended != "diverged" and not ended.startswith("refused"):
                value = trial.value
                if not isinstance(value, (int, float)):
                    raise DamagedError(
                        f"The study's database is damaged: the value of trial {trial.number} is {value!r}."
                    )
                tied = best is not None and value == best[0] and trial.user_attrs.get("defaults")
                if best is None or value > best[0] or tied:
                    best = value, trial.number
        states = ("COMPLETE", "PRUNED", "RUNNING", "WAITING", "FAIL")
        return cls(*(counts[state] for state in states), *(best or (None, None)))

    @property
    def done(self) -> int:
        """Number of finished trials."""
        return self.complete + self.pruned

    @property
    def counted(self) -> int:
        """Number of trials that are finished, running or waiting."""
        return self.done + self.running + self.waiting


def standing(study: "optuna.Study") -> Standing:
    """Count the trials of a study now; only changes are read from the storage.

    Returns:
        Number of trials by state, and the best trial.
    """
    with quiet_optuna():
        return Standing.of(study.get_trials(deepcopy=False))


def _meta(study: "optuna.Study") -> dict[str, Any] | None:
    """Return the description of a study; None if it is not written within :data:`META_TIMEOUT` seconds."""
    deadline = time.monotonic() + META_TIMEOUT
    while True:
        # In this order, because a study of squad has its description before its first trial.
        late = time.monotonic() > deadline or bool(study.get_trials(deepcopy=False))
        stored = study.user_attrs.get(META)
        if isinstance(stored, dict):
            return dict(stored)
        if late:
            return None
        time.sleep(0.05)


def _differences(stored: Mapping[str, Any], mine: Mapping[str, Any], max_shown: int = 5) -> str:
    """Return ``training.lr is 0.1 there and 0.2 here``, for the first few settings that differ."""
    there, here = dict(_leaves(stored)), dict(_leaves(mine))
    compared = [name for name in {**there, **here} if name not in ("fingerprint", "slots", "notes", "study")]
    names = [name for name in compared if there.get(name) != here.get(name)]
    parts = [f"{name} is {_short(there, name)} there and {_short(here, name)} here" for name in names[:max_shown]]
    if len(names) > max_shown:
        parts.append(f"and {len(names) - max_shown} more")
    return "; ".join(parts) or "their fingerprints differ"


def _short(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "not set"
    text = json.dumps(values[name])
    return text if len(text) <= 60 else f"{text[:57]}..."


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
