"""Proposals of TPE: a search keeps exploring away from its first good trials."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial

from benchmarks.search_sampler import frozen
from squad.search import tpe
from squad.search.optuna_private import kernel_estimator
from squad.search.space import Space
from squad.search.tpe import Proposals

SPACE = Space.paper("squad").distributions()
CATEGORIES = {name: found.choices for name, found in SPACE.items() if isinstance(found, CategoricalDistribution)}
TRIALS, SLOTS = 150, 30


def deceptive(params: Mapping[str, Any]) -> float:
    """Dropout must be near 0; linear spacing is better only if the KL multiplier is right."""
    far = abs(np.log10(params["training.kl_multiplier"]) + 2.6) / 4
    kinder = 0.3 if params["network.spacing"] == "gaussian" else 1.0
    better = 0.03 if params["network.spacing"] == "linear" else 0.0
    slow = abs(np.log10(params["training.lr"]) + 3.1) / 20
    return float(max(0.72 + better - 1.2 * params["network.dropout"] - 0.3 * kinder * far - slow, 0.0))


def run(seed: int, value: Callable[[Mapping[str, Any]], float] = deceptive, trials: int = TRIALS) -> list[FrozenTrial]:
    """A study with slots that are refilled one by one, and noise as between seeds."""
    noise = np.random.default_rng(seed)
    maker, known, running = Proposals(SPACE, trials, seed), list[FrozenTrial](), list[int]()
    for number in range(trials):
        if len(running) == SLOTS:
            ended = running.pop(int(noise.integers(SLOTS // 3)))
            found = value(known[ended].params) + 0.007 * noise.standard_normal()
            known[ended] = frozen(ended, known[ended].params, found)
        params, place = maker.propose(known)
        known.append(frozen(number, params, None))
        maker.keep(number, place)
        running.append(number)
    return known


@pytest.fixture(scope="module")
def studies() -> list[list[FrozenTrial]]:
    return [run(seed) for seed in range(2)]  # tests/slow has more


class TestExploration:
    def test_every_category_is_still_tried_late(self, studies: list[list[FrozenTrial]]) -> None:
        """Every category value has at least 11 of the last 75 trials; with Optuna's own kernels, some have none."""
        for study in studies:
            low = [trial.params for trial in study[TRIALS // 2 :] if trial.params["network.dropout"] < 0.2]
            assert len(low) >= 50  # it has found what dominates
            for name, choices in CATEGORIES.items():
                tried = Counter(params[name] for params in low)
                assert min(tried[choice] for choice in choices) >= 6, (name, tried)

    def test_no_combination_of_categories_dominates(self, studies: list[list[FrozenTrial]]) -> None:
        for study in studies:
            late = Counter(tuple(trial.params[name] for name in CATEGORIES) for trial in study[TRIALS // 2 :])
            assert late.most_common(1)[0][1] < 0.45 * late.total()

    def test_a_setting_without_effect_stays_spread_out(self, studies: list[list[FrozenTrial]]) -> None:
        """The limit has no effect here; a uniform distribution has a standard deviation of 0.29 of the range."""
        for study in studies:
            limits = [trial.params["network.limit"] for trial in study[TRIALS // 2 :]]
            assert np.std(limits) > 0.15 * (3.5 - 0.7)

    def test_equal_seeds_give_equal_studies(self, studies: list[list[FrozenTrial]]) -> None:
        assert [trial.params for trial in run(0)] == [trial.params for trial in studies[0]]
        assert [trial.params for trial in studies[1]] != [trial.params for trial in studies[0]]


class TestWidths:
    def estimate(self, observations: dict[str, Any], space: dict[str, Any]) -> Any:
        sampler = optuna.samplers.TPESampler()
        made = kernel_estimator(tpe._minimum_width)(observations, space, sampler._parzen_estimator_parameters)
        return made._mixture_distribution.distributions

    def test_widths_follow_the_normal_reference_rule(self) -> None:
        rng = np.random.default_rng(0)
        names = ["training.kl_multiplier", "network.bins", "network.dropout"]
        space = {name: SPACE[name] for name in names}
        log = rng.uniform(np.log(1e-6), np.log(1e-2), 200)
        bins = rng.integers(2, 11, 200) * 2 + 1
        dropout = np.r_[rng.uniform(0.1, 0.12, 199), 0.9]
        found = self.estimate(dict(zip(names, (np.exp(log), bins, dropout), strict=True)), space)
        for kernels, values in zip(found, (log, bins, dropout), strict=True):
            rule = 1.06 * np.std(values) * 200 ** (-1 / 7)
            assert kernels.sigma[:-1].min() == pytest.approx(rule)
            assert np.median(kernels.sigma[:-1]) == pytest.approx(rule)
            assert kernels.sigma[-1] == pytest.approx(kernels.adapted_high - kernels.adapted_low)  # the prior
        # Optuna's width if it is larger: an isolated kernel reaches its neighbour.
        assert found[2].sigma[199] == pytest.approx(0.9 - dropout[:199].max())

    @pytest.mark.parametrize("count", [0, 1])
    def test_optunas_widths_with_fewer_than_two_trials(self, count: int) -> None:
        space = {"network.dropout": SPACE["network.dropout"]}
        values = {"network.dropout": np.full(count, 0.3)}
        sampler = optuna.samplers.TPESampler()
        plain = sampler._parzen_estimator_cls(values, space, sampler._parzen_estimator_parameters)
        [expected] = plain._mixture_distribution.distributions
        [found] = self.estimate(values, space)
        assert isinstance(expected.sigma, np.ndarray)  # type: ignore[union-attr]
        np.testing.assert_array_equal(found.sigma, expected.sigma)  # type: ignore[union-attr]
