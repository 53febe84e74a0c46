"""The paper's training loop, for any number of members trained together (batched).

Members share nothing but the tensors they are stored in.  Each has its own weights, shuffling, noise, learning rate, KL
multiplier, temperature, weight decay and early stopping, determined by its own seed and settings.  The loss is the sum
of the members' losses, so the gradient of each is what it would be alone.  A member that has stopped, or whose loss is
no longer finite, is removed from the batch.
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
from squad.core.threads import limit_threads
from squad.errors import ArgumentError, SquadError
from squad.layers import set_temperature
from squad.layers.members import take
from squad.layers.quantized import SquadLayer
from squad.models import Network, NetworkConfig, Sampler, build
from squad.train.adam import Adam, point_into
from squad.train.checkpoint_writer import CheckpointWriter
from squad.train.config import TrainConfig
from squad.train.progress import EpochReport, Progress, SilentProgress
from squad.train.save_on_interrupt import SaveOnInterrupt
from squad.train.state import PER_MEMBER, Epoch, MemberResult, State, annealed, validated
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
    """A training run without any usable weights."""


@dataclass(frozen=True)
class Fitted:
    """A trained network, the result of :func:`fit`.

    Attributes:
        network: The best weights of every member that has any, in eval mode.
        members: Result of each member, including the diverged ones.
        history: One entry per epoch, with lists over the members in training ("slots" are their indices).
        config: The settings with all defaults filled in.
        seconds: Duration of the run, since it was last resumed.

    Examples:
        >>> from squad.models import MLPConfig
        >>> from squad.train import TrainConfig, TrainingData, fit
        >>> x, rows = torch.linspace(-1, 1, 80).unsqueeze(1), torch.arange(80).unsqueeze(0)
        >>> data = TrainingData(x, (x[:, 0] > 0).long(), classes=2, train=rows[:, ::2], validation=rows[:, 1::2])
        >>> fitted = fit(MLPConfig(hidden=(4,)), TrainConfig(max_epochs=2), data, seeds=[5])
        >>> fitted.members[0].seed, fitted.members[0].ended
        (5, 'at max_epochs')
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
    """Train one member per seed, all of them together.

    Args:
        network_config: Kind of network and its settings.
        config: Training settings.
        data: Training and validation rows.
        seeds: One seed per member; each member is what it would be if trained alone with that seed.
        sampling: Sampling mode of the validation pass, normally that of prediction; default: the network's.
        num_samples: Number of samples T of the validation pass; default: the network's.
        device: Device to train on.
        progress: Receives a report after each epoch; default: none.
        checkpoint: Checkpoint file: the run resumes from it if it exists, and writes it periodically and when it is
            interrupted by Ctrl-C or SIGTERM (in the main thread; the signal then has its previous effect).
        checkpoint_seconds: Minimum time between two checkpoints.

    Returns:
        The network with the best weights of each member, and how each member was trained.

    Raises:
        TrainingError: If no member has usable weights.
        CheckpointError: If the checkpoint is damaged or belongs to another run.

    Examples:
        >>> from squad.models import MLPConfig
        >>> from squad.train import TrainConfig, TrainingData, fit
        >>> x = torch.linspace(-1, 1, 80).unsqueeze(1)
        >>> y, rows = (x[:, 0] > 0).long(), torch.arange(80).unsqueeze(0)
        >>> data = TrainingData(x, y, classes=2, train=rows[:, ::2], validation=rows[:, 1::2])
        >>> fitted = fit(MLPConfig(hidden=(4,)), TrainConfig(max_epochs=3), data, seeds=[0, 1])
        >>> len(fitted.members), len(fitted.history)
        (2, 3)
    """
    start = time.monotonic()
    progress = progress or SilentProgress()
    members = check_count("members", len(seeds), 1)
    data.check(members)
    config = config.resolved(network_config, data.train.shape[1])
    sampling, num_samples = network_config.check_sampling(sampling, num_samples)
    device = torch.device(device)
    if config.backend == "triton" and device.type != "cuda":
        raise ArgumentError(f'The backend "triton" needs a CUDA device, but the device is {device.type}. Use "auto".')

    # One thread for what precedes and follows training, too: it is little work, and on a busy machine a second thread
    # costs more than it saves.
    with limit_threads(0, device):
        return _fit(
            network_config, config, data, seeds, sampling, num_samples, device, progress, checkpoint,
            checkpoint_seconds, start,
        )  # fmt: skip


def _fit(
    network_config: NetworkConfig,
    config: TrainConfig,
    data: TrainingData,
    seeds: Sequence[int],
    sampling: str,
    num_samples: int,
    device: torch.device,
    progress: Progress,
    checkpoint: Path | None,
    checkpoint_seconds: float,
    start: float,
) -> Fitted:
    """Train with checked arguments; ``start`` is the time at which :func:`fit` was called."""
    members = len(seeds)
    x, y, train = to_device_if_it_fits(data.x, device), data.y.to(device), data.train.to(device)
    x_validation, y_validation = (part[data.validation.to(part.device)].to(device) for part in (x, y))
    network = build(network_config, x.shape[1], data.classes, seeds).to(device=device, dtype=x.dtype)
    for layer in network.modules():
        if isinstance(layer, SquadLayer):
            layer.backend = config.backend
    settings = {  # (M,) each
        name: torch.tensor(config.for_each(name, members), dtype=torch.float64).to(device, x.dtype)
        for name in PER_MEMBER
    }
    noise_seeds, shuffle_seeds = (seeds_of(purpose, seeds).to(device) for purpose in (NOISE, SHUFFLE))
    # Size of adversarial perturbations per feature, from a member's own training rows: (M or 1, 1, in).
    perturbation = feature_ranges(x, train).to(device) * config.adversarial if config.adversarial else None

    adam = Adam(network, settings["lr"], settings["weight_decay"])
    best = adam.flat.clone()
    state = State.start(config.for_each("lr", members))
    writer = None
    if checkpoint is not None:
        fingerprint = _fingerprint(network_config, config, data, seeds, sampling, num_samples)
        writer = CheckpointWriter(checkpoint, fingerprint, checkpoint_seconds, progress.message)
    found = None if writer is None else writer.read()
    if found is not None:
        state = State(**found[1])
        best.copy_(found[0].pop("best"))
        if state.slots:
            network = take(network, state.slots)
            adam.restore(network, found[0])
        progress.message(f"resuming after epoch {state.epoch}, from {checkpoint}")

    steps: Steps | None = None  # created anew whenever the members change
    work = adam.flat.numel() * (config.batch_size or 1)
    with limit_threads(work, device), _running(progress, writer) as interrupts:
        progress.start(state.epoch, config.max_epochs)
        while state.slots and state.epoch < config.max_epochs:
            slots = torch.tensor(state.slots, device=device)
            current = {name: values[slots] for name, values in settings.items()}
            noise, beta = noise_seeds[slots], current["kl_multiplier"]
            per_member = perturbation is not None and len(perturbation) > 1
            current_perturbation = perturbation[slots] if perturbation is not None and per_member else perturbation
            temperature, is_annealed = annealed(state.epoch, current)
            if network.has_temperature:
                set_temperature(network, temperature)

            network.train()
            train_rows = train[slots] if len(train) > 1 else train
            order = shuffled(train_rows, shuffle_seeds[slots], state.epoch, config.batch_size or 1)
            if steps is None:
                steps = make_steps(network, adam, x, y, beta, noise, current_perturbation, config.precision)
            totals = steps.epoch(order, state.epoch * order.shape[1])

            network.eval()
            selected = slots if 1 < len(x_validation) != len(slots) else slice(None)
            sampler = Sampler(network, sampling, num_samples, precision=config.precision, exact=False)
            p = sampler(x_validation[selected]).probabilities
            accuracy, nll = validated(p, y_validation[selected])
            loss, kl = (totals / order.shape[1]).tolist()
            temperatures = temperature.tolist() if network.has_temperature else []
            improved = state.advance(Epoch(loss, kl, accuracy, nll, temperatures, is_annealed.tolist()), config)
            best[[state.slots[row] for row in improved]] = adam.flat[improved]
            _report(progress, state, config, network, members, x_validation.shape[1])
            remaining = state.leave()
            if remaining:
                network = take(network, remaining)
                adam.keep(network, remaining)
                steps = None
            if state.slots:
                adam.set_lr([state.lr[slot] for slot in state.slots])
            if writer is not None:
                writer.record({**adam.state(), "best": best}, state)
            interrupts.check()

    results = state.results(list(seeds))
    usable = [slot for slot, result in enumerate(results) if result.best_epoch is not None]
    if not usable:
        raise TrainingError(
            f"Training diverged: the loss was no longer finite after {max(state.epochs)} epochs, and there are no "
            "usable weights. Try a lower learning rate (lr), or check the data for extreme values."
        )
    network = build(network_config, x.shape[1], data.classes, seeds).to(device=device, dtype=x.dtype)
    point_into(network, best)
    if network.has_temperature:
        set_temperature(network, settings["temperature_end"])
    network = take(network, usable).eval()  # a copy: no longer part of one large tensor
    return Fitted(network, results, state.history, config, time.monotonic() - start)


@contextlib.contextmanager
def _running(progress: Progress, writer: CheckpointWriter | None) -> Iterator[SaveOnInterrupt]:
    """Save a checkpoint if the run is interrupted, and close the progress display however it ends."""
    with SaveOnInterrupt(None if writer is None else writer.write_and_close) as interrupts:
        try:
            yield interrupts
        finally:
            progress.close()
    if writer is not None:
        writer.close()


def _report(progress: Progress, state: State, config: TrainConfig, network: Network, members: int, rows: int) -> None:
    last = state.history[-1]

    def mean(name: str) -> float:
        numbers = [number for number in last[name] if number is not None]
        return sum(numbers) / len(numbers) if numbers else float("nan")

    for row, slot in enumerate(state.slots):
        if state.ended[slot] == "diverged":
            consequence = "its best weights so far are kept" if state.best_epoch[slot] else "it is dropped"
            progress.message(
                f"the loss of member {slot} is no longer finite in epoch {state.epoch}: {consequence}. "
                f"Its learning rate is {last['lr'][row]:g}; try a lower one."
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
    """Return a hash of everything that must be equal for a run to resume from a checkpoint."""
    settings = [network_config.name, network_config.to_dict(), config.to_dict(), list(seeds), sampling, num_samples]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for tensor in (data.x, data.y, data.train, data.validation):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()
