"""Studies of Optuna's in their storage: made, gone on with, looked at, deleted."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from squad.search import optuna_private
from squad.search.search_record import plain
from squad.search.storage import DamagedError, SearchError, quiet_optuna
from squad.search.workers import is_gone

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

__all__ = ["Standing", "at_work", "delete_study", "load_study", "open_study", "standing"]

#: The study's attribute that says what was searched, and how.
META = "squad"
#: Seconds that a worker waits for the one that made a study to say what it is of.
MAKING = 5.0


def open_study(storage: "optuna.storages.RDBStorage", name: str, meta: Mapping[str, Any]) -> "optuna.Study":
    """The study of this name, made if there is none; what is maximized is its value.

    Args:
        storage: of :func:`open_storage`.
        name: unique in the storage.
        meta: what is searched, and how, as plain data.  Workers with the same ``meta["fingerprint"]`` share a study;
            the other keys tell people how two differ.
    """
    import optuna

    mine = json.loads(json.dumps(plain(meta)))
    with quiet_optuna():
        try:
            # Of workers that begin at once one makes the study, and it alone says what it is of.
            study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
        except optuna.exceptions.DuplicatedStudyError:
            study = optuna.load_study(storage=storage, study_name=name)
        else:
            study.set_user_attr(META, mine)
            return study
        stored = _meta(study)
        if stored is None and not study.get_trials(deepcopy=False):
            study.set_user_attr(META, mine)  # its maker was killed in between
            return study
    if stored is None:
        raise SearchError(f"Study {name!r} in this storage is not of squad's making. Take another name: --study NAME.")
    if stored.get("fingerprint") != mine.get("fingerprint"):
        raise SearchError(
            f"Study {name!r} is of another search: {_differences(stored, mine)}. "
            "Repeat its settings to go on with it, take another --out or --study, or begin anew with --restart."
        )
    return study


def load_study(storage: "optuna.storages.RDBStorage", name: str) -> tuple["optuna.Study", dict[str, Any]]:
    """A study that is there, to be looked at, and its ``meta``."""
    import optuna

    with quiet_optuna():
        try:
            study = optuna.load_study(storage=storage, study_name=name)
        except KeyError:
            names = ", ".join(sorted(optuna.get_all_study_names(storage)))
            held = f"it has: {names}" if names else "it has none"
            raise SearchError(f"There is no study {name!r} in this storage; {held}.") from None
        meta = study.user_attrs.get(META, {})
        if not isinstance(meta, dict):
            raise DamagedError(f"The study's database is damaged: it says that study {name!r} is of {meta!r:.40}.")
        return study, dict(meta)


def delete_study(storage: "optuna.storages.RDBStorage", name: str) -> None:
    """Forget a study; one that is not there is forgotten already."""
    import optuna

    with quiet_optuna(), suppress(KeyError):
        optuna.delete_study(storage=storage, study_name=name)


def at_work(storage: "optuna.storages.RDBStorage", name: str) -> list[str]:
    """The workers that have trials of a study, and gave a sign of life within ``stale_after``; none if it is not there.

    The trials of one that was killed just now on another machine are among them: nobody can tell.
    """
    import optuna

    with quiet_optuna():
        try:
            study = optuna.load_study(storage=storage, study_name=name)
        except KeyError:
            return []
        running = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
        stale = optuna_private.stale_trials(storage, study)
    lively = [trial for trial in running if optuna_private.storage_id(trial) not in stale]
    return sorted(name for name in {str(trial.user_attrs.get("worker", "?")) for trial in lively} if not is_gone(name))


@dataclass(frozen=True)
class Standing:
    """Where a study stands.

    Attributes:
        complete, pruned, running, waiting, failed: how many trials; failed ones do not count as trials of a search.
        best, best_trial: the best value of a trial that did not diverge, and whose: of several that have it the
            defaults, or else the first.
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
        """Where a study with these trials stands."""
        counts = {"COMPLETE": 0, "PRUNED": 0, "RUNNING": 0, "WAITING": 0, "FAIL": 0}
        best: tuple[float, int] | None = None
        for trial in trials:
            counts[trial.state.name] += 1
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
        return cls(
            complete=counts["COMPLETE"],
            pruned=counts["PRUNED"],
            running=counts["RUNNING"],
            waiting=counts["WAITING"],
            failed=counts["FAIL"],
            best=best and best[0],
            best_trial=best and best[1],
        )

    @property
    def done(self) -> int:
        """Trials with an outcome."""
        return self.complete + self.pruned

    @property
    def counted(self) -> int:
        """Trials with an outcome, or that will have one."""
        return self.done + self.running + self.waiting


def standing(study: "optuna.Study") -> Standing:
    """Where a study stands now; reads from the storage only what changed since."""
    with quiet_optuna():
        return Standing.of(study.get_trials(deepcopy=False))


def _meta(study: "optuna.Study") -> dict[str, Any] | None:
    """What a study is of; None if nobody says so for :data:`MAKING` seconds."""
    deadline = time.monotonic() + MAKING
    while True:
        # In this order: one of squad's making says what it is of before it has trials.
        late = time.monotonic() > deadline or bool(study.get_trials(deepcopy=False))
        stored = study.user_attrs.get(META)
        if isinstance(stored, dict):
            return dict(stored)
        if late:
            return None
        time.sleep(0.05)


def _differences(stored: Mapping[str, Any], mine: Mapping[str, Any], most: int = 5) -> str:
    """``training.lr is 0.1 there and 0.2 here``, for the first few that differ."""
    there, here = dict(_leaves(stored)), dict(_leaves(mine))
    told = [name for name in {**there, **here} if name not in ("fingerprint", "slots", "notes", "study")]
    names = [name for name in told if there.get(name) != here.get(name)]
    parts = [f"{name} is {_short(there, name)} there and {_short(here, name)} here" for name in names[:most]]
    if len(names) > most:
        parts.append(f"and {len(names) - most} more")
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
