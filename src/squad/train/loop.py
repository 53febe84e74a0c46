"""The training loop: the paper's, for any number of members at once.

Members share nothing but the tensors they stand in.  Each has its own weights, shuffle, noise, learning rate, KL
multiplier, temperature, decay and early stop, all by its own seed and settings; the loss is the sum of theirs, so the
gradient of one is what it would be alone.  One that has stopped, or whose loss is no longer finite, leaves the batch.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from squad.core.checks import check_count
from squad.core.threads import threads_for
from squad.errors import ArgumentError, SquadError
from squad.layers import set_temperature
from squad.layers.members import take
from squad.layers.quantized import SquadLayer
from squad.models import Network, NetworkConfig, Sampler, build
from squad.train.adam import Adam, point_into
from squad.train.checkpoint_writer import CheckpointWriter
from squad.train.config import TrainConfig
from squad.train.epochs import PER_MEMBER, annealed, validated
from squad.train.progress import EpochReport, Progress, SilentProgress
from squad.train.save_on_interrupt import Saving
from squad.train.state import Epoch, MemberResult, State
from squad.train.step import Steps, make_steps
from squad.train.training_data import (
    NOISE,
    SHUFFLE,
    TrainingData,
    feature_ranges,
    seeds_of,
    shuffled,
    to_device_if_it_fits,
)

__all__ = ["Fitted", "TrainingError", "fit"]


class TrainingError(SquadError):
    """A run of which nothing can be used."""


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
        network_config: what is trained.
        config: how.
        data: training and validation rows.
        seeds: of the members; each is what it would be alone with that seed.
        sampling: how validation accuracy is measured: as predictions will be made.
        num_samples: likewise.
        device: where.
        progress: what is told of it.
        checkpoint: a file to go on from if it is there, and to keep while the run lasts.  It is also written when the
            run is interrupted by Ctrl-C or SIGTERM (in the main thread; the signal then does what it did before).
        checkpoint_seconds: time between two of them, at least.
    """
    begun = time.monotonic()
    progress = progress or SilentProgress()
    members = check_count("members", len(seeds), 1)
    data.check(members)
    config = config.resolved(network_config, data.train.shape[1])
    sampling, num_samples = network_config.check_sampling(sampling, num_samples)
    device = torch.device(device)
    if config.backend == "triton" and device.type != "cuda":
        raise ArgumentError.of("backend", "triton", f"one for {device.type}", 'Take "auto".')

    x, y, train = to_device_if_it_fits(data.x, device), data.y.to(device), data.train.to(device)
    x_validation, y_validation = (part[data.validation.to(part.device)].to(device) for part in (x, y))
    network = build(network_config, x.shape[1], data.classes, seeds).to(device=device, dtype=x.dtype)
    for layer in network.modules():
        if isinstance(layer, SquadLayer):
            layer.backend = config.backend
    own = {  # one a member
        name: torch.tensor(config.for_each(name, members), dtype=torch.float64).to(device, x.dtype)
        for name in PER_MEMBER
    }
    noise_seeds, shuffle_seeds = (seeds_of(purpose, seeds).to(device) for purpose in (NOISE, SHUFFLE))
    # How far an adversarial example may be, feature by feature, by a member's own training rows: (M or 1, 1, in).
    reach = feature_ranges(x, train).to(device) * config.adversarial if config.adversarial else None

    adam = Adam(network, own["lr"], own["weight_decay"])
    best = adam.flat.clone()
    state = State.start(config.for_each("lr", members))
    keeper = None
    if checkpoint is not None:
        fingerprint = _fingerprint(network_config, config, data, seeds, sampling, num_samples)
        keeper = CheckpointWriter(checkpoint, fingerprint, checkpoint_seconds, progress.message)
    found = None if keeper is None else keeper.read()
    if found is not None:
        state = State(**found[1])
        best.copy_(found[0].pop("best"))
        if state.slots:
            network = take(network, state.slots)
            adam.restore(network, found[0])
        progress.message(f"going on after epoch {state.epoch}, from {checkpoint}")

    steps: Steps | None = None  # for the members of now
    work = adam.flat.numel() * (config.batch_size or 1)
    with threads_for(work, device), _running(progress, keeper) as saving:
        progress.start(state.epoch, config.max_epochs)
        while state.slots and state.epoch < config.max_epochs:
            slots = torch.tensor(state.slots, device=device)
            now = {name: values[slots] for name, values in own.items()}
            noise, beta = noise_seeds[slots], now["kl_multiplier"]
            near_by = reach[slots] if reach is not None and len(reach) > 1 else reach
            temperature, arrived = annealed(state.epoch, now)
            if network.has_temperature:
                set_temperature(network, temperature)

            network.train()
            rows_of_all = train[slots] if len(train) > 1 else train
            order = shuffled(rows_of_all, shuffle_seeds[slots], state.epoch, config.batch_size or 1)
            if steps is None:
                steps = make_steps(network, adam, x, y, beta, noise, near_by, config.precision)
            totals = steps.epoch(order, state.epoch * order.shape[1])

            network.eval()
            pick = slots if 1 < len(x_validation) != len(slots) else slice(None)
            ask = Sampler(network, sampling, num_samples, precision=config.precision, exact=False)
            p = ask(x_validation[pick]).probabilities
            accuracy, nll = validated(p, y_validation[pick])
            loss, kl = (totals / order.shape[1]).tolist()
            shown = temperature.tolist() if network.has_temperature else []
            better = state.advance(Epoch(loss, kl, accuracy, nll, shown, arrived.tolist()), config)
            best[[state.slots[place] for place in better]] = adam.flat[better]
            _tell(progress, state, config, network, members, x_validation.shape[1])
            keep = state.leave()
            if keep:
                network = take(network, keep)
                adam.keep(network, keep)
                steps = None
            if state.slots:
                adam.set_lr([state.lr[slot] for slot in state.slots])
            if keeper is not None:
                keeper.note({**adam.state(), "best": best}, state)
            saving.check()

    results = state.results(list(seeds))
    usable = [slot for slot, result in enumerate(results) if result.best_epoch is not None]
    if not usable:
        raise TrainingError(
            f"The loss was no longer finite after {max(state.epochs)} epochs, and there are no weights to keep. "
            "Try a lower learning rate (lr), or look for extreme values in the data."
        )
    network = build(network_config, x.shape[1], data.classes, seeds).to(device=device, dtype=x.dtype)
    point_into(network, best)
    if network.has_temperature:
        set_temperature(network, own["temperature_end"])
    network = take(network, usable).eval()  # a copy: no longer part of one large tensor
    return Fitted(network, results, state.history, config, time.monotonic() - begun)


@contextlib.contextmanager
def _running(progress: Progress, keeper: CheckpointWriter | None) -> Iterator[Saving]:
    """While the run lasts: saved where it is interrupted, told of however it ends."""
    with Saving(None if keeper is None else keeper.stop) as saving:
        try:
            yield saving
        finally:
            progress.close()
    if keeper is not None:
        keeper.close()


def _tell(progress: Progress, state: State, config: TrainConfig, network: Network, members: int, rows: int) -> None:
    last = state.history[-1]

    def mean(name: str) -> float:
        numbers = [number for number in last[name] if number is not None]
        return sum(numbers) / len(numbers) if numbers else float("nan")

    for place, slot in enumerate(state.slots):
        if state.ended[slot] == "diverged":
            rest = "its best weights so far are kept" if state.best_epoch[slot] else "it is left out"
            progress.message(
                f"the loss of member {slot} is no longer finite in epoch {state.epoch}: {rest}. "
                f"Its learning rate is {last['lr'][place]:g}; try a lower one."
            )
    progress.epoch(
        EpochReport(
            state.epoch,
            config.max_epochs,
            mean("loss"),
            mean("kl") if network.has_latents else None,
            mean("validation_accuracy"),
            mean("temperature") if network.has_temperature else None,
            len(state.slots),
            members,
            rows,
        )
    )


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
        digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()
