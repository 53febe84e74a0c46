"""Where a run stands between two epochs: which members are still in it, how far each has come, what was best."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from squad.train.config import TrainConfig

__all__ = ["Epoch", "MemberResult", "State"]


class MemberResult(NamedTuple):
    """How the training of one member went.

    Attributes:
        seed: its own.
        ended: "stopped early", "at max_epochs" or "diverged".
        epochs: how many it trained.
        best_epoch, best_accuracy: of the weights that were kept; None if there are none.
    """

    seed: int
    ended: str
    epochs: int
    best_epoch: int | None
    best_accuracy: float | None


class Epoch(NamedTuple):
    """What an epoch gave, each a list over the members that were in it.

    Attributes:
        loss, kl: means over its steps.
        accuracy, nll: on the validation rows.
        temperature: of the samples; empty for a network without.
        arrived: whether the temperature has come to where it stays.
    """

    loss: list[float]
    kl: list[float]
    accuracy: list[float]
    nll: list[float]
    temperature: list[float]
    arrived: list[bool]


@dataclass
class State:
    """Plain data, saved with a checkpoint.

    Lists are over all members; ``slots`` are those still training, in the order of the optimizer's rows.
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
        """Before the first epoch."""
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

    def advance(self, found: Epoch, config: TrainConfig) -> list[int]:
        """Take note of an epoch: who is better than ever, whose learning rate falls, who stops.

        Patience counts once the temperature has arrived, and goes by accuracy.  Of weights with the same accuracy,
        which a small validation set gives often, those with the better likelihood are kept.

        Returns:
            The places (not the slots) of members whose weights are now the best of theirs.
        """
        self.epoch += 1
        better = []
        for place, slot in enumerate(self.slots):
            self.epochs[slot] = self.epoch
            # The loss is that before a step, the likelihood that after it.
            if not (abs(found.loss[place]) < float("inf") and abs(found.nll[place]) < float("inf")):
                self.ended[slot] = "diverged"
            elif found.arrived[place] and self._judge(slot, found.accuracy[place], found.nll[place], config):
                better.append(place)
        self._remember(found)
        return better

    def _judge(self, slot: int, accuracy: float, nll: float, config: TrainConfig) -> bool:
        more = accuracy - self.best_accuracy[slot]
        best = more > 0 or (more == 0 and nll < self.best_nll[slot])
        if best:
            self.best_accuracy[slot], self.best_nll[slot], self.best_epoch[slot] = accuracy, nll, self.epoch
        if more > 0:
            self.since_best[slot] = 0
            return best
        self.since_best[slot] += 1
        if self.since_best[slot] >= config.stop_patience:
            self.ended[slot] = "stopped early"
        elif self.since_best[slot] % config.lr_patience == 0:
            self.lr[slot] /= 10
        return best

    def _remember(self, found: Epoch) -> None:
        entry: dict[str, Any] = {
            "epoch": self.epoch,
            "slots": list(self.slots),
            "loss": _finite(found.loss),
            "kl": _finite(found.kl),
            "validation_accuracy": found.accuracy,
            "validation_nll": _finite(found.nll),
            "lr": [self.lr[slot] for slot in self.slots],
        }
        if found.temperature:
            entry["temperature"] = found.temperature
        self.history.append(entry)

    def leave(self) -> list[int] | None:
        """Let those go that have ended; the places of those that stay, or None if nobody left."""
        keep = [place for place, slot in enumerate(self.slots) if self.ended[slot] is None]
        if len(keep) == len(self.slots):
            return None
        self.slots = [self.slots[place] for place in keep]
        return keep

    def results(self, seeds: list[int]) -> tuple[MemberResult, ...]:
        """How each member went."""
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
    """JSON has no NaN, and a checkpoint or a model must be readable by all."""
    return [number if abs(number) < float("inf") else None for number in numbers]
