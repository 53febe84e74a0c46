"""Trials from a list, without a study."""

from collections.abc import Sequence
from typing import Any

import torch

from squad.search.objective import Objective
from squad.search.problem import Problem
from squad.search.space import Space
from squad.search.trial import Outcome, Trial
from squad.train import TrainingData


class Listed:
    """A source of listed settings that stores the outcomes."""

    def __init__(self, settings: Sequence[dict[str, Any]]) -> None:
        self.left = [Trial(number, own) for number, own in enumerate(settings)]
        self.asked: list[int] = []
        self.told: dict[int, Outcome] = {}
        self.beats: list[list[int]] = []

    def ask(self) -> Trial | None:
        if not self.left:
            return None
        self.asked.append(self.left[0].number)
        return self.left.pop(0)

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        assert trial.number not in self.told
        self.told[trial.number] = outcome

    def beat(self, trials: Sequence[Trial]) -> None:
        self.beats.append([trial.number for trial in trials])

    def prunes(self, trial: Trial, epoch: int, accuracy: float) -> bool:
        return False

    def over(self) -> bool:
        return not self.left and len(self.told) == len(self.asked)


def clouds(dtype: torch.dtype = torch.float32, rows: int = 240, validation: int = 60, seed: int = 3) -> TrainingData:
    """Three Gaussian classes in six dimensions."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (rows,), generator=generator)
    x = torch.randn(rows, 6, generator=generator, dtype=torch.float64) + 1.5 * torch.eye(3, 6, dtype=torch.float64)[y]
    order = torch.randperm(rows, generator=generator).unsqueeze(0)
    return TrainingData(x.to(dtype), y, 3, order[:, validation:], order[:, :validation])


def problem(
    model: str = "squad",
    data: TrainingData | None = None,
    objective: str = "aurc",
    space: Space | None = None,
    **training: Any,
) -> Problem:
    """A small problem, by default of all settings."""
    settings = {
        "model": model,
        "network": {"hidden": [5, 4]},
        "training": {"max_epochs": 5, **({"anneal_epochs": 2} if model.startswith("squad") else {}), **training},
    }
    fixed = [f"{table}.{name}" for table in ("network", "training") for name in settings[table]]
    goal = Objective.parse(objective)
    return Problem(settings, space or Space.default(model, fixed), goal, goal, data or clouds())
