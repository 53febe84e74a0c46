"""A batched model whose members come and go: each slot holds a run of its own, on its own clock.

``fit`` begins and ends with the same members.  Here one that has ended makes room for another, in place: parameters,
moments, settings and seeds are written over, and on a GPU the captured graph goes on as it is.  Runs may differ in all
that is data of a member (``squad.models.padding``); they share the batch size.
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
from squad.train.epochs import PER_MEMBER, annealed, validated
from squad.train.state import Epoch, State
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

__all__ = ["DeviceData", "Examined", "Run", "Slots", "examine"]

#: How values are learned, as numbers of a member.
LEARNING = {"fixed": FIXED, "per_layer": PER_LAYER, "per_neuron": PER_NEURON}
#: Probabilities that are held at once while members are examined.
NUMBERS = 1 << 27


@dataclass
class Run:
    """One network in training.

    Attributes:
        network: its settings.
        config: how it is trained, resolved.
        seed: of its weights, its noise and its order of rows.
        state: how far it has come.
        accuracy: on the validation rows after the last epoch; NaN if they were not looked at.
        confidence, correct: what its best weights said about the validation rows, (m,) each; None before there are any.
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
        """How many it has behind it."""
        return self.state.epoch

    @property
    def ended(self) -> str | None:
        """How, or None."""
        if self.state.ended[0] is None and self.state.epoch >= self.config.max_epochs:
            return "at max_epochs"
        return self.state.ended[0]


class DeviceData:
    """The rows of a study on a device, once for all slots there."""

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
        """How many are trained on."""
        return self.train.shape[1]


class Examined(NamedTuple):
    """What a run says about the m validation rows.

    Attributes:
        accuracy: of its answers.
        nll: mean negative log likelihood.
        probabilities: (m, classes).
    """

    accuracy: float
    nll: float
    probabilities: Tensor


class Slots:
    """So many runs of one shape at once.

    Args:
        data: the rows.
        wide: settings of the network that all of them are members of (:func:`squad.models.padding.wide_config`).
        count: how many slots.
        config: what all of them share: batch size, precision, backend, adversarial.
    """

    def __init__(self, data: DeviceData, wide: NetworkConfig, count: int, config: TrainConfig) -> None:
        self.data, self.wide, self.config = data, wide, config
        self.runs: list[Run | None] = [None] * count
        device, dtype = data.device, data.x.dtype
        empty = build(wide, data.x.shape[1], data.classes, [0]).to(device=device, dtype=dtype)
        self.network = take(empty, [0] * count)
        for layer in self.network.modules():
            if isinstance(layer, SquadLayer):
                layer.backend = config.backend
        nothing = torch.zeros(count, dtype=dtype, device=device)
        self.adam = Adam(self.network, nothing, nothing)
        self.beta = nothing.clone()
        self.noise, self.shuffle = (torch.zeros(count, dtype=torch.int64, device=device) for _ in range(2))
        # On the host, where the temperature is computed; that of an empty slot is 1.
        self.own = {name: torch.ones(count, dtype=dtype) for name in PER_MEMBER}
        self.ties = [
            (cast(nn.Parameter, layer.values), torch.full((count, 1, 1), FIXED, device=device))
            for layer in self.network.modules()
            if isinstance(layer, SquadLayer)
        ]
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.steps: Steps | None = None
        self.totals: Tensor | None = None
        self.taken = 0  # steps of an epoch

    @property
    def free(self) -> list[int]:
        """Slots without a run."""
        return [slot for slot, run in enumerate(self.runs) if run is None]

    @property
    def active(self) -> list[int]:
        """Slots with one."""
        return [slot for slot, run in enumerate(self.runs) if run is not None]

    @torch.no_grad()
    def put(self, slot: int, run: Run) -> None:
        """Begin a run in a slot, over whatever was there."""
        own = build(run.network, self.data.x.shape[1], self.data.classes, [run.seed])
        put_member(self.network, slot, own)
        (lr,), (decay,) = run.config.for_each("lr", 1), run.config.for_each("weight_decay", 1)
        self.adam.restart(slot, lr, decay)
        for name, values in self.own.items():
            values[slot] = run.config.for_each(name, 1)[0]
        self.beta[slot] = self.own["kl_multiplier"][slot].item()
        for purpose, held in ((NOISE, self.noise), (SHUFFLE, self.shuffle)):
            held[slot] = seeds_of(purpose, [run.seed])[0].item()
        if isinstance(run.network, SquadConfig):
            for _, how in self.ties:
                how[slot] = LEARNING[run.network.learn_values]
        self.runs[slot] = run

    @torch.no_grad()
    def adopt(self, slot: int, other: "Slots", source: int) -> None:
        """Take over a run from a slot of ``other``, as it stands."""
        self.adam.adopt(slot, other.adam, source)
        for own, its in zip(self.network.buffers(), other.network.buffers(), strict=True):
            own[slot].copy_(its[source])
        for name, values in self.own.items():
            values[slot] = other.own[name][source]
        pairs = [(self.beta, other.beta), (self.noise, other.noise), (self.shuffle, other.shuffle)]
        for mine, its in [*pairs, *((a[1], b[1]) for a, b in zip(self.ties, other.ties, strict=True))]:
            mine[slot].copy_(its[source])
        self.runs[slot] = other.runs[source]
        other.clear(source)

    def clear(self, slot: int) -> None:
        """Leave a slot empty: nothing moves there."""
        self.adam.restart(slot, 0.0, 0.0)
        self.runs[slot] = None

    def launch(self) -> None:
        """Begin an epoch of all runs; on a GPU this only hands it over."""
        with self._aside():
            epochs = torch.tensor([0 if run is None else run.epoch for run in self.runs])
            temperature, arrived = annealed(epochs, self.own)
            self.temperature, self.arrived = temperature.tolist(), arrived.tolist()
            if self.network.has_temperature:
                set_temperature(self.network, temperature)
            self.network.train()
            epochs = epochs.to(self.data.device)
            batch = min(self.config.batch_size or 1, self.data.rows)
            order = shuffled(self.data.train, self.shuffle, epochs, batch)
            self.taken = order.shape[1]
            if self.steps is None:
                reach = None
                if self.config.adversarial:
                    reach = feature_ranges(self.data.x, self.data.train).to(self.data.device)
                    reach = reach * self.config.adversarial
                self.steps = make_steps(
                    self.network, self.adam, self.data.x, self.data.y, self.beta, self.noise, reach,
                    self.config.precision, self.ties,
                )  # fmt: skip
            self.totals = self.steps.epoch(order, epochs * self.taken)

    def wait(self) -> dict[int, tuple[float, float]]:
        """Wait for the epoch: loss and KL of each run, by its slot."""
        assert self.totals is not None
        if self.stream is not None:
            torch.cuda.current_stream(self.data.device).wait_stream(self.stream)
        loss, kl = (self.totals / self.taken).tolist()
        return {slot: (loss[slot], kl[slot]) for slot in self.active}

    def advance(self, slot: int, loss: tuple[float, float], examined: Examined | None) -> None:
        """Take note of a run's epoch; of one that was not examined the validation rows are not looked at."""
        run = self.runs[slot]
        assert run is not None
        accuracy, nll = (float("nan"), 0.0) if examined is None else examined[:2]
        arrived = self.arrived[slot] and examined is not None
        found = Epoch([loss[0]], [loss[1]], [accuracy], [nll], [self.temperature[slot]], [arrived])
        if run.state.advance(found, run.config):
            assert examined is not None
            confidence, answer = examined.probabilities.max(-1)
            run.confidence = confidence.cpu().numpy()
            run.correct = (answer == self.data.y_validation[0]).cpu().numpy()
        run.accuracy = accuracy

    def settle(self) -> None:
        """Let learning rates be as the runs have them."""
        self.adam.set_lr([0.0 if run is None else run.state.lr[0] for run in self.runs])

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """On a stream of its own, behind all that was done before."""
        if self.stream is None:
            yield
            return
        self.stream.wait_stream(torch.cuda.current_stream(self.data.device))
        with torch.cuda.stream(self.stream):
            yield


def examine(slots: Slots, chosen: Sequence[int], sampling: str, num_samples: int) -> Iterator[tuple[int, Examined]]:
    """What runs say about the validation rows.

    Args:
        slots: where they stand.
        chosen: which of the slots.
        sampling: how they are asked.
        num_samples: likewise.
    """
    data = slots.data
    most = max(1, NUMBERS // (data.y_validation.shape[1] * data.classes))
    for start in range(0, len(chosen), most):
        part = chosen[start : start + most]
        network = take(slots.network, part).eval()
        ask = Sampler(network, sampling, num_samples, precision=slots.config.precision, exact=False)
        p = ask(data.x_validation).probabilities
        yield from zip(part, map(Examined, *validated(p, data.y_validation), p), strict=True)
