"""What TPE proposes, and which trials are not worth going on with, from a copy of the study in memory.

Optuna's own ``ask`` reads the running trials from the storage three times and writes every parameter by itself: with
700 trials, 32 of them running, 62 ms on a file (two CPU cores), and dozens of round trips to a server.  Here a study is
read once and a proposal is written whole, in 34 ms with all that :meth:`StudySource.ask` does besides; and a worker
that is killed leaves no half of one behind.

One thing of Optuna's TPE is done otherwise: how wide its kernels are (see ``WIDTH``).
"""

import functools
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from squad.search.storage import calmly
from squad.search.trial import LOOKS

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator
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


@functools.cache
def _estimator() -> type["_ParzenEstimator"]:
    """The sums of kernels that TPE compares."""
    import numpy as np
    from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator

    class Estimator(_ParzenEstimator):
        def _calculate_numerical_distributions(self, observations: Any, search_space: Any, parameters: Any) -> Any:
            """A kernel a trial, (n,), and the prior, all on the setting's own scale."""
            found: Any = super()._calculate_numerical_distributions(observations, search_space, parameters)
            count = len(observations)
            if count < 2:
                return found
            least = WIDTH * np.std(found.mu[:count]) * count ** (-1 / (len(self._search_space) + 4))
            return found._replace(sigma=np.maximum(found.sigma, least))  # the prior's is the whole range: it stays

    return Estimator


class Proposals:
    """Multivariate TPE, with trials that are running taken for bad ones (``constant_liar``).

    Args:
        distributions: what is searched, by Optuna's names.
        trials: how many there will be in all.
        seed, salt: what is drawn is a function of these and of the trials there are, so that it does not matter
            whether a study was resumed; workers at one study have salts of their own.
    """

    def __init__(self, distributions: dict[str, "BaseDistribution"], trials: int, seed: int, salt: str = "") -> None:
        import optuna

        self._distributions = distributions
        self._startup = min(max(trials // 10, STARTUP[0]), STARTUP[1])
        self._seed, self._salt = seed, salt
        with calmly():
            self._copy = optuna.create_study(direction="maximize")  # in memory
        self._storage = self._copy._storage
        self._places: dict[int, int] = {}  # number of a trial -> its number in the copy, which is its id there, too
        self._open: set[int] = set()

    def propose(self, trials: Sequence["FrozenTrial"]) -> tuple[dict[str, Any], int]:
        """Parameters to try next, given all trials of the study, and the place they have in the copy."""
        self.follow(trials)
        words = f"{self._seed}/{len(trials)}/{self._salt}".encode()
        sampler = _sampler(
            {name: each for name, each in sorted(self._distributions.items()) if not each.single()},
            self._startup,
            int.from_bytes(hashlib.blake2b(words, digest_size=4).digest()),
        )
        sampler._parzen_estimator_cls = _estimator()
        self._copy.sampler = sampler
        asked = self._copy.ask(self._distributions)
        return asked.params, asked.number

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
                    self.keep(trial.number, self._storage.create_new_trial(self._copy._study_id, template_trial=trial))
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
