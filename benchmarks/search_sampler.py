"""Comparison of proposal strategies for a search, in simulated studies of random functions over the space of squad.

The functions resemble those of real searches.  One setting dominates, and coverage falls to 0 outside a small part of
its range; the effects of the others differ by factors of up to thirty; the optima of some numbers depend on a category;
a setting may have no effect for some category; and the best value of one category, the key, can be deceptive: best if
the numbers are right, and worse if not.  Results of different seeds vary by noise of 0.007.

Studies use squad.search.tpe with slots that are refilled one by one.  The regret of a study is the difference between
the function's optimum and the true value of the trial with the best observed value.

    python -m benchmarks.search_sampler            # a few functions, small studies: half a minute
    python -m benchmarks.search_sampler --full     # the record: a quarter of an hour with --workers 2
"""

import argparse
import datetime
import heapq
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Any
from unittest import mock

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator
from optuna.trial import FrozenTrial, TrialState
from scipy.stats import qmc

from benchmarks.harness import RESULTS, rows, save, spread
from squad.search import tpe
from squad.search.space import Space
from squad.search.tpe import Proposals

SEED = 11
#: Numbers of trials and of slots.
BUDGETS = ((30, 6), (150, 30), (700, 32))
KINDS = ("plain", "interacting", "deceptive")
NOISE = 0.007
DISTRIBUTIONS = Space.paper("squad").distributions()
NUMBERS = [name for name, found in DISTRIBUTIONS.items() if not isinstance(found, CategoricalDistribution)]
CATEGORIES = {
    name: found.choices for name, found in DISTRIBUTIONS.items() if isinstance(found, CategoricalDistribution)
}
#: Settings on a grid, with its number of steps: optima are on the grid, so that a function's optimum is known exactly.
GRIDS = {"network.bins": 8, "training.log2_batch_size": 8}


def scaled_position(name: str, value: float) -> float:
    """Return the position of a number in its range, from 0 to 1, on a linear or logarithmic scale."""
    found = DISTRIBUTIONS[name]
    assert isinstance(found, (FloatDistribution, IntDistribution))
    scale = math.log if found.log else float
    return (scale(value) - scale(found.low)) / (scale(found.high) - scale(found.low))


class Function:
    """Coverage as a function of settings: ``top`` minus a sum of losses, and at least 0.

    Args:
        kind: "plain": losses of numbers and categories add up.  "interacting": categories shift the optima of numbers.
            "deceptive": in addition, the key's right value is good only if the numbers are right.
        number: Index of the function among those of its kind.
    """

    def __init__(self, kind: str, number: int) -> None:
        rng = np.random.default_rng([SEED, KINDS.index(kind), number])
        self.top = float(rng.uniform(0.7, 0.8))
        self.optima = {name: rng.uniform(0.15, 0.85) for name in NUMBERS}
        for name, steps in GRIDS.items():
            self.optima[name] = rng.integers(1, steps) / steps
        self.strengths = {name: math.exp(rng.uniform(math.log(0.01), math.log(0.3))) for name in NUMBERS}
        # Half of the functions are dominated by dropout, with the optimum at the low end, as in real searches.
        free = [name for name in NUMBERS if name not in GRIDS and name != "network.limit"]
        self.dominant = "network.dropout" if rng.random() < 0.5 else str(rng.choice(free))
        end = rng.uniform(0.0, 0.15)
        self.optima[self.dominant] = end if self.dominant == "network.dropout" or rng.random() < 0.5 else 1 - end
        self.ruin = float(rng.uniform(0.3, 0.8))
        # The best learning rate grows with the batch size.
        self.slope = 0.0 if self.dominant == "training.lr" else rng.uniform(0.0, 0.4)

        self.key = str(rng.choice(["network.spacing", "network.learn_values"]))
        self.offsets: dict[str, dict[Any, float]] = {}
        for name, choices in CATEGORIES.items():
            best = int(rng.integers(len(choices)))
            low, high = (0.015, 0.04) if name == self.key else (0.0, 0.02)
            self.offsets[name] = {
                choice: 0.0 if at == best else rng.uniform(low, high) for at, choice in enumerate(choices)
            }
        self.right = min(self.offsets[self.key], key=lambda choice: self.offsets[self.key][choice])

        self.shifts: dict[tuple[str, Any, str], float] = {}
        for name, choices in CATEGORIES.items():
            for choice in choices:
                for moved in rng.choice([name for name in free if name != self.dominant], 2, replace=False):
                    size = 0.0 if kind == "plain" else rng.normal(0, 0.15)
                    self.shifts[name, choice, str(moved)] = size
        self.narrow = rng.uniform(2.0, 4.0) if kind == "deceptive" else 1.0
        idle = str(rng.choice([name for name in NUMBERS if name != self.dominant]))
        self.idle = {("network.spacing", "gaussian", "network.limit")}
        if kind != "plain":
            self.idle.add(
                ("network.learn_values", rng.choice(np.array(CATEGORIES["network.learn_values"])).item(), idle)
            )

    def optimum(self) -> float:
        """Return the largest value: the losses of numbers can all be 0, for any categories."""
        return self.top

    def ruins(self, params: Mapping[str, Any]) -> float:
        """Return the loss due to the dominating setting."""
        away = abs(scaled_position(self.dominant, params[self.dominant]) - self.optima[self.dominant])
        return float(self.top * (away / self.ruin) ** 1.5)

    def __call__(self, params: Mapping[str, Any]) -> float:
        """Return the value without noise."""
        loss = self.ruins(params)
        right = params[self.key] == self.right
        for name in CATEGORIES:
            loss += self.offsets[name][params[name]]
        for name in NUMBERS:
            if name == self.dominant or any((each, params[each], name) in self.idle for each in CATEGORIES):
                continue
            best = self.optima[name] + sum(self.shifts.get((each, params[each], name), 0.0) for each in CATEGORIES)
            if name == "training.lr":
                batch = "training.log2_batch_size"
                best += self.slope * (scaled_position(batch, params[batch]) - self.optima[batch])
            far = ((scaled_position(name, params[name]) - min(max(best, 0.02), 0.98)) / 0.5) ** 2
            loss += self.strengths[name] * (self.narrow if right else 1.0) * 2 * far / (2 + far)
        return max(self.top - loss, 0.0)


@dataclass(frozen=True)
class Variant:
    """A proposal strategy; the defaults are Optuna's, with the settings of the first version of Proposals.

    Attributes:
        startup: fraction of trials drawn before TPE; None: a tenth, between 10 and 32.
        quasi: whether these come from a scrambled Sobol sequence.
        gamma, cap: fraction of trials that count as "good", and their maximum number.
        uniform: fraction of all trials that are drawn at random.
        flat: whether old trials count as much as new ones.
        width, scaled, floor: standard deviation of a kernel, width * n^(-1 / (d + 4)) of a setting's range (as in
            Optuna 4, with 0.2) or of the trials' standard deviation (scaled); for all kernels, or as a lower bound for
            Optuna's (floor).
        blur: fraction of a kernel's mass that is spread over all values of a category.
        ours: use squad.search.tpe instead of all of these.
    """

    startup: float | None = None
    quasi: bool = False
    gamma: float = 0.1
    cap: float = 25
    prior_weight: float | None = None
    candidates: int = 24
    uniform: float = 0.0
    flat: bool = False
    multivariate: bool = True
    group: bool = False
    liar: bool = True
    width: float | None = None
    scaled: bool = False
    floor: bool = False
    blur: float | None = None
    ours: bool = False

    def sampler(self, searched: dict[str, BaseDistribution], startup: int, seed: int, study: int) -> BaseSampler:
        """Return the sampler for one proposal."""
        if np.random.default_rng([seed, 1]).random() < self.uniform:
            return RandomSampler(seed=seed)
        variant = self

        class Sampler(TPESampler):
            def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
                if not variant.multivariate or variant.group:
                    return super().infer_relative_search_space(study, trial)
                return searched

            def _sample_relative(self, of: Any, trial: FrozenTrial, search_space: Any) -> dict[str, Any]:
                found = super()._sample_relative(of, trial, search_space)
                return found if found or not variant.quasi else _sobol(searched, trial.number, study)

        with warnings.catch_warnings():
            # Warnings that Optuna 6 will drop gamma, weights and prior_weight, and that group is experimental.
            warnings.simplefilter("ignore")
            return Sampler(
                n_startup_trials=startup,
                multivariate=self.multivariate,
                group=self.group,
                constant_liar=self.liar,
                n_ei_candidates=self.candidates,
                gamma=lambda count: int(min(math.ceil(self.gamma * count), self.cap)),
                prior_weight=self.prior_weight,
                weights=np.ones if self.flat else None,
                seed=seed,
            )

    def estimator(self) -> type[_ParzenEstimator]:
        """Return the class of kernel density estimators."""
        variant = self

        class Estimator(_ParzenEstimator):
            def _calculate_numerical_distributions(self, observations: Any, search_space: Any, parameters: Any) -> Any:
                found: Any = super()._calculate_numerical_distributions(observations, search_space, parameters)
                count = len(observations)
                if variant.width is None or not count:
                    return found
                whole = found.adapted_high - found.adapted_low
                kernel_width = variant.width * count ** (-1 / (len(self._search_space) + 4))
                kernel_width *= np.std(found.mu[:count]) if variant.scaled else whole
                # Optuna's own minimum width
                kernel_width = max(kernel_width, whole / min(2 + count, 100))
                sigma = np.maximum(found.sigma, kernel_width) if variant.floor else np.full(count + 1, kernel_width)
                sigma[-1] = found.sigma[-1]
                return found._replace(sigma=sigma)

            def _calculate_categorical_distributions(
                self, observations: Any, param_name: str, search_space: Any, parameters: Any
            ) -> Any:
                found: Any = super()._calculate_categorical_distributions(
                    observations, param_name, search_space, parameters
                )
                count, choices = len(observations), len(search_space.choices)
                if variant.blur is None or not count:
                    return found
                weights = np.full((count + 1, choices), variant.blur / choices)
                weights[np.arange(count), observations.astype(int)] += 1 - variant.blur
                weights[-1] = 1 / choices
                return found._replace(weights=weights)

        return Estimator


def _sobol(searched: Mapping[str, BaseDistribution], number: int, seed: int) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning if the number of points is not a power of two
        sequence = qmc.Sobol(len(searched), seed=seed)
    if number:
        sequence.fast_forward(number)
    params: dict[str, Any] = {}
    for (name, found), at in zip(searched.items(), sequence.random(1)[0], strict=True):
        if isinstance(found, CategoricalDistribution):
            params[name] = found.choices[int(at * len(found.choices))]
            continue
        assert isinstance(found, (FloatDistribution, IntDistribution))
        if found.step is not None and not found.log:
            steps = round((found.high - found.low) / found.step) + 1
            params[name] = found.low + int(at * steps) * found.step
        else:
            low, high = (math.log(found.low), math.log(found.high)) if found.log else (found.low, found.high)
            value = low + at * (high - low)
            params[name] = math.exp(value) if found.log else value
    return params


def simulate(function: Function, variant: Variant, trials: int, slots: int, seed: int) -> dict[str, float]:
    """Simulate a study; return its regret and statistics of its trials."""
    rng = np.random.default_rng([SEED, seed])
    maker = Proposals(DISTRIBUTIONS, trials, seed)
    patched: dict[str, Any] = {}
    if not variant.ours:
        made = variant.estimator()
        patched = {"_sampler": partial(variant.sampler, study=seed), "_estimator": lambda: made}
        maker._startup = min(max(trials // 10, 10), 32) if variant.startup is None else round(variant.startup * trials)
    known: list[FrozenTrial] = []
    values: list[float] = []
    running: list[tuple[float, int]] = []
    with mock.patch.multiple(tpe, **patched) if patched else nullcontext():
        for number in range(trials):
            clock = 0.0
            if len(running) == slots:
                clock, ended = heapq.heappop(running)
                known[ended] = frozen(ended, known[ended].params, values[ended])
            params, at = maker.propose(known)
            known.append(frozen(number, params, None))
            maker.keep(number, at)
            values.append(min(max(function(params) + NOISE * rng.standard_normal(), 0.0), 1.0))
            heapq.heappush(running, (clock + rng.uniform(0.5, 1.5), number))
    best = int(np.argmax(values))
    near = [trial for trial in known if function.ruins(trial.params) < 0.05]
    late = Counter(tuple(trial.params[name] for name in CATEGORIES) for trial in known[trials // 2 :])
    return {
        "regret": function.optimum() - function(known[best].params),
        "right": float(known[best].params[function.key] == function.right),
        "tried": float(sum(trial.params[function.key] == function.right for trial in near)),
        "alike": late.most_common(1)[0][1] / late.total(),
    }


def frozen(number: int, params: dict[str, Any], value: float | None) -> FrozenTrial:
    """Create a trial that is running, or that has completed with ``value``."""
    now = datetime.datetime(2020, 1, 1)  # not used
    return FrozenTrial(
        number=number,
        trial_id=number,
        state=TrialState.RUNNING if value is None else TrialState.COMPLETE,
        value=value,
        datetime_start=now,
        datetime_complete=None if value is None else now,
        params=params,
        distributions=DISTRIBUTIONS,
        user_attrs={},
        system_attrs={},
        intermediate_values={},
    )


NORMAL = Variant(width=1.06, scaled=True, floor=True)
#: Variants for all budgets; MORE has those for the small budgets only.
MAIN = {
    "ours": Variant(ours=True),
    "Optuna 5": Variant(),
    "random": Variant(uniform=1.0),
    "univariate": Variant(multivariate=False),
    "random 10 %": Variant(uniform=0.1),
    "Optuna 4's width": Variant(width=0.2),
}
MORE = {
    "startup 15 %": Variant(startup=0.15),
    "startup 20 %": Variant(startup=0.2),
    "startup 30 %": Variant(startup=0.3),
    "startup 10 %, Sobol": Variant(startup=0.1, quasi=True),
    "startup 20 %, Sobol": Variant(startup=0.2, quasi=True),
    "random 5 %": Variant(uniform=0.05),
    "random 20 %": Variant(uniform=0.2),
    "gamma 15 %": Variant(gamma=0.15, cap=math.inf),
    "gamma 20 %": Variant(gamma=0.2, cap=math.inf),
    "prior weight 3": Variant(prior_weight=3.0),
    "8 candidates": Variant(candidates=8),
    "64 candidates": Variant(candidates=64),
    "equal weights": Variant(flat=True),
    "no liar": Variant(liar=False),
    "group": Variant(group=True),
    "width 0.05": Variant(width=0.05),
    "width 1.06 sd, no floor": replace(NORMAL, floor=False),
    "ours, blur 0.3": replace(NORMAL, blur=0.3),
    "ours, startup 20 %": replace(NORMAL, startup=0.2),
    "ours, 64 candidates": replace(NORMAL, candidates=64),
    "ours, no liar": replace(NORMAL, liar=False),
}
#: Number of the first test function of a kind; settings were chosen with other functions, the first eight.
FIRST = 100


def study(task: tuple[Variant, int, int, str, int]) -> dict[str, float]:
    """Run a study in a worker process."""
    variant, trials, slots, kind, number = task
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return simulate(Function(kind, number), variant, trials, slots, number)


def summary(found: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Summarize over functions of all kinds, with the median regret by kind."""
    each = len(found) // len(KINDS)
    return {
        "regret": spread([one["regret"] for one in found]),
        "mean regret": fmean(one["regret"] for one in found),
        "median regret by kind": {
            kind: median(one["regret"] for one in found[at * each : (at + 1) * each]) for at, kind in enumerate(KINDS)
        },
        "right category": fmean(one["right"] for one in found),
        "trials with it": median(one["tried"] for one in found),
        "alike in the second half": median(one["alike"] for one in found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all budgets and variants, 24 functions")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the record of a full run")
    options = parser.parse_args()

    each = 8 if options.full else 3
    plan = [
        (trials, slots, name, variant)
        for trials, slots in (BUDGETS if options.full else BUDGETS[:2])
        for name, variant in ({**MAIN, **MORE} if options.full and trials < 700 else MAIN).items()
    ]
    tasks = [
        (variant, trials, slots, kind, FIRST + number)
        for trials, slots, _, variant in plan
        for kind in KINDS
        for number in range(each)
    ]
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        found = list(pool.map(study, tasks))
    results: list[dict[str, Any]] = []
    for at, (trials, slots, name, _) in enumerate(plan):
        part = found[at * each * len(KINDS) : (at + 1) * each * len(KINDS)]
        results.append({"trials": trials, "slots": slots, "variant": name, **summary(part)})
    rows(
        f"Regret over {each * len(KINDS)} functions",
        ["trials", "variant", "median", "quartiles", "mean", *KINDS, "right", "tried", "alike"],
        [
            [
                str(one["trials"]),
                one["variant"],
                f"{one['regret']['median']:.4f}",
                f"{one['regret']['q25']:.4f}-{one['regret']['q75']:.4f}",
                f"{one['mean regret']:.4f}",
                *(f"{value:.4f}" for value in one["median regret by kind"].values()),
                f"{one['right category']:.2f}",
                f"{one['trials with it']:g}",
                f"{one['alike in the second half']:.2f}",
            ]
            for one in results
        ],
    )
    if options.full:
        variants = {name: _non_defaults(variant) for name, variant in {**MAIN, **MORE}.items()}
        settings = {"functions of a kind": each, "noise": NOISE, "optuna": optuna.__version__, "variants": variants}
        save("search_sampler", options.out, settings, results, SEED)


def _non_defaults(variant: Variant) -> dict[str, Any]:
    """Return the settings that differ from the defaults."""
    plain = asdict(Variant())
    return {
        name: str(value) if value == math.inf else value
        for name, value in asdict(variant).items()
        if value != plain[name]
    }


if __name__ == "__main__":
    main()
