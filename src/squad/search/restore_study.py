"""Restore a study from its record, to resume it on another machine or after its database was lost."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import SquadError
from squad.files import move_into_place
from squad.search import optuna_private
from squad.search.record_checks import STATES
from squad.search.search_record import TRIALS, Search, TrialRecord, read
from squad.search.storage import (
    RETRY_OF,
    DamagedError,
    SearchError,
    close_storage,
    file_url,
    open_storage,
    quiet_optuna,
)
from squad.search.study import META

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

__all__ = ["restore"]

#: Errors caused by a record that was edited.
RECORD_ERRORS = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
#: Upper bound of trial numbers, relative to the number of trials: surplus trials have numbers, but are not in a record.
MAX_NUMBER_RATIO = 10


def restore(folder: Path, file: Path) -> int | None:
    """Create the database of a study from its record, if only the record exists.

    The next proposals are the same as they would have been, because they depend on the trials and the seed only.
    Trials that were running are queued; their number of retries is not in the record and starts at zero.

    Args:
        folder: Folder of the study, with or without trials.json.
        file: Database, which is left alone if it exists.

    Returns:
        The number of restored trials; None if nothing was restored.
    """
    if file.exists() and file.stat().st_size:
        return None
    if not (folder / TRIALS).is_file():
        return None
    hint = "Restore a copy of it, choose another --out, or start over with --restart."
    try:
        search = read(folder)
    except SquadError as cause:  # must not be overwritten as if there were none
        raise SearchError(f"{cause} {hint}") from cause
    if not search.trials:
        return None
    part = file.with_name(f".{file.name}.part")
    _delete(part)  # left over from a process that was killed
    try:
        _fill(part, search)
    except RECORD_ERRORS as cause:
        _delete(part)
        raise SearchError(f"{folder / TRIALS} is not valid: {str(cause).rstrip('.')}. {hint}") from cause
    _delete(file)  # also its old write-ahead log, which SQLite would apply to the new file
    move_into_place(part, file)  # atomic: half a study would be resumed, and overwrite the record
    return len(search.trials)


def _delete(file: Path) -> None:
    for path in (file, *(file.with_name(f"{file.name}-{kind}") for kind in ("wal", "shm"))):
        path.unlink(missing_ok=True)


def _fill(file: Path, search: Search) -> None:
    """Write all trials of a record into a new database."""
    import optuna

    settings = search.record.settings
    by_number = {trial.number: trial for trial in search.trials}
    if len(by_number) < len(search.trials):
        raise ValueError("two trials have the same number")
    if not all(type(number) is int and 0 <= number <= MAX_NUMBER_RATIO * len(by_number) for number in by_number):
        raise ValueError("a trial has an invalid number")
    if not isinstance(settings.get("study"), str):
        raise ValueError("the study has no name")
    latest: dict[int, int] = {}  # number of the first attempt -> number of the latest
    storage = open_storage(file_url(file), stale_after=1.0)  # no other worker uses it
    try:
        with quiet_optuna():
            study = optuna.create_study(storage=storage, study_name=settings["study"], direction="maximize")
            study.set_user_attr(META, {**settings, "notes": search.notes})
            distributions = search.space.distributions()
            for number in range(search.trials[-1].number + 1):
                trial = by_number.get(number)
                first = number if trial is None or trial.retried_from is None else trial.retried_from
                try:
                    if not (type(first) is int and first <= number):
                        raise ValueError(f"retries {first!r}")
                    frozen = _surplus() if trial is None else _frozen(trial, distributions, latest.get(first))
                    storage.create_new_trial(optuna_private.study_id(study), template_trial=frozen)
                except (*RECORD_ERRORS, DamagedError) as cause:
                    raise ValueError(f"trial {number} ({type(cause).__name__}: {cause})") from cause
                latest[first] = number
    finally:
        close_storage(storage)


def _frozen(trial: TrialRecord, distributions: "dict[str, BaseDistribution]", previous: int | None) -> "FrozenTrial":
    """Return a trial as Optuna represents it."""
    from optuna.trial import FrozenTrial, TrialState

    # Its worker is gone, and a running trial without a heartbeat would never become stale.
    state = "waiting" if trial.state == "running" else trial.state
    finished = state != "waiting"
    attrs: dict[str, Any] = {"defaults": trial.defaults}
    if finished:
        attrs |= {"ended": trial.ended, "details": dict(trial.details), "worker": trial.worker}
    system = {} if trial.retried_from is None else {"failed_trial": trial.retried_from, RETRY_OF: previous}
    frozen = FrozenTrial(
        number=trial.number,
        state=TrialState[{ours: optunas for optunas, ours in STATES.items()}[state]],
        value=trial.value,
        datetime_start=_local(trial.started) if finished else None,
        datetime_complete=_local(trial.finished) if finished else None,
        params=dict(trial.params),
        distributions={name: distributions[name] for name in trial.params},
        user_attrs={"settings": dict(trial.settings), **{name: each for name, each in attrs.items() if each}},
        system_attrs=system,
        intermediate_values={int(epoch): accuracy for epoch, accuracy in trial.accuracies.items()} if finished else {},
        trial_id=-1,  # assigned by the storage
    )
    optuna_private.check_trial(frozen)
    return frozen


def _surplus() -> "FrozenTrial":
    """Return a placeholder for a surplus trial, which a record leaves out, so that numbers stay the same."""
    import optuna

    return optuna.create_trial(state=optuna.trial.TrialState.FAIL, user_attrs={"ended": "surplus"})


def _local(time: str | None) -> datetime | None:
    """Convert to Optuna's times, which are local and have no time zone."""
    return None if time is None else datetime.fromisoformat(time).astimezone().replace(tzinfo=None)
