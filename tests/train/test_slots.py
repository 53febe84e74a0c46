"""Runs that start and end at different times in one batched network: each equals a run trained alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from squad.errors import ArgumentError
from squad.models import Sampler, network_config
from squad.models.padding import padded_config
from squad.train import TrainConfig, TrainingData, fit
from squad.train.slots import DeviceData, Run, Slots, validate
from tests.train.problems import precisions

ROWS, FEATURES, CLASSES = 90, 6, 3


def rows(dtype: torch.dtype = torch.float64) -> TrainingData:
    generator = torch.Generator().manual_seed(3)
    y = torch.randint(CLASSES, (ROWS,), generator=generator)
    x = torch.randn(ROWS, FEATURES, generator=generator, dtype=torch.float64) + torch.eye(CLASSES, FEATURES)[y] * 1.5
    order = torch.randperm(ROWS, generator=generator).unsqueeze(0)
    return TrainingData(x.to(dtype), y, CLASSES, order[:, :70], order[:, 70:])


def run_of(model: str, network: dict[str, Any], training: dict[str, Any], seed: int = 0) -> Run:
    config = network_config(model.partition(",")[0], {"hidden": (5, 4), **network})
    settings = {"max_epochs": 6, "anneal_epochs": 2, "batch_size": 16, **training}
    return Run(config, TrainConfig(**settings).resolved(config, 70), seed)


def alone(run: Run, data: TrainingData) -> Any:
    return fit(run.network, run.config, data, [run.seed])


def epoch(slots: Slots, sampling: str | None = None) -> None:
    """Train all runs for one epoch, with a validation pass once annealing has ended."""
    slots.launch()
    losses = slots.wait()
    sampling_mode = slots.padded.check_sampling(sampling, None)
    due = [slot for slot in slots.active if slots.arrived[slot]]
    examined = dict(validate(slots, due, *sampling_mode))
    for slot in slots.active:
        slots.advance(slot, losses[slot], examined.get(slot))
    slots.settle()


def agrees(run: Run, fitted: Any, tolerance: float = 1e-9) -> None:
    for mine, its in zip(run.state.history, fitted.history, strict=True):
        assert mine["loss"] == pytest.approx(its["loss"], rel=tolerance)
        assert mine["kl"] == pytest.approx(its["kl"], rel=tolerance)
        assert mine["lr"] == its["lr"]
        if mine["validation_accuracy"][0] == mine["validation_accuracy"][0]:
            assert mine["validation_accuracy"] == its["validation_accuracy"]
            assert mine["validation_nll"] == pytest.approx(its["validation_nll"], rel=tolerance)
    result = fitted.members[0]
    assert run.state.best_epoch == [result.best_epoch]
    assert run.state.best_accuracy == [result.best_accuracy]


SQUADS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"bins": 3, "dropout": 0.3, "spacing": "gaussian", "learn_values": "fixed"}, {"lr": 0.01}),
    (
        {"bins": 5, "prior": "gaussian", "init_scale": 0.3, "learn_values": "per_neuron"},
        {"lr": 0.03, "weight_decay": 0.1},
    ),
    (
        {"bins": 8, "dropout": 0.1, "limit": 1.2, "learn_values": "per_layer"},
        {"kl_multiplier": 0.05, "anneal_epochs": 3},
    ),
    ({"bins": 4, "learn_values": "per_layer"}, {"lr": 0.02, "temperature_end": 0.2, "max_epochs": 4}),
]
MODELS: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "squad": SQUADS,
    "squad-factorized": [({"rank": 2, **network}, training) for network, training in SQUADS],
    "squad-factorized, shared": [({"rank": 2, "shared": True, **network}, training) for network, training in SQUADS],
    "relu-dropout": [({"dropout": 0.2}, {"lr": 0.01}), ({"dropout": 0.4, "init_scale": 0.4}, {"weight_decay": 0.1})],
    "maxout-dropout": [
        ({"pieces": 2, "dropout": 0.2}, {"lr": 0.01}),
        ({"pieces": 5, "dropout": 0.4, "init_scale": 0.5}, {"weight_decay": 0.1}),
        ({"pieces": 3, "dropout": 0.1}, {"lr": 0.03}),
    ],
    "dlgm": [({"dropout": 0.2}, {"lr": 0.01}), ({"init_scale": 0.4}, {"kl_multiplier": 0.3}), ({}, {"lr": 0.03})],
    "mlp": [({"dropout": 0.2}, {"lr": 0.01}), ({"init_scale": 0.4}, {"lr": 0.03}), ({}, {"weight_decay": 0.2})],
}


def padded_for(runs: list[Run]) -> Any:
    sizes = [getattr(run.network, name) for run in runs for name in ("bins", "pieces") if hasattr(run.network, name)]
    return padded_config(runs[0].network, max(sizes, default=None), dropping=True)


def together(runs: list[Run], slots: Slots, *, between: Callable[[Slots], Slots] = lambda slots: slots) -> Slots:
    """Start one run per epoch in the first free slot, until all runs have ended."""
    waiting = list(runs)
    while waiting or slots.active:
        for slot, run in enumerate(slots.runs):
            if run is not None and run.ended:
                slots.clear(slot)
        if waiting and slots.free:
            slots.put(slots.free[0], waiting.pop(0))
        if slots.active:
            epoch(slots)
        slots = between(slots)
    return slots


def runs_of(model: str, **training: Any) -> list[Run]:
    return [
        run_of(model, network, {**own, **training}, seed=5 + index)
        for index, (network, own) in enumerate(MODELS[model])
    ]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("count", [2])  # tests/slow has five
def test_padded_members_equal_runs_trained_alone(model: str, count: int) -> None:
    """Runs differ in bins, priors, spacings, learn_values, learning rates and scales, and start at different times.

    With two slots a run reuses the slot of another; with five some are empty.
    """
    data, runs = rows(), runs_of(model)
    together(runs, Slots(DeviceData(data, "cpu"), padded_for(runs), count, runs[0].config))
    for run in runs:
        agrees(run, alone(run, data))


def test_adversarial_examples_and_patience() -> None:
    data, runs = rows(), runs_of("squad", adversarial=0.05, lr_patience=1, stop_patience=2, max_epochs=12)[1:3]
    together(runs, Slots(DeviceData(data, "cpu"), padded_for(runs), 2, runs[0].config))
    assert {run.ended for run in runs} == {"stopped early"}
    for run in runs:
        agrees(run, alone(run, data))


def test_runs_continue_in_other_slots() -> None:
    data, runs = rows(), runs_of("squad")
    device_data, padded, config = DeviceData(data, "cpu"), padded_for(runs), runs[0].config

    def moved(slots: Slots) -> Slots:
        other = Slots(device_data, padded, 6, config)
        for slot in slots.active:
            other.adopt(5 - slot, slots, slot)
        assert slots.active == []
        return other

    together(runs, Slots(device_data, padded, 4, config), between=moved)
    for run in runs:
        agrees(run, alone(run, data))


def test_a_diverged_run_does_not_change_others_or_the_next_run_in_its_slot() -> None:
    data = rows(torch.float32)

    def train(lr: float) -> tuple[Run, Run, Run]:
        diverged, healthy, later = (run_of("squad", {"bins": 5}, {"lr": rate}, seed=2) for rate in (lr, 0.01, 0.01))
        together([diverged, healthy, later], Slots(DeviceData(data, "cpu"), padded_for([diverged]), 2, diverged.config))
        return diverged, healthy, later

    diverged, healthy, later = train(1e30)
    assert (diverged.ended, healthy.ended, later.ended) == ("diverged", "at max_epochs", "at max_epochs")
    assert diverged.confidence is None
    # The next run in that slot equals the healthy run, which has the same seed and settings.
    assert [entry["loss"] for entry in later.state.history] == [entry["loss"] for entry in healthy.state.history]
    assert [e["loss"] for e in train(0.02)[1].state.history] == [e["loss"] for e in healthy.state.history]


def test_predictions_of_the_best_weights_are_kept() -> None:
    data, run = rows(), run_of("squad", {"bins": 5}, {"lr": 0.02, "max_epochs": 8})
    together([run], Slots(DeviceData(data, "cpu"), padded_for([run]), 1, run.config))
    fitted = alone(run, data)
    p = Sampler(fitted.network, "stratified", 8)(data.x[data.validation[0]]).probabilities[0]
    assert run.confidence == pytest.approx(p.max(-1).values.numpy(), abs=1e-9)
    assert run.correct is not None
    assert run.correct.tolist() == (p.argmax(-1) == data.y[data.validation[0]]).tolist()
    assert run.correct.mean() == pytest.approx(run.state.best_accuracy[0])


def test_many_validation_rows_are_evaluated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data, runs = rows(), runs_of("squad")
    slots = Slots(DeviceData(data, "cpu"), padded_for(runs), 4, runs[0].config)
    for slot, run in enumerate(runs):
        slots.put(slot, run)
    whole = dict(validate(slots, [0, 1, 2, 3], "relaxed", 4))
    monkeypatch.setattr("squad.train.slots.MAX_PROBABILITIES", 2 * 20 * CLASSES)
    parts = dict(validate(slots, [0, 1, 2, 3], "relaxed", 4))
    for slot, found in parts.items():
        torch.testing.assert_close(found.probabilities, whole[slot].probabilities, atol=1e-12, rtol=0)


@pytest.mark.parametrize("precision", ["tf32", "float32"])
def test_validation_has_the_precision_of_training(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("maxout-dropout", {}, {"precision": precision})
    slots = Slots(DeviceData(rows(), "cpu"), padded_for([run]), 1, run.config)
    slots.put(0, run)
    used = precisions(monkeypatch)
    epoch(slots)
    assert used == [precision]


def test_a_network_that_does_not_fit_is_rejected() -> None:
    run = run_of("squad", {"bins": 3, "dropout": 0.2}, {})
    slots = Slots(DeviceData(rows(), "cpu"), padded_config(run.network, dropping=False), 1, run.config)
    with pytest.raises(ArgumentError, match=r"Dropout.*dropping=True"):
        slots.put(0, run)
