"""What is searched: rows, settings that stay, a space of those that vary, and what is maximized."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from squad.errors import ArgumentError
from squad.fitting import FitSettings, Prepared
from squad.models import NetworkConfig
from squad.models.networks import blank
from squad.models.padding import wide_config
from squad.search.objective import Objective
from squad.search.search_record import plain
from squad.search.space import Integers, Space
from squad.settings import assigned, fit_settings
from squad.train import TrainConfig, TrainingData
from squad.train.slots import Run

__all__ = ["Problem", "Shape", "count_numbers", "make_problem", "single"]

#: So many batch sizes, and a population is one in name only.
MANY = 32

#: Numbers of the widest network of a space from which on one alone keeps a machine busy: padding is then paid for.
LARGE = 1 << 22

#: Settings of a training that trials share, whatever they are otherwise.
SHARED = ("batch_size", "precision", "backend", "adversarial")


@dataclass(frozen=True)
class Shape:
    """What runs must have in common to train as members of one model.

    Attributes:
        wide: settings of that model's network.
        training: settings of its steps; only the batch size, precision, backend and adversarial are looked at.
        sampling, num_samples: how its members are examined.
        large: whether a step's time is that of its numbers, so that members are not padded and few slots left empty.
    """

    wide: NetworkConfig
    training: TrainConfig
    sampling: str
    num_samples: int
    large: bool = False


@dataclass(frozen=True)
class Problem:
    """What a study is about; plain data and tensors, so that it can be sent to another machine.

    Attributes:
        settings: as of a fit (docs/settings.md), in tables; what all trials share.
        space: of the settings that vary.
        asked, objective: what was asked to be maximized, and what is, which may differ for few validation rows.
        data: rows; one split, the same for all trials.
        facts: about the rows, for the record.
        notes: what was said aloud.
    """

    settings: Mapping[str, Any]
    space: Space
    asked: Objective
    objective: Objective
    data: TrainingData
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def fit_settings(self, trial: Mapping[str, Any]) -> FitSettings:
        """The settings of a fit with a trial's own, by dotted names."""
        return fit_settings(self.full_settings(trial))

    def full_settings(self, trial: Mapping[str, Any]) -> dict[str, Any]:
        """The same as tables, as a file has them."""
        return assigned(self.settings, trial)

    def run(self, trial: Mapping[str, Any]) -> tuple[Shape, Run]:
        """What is to be trained for a trial, and together with what."""
        settings = self.fit_settings(trial)
        config = settings.training.resolved(settings.network, self.data.train.shape[1])
        sampling, num_samples = settings.network.check_sampling(settings.sampling, settings.num_samples)
        most = self.space.most("network.bins") or self.space.most("network.pieces")
        dropping = "network.dropout" in self.space.entries or settings.network.dropout != 0
        shared = TrainConfig(**{name: getattr(config, name) for name in SHARED})
        wide = wide_config(settings.network, most, dropping=dropping)
        large = count_numbers(wide, self.data.x.shape[1], self.data.classes) >= LARGE
        if large:
            wide = wide_config(settings.network, dropping=dropping)
        return Shape(wide, shared, sampling, num_samples, large), Run(settings.network, config, settings.seed)

    def meta(self) -> dict[str, Any]:
        """What a reader wants to know, and the fingerprint of what must be equal for a study to go on: plain data."""
        return {
            "model": self.space.model,
            "base": dict(self.settings),
            "space": self.space.to_dict(),
            "objective": {"asked": self.asked.text, "used": self.objective.text},
            "seed": self.seed,
            "data": dict(self.facts),
            "notes": list(self.notes),
            "fingerprint": self.fingerprint(),
        }

    @property
    def seed(self) -> int:
        """Of every trial's weights and noise, of the split, and of the search itself."""
        return int(self.settings.get("seed", 0))

    def fingerprint(self) -> str:
        """Of rows, settings, space and objective; a setting that is given as it is by default makes no difference."""
        settings = dataclasses.asdict(single(fit_settings(self.settings)))
        found = [settings, self.space.to_dict(), self.objective.text, _digest(self.data)]
        return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _digest(data: TrainingData) -> str:
    """Of rows, labels and their split."""
    digest = hashlib.sha256()
    for tensor in (data.x, data.y, data.train, data.validation):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def count_numbers(config: NetworkConfig, in_features: int, classes: int) -> int:
    """Those that a network learns."""
    return sum(parameter.numel() for parameter in blank(config, in_features, classes, 1).parameters())


def make_problem(
    ready: Prepared,
    settings: Mapping[str, Any],
    space: Space,
    objective: str,
    facts: Mapping[str, Any],
) -> Problem:
    """A problem of prepared rows.

    Args:
        ready: encoded and split.
        settings: as of a fit, in tables.
        space: of the settings that vary.
        objective: such as "coverage@risk=.02"; what is not possible with so few validation rows is replaced.
        facts: about the rows, for the record.
    """
    asked = Objective.parse(objective)
    data = ready.data
    used, note = asked.for_rows(data.validation.shape[1])
    known = {
        **facts,
        "rows": {"training": data.train.shape[1], "validation": data.validation.shape[1]},
        "features": data.x.shape[1],
        "classes": data.classes,
        "sha256": _digest(data)[:16],
    }
    notes = tuple(filter(None, (*ready.notes, note, _many_sizes(space))))
    return Problem(plain(settings), space, asked, used, data, known, notes)


def _many_sizes(space: Space) -> str | None:
    """What to say where hardly any two trials can train together."""
    entry = space.entries.get("training.batch_size")
    if not isinstance(entry, Integers) or (entry.high - entry.low) // (entry.step or 1) < MANY:
        return None
    return (
        f"Batch sizes from {entry.low} to {entry.high} are so many that hardly any trials have the same, and only "
        "those train together: octaves = 0.5 in the place of step or log makes the search faster."
    )


def single(settings: FitSettings) -> FitSettings:
    """The settings of a trial's split: of one network, whatever many the final fit is asked for."""
    for table, config in (("network", settings.network), ("training", settings.training)):
        for field in dataclasses.fields(config):
            if field.name != "hidden" and isinstance(getattr(config, field.name), tuple):
                raise ArgumentError.of(f"{table}.{field.name}", "one a member", "one number: a trial is one network")
    return dataclasses.replace(settings, members=1, split_per_member=False)
