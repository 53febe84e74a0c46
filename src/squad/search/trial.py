"""Trials, their outcomes, and the interface between a population of trials and the study they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["PRUNING_INTERVAL", "Outcome", "Source", "Trial"]

#: Number of epochs between two pruning decisions about a trial.
PRUNING_INTERVAL = 5


@dataclass(frozen=True)
class Trial:
    """Settings to be tried.

    Attributes:
        number: Number of the trial in its study.
        settings: Values by dotted name, as for ``--set``: {"network.bins": 15, "training.lr": 0.0008}.
    """

    number: int
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Result of a trial.

    Attributes:
        value: Value of the objective, to be maximized; None for a trial that was pruned.
        ended: "stopped early", "at max_epochs", "diverged", "pruned", or "refused: ..." for incompatible settings.
        details: epochs, best_epoch, accuracy, nll, aurc and other measurements, as plain data.
    """

    value: float | None
    ended: str
    details: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """Where trials come from and outcomes go to: an Optuna study or a list."""

    def ask(self) -> Trial | None:
        """Return the next trial; None if there is none now, because all are finished or other workers have the rest."""

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """Report the outcome of a trial that :meth:`ask` returned.

        Args:
            trial: The trial.
            outcome: How it ended.
        """

    def beat(self, trials: Sequence[Trial]) -> None:
        """Report that these trials are still being trained; called after every epoch."""

    def prunes(self, trial: Trial, epoch: int, accuracy: float) -> bool:
        """Return whether to prune a trial that has this validation accuracy after ``epoch`` epochs.

        Args:
            trial: Trial from :meth:`ask`.
            epoch: Number of epochs so far.
            accuracy: Validation accuracy after them.

        Returns:
            Whether to prune the trial.
        """

    def over(self) -> bool:
        """Return whether the study has all its trials."""
