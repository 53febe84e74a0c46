"""Populations of many trials: equal to separate fits, and the order of their groups."""

import itertools

import pytest

from squad.search.population import Population
from squad.search.problem import count_parameters
from tests.search import test_population as fast
from tests.search.sources import Listed, problem
from tests.search.test_population import settings, turns_of


def test_a_late_group_does_not_take_all_turns() -> None:
    """When the first of three trials ends, a trial of another shape begins, and alternates with the rest."""
    lengths = [(16, 40), (16, 80), (32, 80)]
    own = settings(1)[0]
    source = Listed([{**own, "training.batch_size": b, "training.max_epochs": epochs} for b, epochs in lengths])
    population = Population(problem(stop_patience=200), source, 2)
    turns = turns_of(population, lambda shape: shape.training.batch_size)
    assert sorted(source.told) == [0, 1, 2]
    assert turns[:40] == [16] * 40
    # An epoch in batches of 16 has about twice the steps of one in batches of 32: it is not looked at half as often.
    shared = turns[40 : 40 + 60]
    assert 15 <= shared.count(16) <= 25
    assert max(len(list(same)) for _, same in itertools.groupby(shared)) <= 3


def test_turns_of_large_networks_depend_on_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 21 bins instead of 3, a network has several times the weights, and its group fewer turns."""
    monkeypatch.setattr("squad.search.problem.LARGE", 1)
    monkeypatch.setattr("squad.search.population.PARAMETERS_PER_STEP", 1)
    own = {**settings(1)[0], "training.batch_size": 16, "training.max_epochs": 40}
    source = Listed([{**own, "network.bins": bins} for bins in (3, 21)])
    posed = problem(stop_patience=200)
    population = Population(posed, source, 2)
    turns = turns_of(population, lambda shape: shape.wide.bins)
    shapes = [posed.run({**own, "network.bins": bins})[0].wide for bins in (3, 21)]
    weights = [count_parameters(shape, posed.data.x.shape[1], posed.data.classes) for shape in shapes]
    shared = turns[: len(turns) - turns[::-1].index(3)]  # until the smaller one has ended
    assert shared.count(3) == 40
    assert shared.count(21) == pytest.approx(40 * weights[0] / weights[1], abs=2)


@pytest.mark.parametrize("slots", [1, 20])
@pytest.mark.parametrize("large", [False, True])
def test_every_trial_equals_a_separate_fit(slots: int, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fast.test_every_trial_equals_a_separate_fit(slots, large, monkeypatch)


@pytest.mark.parametrize("model", ["relu-dropout", "dlgm", "mlp"])
def test_other_models(model: str) -> None:
    fast.test_other_models(model)
