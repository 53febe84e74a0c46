"""State of a training run between two epochs: members still in training, learning rates, best results, history."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from squad.train.config import TrainConfig

__all__ = ["PER_MEMBER", "Epoch", "MemberResult", "State", "annealed", "validated"]

#: Settings that may differ between members.
PER_MEMBER = ("lr", "kl_multiplier", "weight_decay", "temperature_start", "temperature_end", "anneal_epochs")


class MemberResult(NamedTuple):
    """Result of the training of one member.

    Attributes:
        seed: Seed of the member.
        ended: "stopped early", "at max_epochs" or "diverged".
        epochs: Number of epochs it was trained for.
        best_epoch: Epoch of its best weights; None if there are none.
        best_accuracy: Validation accuracy of its best weights; None if there are none.

    Examples:
        >>> result = MemberResult(seed=0, ended="stopped early", epochs=40, best_epoch=20, best_accuracy=0.98)
        >>> result._asdict()["best_epoch"]
        20
    """

    seed: int
    ended: str
    epochs: int
    best_epoch: int | None
    best_accuracy: float | None


class Epoch(NamedTuple):
    """Results of an epoch; each attribute is a list over the members in training.

    Attributes:
        loss, kl: Means over the steps.
        accuracy, nll: Accuracy and mean negative log likelihood on the validation rows.
        temperature: Temperature of the samples; empty for a network without a temperature.
        arrived: Whether annealing has ended, so that the temperature no longer changes.
    """

    loss: list[float]
    kl: list[float]
    accuracy: list[float]
    nll: list[float]
    temperature: list[float]
    arrived: list[bool]


@dataclass
class State:
    """State of a run as plain data, saved in checkpoints.

    All lists are over the members, except ``slots`` and ``history``.

    Attributes:
        epoch: Number of completed epochs.
        slots: Indices of the members still training, in the order of the optimizer's rows.
        lr: Current learning rate.
        best_accuracy: Best validation accuracy; -1 before annealing has ended.
        best_nll: Mean negative log likelihood of the best weights on the validation rows.
        best_epoch: Epoch of the best weights; None if there are none.
        since_best: Number of epochs, after annealing, without better validation accuracy.
        ended: Reason why the member ended; None while it is training.
        epochs: Number of epochs trained.
        history: One entry per epoch; see :class:`squad.train.Fitted`.
    """

    epoch: int
    slots: list[int]
    lr: list[float]
    best_accuracy: list[float]
    best_nll: list[float]
    best_epoch: list[int | None]
    since_best: list[int]
    ended: list[str | None]
    epochs: list[int]
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def start(cls, lr: list[float]) -> "State":
        """Return the state before the first epoch, with the initial learning rates ``lr``."""
        members = len(lr)
        return cls(
            epoch=0,
            slots=list(range(members)),
            lr=list(lr),
            best_accuracy=[-1.0] * members,
            best_nll=[0.0] * members,
            best_epoch=[None] * members,
            since_best=[0] * members,
            ended=[None] * members,
            epochs=[0] * members,
        )

    def advance(self, results: Epoch, config: TrainConfig) -> list[int]:
        """Record an epoch: update best results and learning rates, and end members that diverged or stop early.

        Patience counts after annealing has ended, and is measured by accuracy.  Of weights with the same accuracy,
        which is common with a small validation set, those with the better likelihood are kept.

        Args:
            results: Results of the epoch, lists over the members still training.
            config: Settings of the run.

        Returns:
            Rows (not slots) of the members whose current weights are their best so far.
        """
        self.epoch += 1
        improved = []
        for row, slot in enumerate(self.slots):
            self.epochs[slot] = self.epoch
            # Both are checked: the loss is computed before a step, the likelihood after the last one.
            if not (abs(results.loss[row]) < float("inf") and abs(results.nll[row]) < float("inf")):
                self.ended[slot] = "diverged"
            elif results.arrived[row] and self._update_best(slot, results.accuracy[row], results.nll[row], config):
                improved.append(row)
        self._append_history(results)
        return improved

    def _update_best(self, slot: int, accuracy: float, nll: float, config: TrainConfig) -> bool:
        gain = accuracy - self.best_accuracy[slot]
        is_best = gain > 0 or (gain == 0 and nll < self.best_nll[slot])
        if is_best:
            self.best_accuracy[slot], self.best_nll[slot], self.best_epoch[slot] = accuracy, nll, self.epoch
        if gain > 0:
            self.since_best[slot] = 0
            return is_best
        self.since_best[slot] += 1
        if self.since_best[slot] >= config.stop_patience:
            self.ended[slot] = "stopped early"
        elif self.since_best[slot] % config.lr_patience == 0:
            self.lr[slot] /= 10
        return is_best

    def _append_history(self, results: Epoch) -> None:
        entry: dict[str, Any] = {
            "epoch": self.epoch,
            "slots": list(self.slots),
            "loss": _finite(results.loss),
            "kl": _finite(results.kl),
            "validation_accuracy": results.accuracy,
            "validation_nll": _finite(results.nll),
            "lr": [self.lr[slot] for slot in self.slots],
        }
        if results.temperature:
            entry["temperature"] = results.temperature
        self.history.append(entry)

    def leave(self) -> list[int] | None:
        """Remove members that have ended; return the rows of the remaining ones, or None if none was removed."""
        remaining = [row for row, slot in enumerate(self.slots) if self.ended[slot] is None]
        if len(remaining) == len(self.slots):
            return None
        self.slots = [self.slots[row] for row in remaining]
        return remaining

    def results(self, seeds: list[int]) -> tuple[MemberResult, ...]:
        """Return the result of each member."""
        return tuple(
            MemberResult(
                seed,
                self.ended[slot] or "at max_epochs",
                self.epochs[slot],
                self.best_epoch[slot],
                self.best_accuracy[slot] if self.best_epoch[slot] else None,
            )
            for slot, seed in enumerate(seeds)
        )


def _finite(numbers: list[float]) -> list[float | None]:
    """Replace NaN and infinity, which JSON does not have, by None."""
    return [number if abs(number) < float("inf") else None for number in numbers]


def annealed(epoch: int | Tensor, settings: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Compute the annealed temperature of each member.

    Args:
        epoch: Number of completed epochs, of all members or of each, (M,).
        settings: Settings of the members by name, (M,) each.

    Returns:
        The temperatures, (M,), and whether annealing has ended, (M,).
    """
    length = settings["anneal_epochs"]
    fraction = (epoch / length.clamp_min(1)).clamp_max(1).where(length > 0, 1)
    return settings["temperature_start"].lerp(settings["temperature_end"], fraction), fraction >= 1


def validated(p: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """Compute accuracy and mean negative log likelihood per member.

    Args:
        p: Class probabilities, (M, N, classes).
        y: Labels, (M or 1, N).

    Returns:
        M accuracies and M mean negative log likelihoods in nats.
    """
    correct = (p.argmax(-1) == y).sum(1).tolist()  # integers, so that the quotient is the same on every device
    likelihood = p.gather(-1, y.expand(p.shape[:-1]).unsqueeze(-1)).squeeze(-1)
    nll = likelihood.clamp_min(torch.finfo(p.dtype).tiny).log().neg().mean(1)
    return [count / p.shape[1] for count in correct], nll.tolist()
