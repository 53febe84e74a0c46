"""Populations: every trial is reported once, whatever its shape, and has the outcome of a separate fit."""

from collections.abc import Callable
from typing import Any

import pytest

from squad.search.population import Population, slots_for
from squad.search.problem import count_parameters
from squad.search.trial import Trial
from squad.train import fit
from tests.search.sources import Listed, clouds, problem

SIZES = (16, 23, 32)


def settings(count: int) -> list[dict[str, Any]]:
    return [
        {
            "network.bins": (5, 9, 7)[index % 3],
            "network.dropout": (0.1, 0.3)[index % 2],
            "network.learn_values": ("fixed", "per_layer", "per_neuron")[index % 3],
            "training.lr": 0.003 * (1 + index),
            "training.batch_size": SIZES[index * index % 3],
        }
        for index in range(count)
    ]


@pytest.mark.parametrize("slots", [4])  # tests/slow has others
@pytest.mark.parametrize("large", [False, True])
def test_every_trial_equals_a_separate_fit(slots: int, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squad.search.problem.LARGE", 1 if large else 1 << 40)
    posed, source = problem(), Listed(settings(6))
    population = Population(posed, source, slots)
    population.run()
    assert source.told.keys() == set(range(6))
    assert population.running == []
    assert max(map(len, source.beats)) == min(slots, 6)
    for number, own in enumerate(settings(6)):
        wanted = posed.fit_settings(own)
        fitted = fit(wanted.network, wanted.training, posed.data, [wanted.seed])
        outcome = source.told[number]
        assert outcome.details["epochs"] == fitted.members[0].epochs == 5
        assert outcome.details["best_epoch"] == fitted.members[0].best_epoch
        assert outcome.details["accuracy"] == pytest.approx(fitted.members[0].best_accuracy)
        assert outcome.value == -outcome.details["aurc"]


def test_populations_are_reproducible() -> None:
    """To the bit, except times: the order of trials does not depend on a clock."""

    def outcomes() -> tuple[list[Any], list[int], list[list[int]]]:
        source = Listed(settings(5))
        Population(problem(), source, 3).run()
        kept = [{k: v for k, v in one.details.items() if k != "seconds"} for one in source.told.values()]
        return kept, source.asked, source.beats

    assert outcomes() == outcomes()


def test_a_free_slot_is_refilled_at_once() -> None:
    """With two slots and seven trials of one shape, each with its own number of epochs."""
    source = Listed(
        [{**own, "training.batch_size": 16, "training.max_epochs": 3 + n} for n, own in enumerate(settings(7))]
    )
    posed = problem()
    population = Population(posed, source, 2)
    seen: list[list[int]] = []
    population.run(tell=lambda: seen.append(sorted(trial.number for trial in population.running)))
    assert seen[0] == [0, 1]
    assert all(len(now) <= 2 for now in seen)
    assert [1, 2] in seen  # 0 has ended, and 1 has not


def turns_of(population: Population, what: Callable[[Any], int]) -> list[int]:
    """Run the population, and return an attribute of the shape of each group in the order of their epochs."""
    turns: list[int] = []
    finish = population._finish

    def spy(group: Any) -> None:
        turns.append(what(group.shape))
        finish(group)

    population._finish = spy  # type: ignore[method-assign]
    population.run()
    return turns


@pytest.mark.parametrize(
    ("large", "counts", "expected"),
    [
        (False, [1, 4, 5, 3, 2, 9, 4, 33, 65, 40, 16], [4, 4, 8, 8, 4, 16, 4, 64, 96, 96, 16]),
        (True, [1, 2, 3, 2, 1, 5, 7, 6, 4, 3, 33, 17, 16], [1, 2, 3, 3, 1, 6, 8, 8, 4, 4, 64, 24, 24]),
    ],
)
def test_slots_of_a_model_on_a_gpu(large: bool, counts: list[int], expected: list[int]) -> None:
    """Their number grows if it is too small, and shrinks if many are empty; earlier for large networks."""
    now, found = 0, []
    for count in counts:
        now = slots_for(count, now, large)
        found.append(now)
        assert now >= count
    assert found == expected


def test_running_trials_of_a_stopped_population() -> None:
    source = Listed(settings(6))
    population = Population(problem(), source, 4)
    left = iter([False] * 5 + [True])
    population.run(lambda: next(left))
    assert {trial.number for trial in population.running} | source.told.keys() == set(source.asked)
    assert len(population.running) >= 3


def test_incompatible_settings_are_refused() -> None:
    own = settings(2)
    own[0] = {**own[0], "training.anneal_epochs": 9}
    source = Listed(own)
    Population(problem(), source, 2).run()
    assert source.told[0].ended.startswith("refused: anneal_epochs")
    assert source.told[0].value == -1.0
    assert source.told[1].ended == "at max_epochs"


def test_a_diverged_trial_has_the_worst_value() -> None:
    own = settings(2)
    own[0] = {**own[0], "training.lr": 1e30}
    source = Listed(own)
    Population(problem(), source, 2).run()
    assert (source.told[0].ended, source.told[0].value) == ("diverged", -1.0)
    assert source.told[1].value is not None
    assert source.told[1].value > -1


def test_pruned_trials_free_their_slots() -> None:
    class Pruning(Listed):
        asked_at: list[tuple[int, int]]

        def prunes(self, trial: Trial, epoch: int, accuracy: float) -> bool:
            assert 0 <= accuracy <= 1
            self.__dict__.setdefault("looks", []).append((trial.number, epoch))
            return trial.number == 0

    source = Pruning(settings(4))
    Population(problem(max_epochs=12, anneal_epochs=8), source, 2, prune=True).run()
    assert source.told[0].ended == "pruned"
    assert source.told[0].value is None
    assert source.told[0].details["epochs"] == 5
    assert {number: one.ended for number, one in source.told.items() if number} == dict.fromkeys(
        (1, 2, 3), "at max_epochs"
    )
    assert sorted(source.__dict__["looks"]) == [(0, 5), (1, 5), (1, 10), (2, 5), (2, 10), (3, 5), (3, 10)]


@pytest.mark.parametrize("model", ["squad-factorized", "maxout-dropout"])  # tests/slow has the others
def test_other_models(model: str) -> None:
    posed = problem(model)
    own = [{"network.dropout": 0.1 * n, "training.batch_size": 16, "training.lr": 0.03} for n in range(1, 4)]
    source = Listed(own)
    Population(posed, source, 3).run()
    for number, outcome in source.told.items():
        wanted = posed.fit_settings(own[number])
        fitted = fit(wanted.network, wanted.training, posed.data, [wanted.seed]).members[0]
        assert outcome.details["best_epoch"] == fitted.best_epoch
        assert outcome.details["accuracy"] == pytest.approx(fitted.best_accuracy)


def test_what_separates_groups() -> None:
    """Only model, hidden sizes, B, shared and batch size separate groups."""
    posed = problem("squad-factorized")
    base = {"network.bins": 5, "training.batch_size": 16, "network.rank": 2, "network.shared": False}
    shape, _ = posed.run(base)
    same = {"network.bins": 63, "network.limit": 1.0, "network.prior": "gaussian", "network.spacing": "gaussian",
            "network.learn_values": "fixed", "network.dropout": 0.4, "network.init_scale": 3.0, "training.lr": 0.1,
            "training.kl_multiplier": 0.1}  # fmt: skip
    for name, value in same.items():
        assert posed.run({**base, name: value})[0] == shape, name
    for name, value in {"network.rank": 4, "network.shared": True, "training.batch_size": 32}.items():
        assert posed.run({**base, name: value})[0] != shape, name
    assert posed.run({**base, "network.hidden": [6]})[0] != shape


@pytest.mark.parametrize(("model", "size"), [("squad", "bins"), ("maxout-dropout", "pieces")])
def test_large_networks_are_not_padded(model: str, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    posed = problem(model)
    one, other = ({f"network.{size}": count, "training.batch_size": 16} for count in (5, 9))
    numbers = {
        name: count_parameters(posed.fit_settings(own).network, 6, 3) for name, own in (("5", one), ("9", other))
    }
    padded, _ = posed.run(one)
    assert padded == posed.run(other)[0]
    assert not padded.large
    most = count_parameters(padded.wide, 6, 3)
    assert most > numbers["9"]
    # What decides is the padded network: trials of a space are either all of one kind or all of the other.
    monkeypatch.setattr("squad.search.problem.LARGE", most)
    for own, name in ((one, "5"), (other, "9")):
        shape, _ = posed.run(own)
        assert shape.large
        assert getattr(shape.wide, size) == int(name)
        # Values are still a neuron's own, which is more than a network that learns none or a layer's has.
        assert numbers[name] <= count_parameters(shape.wide, 6, 3) < most
    monkeypatch.setattr("squad.search.problem.LARGE", most + 1)
    assert posed.run(one)[0] == padded


def test_validation_rows_are_those_of_the_problem() -> None:
    data = clouds(validation=50)
    source = Listed(settings(1))
    Population(problem(data=data), source, 1).run()
    assert source.told[0].details["rows"] == 50
