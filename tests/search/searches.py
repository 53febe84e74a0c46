"""Synthetic records of searches with known results."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from squad.records import Record
from squad.search.parameters import Choices, Fixed, Integers, Octaves, Reals
from squad.search.search_record import TRIALS, Search, read
from squad.search.space import Space

COVERAGE = "coverage@risk=0.02,delta=0.01"
BASE = {
    "model": "squad",
    "seed": 3,
    "target": "y",
    "network": {"hidden": [32, 32]},
    "training": {"max_epochs": 60},
}


def draw(space: Space, random: np.random.Generator, good: float = 0.0) -> dict[str, Any]:
    """Draw settings from the whole space, or with probability ``good`` near the optimum of :func:`coverage`."""
    found: dict[str, Any] = {}
    for name, entry in space.entries.items():
        like = OPTIMUM.get(name) if random.random() < good else None
        if isinstance(entry, Fixed):
            found[name] = entry.plain()
        elif isinstance(entry, Choices):
            found[name] = like if like is not None else entry.choices[random.integers(len(entry.choices))]
        elif isinstance(entry, Octaves):
            values = entry.values
            near = min(range(len(values)), key=lambda place: abs(values[place] - (like or 0)))
            step = near + random.integers(-1, 2) if like is not None else random.integers(len(values))
            found[name] = values[int(np.clip(step, 0, len(values) - 1))]
        elif isinstance(entry, Integers):
            count = (entry.high - entry.low) // entry.step
            place = int(random.integers(count + 1))
            if like is not None:
                place = int(np.clip(round((like - entry.low) / entry.step + random.normal()), 0, count))
            found[name] = entry.low + entry.step * place
        else:
            assert isinstance(entry, Reals)
            low, high = (math.log(entry.low), math.log(entry.high)) if entry.log else (entry.low, entry.high)
            middle = None if like is None else math.log(like) if entry.log else like
            value = random.uniform(low, high) if middle is None else random.normal(middle, 0.08 * (high - low))
            value = float(np.clip(value, low, high))
            found[name] = min(max(math.exp(value) if entry.log else value, entry.low), entry.high)
    return found


#: Optimum of :func:`coverage`.
OPTIMUM: dict[str, Any] = {
    "network.bins": 15,
    "network.dropout": 0.05,
    "network.init_scale": 3.2,
    "network.prior": "uniform",
    "network.spacing": "linear",
    "network.learn_values": "per_layer",
    "network.limit": 2.5,
    "training.lr": 8e-4,
    "training.kl_multiplier": 2.7e-3,
    "training.batch_size": 256,
}


def coverage(settings: Mapping[str, Any], random: np.random.Generator) -> float:
    """A plausible coverage: ruined by dropout, dominated by the learning rate, hardly affected by the rest."""
    value = 0.70
    value -= 0.75 * max(0.0, settings.get("network.dropout", 0.0) - 0.05) ** 1.3
    value -= 0.08 * abs(math.log10(settings.get("training.lr", 8e-4) / 8e-4)) ** 2
    value -= 0.01 * abs(math.log10(settings.get("training.kl_multiplier", 2.7e-3) / 2.7e-3))
    value -= 0.012 * abs(math.log10(settings.get("network.init_scale", 3.2) / 3.2)) ** 2
    value -= 0.02 * (settings.get("network.prior") == "gaussian")
    value -= 0.004 * abs(settings.get("network.bins", 15) - 15) / 2
    return float(np.clip(value + 0.008 * random.normal(), 0.0, 1.0))


def details(value: float) -> dict[str, Any]:
    """Details of a trial, as returned by :meth:`squad.search.objective.Objective.measure` and the population."""
    return {
        "epochs": 60,
        "rows": 6000,
        "accuracy": 0.85 + 0.05 * value,
        "accuracy_interval": [0.84 + 0.05 * value, 0.86 + 0.05 * value],
        "coverage_interval": [value - 0.0116, value + 0.0115],
    }


def record(
    count: int = 700, seed: int = 0, model: str = "squad", objective: str = COVERAGE, space: Space | None = None
) -> Record:
    """Record of a finished search: one trial in 12 pruned, one in 40 diverged, one in 90 failed."""
    random = np.random.default_rng(seed)
    space = space or Space.paper(model)
    begun = datetime(2031, 5, 4, 12, 0, 0, tzinfo=UTC)
    trials = []
    for number in range(count):
        # As with TPE, most later trials are near the good ones.
        settings = draw(space, random, good=min(0.75, number / max(count, 1)))
        value: float | None = coverage(settings, random)
        state, ended = "complete", "stopped early"
        if number % 12 == 11:
            state, ended, value = "pruned", "pruned", None
        elif number % 40 == 39:
            ended, value = "diverged", 0.0 if objective != "aurc" else -1.0
        elif number % 90 == 89:
            state, ended, value = "failed", None, None  # type: ignore[assignment]
        elif objective == "aurc":
            value = -0.25 * (1 - float(value or 0)) ** 2
        start = begun + timedelta(seconds=1.5 * number)
        trials.append(
            {
                "number": number,
                "state": state,
                "value": value,
                "settings": settings,
                "params": space.params(settings),
                "ended": ended,
                "details": details(value or 0.0) if state == "complete" else {},
                "started": start.isoformat(),
                "finished": None if state == "running" else (start + timedelta(seconds=48)).isoformat(),
                "retried_from": None,
                "worker": "here",
            }
        )
    settings_of_record = {
        "model": model,
        "objective": {"asked": objective, "used": objective},
        "base": {**BASE, "model": model},
        "space": space.to_dict(),
        "seed": 3,
        "slots": 32,
        "data": {"source": "train.csv", "training": 54000, "validation": 6000},
    }
    return Record("search", model, settings_of_record, {"notes": [], "trials": trials}, seed=3, machine={}, versions={})


def saved(folder: Path, **options: Any) -> Search:
    """Write a record to a folder and read it back."""
    record(**options).save(folder / TRIALS)
    return read(folder)
