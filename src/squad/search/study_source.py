"""An Optuna study as the source of trials, for one worker or many.

The number of trials stays right with any number of workers, and whenever one of them is killed:

- A trial is in the storage before it is trained.  It is complete, in a queue, from which one worker takes it together
  with a heartbeat.  It is finished in one transaction that fails for all workers but the first, so that an outcome
  counts once or not at all.
- A trial whose worker is lost is failed, and its settings are queued again; failed trials do not count.
- A worker that takes a trial then computes its rank among the trials that count.  Numbers only grow, so ranks only
  fall: if several workers take trials at the end of a study, exactly as many are kept as are needed.
"""

import copy
import math
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from squad.errors import ArgumentError
from squad.files.plain import plain_json
from squad.search import optuna_private
from squad.search.storage import INHERITED_ATTRS, MAX_RETRIES, RETRY_OF, SearchError, quiet_optuna, retry_trial
from squad.search.study import Standing, standing
from squad.search.tpe import Proposals
from squad.search.trial import PRUNING_INTERVAL, Outcome, Trial
from squad.search.worker_names import has_ended_here

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

    from squad.search.defaults import Defaults
    from squad.search.space import Space

__all__ = ["Callback", "StudySource"]

#: Function called after every trial, with Optuna's signature.
Callback: TypeAlias = "Callable[[optuna.Study, FrozenTrial], None]"

#: Seconds between two searches for trials whose worker was lost.
SWEEP_INTERVAL = 3.0
#: Seconds to wait for a worker that has failed a trial to queue it again.
REQUEUE_TIMEOUT = 5.0
#: Number of heartbeat intervals after which a worker first sends its own heartbeats, and then looks for lost trials.
LATE_BEATS = 3
#: Seconds for which the worker of a trial must look ended before the trial is taken back: a worker that takes a trial
#: from the queue writes its name to it a moment later.
ENDED_CONFIRMATION = 1.0
#: Maximum number of workers named in a message.
MAX_WORKERS_SHOWN = 3


class StudySource:
    """Trials proposed by multivariate TPE, which takes running trials for bad ones (``constant_liar``).

    Args:
        study: Study from :func:`open_study`.
        space: Search space.
        trials: Total number of trials, including those of other workers.
        worker: Name of this worker: unique among the active workers, and the same after a restart.
        seed: Seed of TPE.  Equal seeds give equal studies if one worker asks and tells in the same order.
        shared: Whether other workers may use this study: trials of lost workers are then taken back, and each worker
            has its own random numbers.
        prune: Whether to prune trials whose accuracy falls below the median of complete trials.
        defaults: First trial of a new study; None to begin with a proposal of the sampler.
        sampler: A user's sampler to use instead of TPE.
        callbacks: Functions called with the study and the trial after every trial that ended here.
    """

    def __init__(
        self,
        study: "optuna.Study",
        space: "Space",
        trials: int,
        *,
        worker: str,
        seed: int,
        shared: bool,
        prune: bool = False,
        defaults: "Defaults | None" = None,
        sampler: "optuna.samplers.BaseSampler | None" = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        if trials < 1:
            raise ArgumentError.of("trials", trials, "at least 1")
        self.study, self.space, self.trials = study, space, trials
        self.worker, self.shared, self.prune = worker, shared, prune
        self._distributions = space.distributions()
        self.defaults, self.callbacks = defaults, tuple(callbacks)
        salt = secrets.token_hex(8) if shared else ""
        self._proposals = Proposals(self._distributions, trials, seed, salt, sampler)
        self._storage = optuna_private.storage_of(study)
        self._beat_interval = float(self._storage.get_heartbeat_interval())
        self._mine: dict[int, int] = {}  # trial number -> id in the storage
        self._default_trials: set[int] = set()  # those of them with the default settings
        self._suspects: dict[int, float] = {}  # number of a trial whose worker seems ended -> when first seen
        self._failed_since: dict[int, float] = {}  # number of a failed trial -> when first seen
        self._swept = self._beaten = -math.inf

    def reclaim(self) -> int:
        """Queue trials again that an earlier process of this worker left running.

        Without other workers these are all running trials; otherwise those with this worker's name, or of a process on
        this machine that has ended, such as the same command killed before.

        Returns:
            Number of these trials.
        """
        count = 0
        with quiet_optuna():
            for trial in self._running():
                name = trial.user_attrs.get("worker")
                if not self.shared or name == self.worker or has_ended_here(str(name)):
                    count += self._fail(optuna_private.storage_id(trial), lost=True)
        return count

    def ask(self) -> Trial | None:
        """Return the next trial; None if there is none now, because all are finished or other workers have the rest."""
        with quiet_optuna():
            if self.shared:
                self._sweep()
            while True:
                known = self._all()
                for trial in known:
                    trial_id = optuna_private.storage_id(trial)
                    if trial.state.name == "WAITING" and self._take(trial_id):
                        return self._keep(trial.number, trial_id, self._attrs(trial), known)
                if Standing.of(known).counted + self._awaiting_requeue(known) >= self.trials:
                    return None
                number, trial_id, attrs = (
                    self._propose(known) if known or not self.defaults else self._propose_defaults()
                )
                if self._take(trial_id):  # otherwise another worker took it: try the next
                    return self._keep(number, trial_id, attrs, known)

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """Report the outcome of a trial; ignored if the trial was taken for lost and given to another worker.

        Args:
            trial: Trial from :meth:`ask`.
            outcome: How the trial ended.
        """
        pruned = outcome.ended == "pruned"
        if not pruned and (outcome.value is None or not math.isfinite(outcome.value)):
            raise SearchError(
                f"The value of trial {trial.number} must be a finite number, got {outcome.value}. "
                "This is a bug in squad: a trial that diverged should have the worst value of its objective."
            )
        trial_id, counts = self._own(trial), False
        with quiet_optuna(), suppress(*_finished()):
            self._storage.set_trial_user_attr(trial_id, "ended", outcome.ended)
            self._storage.set_trial_user_attr(trial_id, "details", plain_json(outcome.details))
            # study.tell would read the trial twice, and set the value of a pruned trial to its last accuracy.
            state = _state("PRUNED" if pruned else "COMPLETE")
            self._storage.set_trial_state_values(trial_id, state, None if pruned else [outcome.value])
            counts = True
        del self._mine[trial.number]
        if counts and self.callbacks:
            self._run_callbacks(trial_id)

    def give_back(self, trials: Sequence[Trial], *, lost: bool = False) -> None:
        """Queue trials again because this worker stops; finished ones are left alone.

        Args:
            trials: Running trials of this worker.
            lost: Whether the worker stops because of an error.  One of the trials may have caused it, so that this
                counts as an attempt; the number of attempts is limited.
        """
        with quiet_optuna():
            for trial in trials:
                if (trial_id := self._mine.pop(trial.number, None)) is not None:
                    self._fail(trial_id, lost=lost)

    def beat(self, trials: Sequence[Trial]) -> None:
        """Send heartbeats, at most ten times per ``stale_after``, and look for trials whose worker was lost.

        The latter happens here, too, because a worker whose slots are all busy does not ask for trials.
        """
        if time.monotonic() - self._beaten >= self._beat_interval:
            with quiet_optuna():
                self._beat([self._own(trial) for trial in trials])
        if self.shared:
            with quiet_optuna():
                self._sweep()

    def prunes(self, trial: Trial, epoch: int, accuracy: float) -> bool:
        """Return whether to prune a trial that has this validation accuracy after ``epoch`` epochs.

        Args:
            trial: Trial from :meth:`ask`.
            epoch: Number of epochs so far.
            accuracy: Validation accuracy after them.

        Returns:
            Whether to prune the trial.
        """
        if not self.prune or epoch % PRUNING_INTERVAL or trial.number in self._default_trials:  # the baseline
            return False
        trial_id = self._own(trial)
        with quiet_optuna():
            try:
                self._storage.set_trial_intermediate_value(trial_id, epoch, accuracy)
            except _finished():
                return True  # it was taken for lost: its outcome would not count
            if not self._proposals.knows(trial.number):  # it came from the queue
                self._proposals.follow(self._all())
            return self._proposals.prunes(trial.number, epoch, accuracy)

    def over(self) -> bool:
        """Return whether the study has all its trials."""
        return self.standing().done >= self.trials

    def stopped(self) -> bool:
        """Return whether a callback has called ``study.stop()``."""
        return optuna_private.stop_requested(self.study)

    def awaited(self) -> str | None:
        """Return a message about the workers whose trials are unfinished; None if there are none."""
        with quiet_optuna():
            others = self._running()
            if not others:
                return None
            ids = [optuna_private.storage_id(trial) for trial in others]
            backend = optuna_private.backend_of(self.study)
            ages = backend.guard.run(lambda: optuna_private.heartbeat_ages(self.study, ids))
        return _waiting_text(others, ages, float(backend.grace_period))

    def standing(self) -> Standing:
        """Count the trials of the study.

        Returns:
            Number of trials by state, and the best trial.
        """
        return standing(self.study)

    def _own(self, trial: Trial) -> int:
        if trial.number not in self._mine:
            raise ArgumentError(f"Trial number {trial.number} is not a running trial of this worker.")
        return self._mine[trial.number]

    def _all(self) -> list["FrozenTrial"]:
        return self.study.get_trials(deepcopy=False)

    def _running(self) -> list["FrozenTrial"]:
        """Return running trials of other workers, including those of workers that were killed."""
        return [trial for trial in self._all() if trial.state.name == "RUNNING" and trial.number not in self._mine]

    def _propose(self, known: Sequence["FrozenTrial"]) -> tuple[int, int, dict[str, Any]]:
        """Queue a new trial, and return its number, its id, and its attributes with the settings.

        It is queued, and not running at once, so that any worker can take it if this one is killed here.
        """
        params, copy_number = self._proposals.propose(known)
        # With our name, so that we find it after a restart if we are killed while taking it.
        attrs = {"settings": self._settings(params), "worker": self.worker}
        trial_id = self._queue(params, self._distributions, attrs, self._proposals.attrs(copy_number))
        number = self._storage.get_trial(trial_id).number
        self._proposals.keep(number, copy_number)
        return number, trial_id, attrs

    def _propose_defaults(self) -> tuple[int, int, dict[str, Any]]:
        """Queue the defaults as the first trial of a study."""
        assert self.defaults is not None
        attrs = {"settings": plain_json(self.defaults.settings), "defaults": True, "worker": self.worker}
        searched = {name: self._distributions[name] for name in self.defaults.params}
        trial_id = self._queue(dict(self.defaults.params), searched, attrs)
        return self._storage.get_trial(trial_id).number, trial_id, attrs

    def _attrs(self, trial: "FrozenTrial") -> dict[str, Any]:
        """Return the attributes of a queued trial."""
        if trial.user_attrs.get("defaults"):  # its parameters are only near its settings, or empty
            retry = {"retry": True} if RETRY_OF in trial.system_attrs else {}
            return {"settings": trial.user_attrs["settings"], "defaults": True, **retry}
        return {"settings": self._settings(trial.params)}

    def _take(self, trial_id: int) -> bool:
        """Take a trial from the queue; return False if another worker has it."""
        # The heartbeat first: a running trial without one would never become stale.
        self._storage.record_heartbeat(trial_id)
        try:
            return bool(self._storage.set_trial_state_values(trial_id, _state("RUNNING")))
        except _finished():
            return False

    def _keep(
        self, number: int, trial_id: int, attrs: Mapping[str, Any], known: Sequence["FrozenTrial"]
    ) -> Trial | None:
        """Return a trial that was taken, or None if it is surplus."""
        # Its rank is at most number + 1 - failed; the storage is read again only if that exceeds the limit.
        failed = sum(trial.state.name == "FAIL" and trial.number < number for trial in known)
        surplus = number + 1 - failed > self.trials and self._rank(number) > self.trials
        # Workers that start at once all find an empty study; only the first trial of the defaults is kept.
        if attrs.get("defaults") and not attrs.get("retry"):
            surplus |= any(trial.user_attrs.get("defaults") and trial.number < number for trial in self._all())
        if surplus:
            with suppress(*_finished()):
                self._storage.set_trial_user_attr(trial_id, "ended", "surplus")
                self._storage.set_trial_state_values(trial_id, _state("FAIL"))
            return None
        with suppress(*_finished()):
            self._storage.set_trial_user_attr(trial_id, "worker", self.worker)
        self._mine[number] = trial_id
        if attrs.get("defaults"):
            self._default_trials.add(number)
        return Trial(number, attrs["settings"])

    def _rank(self, number: int) -> int:
        """Return the rank of a trial among those that count, from 1."""
        return sum(trial.number <= number and trial.state.name != "FAIL" for trial in self._all())

    def _settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return dict(plain_json(self.space.settings(params)))

    def _queue(
        self,
        params: dict[str, Any],
        distributions: dict[str, "BaseDistribution"],
        user_attrs: dict[str, Any],
        system_attrs: dict[str, Any] | None = None,
    ) -> int:
        """Queue a trial in one transaction, and return its id."""
        import optuna

        waiting = optuna.create_trial(
            state=_state("WAITING"),
            params=params,
            distributions=distributions,
            user_attrs=user_attrs,
            system_attrs=system_attrs or {},
        )
        return int(self._storage.create_new_trial(optuna_private.study_id(self.study), template_trial=waiting))

    def _beat(self, trial_ids: Iterable[int]) -> None:
        for trial_id in trial_ids:
            self._storage.record_heartbeat(trial_id)
        self._beaten = time.monotonic()

    def _sweep(self) -> None:
        """Fail trials of lost workers, and queue them again."""
        import optuna

        now = time.monotonic()
        if now - self._swept < min(SWEEP_INTERVAL, self._beat_interval):
            return
        # After a long epoch or a suspended laptop, send our own heartbeats first, so that our trials are not failed.
        if now - self._beaten > LATE_BEATS * self._beat_interval:
            self._beat(self._mine.values())
        optuna.storages.fail_stale_trials(self.study)
        self._take_back()
        self._swept = time.monotonic()

    def _take_back(self) -> None:
        """Queue trials again whose worker was a process of this machine that has ended, before they become stale."""
        now, seen = time.monotonic(), {}
        for trial in self._running():
            if has_ended_here(str(trial.user_attrs.get("worker"))):
                seen[trial.number] = self._suspects.get(trial.number, now)
                if now - seen[trial.number] >= ENDED_CONFIRMATION:
                    self._fail(optuna_private.storage_id(trial), lost=True)
        self._suspects = seen

    def _run_callbacks(self, trial_id: int) -> None:
        """Call the user's callbacks with a trial that has ended."""
        with quiet_optuna():
            ended = copy.deepcopy(self._storage.get_trial(trial_id))
        with optuna_private.run_callbacks(self.study):
            for callback in self.callbacks:
                callback(self.study, ended)

    def _awaiting_requeue(self, known: Sequence["FrozenTrial"]) -> int:
        """Return the number of trials that another worker has just failed, and not yet queued again.

        Failing and queueing are two transactions; a new trial in between would take its place.  The wait is limited,
        because that worker may be lost, too.
        """
        if not self.shared:
            return 0
        retried = {trial.system_attrs.get(RETRY_OF) for trial in known}
        now, count = time.monotonic(), 0
        for trial in known:
            if trial.state.name == "FAIL" and trial.number not in retried:
                exhausted = len(trial.system_attrs.get("retry_history", ())) >= MAX_RETRIES
                surplus = trial.user_attrs.get("ended") == "surplus"
                recent = now - self._failed_since.setdefault(trial.number, now) < REQUEUE_TIMEOUT
                count += not exhausted and not surplus and recent
        return count

    def _fail(self, trial_id: int, *, lost: bool) -> bool:
        """Fail a trial and queue its settings again; return False if it is finished already.

        A lost trial counts towards :data:`squad.search.storage.MAX_RETRIES`; one that was given back does not.
        """
        try:
            self._storage.set_trial_state_values(trial_id, _state("FAIL"))
        except _finished():
            return False
        trial = copy.deepcopy(self._storage.get_trial(trial_id))  # it may be shared with Optuna's cache
        if lost:
            retry_trial(self.study, trial)
        else:
            first = trial.system_attrs.get("failed_trial", trial.number)
            inherited = {name: trial.user_attrs[name] for name in INHERITED_ATTRS if name in trial.user_attrs}
            system = {**trial.system_attrs, "failed_trial": first, RETRY_OF: trial.number}
            self._queue(trial.params, trial.distributions, inherited, system)
        return True


def _waiting_text(trials: Sequence["FrozenTrial"], ages: Mapping[int, float], grace: float) -> str:
    """Return ``Waiting for trial 3 of worker a (last heartbeat 4 s ago; retried in 596 s without another).``"""
    by_worker: dict[str, list[FrozenTrial]] = defaultdict(list)
    for trial in trials:
        by_worker[str(trial.user_attrs.get("worker", "?"))].append(trial)
    parts = []
    for worker, own in list(by_worker.items())[:MAX_WORKERS_SHOWN]:
        numbers = ", ".join(str(trial.number) for trial in own)
        text = f"trial{'s' * (len(own) > 1)} {numbers} of worker {worker}"
        ids = [optuna_private.storage_id(trial) for trial in own]
        ages_of_worker = [ages[each] for each in ids if each in ages]
        if ages_of_worker:
            left = max(0.0, grace - min(ages_of_worker))
            text += (
                f" (last heartbeat {max(0.0, min(ages_of_worker)):.0f} s ago; retried in {left:.0f} s without another)"
            )
        parts.append(text)
    others = len(by_worker) - MAX_WORKERS_SHOWN
    more = f", and of {others} more workers" if others > 0 else ""
    return f"Waiting for {'; '.join(parts)}{more}."


def _state(name: str) -> "TrialState":
    from optuna.trial import TrialState

    return TrialState[name]


def _finished() -> tuple[type[Exception], ...]:
    """Return the errors that the storage raises if a trial is finished already."""
    import optuna

    return (optuna.exceptions.UpdateFinishedTrialError,)
