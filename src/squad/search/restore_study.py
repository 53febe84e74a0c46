"""A study from its record, to go on with: on another machine, or where its database is gone."""

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import SquadError
from squad.search import optuna_private
from squad.search.search_record import STATES, TRIALS, Search, TrialRecord, read
from squad.search.storage import AFTER, DamagedError, SearchError, close_storage, file_url, open_storage, quiet_optuna
from squad.search.study import META

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

__all__ = ["restore"]

#: What comes of a record that somebody has changed.
WRONG = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
#: Trials that were asked for and not wanted are not in a record; there are never this many times the others.
SURPLUS = 10


def restore(folder: Path, file: Path) -> int | None:
    """Make the database of a study from its record, if only the record is there; how many trials it has then.

    What is proposed next is what would have been: it hangs on the trials and the seed alone.  Trials that were running
    wait for somebody; how often a lost one was tried is not in a record, and counts anew.

    Args:
        folder: with trials.json, or without.
        file: the database, which is left alone if there is one.
    """
    if file.exists() and file.stat().st_size:
        return None
    if not (folder / TRIALS).is_file():
        return None
    hint = "Put a copy back, take another --out, or begin anew with --restart."
    try:
        search = read(folder)
    except SquadError as cause:  # which must not be taken for none, and written over
        raise SearchError(f"{cause} {hint}") from cause
    if not search.trials:
        return None
    part = file.with_name(f".{file.name}.part")
    _delete(part)  # of a restoring that was killed
    try:
        _fill(part, search)
    except WRONG as cause:
        _delete(part)
        raise SearchError(f"{folder / TRIALS} is not as squad wrote it: {str(cause).rstrip('.')}. {hint}") from cause
    _delete(file)  # a log that was left behind would be taken for the new file's
    os.replace(part, file)  # whole or not at all: half a study would be gone on with, and written over the record
    return len(search.trials)


def _delete(file: Path) -> None:
    for path in (file, *(file.with_name(f"{file.name}-{kind}") for kind in ("wal", "shm"))):
        path.unlink(missing_ok=True)


def _fill(file: Path, search: Search) -> None:
    import optuna

    settings = search.record.settings
    held = {trial.number: trial for trial in search.trials}
    if len(held) < len(search.trials):
        raise ValueError("two trials have one number")
    if not all(type(number) is int and 0 <= number <= SURPLUS * len(held) for number in held):
        raise ValueError("trials have numbers that are none")
    if not isinstance(settings.get("study"), str):
        raise ValueError("the study has no name")
    latest: dict[int, int] = {}  # by the first attempt at some settings, the number of the latest
    storage = open_storage(file_url(file), stale_after=1.0)  # nobody is at work on it
    try:
        with quiet_optuna():
            study = optuna.create_study(storage=storage, study_name=settings["study"], direction="maximize")
            study.set_user_attr(META, {**settings, "notes": search.notes})
            distributions = search.space.distributions()
            for number in range(search.trials[-1].number + 1):
                trial = held.get(number)
                first = number if trial is None or trial.retried_from is None else trial.retried_from
                try:
                    if not (type(first) is int and first <= number):
                        raise ValueError(f"tries {first!r} again")
                    frozen = _surplus(number) if trial is None else _frozen(trial, distributions, latest.get(first))
                    storage.create_new_trial(optuna_private.study_id(study), template_trial=frozen)
                except (*WRONG, DamagedError) as cause:
                    raise ValueError(f"trial {number} ({type(cause).__name__}: {cause})") from cause
                latest[first] = number
    finally:
        close_storage(storage)


def _frozen(trial: TrialRecord, distributions: "dict[str, BaseDistribution]", after: int | None) -> "FrozenTrial":
    """A trial as Optuna has it."""
    from optuna.trial import FrozenTrial, TrialState

    # Nobody is at it any more, and one that is running without a sign of life would never be given to another.
    state = "waiting" if trial.state == "running" else trial.state
    over = state != "waiting"
    attrs: dict[str, Any] = {"defaults": trial.defaults}
    if over:
        attrs |= {"ended": trial.ended, "details": dict(trial.details), "worker": trial.worker}
    system = {} if trial.retried_from is None else {"failed_trial": trial.retried_from, AFTER: after}
    frozen = FrozenTrial(
        number=trial.number,
        state=TrialState[{word: name for name, word in STATES.items()}[state]],
        value=trial.value,
        datetime_start=_local(trial.started) if over else None,
        datetime_complete=_local(trial.finished) if over else None,
        params=dict(trial.params),
        distributions={name: distributions[name] for name in trial.params},
        user_attrs={"settings": dict(trial.settings), **{name: each for name, each in attrs.items() if each}},
        system_attrs=system,
        intermediate_values={int(epoch): accuracy for epoch, accuracy in trial.accuracies.items()} if over else {},
        trial_id=-1,  # the storage gives it one
    )
    optuna_private.check_trial(frozen)
    return frozen


def _surplus(number: int) -> "FrozenTrial":
    """In the place of one that was asked for and not wanted, which a record leaves out: numbers stay what they are."""
    from optuna.trial import FrozenTrial, TrialState

    now = datetime.now()
    return FrozenTrial(
        number=number,
        state=TrialState.FAIL,
        value=None,
        datetime_start=now,
        datetime_complete=now,
        params={},
        distributions={},
        user_attrs={"ended": "surplus"},
        system_attrs={},
        intermediate_values={},
        trial_id=-1,
    )


def _local(time: str | None) -> datetime | None:
    """Optuna's times are those of this machine's clock, without a zone."""
    return None if time is None else datetime.fromisoformat(time).astimezone().replace(tzinfo=None)
