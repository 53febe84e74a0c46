"""A batched network whose members are independent runs that start and end at different times, one run per slot.

``fit`` trains a fixed set of members.  Here a run that has ended is replaced by another, in place: its parameters,
moments, settings and seeds are overwritten, and on a GPU the captured graph stays valid.  Runs may differ in every
setting that padding allows to differ (``squad.models.padding``); they share the batch size.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from squad.layers import set_temperature
from squad.layers.members import take
from squad.layers.quantized import SquadLayer
from squad.models import NetworkConfig, Sampler, build
from squad.models.config import SquadConfig
from squad.models.padding import put_member
from squad.train.adam import Adam
from squad.train.config import TrainConfig
from squad.train.state import PER_MEMBER, Epoch, State, annealed, validated
from squad.train.step import FIXED, PER_LAYER, PER_NEURON, Steps, make_steps
from squad.train.training_data import (
    NOISE,
    SHUFFLE,
    TrainingData,
    feature_ranges,
    seeds_of,
    shuffled,
    to_device_if_it_fits,
)

__all__ = ["DeviceData", "Run", "Slots", "ValidationResult", "validate"]

#: Codes of the settings of ``learn_values``.
LEARN_VALUES_CODES = {"fixed": FIXED, "per_layer": PER_LAYER, "per_neuron": PER_NEURON}
#: Maximum number of probabilities held in memory during a validation pass.
MAX_PROBABILITIES = 1 << 27


@dataclass
class Run:
    """One network in training.

    Attributes:
        network: Settings of the network.
        config: Training settings, resolved.
        seed: Seed of the weights, the noise and the order of rows.
        state: Progress of the training.
        accuracy: Validation accuracy after the last epoch; NaN without a validation pass.
        confidence, correct: Predictions of its best weights on the validation rows, (m,) each; None before there are
            any.
    """

    network: NetworkConfig
    config: TrainConfig
    seed: int
    state: State = field(init=False)
    accuracy: float = float("nan")
    confidence: NDArray[np.float64] | None = None
    correct: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        self.state = State.start(self.config.for_each("lr", 1))

    @property
    def epoch(self) -> int:
        """Number of completed epochs."""
        return self.state.epoch

    @property
    def ended(self) -> str | None:
        """How the run ended ("stopped early", "at max_epochs" or "diverged"), or None while it is training."""
        if self.state.ended[0] is None and self.state.epoch >= self.config.max_epochs:
            return "at max_epochs"
        return self.state.ended[0]


class DeviceData:
    """Training data on a device, shared by all slots there.

    Args:
        data: Rows, labels and split; one split for all slots.
        device: Device to train on.
    """

    def __init__(self, data: TrainingData, device: torch.device | str) -> None:
        data.check(1)
        self.device = torch.device(device)
        self.data, self.classes = data, data.classes
        self.x, self.y, self.train = (
            to_device_if_it_fits(data.x, self.device),
            data.y.to(self.device),
            data.train.to(self.device),
        )
        self.x_validation, self.y_validation = (
            part[data.validation.to(part.device)].to(self.device) for part in (self.x, self.y)
        )

    @property
    def rows(self) -> int:
        """Number of training rows."""
        return self.train.shape[1]


class ValidationResult(NamedTuple):
    """Results of a run on the m validation rows.

    Attributes:
        accuracy: Accuracy of the predictions.
        nll: Mean negative log likelihood in nats.
        probabilities: Class probabilities, (m, classes).
    """

    accuracy: float
    nll: float
    probabilities: Tensor


class Slots:
    """Runs of one shape, trained together.

    Args:
        data: Training and validation rows.
        padded: Settings of the padded network whose members are the runs (:func:`squad.models.padding.padded_config`).
        count: Number of slots.
        config: Settings that all runs share: batch size, precision, backend, adversarial.
    """

    def __init__(self, data: DeviceData, padded: NetworkConfig, count: int, config: TrainConfig) -> None:
        self.data, self.padded, self.config = data, padded, config
        self.runs: list[Run | None] = [None] * count
        device, dtype = data.device, data.x.dtype
        single = build(padded, data.x.shape[1], data.classes, [0]).to(device=device, dtype=dtype)
        self.network = take(single, [0] * count)
        for layer in self.network.modules():
            if isinstance(layer, SquadLayer):
                layer.backend = config.backend
        zeros = torch.zeros(count, dtype=dtype, device=device)
        self.adam = Adam(self.network, zeros, zeros)
        self.beta = zeros.clone()
        self.noise, self.shuffle = (torch.zeros(count, dtype=torch.int64, device=device) for _ in range(2))
        # On the host, where the temperature is computed; the temperature of an empty slot is 1.
        self.settings = {name: torch.ones(count, dtype=dtype) for name in PER_MEMBER}
        self.ties = [
            (cast(nn.Parameter, layer.values), torch.full((count, 1, 1), FIXED, device=device))
            for layer in self.network.modules()
            if isinstance(layer, SquadLayer)
        ]
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.steps: Steps | None = None
        self.totals: Tensor | None = None
        self.taken = 0  # steps per epoch

    @property
    def free(self) -> list[int]:
        """Indices of the slots without a run."""
        return [slot for slot, run in enumerate(self.runs) if run is None]

    @property
    def active(self) -> list[int]:
        """Indices of the slots with a run."""
        return [slot for slot, run in enumerate(self.runs) if run is not None]

    @torch.no_grad()
    def put(self, slot: int, run: Run) -> None:
        """Start a run in a slot, overwriting its previous content.

        Args:
            slot: Index of the slot.
            run: Run to start.
        """
        network = build(run.network, self.data.x.shape[1], self.data.classes, [run.seed])
        put_member(self.network, slot, network)
        (lr,), (decay,) = run.config.for_each("lr", 1), run.config.for_each("weight_decay", 1)
        self.adam.restart(slot, lr, decay)
        for name, values in self.settings.items():
            values[slot] = run.config.for_each(name, 1)[0]
        self.beta[slot] = self.settings["kl_multiplier"][slot].item()
        for purpose, seeds in ((NOISE, self.noise), (SHUFFLE, self.shuffle)):
            seeds[slot] = seeds_of(purpose, [run.seed])[0].item()
        if isinstance(run.network, SquadConfig):
            for _, codes in self.ties:
                codes[slot] = LEARN_VALUES_CODES[run.network.learn_values]
        self.runs[slot] = run

    @torch.no_grad()
    def adopt(self, slot: int, other: "Slots", source: int) -> None:
        """Move the run in slot ``source`` of ``other`` to ``slot``, with its current state.

        Args:
            slot: Index of the slot to overwrite.
            other: Slots to move the run from.
            source: Index of the run's slot in ``other``.
        """
        self.adam.adopt(slot, other.adam, source)
        for target, origin in zip(self.network.buffers(), other.network.buffers(), strict=True):
            target[slot].copy_(origin[source])
        for name, values in self.settings.items():
            values[slot] = other.settings[name][source]
        pairs = [(self.beta, other.beta), (self.noise, other.noise), (self.shuffle, other.shuffle)]
        for target, origin in [*pairs, *((a[1], b[1]) for a, b in zip(self.ties, other.ties, strict=True))]:
            target[slot].copy_(origin[source])
        self.runs[slot] = other.runs[source]
        other.clear(source)

    def clear(self, slot: int) -> None:
        """Empty a slot: its learning rate of 0 leaves its parameters unchanged."""
        self.adam.restart(slot, 0.0, 0.0)
        self.runs[slot] = None

    def launch(self) -> None:
        """Start an epoch of all runs; on a GPU this returns without waiting for it."""
        with self._own_stream():
            epochs = torch.tensor([0 if run is None else run.epoch for run in self.runs])
            temperature, arrived = annealed(epochs, self.settings)
            self.temperature, self.arrived = temperature.tolist(), arrived.tolist()
            if self.network.has_temperature:
                set_temperature(self.network, temperature)
            self.network.train()
            epochs = epochs.to(self.data.device)
            batch = min(self.config.batch_size or 1, self.data.rows)
            order = shuffled(self.data.train, self.shuffle, epochs, batch)
            self.taken = order.shape[1]
            if self.steps is None:
                perturbation = None
                if self.config.adversarial:
                    perturbation = feature_ranges(self.data.x, self.data.train).to(self.data.device)
                    perturbation = perturbation * self.config.adversarial
                self.steps = make_steps(
                    self.network, self.adam, self.data.x, self.data.y, self.beta, self.noise, perturbation,
                    self.config.precision, self.ties,
                )  # fmt: skip
            self.totals = self.steps.epoch(order, epochs * self.taken)

    def wait(self) -> dict[int, tuple[float, float]]:
        """Wait for the end of the epoch; return loss and KL of each run by its slot."""
        assert self.totals is not None
        if self.stream is not None:
            torch.cuda.current_stream(self.data.device).wait_stream(self.stream)
        loss, kl = (self.totals / self.taken).tolist()
        return {slot: (loss[slot], kl[slot]) for slot in self.active}

    def advance(self, slot: int, loss: tuple[float, float], examined: ValidationResult | None) -> None:
        """Record an epoch of a run.

        Args:
            slot: Slot of the run.
            loss: Its loss and KL, as :meth:`wait` returns them.
            examined: Its results on the validation rows, or None without a validation pass.
        """
        run = self.runs[slot]
        assert run is not None
        accuracy, nll = (float("nan"), 0.0) if examined is None else examined[:2]
        arrived = self.arrived[slot] and examined is not None
        results = Epoch([loss[0]], [loss[1]], [accuracy], [nll], [self.temperature[slot]], [arrived])
        if run.state.advance(results, run.config):
            assert examined is not None
            confidence, predicted = examined.probabilities.max(-1)
            run.confidence = confidence.cpu().numpy()
            run.correct = (predicted == self.data.y_validation[0]).cpu().numpy()
        run.accuracy = accuracy

    def settle(self) -> None:
        """Set the optimizer's learning rates to those of the runs."""
        self.adam.set_lr([0.0 if run is None else run.state.lr[0] for run in self.runs])

    @contextlib.contextmanager
    def _own_stream(self) -> Iterator[None]:
        """Run on a separate CUDA stream, after all work submitted before."""
        if self.stream is None:
            yield
            return
        self.stream.wait_stream(torch.cuda.current_stream(self.data.device))
        with torch.cuda.stream(self.stream):
            yield


def validate(
    slots: Slots, chosen: Sequence[int], sampling: str, num_samples: int
) -> Iterator[tuple[int, ValidationResult]]:
    """Evaluate runs on the validation rows.

    Args:
        slots: The slots.
        chosen: Indices of the slots to evaluate.
        sampling: Sampling mode.
        num_samples: Number of samples T.

    Returns:
        An iterator over pairs of a slot and its results.
    """
    data = slots.data
    at_once = max(1, MAX_PROBABILITIES // (data.y_validation.shape[1] * data.classes))
    for start in range(0, len(chosen), at_once):
        part = chosen[start : start + at_once]
        network = take(slots.network, part).eval()
        sampler = Sampler(network, sampling, num_samples, precision=slots.config.precision, exact=False)
        p = sampler(data.x_validation).probabilities
        yield from zip(part, map(ValidationResult, *validated(p, data.y_validation), p), strict=True)
