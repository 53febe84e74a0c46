"""What a search hands around: settings to try, how they went, and where both come from and go to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["LOOKS", "Outcome", "Source", "Trial"]

#: Epochs between two looks at a trial that may be pruned.
LOOKS = 5


@dataclass(frozen=True)
class Trial:
    """Settings to be tried.

    Attributes:
        number: its own in the study.
        settings: by dotted names, as ``--set`` takes them: {"network.bins": 15, "training.lr": 0.0008}.
    """

    number: int
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a trial went.

    Attributes:
        value: what is maximized; None for a trial that was pruned before it could be measured.
        ended: "stopped early", "at max_epochs", "diverged", "pruned", or "refused: ..." for settings that do not go
            together.
        details: epochs, best_epoch, accuracy, nll, aurc and the like, as plain data.
    """

    value: float | None
    ended: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """Where trials come from and outcomes go to: a study of Optuna's, or a list."""

    def ask(self) -> Trial | None:
        """The next trial, or None if there is none now: all are done, or others are at the last of them."""

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """How a trial that was asked for went."""

    def beat(self, trials: Sequence[Trial]) -> None:
        """That these are still being trained; told after every epoch."""

    def prunes(self, trial: Trial, epoch: int, accuracy: float) -> bool:
        """Whether a trial with this validation accuracy after so many epochs is not worth going on with."""

    def over(self) -> bool:
        """Whether the study has all the trials that were asked for."""
