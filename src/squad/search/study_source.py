"""A study of Optuna's as the source of trials, for one worker or many.

What keeps the count right whoever is killed when, and however many workers there are:

- A trial is in the storage before anybody trains it: whole, in a queue, from which one worker takes it, with a beat
  that says so.  It is finished by one transaction, which fails for all but the first: an outcome counts once or never.
- A trial whose worker is gone is failed and its settings are queued anew; failed trials do not count.
- Who takes a trial looks at its rank afterwards.  Numbers only grow, so ranks among the trials that count only fall:
  of any number of workers at the last trial, exactly one keeps it.
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
from squad.search import optuna_private
from squad.search.search_record import plain
from squad.search.storage import AFTER, KEPT, RETRIES, SearchError, ask_anew, quiet_optuna
from squad.search.study import Standing, standing
from squad.search.tpe import Proposals
from squad.search.trial import LOOKS, Outcome, Trial
from squad.search.workers import is_gone

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

    from squad.search.defaults import Defaults
    from squad.search.space import Space

__all__ = ["Callback", "StudySource"]

#: What a user may have called after every trial, as by Optuna.
Callback: TypeAlias = "Callable[[optuna.Study, FrozenTrial], None]"

#: Seconds between two looks for trials whose worker was lost.
SWEEP = 3.0
#: Seconds that a worker which has failed a trial is given to queue it anew.
OWED = 5.0
#: Beats that a worker may be behind with before it gives them first, and only then looks for others that are behind.
BEHIND = 3
#: Seconds for which a running trial must look like one of a process that has ended: whoever takes a trial from the
#: queue writes its name to it a moment later.
SURE = 1.0
#: Workers that a message names.
NAMED = 3


class StudySource:
    """Trials by TPE, multivariate, with those that are running taken for bad ones (``constant_liar``).

    Args:
        study: of :func:`open_study`.
        space: what is searched.
        trials: how many, those that others have done among them.
        worker: this worker's name: its own among those at work, and the same when it is started again.
        seed: of TPE.  Equal seeds give equal studies if one worker asks and tells in the same order.
        shared: whether others may be at work on this study: trials of workers that are gone are then looked for, and
            each worker draws numbers of its own.
        prune: whether trials whose accuracy falls below the median of complete ones are given up.
        defaults: the first trial of a new study; None is to begin with what the sampler proposes.
        sampler: a user's own in the place of TPE.
        callbacks: called after every trial that has ended here, with the study and the trial.
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
            raise ArgumentError.of("trials", trials, "1 or more")
        self.study, self.space, self.trials = study, space, trials
        self.worker, self.shared, self.prune = worker, shared, prune
        self._distributions = space.distributions()
        self.defaults, self.callbacks = defaults, tuple(callbacks)
        salt = secrets.token_hex(8) if shared else ""
        self._proposals = Proposals(self._distributions, trials, seed, salt, sampler)
        self._storage = optuna_private.storage_of(study)
        self._every = float(self._storage.get_heartbeat_interval())
        self._mine: dict[int, int] = {}  # number -> the storage's id
        self._plain: set[int] = set()  # numbers of the defaults among them
        self._suspects: dict[int, float] = {}  # number of a trial whose worker has ended -> when it was first seen here
        self._gone: dict[int, float] = {}  # number of a failed trial -> when it was first seen here
        self._swept = self._beaten = -math.inf

    def reclaim(self) -> int:
        """Queue anew what an earlier life of this worker was training when it was killed; how many those were.

        If nobody else is at work, whatever is running is of an earlier life; else what is of this worker's name, or of
        a process of this machine that has ended: the same command, killed before.
        """
        count = 0
        with quiet_optuna():
            for trial in self._running():
                name = trial.user_attrs.get("worker")
                if not self.shared or name == self.worker or is_gone(str(name)):
                    count += self._fail(optuna_private.storage_id(trial), lost=True)
        return count

    def ask(self) -> Trial | None:
        """The next trial; None if there is none now: all are done, or others are at the last of them."""
        with quiet_optuna():
            if self.shared:
                self._sweep()
            while True:
                known = self._all()
                for trial in known:
                    trial_id = optuna_private.storage_id(trial)
                    if trial.state.name == "WAITING" and self._take(trial_id):
                        return self._kept(trial.number, trial_id, self._attrs(trial), known)
                if Standing.of(known).counted + self._owed(known) >= self.trials:
                    return None
                number, trial_id, attrs = self._propose(known) if known or not self.defaults else self._begin()
                if self._take(trial_id):  # or another was quicker, which is as well
                    return self._kept(number, trial_id, attrs, known)

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """How a trial that was asked for went; nothing happens if it was taken for lost and given to another."""
        pruned = outcome.ended == "pruned"
        if not pruned and (outcome.value is None or not math.isfinite(outcome.value)):
            raise SearchError(
                f"The value of trial {trial.number} must be a number, got {outcome.value}. A trial that diverged has "
                "its objective's worst value: this is a fault in squad."
            )
        trial_id, counts = self._own(trial), False
        with quiet_optuna(), suppress(*_finished()):
            self._storage.set_trial_user_attr(trial_id, "ended", outcome.ended)
            self._storage.set_trial_user_attr(trial_id, "details", plain(outcome.details))
            # Not study.tell, which would read the trial twice, and give a pruned one its last accuracy as its value.
            state = _state("PRUNED" if pruned else "COMPLETE")
            self._storage.set_trial_state_values(trial_id, state, None if pruned else [outcome.value])
            counts = True
        del self._mine[trial.number]
        if counts and self.callbacks:
            self._call_back(trial_id)

    def give_back(self, trials: Sequence[Trial], *, lost: bool = False) -> None:
        """Queue trials anew, at once, because this worker stops; those that were told already are left alone.

        Args:
            trials: that were asked for here.
            lost: whether it stops because something failed.  That may be one of them, so it counts as an attempt: after
                a few they are given up.
        """
        with quiet_optuna():
            for trial in trials:
                if (trial_id := self._mine.pop(trial.number, None)) is not None:
                    self._fail(trial_id, lost=lost)

    def beat(self, trials: Sequence[Trial]) -> None:
        """That these are still being trained; told after every epoch, and passed on ten times in ``stale_after``.

        Trials whose worker was lost are looked for here too: while all slots are busy nobody asks for a trial.
        """
        if time.monotonic() - self._beaten >= self._every:
            with quiet_optuna():
                self._beat([self._own(trial) for trial in trials])
        if self.shared:
            with quiet_optuna():
                self._sweep()

    def prunes(self, trial: Trial, epoch: int, accuracy: float) -> bool:
        """Whether a trial with this validation accuracy after so many epochs is not worth going on with."""
        if not self.prune or epoch % LOOKS or trial.number in self._plain:  # which are what others are compared with
            return False
        trial_id = self._own(trial)
        with quiet_optuna():
            try:
                self._storage.set_trial_intermediate_value(trial_id, epoch, accuracy)
            except _finished():
                return True  # it was taken for lost, and whatever it comes to would not count
            if not self._proposals.knows(trial.number):  # it came from the queue
                self._proposals.follow(self._all())
            return self._proposals.prunes(trial.number, epoch, accuracy)

    def over(self) -> bool:
        """Whether the study has all the trials that were asked for."""
        return self.standing().done >= self.trials

    def stopped(self) -> bool:
        """Whether a callback has asked to stop, by ``study.stop()``."""
        return optuna_private.stop_asked(self.study)

    def awaited(self) -> str | None:
        """Whose trials are waited for, and for how long at the most; None if there are none."""
        with quiet_optuna():
            others = [trial for trial in self._running() if trial.number not in self._mine]
            if not others:
                return None
            ids = [optuna_private.storage_id(trial) for trial in others]
            backend = optuna_private.backend_of(self.study)
            ages = backend.guard.run(lambda: optuna_private.heartbeat_ages(self.study, ids))
        return _awaited(others, ages, float(backend.grace_period))

    def standing(self) -> Standing:
        """Where the study stands."""
        return standing(self.study)

    def _own(self, trial: Trial) -> int:
        if trial.number not in self._mine:
            raise ArgumentError.of(
                "trial", f"number {trial.number}", "one that was asked for here, and not told or given back yet"
            )
        return self._mine[trial.number]

    def _all(self) -> list["FrozenTrial"]:
        return self.study.get_trials(deepcopy=False)

    def _running(self) -> list["FrozenTrial"]:
        """Trials that somebody has, or had when it was killed; not those that are being trained here."""
        return [trial for trial in self._all() if trial.state.name == "RUNNING" and trial.number not in self._mine]

    def _propose(self, known: Sequence["FrozenTrial"]) -> tuple[int, int, dict[str, Any]]:
        """A new trial in the queue: its number, its id, and its settings among its attributes.

        In the queue, and not running at once: killed here, we leave a trial that anybody can take.
        """
        params, place = self._proposals.propose(known)
        # Ours as long as nobody else takes it: killed while we do, we find it again when we are started again.
        attrs = {"settings": self._settings(params), "worker": self.worker}
        trial_id = self._queue(params, self._distributions, attrs, self._proposals.attrs(place))
        number = self._storage.get_trial(trial_id).number
        self._proposals.keep(number, place)
        return number, trial_id, attrs

    def _begin(self) -> tuple[int, int, dict[str, Any]]:
        """The defaults as the first trial of a study, in the queue."""
        assert self.defaults is not None
        attrs = {"settings": plain(self.defaults.settings), "defaults": True, "worker": self.worker}
        searched = {name: self._distributions[name] for name in self.defaults.params}
        trial_id = self._queue(dict(self.defaults.params), searched, attrs)
        return self._storage.get_trial(trial_id).number, trial_id, attrs

    def _attrs(self, trial: "FrozenTrial") -> dict[str, Any]:
        """Of a trial in the queue."""
        if trial.user_attrs.get("defaults"):  # its parameters are near its settings, or none
            again = {"again": True} if AFTER in trial.system_attrs else {}
            return {"settings": trial.user_attrs["settings"], "defaults": True, **again}
        return {"settings": self._settings(trial.params)}

    def _take(self, trial_id: int) -> bool:
        """Whether a trial of the queue is ours now, and nobody else's."""
        # First the beat: one that is running without any would never go stale.
        self._storage.record_heartbeat(trial_id)
        try:
            return bool(self._storage.set_trial_state_values(trial_id, _state("RUNNING")))
        except _finished():
            return False

    def _kept(
        self, number: int, trial_id: int, attrs: Mapping[str, Any], known: Sequence["FrozenTrial"]
    ) -> Trial | None:
        """A trial that was taken, or None if it was one too many."""
        # It has the rank number + 1 among all; only where that is too much must others be looked at again.
        failed = sum(trial.state.name == "FAIL" and trial.number < number for trial in known)
        surplus = number + 1 - failed > self.trials and self._rank(number) > self.trials
        # Workers that begin at once all find an empty study; the defaults are the first one's.
        if attrs.get("defaults") and not attrs.get("again"):
            surplus |= any(trial.user_attrs.get("defaults") and trial.number < number for trial in self._all())
        with suppress(*_finished()):
            if surplus:
                self._storage.set_trial_user_attr(trial_id, "ended", "surplus")
                self._storage.set_trial_state_values(trial_id, _state("FAIL"))
        if surplus:
            return None
        with suppress(*_finished()):
            self._storage.set_trial_user_attr(trial_id, "worker", self.worker)
        self._mine[number] = trial_id
        if attrs.get("defaults"):
            self._plain.add(number)
        return Trial(number, attrs["settings"])

    def _rank(self, number: int) -> int:
        """Of a trial among those that count, from 1."""
        return sum(trial.number <= number and trial.state.name != "FAIL" for trial in self._all())

    def _settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return dict(plain(self.space.settings(params)))

    def _queue(
        self,
        params: dict[str, Any],
        distributions: dict[str, "BaseDistribution"],
        user_attrs: dict[str, Any],
        system_attrs: dict[str, Any] | None = None,
    ) -> int:
        """Put parameters into the queue, in one transaction; the id of the trial."""
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
        """Fail trials of workers that are gone, and queue them anew."""
        import optuna

        now = time.monotonic()
        if now - self._swept < min(SWEEP, self._every):
            return
        # After a long epoch, or a night in a laptop's sleep, our own come first: nobody is nearer to them than we.
        if now - self._beaten > BEHIND * self._every:
            self._beat(self._mine.values())
        optuna.storages.fail_stale_trials(self.study)
        self._take_back()
        self._swept = time.monotonic()

    def _take_back(self) -> None:
        """Queue trials anew whose worker was a process of this machine that has ended, without waiting for more."""
        now, seen = time.monotonic(), {}
        for trial in self._running():
            if is_gone(str(trial.user_attrs.get("worker"))):
                seen[trial.number] = self._suspects.get(trial.number, now)
                if now - seen[trial.number] >= SURE:
                    self._fail(optuna_private.storage_id(trial), lost=True)
        self._suspects = seen

    def _call_back(self, trial_id: int) -> None:
        """Tell the user's callbacks of a trial that has ended."""
        with quiet_optuna():
            ended = copy.deepcopy(self._storage.get_trial(trial_id))
        with optuna_private.run_callbacks(self.study):
            for callback in self.callbacks:
                callback(self.study, ended)

    def _owed(self, known: Sequence["FrozenTrial"]) -> int:
        """How many trials another worker has just failed, and not yet queued anew.

        To fail one and to queue it are two transactions; a new trial in between would take its place.  After a while
        nobody is waited for: that worker may be gone, too.
        """
        if not self.shared:
            return 0
        after = {trial.system_attrs.get(AFTER) for trial in known}
        now, owed = time.monotonic(), 0
        for trial in known:
            if trial.state.name == "FAIL" and trial.number not in after:
                given_up = len(trial.system_attrs.get("retry_history", ())) >= RETRIES
                surplus = trial.user_attrs.get("ended") == "surplus"
                owed += not (given_up or surplus) and now - self._gone.setdefault(trial.number, now) < OWED
        return owed

    def _fail(self, trial_id: int, *, lost: bool) -> bool:
        """Fail a trial and queue its settings anew; False if it was finished by somebody already.

        One that was lost counts towards :data:`squad.search.storage.RETRIES`, one that was given back does not.
        """
        try:
            self._storage.set_trial_state_values(trial_id, _state("FAIL"))
        except _finished():
            return False
        trial = copy.deepcopy(self._storage.get_trial(trial_id))  # it may be the cache's own
        if lost:
            ask_anew(self.study, trial)
        else:
            first = trial.system_attrs.get("failed_trial", trial.number)
            kept = {name: trial.user_attrs[name] for name in KEPT if name in trial.user_attrs}
            system = {**trial.system_attrs, "failed_trial": first, AFTER: trial.number}
            self._queue(trial.params, trial.distributions, kept, system)
        return True


def _awaited(trials: Sequence["FrozenTrial"], ages: Mapping[int, float], grace: float) -> str:
    """``Waiting for trial 3 of worker a (last heard from 4 s ago; if it stays silent, rerun in 596 s).``"""
    held: dict[str, list[FrozenTrial]] = defaultdict(list)
    for trial in trials:
        held[str(trial.user_attrs.get("worker", "?"))].append(trial)
    parts = []
    for worker, own in list(held.items())[:NAMED]:
        numbers = ", ".join(str(trial.number) for trial in own)
        what = f"trial{'s' * (len(own) > 1)} {numbers} of worker {worker}"
        silent = [ages[optuna_private.storage_id(trial)] for trial in own if optuna_private.storage_id(trial) in ages]
        if silent:
            left = max(0.0, grace - min(silent))
            what += f" (last heard from {max(0.0, min(silent)):.0f} s ago; if it stays silent, rerun in {left:.0f} s)"
        parts.append(what)
    more = f", and of {len(held) - NAMED} more workers" if len(held) > NAMED else ""
    return f"Waiting for {'; '.join(parts)}{more}."


def _state(name: str) -> "TrialState":
    from optuna.trial import TrialState

    return TrialState[name]


def _finished() -> tuple[type[Exception], ...]:
    """What the storage raises about a trial that somebody has finished."""
    import optuna

    return (optuna.exceptions.UpdateFinishedTrialError,)
