"""The training loop: the paper's, for any number of members at once.

Members share nothing but the tensors they stand in.  Each has its own weights, shuffle, noise, learning rate, KL
multiplier, temperature, decay and early stop, all by its own seed and settings; the loss is the sum of theirs, so the
gradient of one is what it would be alone.  One that has stopped, or whose loss is no longer finite, leaves the batch.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from squad.core.checks import check_count
from squad.core.noise import bits, hashed_seeds, make_key
from squad.errors import ArgumentError, SquadError
from squad.layers import set_temperature
from squad.layers.members import take
from squad.models import Network, NetworkConfig, Sampler, build
from squad.train import checkpoint as checkpoints
from squad.train.adam import Adam, point_into
from squad.train.config import TrainConfig
from squad.train.progress import EpochReport, Progress, SilentProgress

__all__ = ["Fitted", "MemberResult", "TrainingData", "TrainingError", "fit"]

#: What seeds are hashed for: each purpose has numbers of its own.
NOISE, SHUFFLE = 1, 2


class TrainingError(SquadError):
    """A run of which nothing can be used."""


@dataclass(frozen=True)
class TrainingData:
    """What a run learns from.

    Attributes:
        x: (N, in), floating, already standardized.
        y: (N,), int64, the classes 0, 1, ...
        classes: how many there are.
        train: (1, n), rows of x that all members train on, or (M, n), each its own; int64.
        validation: (1, m) or (M, m), rows that accuracy is measured on.
    """

    x: Tensor
    y: Tensor
    classes: int
    train: Tensor
    validation: Tensor

    def check(self, members: int) -> None:
        """That the parts fit together."""
        for name in ("train", "validation"):
            rows = getattr(self, name)
            if rows.dim() != 2 or rows.shape[0] not in (1, members) or rows.shape[1] == 0:
                raise ArgumentError.of(name, f"shape {tuple(rows.shape)}", f"of shape (1 or {members}, at least 1)")


class MemberResult(NamedTuple):
    """How the training of one member went.

    Attributes:
        seed: its own.
        ended: "stopped early", "max_epochs" or "diverged".
        epochs: how many it trained.
        best_epoch, best_accuracy: of the weights that were kept; None if there are none.
    """

    seed: int
    ended: str
    epochs: int
    best_epoch: int | None
    best_accuracy: float | None


@dataclass(frozen=True)
class Fitted:
    """A trained network.

    Attributes:
        network: with the best weights of every member that has some, in eval mode.
        members: how each went, the diverged ones too.
        history: one entry an epoch, with lists over the members that were in it ("slots" says which).
        config: the settings as they were run.
        seconds: how long it took, since it was last resumed.
    """

    network: Network
    members: tuple[MemberResult, ...]
    history: list[dict[str, Any]]
    config: TrainConfig
    seconds: float


@dataclass
class _State:
    """Where a run stands between two epochs, beside what the optimizer holds.

    Lists are over all members; ``slots`` are those still training, in the order of the optimizer's rows.
    """

    epoch: int
    slots: list[int]
    lr: list[float]
    best_accuracy: list[float]
    best_nll: list[float | None]
    best_epoch: list[int | None]
    since_best: list[int]
    ended: list[str | None]
    epochs: list[int]
    history: list[dict[str, Any]] = field(default_factory=list)


def fit(
    network_config: NetworkConfig,
    config: TrainConfig,
    data: TrainingData,
    seeds: Sequence[int],
    *,
    sampling: str | None = None,
    num_samples: int | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 30.0,
) -> Fitted:
    """Train one member for each seed.

    Args:
        network_config, config: what is trained, and how.
        data: training and validation rows.
        seeds: of the members; each is what it would be alone with that seed.
        sampling, num_samples: how validation accuracy is measured: as prediction will be made.
        device: where.
        progress: what is told of it.
        checkpoint: a file to go on from if it is there, and to keep while the run lasts.
        checkpoint_seconds: time between two of them, at least.
    """
    progress = progress or SilentProgress()
    members = check_count("members", len(seeds), 1)
    data.check(members)
    config = config.resolved(network_config, data.train.shape[1])
    sampling, num_samples = network_config.check_sampling(sampling, num_samples)
    begun = saved = time.monotonic()

    # x stays where the device is if it fits there with room to spare; rows are gathered where it is.
    x, y = _placed(data.x, torch.device(device)), data.y.to(device)
    network = build(network_config, x.shape[1], data.classes, seeds).to(device=device, dtype=x.dtype)
    per_member = {
        name: torch.tensor(config.for_each(name, members), dtype=x.dtype, device=device)
        for name in ("lr", "kl_multiplier", "weight_decay", "temperature_start", "temperature_end", "anneal_epochs")
    }
    validation = data.validation.to(x.device)
    x_validation, y_validation = x[validation].to(device), y[validation.to(device)]
    reach = _ranges(x[data.train[0].to(x.device)]) * config.adversarial if config.adversarial else None
    noise_seeds, shuffle_seeds = (
        hashed_seeds(make_key(torch.tensor(seeds), purpose)).squeeze(-1).to(device) for purpose in (NOISE, SHUFFLE)
    )

    adam = Adam(network, per_member["lr"], per_member["weight_decay"])
    best = adam.flat.clone()
    state = _State(
        epoch=0,
        slots=list(range(members)),
        lr=per_member["lr"].tolist(),
        best_accuracy=[-1.0] * members,
        best_nll=[None] * members,
        best_epoch=[None] * members,
        since_best=[0] * members,
        ended=[None] * members,
        epochs=[0] * members,
    )
    fingerprint = "" if checkpoint is None else _fingerprint(network_config, config, data, seeds, sampling, num_samples)
    found = None if checkpoint is None else checkpoints.read(checkpoint, fingerprint)
    if found is not None:
        tensors, values = found
        state = _State(**values)
        best = tensors["best"].to(best)
        for name in ("flat", "mean", "square", "steps", "lr", "decay"):
            setattr(adam, name, tensors[name].to(best))
        network = take(network, state.slots)
        adam.attach(network)
        progress.message(f"going on after epoch {state.epoch} of {checkpoint}")

    try:
        progress.start(state.epoch, config.max_epochs)
        while state.slots and state.epoch < config.max_epochs:
            slots = torch.tensor(state.slots, device=device)
            start, end, over = (
                per_member[name][slots] for name in ("temperature_start", "temperature_end", "anneal_epochs")
            )
            passed = (state.epoch / over.clamp_min(1)).clamp_max(1).where(over > 0, 1)
            temperature = start + (end - start) * passed
            if network.has_temperature:
                set_temperature(network, temperature)

            network.train()
            order = _shuffled(data.train.to(device), shuffle_seeds[slots], slots, state.epoch, config)
            beta, seed = per_member["kl_multiplier"][slots], noise_seeds[slots]
            totals = torch.zeros(2, len(slots), dtype=x.dtype, device=device)
            for index, rows in enumerate(order.unbind(1)):  # (slots, batch)
                step = state.epoch * order.shape[1] + index
                batch, labels = x[rows.to(x.device)].to(device), y[rows]
                adam.zero_grad()
                totals += _backward(network, batch, labels, beta, seed, step, reach)
                adam.step()
            network.eval()
            pick = slots if len(x_validation) > 1 else slice(None)
            accuracy, nll = _validate(Sampler(network, sampling, num_samples), x_validation[pick], y_validation[pick])

            loss, kl = (totals / order.shape[1]).tolist()
            arrived = (passed >= 1).tolist()
            _update(state, adam, best, config, loss, accuracy, nll, arrived, progress)
            _record(state, slots.tolist(), loss, kl, accuracy, temperature.tolist(), network.has_temperature)
            progress.epoch(_report(state, config, members, network.has_temperature))
            staying = [slot for slot in state.slots if state.ended[slot] is None]
            if staying != state.slots:
                keep = [place for place, slot in enumerate(state.slots) if state.ended[slot] is None]
                state.slots = staying
                if keep:
                    adam.keep(keep)
                    network = take(network, keep)
                    adam.attach(network)
            if checkpoint is not None and time.monotonic() - saved >= checkpoint_seconds:
                _save(checkpoint, adam, best, state, fingerprint)
                saved = time.monotonic()
    finally:
        progress.close()
    return _finished(network_config, config, state, data, seeds, best, per_member["temperature_end"], begun)


def _backward(
    network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, step: int, reach: Tensor | None
) -> Tensor:
    """Gradients of the members' losses on a batch; their losses and KLs, (2, M).

    With ``reach`` each row counts half, and half an adversarial neighbour: the fast gradient sign of Goodfellow et
    al. (2015), as in deep ensembles.
    """
    if reach is None:
        loss, kl = _losses(network, x, y, beta, seed, step)
        loss.sum().backward()
        return torch.stack([loss.detach(), kl.detach()])
    x = x.requires_grad_()
    loss, kl = _losses(network, x, y, beta, seed, step)
    (loss.sum() / 2).backward()
    assert x.grad is not None
    neighbour = x.detach() + reach * x.grad.sign()
    other, _ = _losses(network, neighbour, y, beta, seed, step)
    (other.sum() / 2).backward()
    return torch.stack([(loss.detach() + other.detach()) / 2, kl.detach()])


def _losses(
    network: Network, x: Tensor, y: Tensor, beta: Tensor, seed: Tensor, step: int
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy + beta x mean KL, and that mean KL, of each member: (M,), (M,)."""
    out = network(x, seed=seed, step=step)
    each = F.cross_entropy(out.logits.flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
    kl = out.kl.mean(1)
    return each.mean(1) + beta * kl.to(each.dtype), kl


def _shuffled(rows: Tensor, seeds: Tensor, slots: Tensor, epoch: int, config: TrainConfig) -> Tensor:
    """The rows of an epoch for each member, in its own order: (slots, steps, batch).

    The last batch is filled up from the beginning of the order: all batches have one shape, and every row is seen.
    """
    own = rows[slots] if len(rows) > 1 else rows.expand(len(slots), -1)
    keys = bits(make_key(seeds, epoch), 1, 1, rows.shape[1]).view(len(slots), -1)
    shuffled = own.gather(1, keys.argsort(dim=1, stable=True))
    size = config.batch_size
    assert size is not None
    steps = -(-rows.shape[1] // size)
    return torch.cat([shuffled, shuffled[:, : steps * size - rows.shape[1]]], 1).view(len(slots), steps, size)


def _validate(sampler: Sampler, x: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
    """Accuracy and mean negative log likelihood of each member."""
    p = sampler(x).probabilities
    accuracy = (p.argmax(-1) == y).double().mean(1)
    own = p.gather(-1, y.expand(p.shape[:-1]).unsqueeze(-1)).squeeze(-1)
    return accuracy.tolist(), (-own.clamp_min(torch.finfo(p.dtype).tiny).log()).mean(1).tolist()


def _update(
    state: _State,
    adam: Adam,
    best: Tensor,
    config: TrainConfig,
    loss: list[float],
    accuracy: list[float],
    nll: list[float],
    arrived: list[bool],
    progress: Progress,
) -> None:
    """Best weights, learning rates and early stops after an epoch; patience counts once the temperature has arrived.

    Of weights with the same accuracy, which a small validation set gives often, those with the better likelihood are
    kept; patience goes by accuracy alone.
    """
    state.epoch += 1
    better = []
    for place, slot in enumerate(state.slots):
        state.epochs[slot] = state.epoch
        if not abs(loss[place]) < float("inf"):
            state.ended[slot] = "diverged"
            rest = "its best weights so far are kept" if state.best_epoch[slot] else "it is left out"
            progress.message(
                f"the loss of member {slot} is {loss[place]} in epoch {state.epoch}: {rest}. "
                "Try a lower learning rate (lr)."
            )
            continue
        if not arrived[place]:
            continue
        more = accuracy[place] - state.best_accuracy[slot]
        if more > 0 or (more == 0 and nll[place] < (state.best_nll[slot] or 0)):
            state.best_accuracy[slot], state.best_nll[slot] = accuracy[place], nll[place]
            state.best_epoch[slot] = state.epoch
            better.append((place, slot))
        state.since_best[slot] = 0 if more > 0 else state.since_best[slot] + 1
        if state.since_best[slot] >= config.stop_patience:
            state.ended[slot] = "stopped early"
        elif more <= 0 and state.since_best[slot] % config.lr_patience == 0:
            state.lr[slot] /= 10
    if better:
        places, slots = zip(*better, strict=True)
        best[list(slots)] = adam.flat[list(places)]
    adam.lr = torch.tensor([state.lr[slot] for slot in state.slots], dtype=torch.float64).to(adam.flat)


def _record(
    state: _State,
    slots: list[int],
    loss: list[float],
    kl: list[float],
    accuracy: list[float],
    temperature: list[float],
    has_temperature: bool,
) -> None:
    entry = {"epoch": state.epoch, "slots": slots, "loss": loss, "kl": kl, "validation_accuracy": accuracy}
    entry["lr"] = [state.lr[slot] for slot in slots]
    if has_temperature:
        entry["temperature"] = temperature
    # JSON has no NaN, and a checkpoint or a model must be readable by all.
    state.history.append({name: _finite(value) for name, value in entry.items()})


def _finite(value: Any) -> Any:
    return [None if number != number or abs(number) == float("inf") else number for number in value] if isinstance(
        value, list
    ) else value


def _report(state: _State, config: TrainConfig, members: int, has_temperature: bool) -> EpochReport:
    last = state.history[-1]

    def mean(name: str) -> float:
        numbers = [number for number in last[name] if number is not None]
        return sum(numbers) / len(numbers) if numbers else float("nan")

    return EpochReport(
        state.epoch,
        config.max_epochs,
        mean("loss"),
        mean("kl"),
        mean("validation_accuracy"),
        mean("temperature") if has_temperature else None,
        len(last["slots"]),
        members,
    )


def _finished(
    network_config: NetworkConfig,
    config: TrainConfig,
    state: _State,
    data: TrainingData,
    seeds: Sequence[int],
    best: Tensor,
    temperature: Tensor,
    begun: float,
) -> Fitted:
    """The best weights in a network of their own."""
    results = tuple(
        MemberResult(
            int(seed),
            state.ended[slot] or "max_epochs",
            state.epochs[slot],
            state.best_epoch[slot],
            state.best_accuracy[slot] if state.best_epoch[slot] else None,
        )
        for slot, seed in enumerate(seeds)
    )
    usable = [slot for slot, result in enumerate(results) if result.best_epoch is not None]
    if not usable:
        what = "the loss" if len(seeds) == 1 else "the loss of every member"
        raise TrainingError(
            f"{what} was no longer finite after {max(state.epochs)} epochs, and there are no weights to keep. "
            "Try a lower learning rate (lr), or look for extreme values in the data."
        )
    network = build(network_config, data.x.shape[1], data.classes, seeds).to(device=best.device, dtype=best.dtype)
    point_into(network, best)
    if network.has_temperature:
        set_temperature(network, temperature)
    network = take(network, usable).eval()
    return Fitted(network, results, state.history, config, time.monotonic() - begun)


def _save(path: Path, adam: Adam, best: Tensor, state: _State, fingerprint: str) -> None:
    tensors = {name: getattr(adam, name) for name in ("flat", "mean", "square", "steps", "lr", "decay")}
    checkpoints.write(path, {**tensors, "best": best}, vars(state), fingerprint)


def _fingerprint(
    network_config: NetworkConfig,
    config: TrainConfig,
    data: TrainingData,
    seeds: Sequence[int],
    sampling: str,
    num_samples: int,
) -> str:
    """What must be equal for a run to go on from a checkpoint."""
    settings = [network_config.name, network_config.to_dict(), config.to_dict(), list(seeds), sampling, num_samples]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for tensor in (data.x, data.y, data.train, data.validation):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(memoryview(tensor.cpu().contiguous().numpy()).cast("B"))
    return digest.hexdigest()


def _placed(x: Tensor, device: torch.device) -> Tensor:
    """``x`` on the device if it takes no more than half of what is free there."""
    if device.type == "cuda" and x.nbytes > torch.cuda.mem_get_info(device)[0] / 2:
        return x.pin_memory()
    return x.to(device)


def _ranges(x: Tensor) -> Tensor:
    """(in,), from the smallest to the largest of each feature."""
    low, high = torch.aminmax(x, dim=0)
    return high - low
