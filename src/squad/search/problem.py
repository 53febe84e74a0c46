"""The problem of a study: rows, settings shared by all trials, the search space, and the objective."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from squad.errors import ArgumentError
from squad.files.plain import plain_json
from squad.fitting import FitSettings, Prepared
from squad.models import NetworkConfig
from squad.models.networks import blank
from squad.models.padding import padded_config
from squad.search.objective import Objective
from squad.search.space import Integers, Space
from squad.settings import assigned, fit_settings
from squad.train import TrainConfig, TrainingData
from squad.train.slots import Run

__all__ = ["Problem", "Shape", "count_parameters", "make_problem", "single"]

#: From this number of batch sizes on, few trials share one, and only those can train together.
MANY_BATCH_SIZES = 32

#: Number of parameters of the largest network of a space from which on one network keeps a machine busy: bins are then
#: not padded, because padding would cost time.
LARGE = 1 << 22

#: Settings of training that trials must have in common to train together.
SHARED_SETTINGS = ("batch_size", "precision", "backend", "adversarial")


@dataclass(frozen=True)
class Shape:
    """What trials must have in common to train as members of one model.

    Attributes:
        wide: Settings of that model's network, padded to the most bins or pieces of the space.
        training: Settings of its training steps; only those in ``SHARED_SETTINGS`` matter.
        sampling: Sampling mode on the validation rows.
        num_samples: Number of samples on the validation rows.
        large: Whether the time of a step grows with its parameters, so that members are not padded and few slots are
            left empty.
    """

    wide: NetworkConfig
    training: TrainConfig
    sampling: str
    num_samples: int
    large: bool = False


@dataclass(frozen=True)
class Problem:
    """The problem of a study, as plain data and tensors, so that it can be sent to another machine.

    Attributes:
        settings: Settings shared by all trials, as tables of a fit (docs/reference/settings.md).
        space: Search space.
        requested: Objective of the request.
        objective: Objective that is maximized; it may differ if there are few validation rows.
        data: Rows, with one split for all trials.
        facts: Facts about the rows, for the record.
        notes: Notes shown to the user.
    """

    settings: Mapping[str, Any]
    space: Space
    requested: Objective
    objective: Objective
    data: TrainingData
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def fit_settings(self, trial: Mapping[str, Any]) -> FitSettings:
        """Return the settings of a fit with a trial's settings, given by dotted name."""
        return fit_settings(self.full_settings(trial))

    def full_settings(self, trial: Mapping[str, Any]) -> dict[str, Any]:
        """Return the same settings as tables of a TOML file."""
        return assigned(self.settings, trial)

    def run(self, trial: Mapping[str, Any]) -> tuple[Shape, Run]:
        """Return the training run of a trial, and the shape that decides with which others it can train."""
        settings = self.fit_settings(trial)
        config = settings.training.resolved(settings.network, self.data.train.shape[1])
        sampling, num_samples = settings.network.check_sampling(settings.sampling, settings.num_samples)
        largest = self.space.most("network.bins") or self.space.most("network.pieces")
        has_dropout = "network.dropout" in self.space.entries or settings.network.dropout != 0
        shared = TrainConfig(**{name: getattr(config, name) for name in SHARED_SETTINGS})
        wide = padded_config(settings.network, largest, dropping=has_dropout)
        large = count_parameters(wide, self.data.x.shape[1], self.data.classes) >= LARGE
        if large:
            wide = padded_config(settings.network, dropping=has_dropout)
        return Shape(wide, shared, sampling, num_samples, large), Run(settings.network, config, settings.seed)

    def meta(self) -> dict[str, Any]:
        """Return a description of the problem as plain data, with the fingerprint that must match to resume a study."""
        return {
            "model": self.space.model,
            "base": dict(self.settings),
            "space": self.space.to_dict(),
            "objective": {"asked": self.requested.text, "used": self.objective.text},
            "seed": self.seed,
            "data": dict(self.facts),
            "notes": list(self.notes),
            "fingerprint": self.fingerprint(),
        }

    @property
    def seed(self) -> int:
        """Seed of the split, of the search, and of every trial's weights and noise."""
        return int(self.settings.get("seed", 0))

    def fingerprint(self) -> str:
        """Return a hash of rows, settings, space and objective; setting a default explicitly makes no difference."""
        settings = dataclasses.asdict(single(fit_settings(self.settings)))
        parts = [settings, self.space.to_dict(), self.objective.text, _digest(self.data)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _digest(data: TrainingData) -> str:
    """Return a hash of rows, labels and their split."""
    digest = hashlib.sha256()
    for tensor in (data.x, data.y, data.train, data.validation):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def count_parameters(config: NetworkConfig, in_features: int, classes: int) -> int:
    """Return the number of parameters of a network.

    Args:
        config: Settings of the network.
        in_features: Number of inputs.
        classes: Number of classes.

    Returns:
        Number of parameters of one member.

    Examples:
        >>> from squad.models import network_config
        >>> count_parameters(network_config("mlp", {"hidden": [4]}), 3, 2)
        26
    """
    return sum(parameter.numel() for parameter in blank(config, in_features, classes, 1).parameters())


def make_problem(
    ready: Prepared,
    settings: Mapping[str, Any],
    space: Space,
    objective: str,
    facts: Mapping[str, Any],
) -> Problem:
    """Return the problem of prepared rows.

    Args:
        ready: Encoded and split rows.
        settings: Settings shared by all trials, as tables of a fit.
        space: Search space.
        objective: Requested objective, such as "coverage@risk=.02"; AURC replaces it if there are too few validation
            rows.
        facts: Facts about the rows, for the record.

    Returns:
        The problem.
    """
    requested = Objective.parse(objective)
    data = ready.data
    used, note = requested.for_rows(data.validation.shape[1])
    all_facts = {
        **facts,
        "rows": {"training": data.train.shape[1], "validation": data.validation.shape[1]},
        "features": data.x.shape[1],
        "classes": data.classes,
        "sha256": _digest(data)[:16],
    }
    notes = tuple(filter(None, (*ready.notes, note, _batch_size_note(space))))
    return Problem(plain_json(settings), space, requested, used, data, all_facts, notes)


def _batch_size_note(space: Space) -> str | None:
    """Return a note if there are so many batch sizes that few trials can train together."""
    entry = space.entries.get("training.batch_size")
    if not isinstance(entry, Integers) or (entry.high - entry.low) // (entry.step or 1) < MANY_BATCH_SIZES:
        return None
    return (
        f"The space has so many batch sizes ({entry.low} to {entry.high}) that few trials share one, and only trials "
        "with the same batch size train together. The search is faster with octaves = 0.5 instead of step or log."
    )


def single(settings: FitSettings) -> FitSettings:
    """Return the settings of one trial, which is a single network even if the final fit has several members."""
    for table, config in (("network", settings.network), ("training", settings.training)):
        for field in dataclasses.fields(config):
            if field.name != "hidden" and isinstance(getattr(config, field.name), tuple):
                value = list(getattr(config, field.name))
                allowed = "one number, since a trial is one network"
                raise ArgumentError.of(f"{table}.{field.name}", value, allowed)
    return dataclasses.replace(settings, members=1, split_per_member=False)
