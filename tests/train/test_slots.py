"""Runs that share a batched model with others, come and go: each is what it would be alone."""

import dataclasses
from typing import Any

import pytest
import torch

from squad.models import Network, network_config
from squad.models.wide import wide_config
from squad.train import TrainConfig, TrainingData, fit
from squad.train.slots import Place, Run, Slots, examine

ROWS, FEATURES, CLASSES = 90, 6, 3


def rows(dtype: torch.dtype = torch.float64) -> TrainingData:
    generator = torch.Generator().manual_seed(3)
    y = torch.randint(CLASSES, (ROWS,), generator=generator)
    x = torch.randn(ROWS, FEATURES, generator=generator, dtype=torch.float64) + torch.eye(CLASSES, FEATURES)[y] * 1.5
    order = torch.randperm(ROWS, generator=generator).unsqueeze(0)
    return TrainingData(x.to(dtype), y, CLASSES, order[:, :70], order[:, 70:])


def run_of(model: str, network: dict[str, Any], training: dict[str, Any], seed: int = 0) -> Run:
    config = network_config(model, {"hidden": (5, 4), **network})
    settings = {"max_epochs": 6, "anneal_epochs": 2, "batch_size": 16, **training}
    return Run(config, TrainConfig(**settings).resolved(config, 70), seed)


def alone(run: Run, data: TrainingData) -> Any:
    return fit(run.network, run.config, data, [run.seed])


def epoch(slots: Slots, sampling: str | None = None) -> None:
    """One of all runs, whose validation rows are looked at whenever a fit would judge by them."""
    slots.launch()
    losses = slots.wait()
    config = slots.wide
    way = config.check_sampling(sampling, None)
    due = [slot for slot in slots.active if slots.arrived[slot]]
    seen = dict(examine(slots, due, *way))
    for slot in slots.active:
        slots.advance(slot, losses[slot], seen.get(slot))
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
    "maxout-dropout": [
        ({"pieces": 2, "dropout": 0.2}, {"lr": 0.01}),
        ({"pieces": 5, "dropout": 0.4, "init_scale": 0.5}, {"weight_decay": 0.1}),
        ({"pieces": 3, "dropout": 0.1}, {"lr": 0.03}),
    ],
    "dlgm": [({"dropout": 0.2}, {"lr": 0.01}), ({"init_scale": 0.4}, {"kl_multiplier": 0.3}), ({}, {"lr": 0.03})],
    "mlp": [({"dropout": 0.2}, {"lr": 0.01}), ({"init_scale": 0.4}, {"lr": 0.03}), ({}, {"weight_decay": 0.2})],
}


def wide_of(runs: list[Run]) -> Any:
    sizes = [getattr(run.network, name) for run in runs for name in ("bins", "pieces") if hasattr(run.network, name)]
    return wide_config(runs[0].network, max(sizes, default=None), dropping=True)


@pytest.mark.parametrize("model", MODELS)
def test_padded_members_are_what_they_are_alone(model: str) -> None:
    """Of other bins, priors, spacings, ways to learn values, rates and scales, begun at other times."""
    data = rows()
    runs = [run_of(model, network, training, seed=5 + index) for index, (network, training) in enumerate(MODELS[model])]
    slots = Slots(Place(data, "cpu"), wide_of(runs), len(runs) + 1, runs[0].config)
    for index, run in enumerate(runs):  # one an epoch: each has a clock of its own
        slots.put(index, run)
        epoch(slots)
    while slots.active:
        for slot in slots.active:
            run = slots.runs[slot]
            assert run is not None
            if run.ended:
                slots.clear(slot)
        if slots.active:
            epoch(slots)
    for run in runs:
        agrees(run, alone(run, data))
