"""TPE proposals and pruning decisions, from a copy of the study in memory.

Optuna's own ``ask`` reads the running trials from the storage three times and writes each parameter separately: with
700 trials, 32 of them running, this takes 62 ms on a file (two CPU cores), and dozens of round trips to a server.  Here
a study is read once and a proposal is written at once, in 34 ms including everything else that :meth:`StudySource.ask`
does; and a worker that is killed leaves no partial proposal behind.

The kernels of TPE are wider than Optuna's (see ``BANDWIDTH_FACTOR``).
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from squad.search import optuna_private
from squad.search.storage import SearchError, quiet_optuna
from squad.search.trial import PRUNING_INTERVAL

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

__all__ = ["Proposals"]

#: Bounds of the number of random trials before TPE begins, which is a tenth of all trials.
STARTUP_BOUNDS = (10, 32)
#: Factor of the normal reference rule for the minimum kernel width, 1.06 sd n^(-1 / (d + 4)) for n trials, d settings.
#:
#: TPE proposes points where good trials are dense and others are not, by l(x) / g(x), both sums of kernels around
#: trials.  Since version 5, Optuna's kernels for many settings are as narrow as those for one: in g, a hundredth of a
#: range after 100 trials.  In the ten settings of squad no kernel of g then reaches a candidate, g is almost constant,
#: and proposals are whatever is most similar to the good trials so far; running trials (constant_liar) repel nothing.
#: In a study of 700 trials on Fashion-MNIST, all of the last 550 had the three categories of its first good ones.  So
#: kernels are at least as wide as the normal reference rule says.  In simulated studies (benchmarks/search_sampler.py)
#: the median regret falls from 0.029 to 0.008 with 700 trials (with the rule of Optuna 4, to 0.021) and from 0.050 to
#: 0.041 with 150; with 30 it is the same.  Drawing a tenth of the trials at random leaves it at 0.029 with 700, and no
#: choice of startup, gamma, weights and number of candidates brings it below 0.047 with 150.
BANDWIDTH_FACTOR = 1.06
#: Numbers of epochs and of trials before which nothing is pruned.
PRUNING_WARMUP_EPOCHS, PRUNING_WARMUP_TRIALS = 20, 10


def _sampler(searched: dict[str, "BaseDistribution"], startup: int, seed: int) -> "optuna.samplers.TPESampler":
    """Return a TPE sampler for one proposal."""
    import optuna

    class Sampler(optuna.samplers.TPESampler):
        def infer_relative_search_space(self, study: object, trial: object) -> dict[str, "BaseDistribution"]:
            """Return the known search space, which TPE would infer from all trials, in half of its time."""
            return searched

    return Sampler(n_startup_trials=startup, multivariate=True, constant_liar=True, seed=seed)


def _minimum_width(centres: Any, settings: int) -> Any:
    """Return the kernel width of the normal reference rule.

    Args:
        centres: Centres of the kernels (n,).
        settings: Number of settings in the space.
    """
    import numpy as np

    return BANDWIDTH_FACTOR * np.std(centres) * len(centres) ** (-1 / (settings + 4))


def _estimator() -> Any:
    """Return the kernel density estimator that TPE uses here."""
    return optuna_private.kernel_estimator(_minimum_width)


class Proposals:
    """Proposals of multivariate TPE, which takes running trials for bad ones (``constant_liar``).

    Proposals depend only on ``seed``, ``salt`` and the trials so far, so that a resumed study continues as if it had
    not been interrupted.

    Args:
        distributions: Optuna's distributions by parameter.
        trials: Total number of trials.
        seed: Seed of the search.
        salt: Text that is different for each worker of a shared study.
        sampler: A user's sampler to use instead of TPE; its draws are not seeded here.
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
        self._startup = min(max(trials // 10, STARTUP_BOUNDS[0]), STARTUP_BOUNDS[1])
        self._seed, self._salt, self._sampler = seed, salt, sampler
        if sampler is not None and salt:
            sampler.reseed_rng()  # all workers received the same one
        with quiet_optuna():
            self._copy = optuna.create_study(direction="maximize")  # in memory
        self._storage = optuna_private.storage_of(self._copy)
        self._copy_numbers: dict[int, int] = {}  # trial number -> number, and id, in the copy
        self._unfinished: set[int] = set()

    def propose(self, trials: Sequence["FrozenTrial"]) -> tuple[dict[str, Any], int]:
        """Return parameters to try next, given all trials of the study, and their trial number in the copy."""
        self.follow(trials)
        self._copy.sampler = self._sampler or self._tpe(len(trials))
        try:
            asked = self._copy.ask(self._distributions)
        except Exception as cause:
            if self._sampler is None:
                raise
            raise SearchError(
                f"The sampler {type(self._sampler).__name__} proposed no trial ({type(cause).__name__}: {cause}). "
                "It may not support this space. Leave out sampler= to use TPE."
            ) from cause
        return asked.params, asked.number

    def attrs(self, copy_number: int) -> dict[str, Any]:
        """Return the attributes that a user's sampler stored with a proposal, which it may read later."""
        return {} if self._sampler is None else dict(self._storage.get_trial(copy_number).system_attrs)

    def _tpe(self, count: int) -> "optuna.samplers.TPESampler":
        """Return the TPE sampler for the proposal after ``count`` trials."""
        text = f"{self._seed}/{count}/{self._salt}".encode()
        sampler = _sampler(
            {name: each for name, each in sorted(self._distributions.items()) if not each.single()},
            self._startup,
            int.from_bytes(hashlib.blake2b(text, digest_size=4).digest()),
        )
        optuna_private.set_estimator(sampler, _estimator())
        return sampler

    def keep(self, number: int, copy_number: int) -> None:
        """Record that a proposal became the trial ``number`` of the study.

        Args:
            number: Number of the trial in the study.
            copy_number: Number of the proposal in the sampler's own copy of the study.
        """
        self._copy_numbers[number] = copy_number
        self._unfinished.add(number)

    def follow(self, trials: Sequence["FrozenTrial"]) -> None:
        """Update the copy to the present state of the study."""
        from optuna.trial import TrialState

        for trial in trials:
            if trial.number not in self._copy_numbers:
                # Queued trials are left out, because the copy's own ask would return them.
                if trial.state != TrialState.WAITING:
                    copy_id = self._storage.create_new_trial(optuna_private.study_id(self._copy), template_trial=trial)
                    self.keep(trial.number, copy_id)
                    if trial.state.is_finished():
                        self._unfinished.remove(trial.number)
            elif trial.number in self._unfinished and trial.state.is_finished():
                copy_id = self._copy_numbers[trial.number]
                for step, accuracy in trial.intermediate_values.items():
                    self._storage.set_trial_intermediate_value(copy_id, step, accuracy)
                value = trial.value if trial.state == TrialState.COMPLETE else None
                self._storage.set_trial_state_values(copy_id, trial.state, None if value is None else [value])
                self._unfinished.remove(trial.number)

    def knows(self, number: int) -> bool:
        """Return whether a trial is in the copy."""
        return number in self._copy_numbers

    def prunes(self, number: int, epoch: int, accuracy: float) -> bool:
        """Return whether a trial's best accuracy so far is below the median of complete trials at this epoch.

        Args:
            number: Number of the trial in the study.
            epoch: Number of epochs so far.
            accuracy: Validation accuracy after them.

        Returns:
            Whether to prune the trial.
        """
        import optuna

        copy_id = self._copy_numbers[number]
        self._storage.set_trial_intermediate_value(copy_id, epoch, accuracy)
        pruner = optuna.pruners.MedianPruner(PRUNING_WARMUP_TRIALS, PRUNING_WARMUP_EPOCHS, PRUNING_INTERVAL)
        return bool(pruner.prune(self._copy, self._storage.get_trial(copy_id)))
