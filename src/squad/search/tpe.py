"""What TPE proposes, and which trials are not worth going on with, from a copy of the study in memory.

Optuna's own ``ask`` reads the running trials from the storage three times and writes every parameter by itself: with
700 trials, 32 of them running, 62 ms on a file (two CPU cores), and dozens of round trips to a server.  Here a study is
read once and a proposal is written whole, in 34 ms with all that :meth:`StudySource.ask` does besides; and a worker
that is killed leaves no half of one behind.

One thing of Optuna's TPE is done otherwise: how wide its kernels are (see ``WIDTH``).
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from squad.search import optuna_private
from squad.search.storage import SearchError, quiet_optuna
from squad.search.trial import LOOKS

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

__all__ = ["Proposals"]

#: Trials drawn at random before TPE has something to go by: a tenth of all, within these.
STARTUP = (10, 32)
#: TPE proposes where good trials are dense and others are not, l(x) / g(x), both sums of kernels around trials.  Since
#: version 5, Optuna makes kernels of many settings as narrow as those of one: a hundredth of a range in g, after 100
#: trials.  In the ten settings of squad no kernel of g then reaches a candidate, g is the same almost everywhere, and
#: what is proposed is what is most like the good trials there are; trials that run (constant_liar) repel nobody.  In a
#: study of 700 trials on Fashion-MNIST, all of the last 550 had the three categories of its first good ones.  So
#: kernels are as wide as the normal reference rule has it, 1.06 sd n^(-1 / (d + 4)) for n trials of d settings, or as
#: Optuna's where those are wider.  In simulated studies (benchmarks/search_sampler.py) the median regret falls from
#: 0.029 to 0.008 with 700 trials (with the rule of Optuna 4, to 0.021) and from 0.050 to 0.041 with 150; with 30 it is
#: the same.  A tenth of the trials at random leaves it at 0.029 with 700, and none of startup, gamma, weights and
#: number of candidates brings it below 0.047 with 150.
WIDTH = 1.06
#: Pruning: nothing is pruned before so many epochs or trials.
WARM_EPOCHS, WARM_TRIALS = 20, 10


def _sampler(searched: dict[str, "BaseDistribution"], startup: int, seed: int) -> "optuna.samplers.TPESampler":
    """For one proposal."""
    import optuna

    class Sampler(optuna.samplers.TPESampler):
        def infer_relative_search_space(self, study: object, trial: object) -> dict[str, "BaseDistribution"]:
            """What is known, which TPE would gather from all trials, in half of its time."""
            return searched

    return Sampler(n_startup_trials=startup, multivariate=True, constant_liar=True, seed=seed)


def _least(places: Any, settings: int) -> Any:
    """The normal reference rule for kernels at ``places``, (n,), of so many settings."""
    import numpy as np

    return WIDTH * np.std(places) * len(places) ** (-1 / (settings + 4))


class Proposals:
    """Multivariate TPE, with trials that are running taken for bad ones (``constant_liar``).

    Args:
        distributions: what is searched, by Optuna's names.
        trials: how many there will be in all.
        seed, salt: what is drawn is a function of these and of the trials there are, so that it does not matter
            whether a study was resumed; workers at one study have salts of their own.
        sampler: a user's own in the place of TPE; what it draws is its own matter.
    """

    def __init__(
        self,
        distributions: dict[str, "BaseDistribution"],
        trials: int,
        seed: int,
        salt: str = "",
        sampler: "optuna.samplers.BaseSampler | None" = None,
    ) -> None:
        import optuna

        self._distributions = distributions
        self._startup = min(max(trials // 10, STARTUP[0]), STARTUP[1])
        self._seed, self._salt, self._sampler = seed, salt, sampler
        if sampler is not None and salt:
            sampler.reseed_rng()  # workers were all sent the same one
        with quiet_optuna():
            self._copy = optuna.create_study(direction="maximize")  # in memory
        self._storage = optuna_private.storage_of(self._copy)
        self._places: dict[int, int] = {}  # number of a trial -> its number in the copy, which is its id there, too
        self._open: set[int] = set()

    def propose(self, trials: Sequence["FrozenTrial"]) -> tuple[dict[str, Any], int]:
        """Parameters to try next, given all trials of the study, and the place they have in the copy."""
        self.follow(trials)
        self._copy.sampler = self._sampler or self._tpe(len(trials))
        try:
            asked = self._copy.ask(self._distributions)
        except Exception as cause:
            if self._sampler is None:
                raise
            raise SearchError(
                f"The sampler {type(self._sampler).__name__} proposed no trial ({type(cause).__name__}: {cause}). "
                "Does it support this space? Without sampler=, TPE is used."
            ) from cause
        return asked.params, asked.number

    def attrs(self, place: int) -> dict[str, Any]:
        """What a user's sampler noted about a proposal, which it may want to read again."""
        return {} if self._sampler is None else dict(self._storage.get_trial(place).system_attrs)

    def _tpe(self, count: int) -> "optuna.samplers.TPESampler":
        """TPE for the proposal after so many trials."""
        words = f"{self._seed}/{count}/{self._salt}".encode()
        sampler = _sampler(
            {name: each for name, each in sorted(self._distributions.items()) if not each.single()},
            self._startup,
            int.from_bytes(hashlib.blake2b(words, digest_size=4).digest()),
        )
        optuna_private.set_estimator(sampler, optuna_private.kernel_estimator(_least))
        return sampler

    def keep(self, number: int, place: int) -> None:
        """A proposal has become the trial of this number."""
        self._places[number] = place
        self._open.add(number)

    def follow(self, trials: Sequence["FrozenTrial"]) -> None:
        """Do in the copy what happened in the study."""
        from optuna.trial import TrialState

        for trial in trials:
            if trial.number not in self._places:
                # One in the queue is nobody's yet, and the copy's own ask would take it.
                if trial.state != TrialState.WAITING:
                    place = self._storage.create_new_trial(optuna_private.study_id(self._copy), template_trial=trial)
                    self.keep(trial.number, place)
                    if trial.state.is_finished():
                        self._open.remove(trial.number)
            elif trial.number in self._open and trial.state.is_finished():
                place = self._places[trial.number]
                for step, accuracy in trial.intermediate_values.items():
                    self._storage.set_trial_intermediate_value(place, step, accuracy)
                value = trial.value if trial.state == TrialState.COMPLETE else None
                self._storage.set_trial_state_values(place, trial.state, None if value is None else [value])
                self._open.remove(trial.number)

    def knows(self, number: int) -> bool:
        """Whether a trial is in the copy."""
        return number in self._places

    def prunes(self, number: int, epoch: int, accuracy: float) -> bool:
        """Whether a trial's best accuracy so far is below the median of complete ones at this epoch."""
        import optuna

        place = self._places[number]
        self._storage.set_trial_intermediate_value(place, epoch, accuracy)
        pruner = optuna.pruners.MedianPruner(WARM_TRIALS, WARM_EPOCHS, LOOKS)
        return bool(pruner.prune(self._copy, self._storage.get_trial(place)))
