"""What is looked at in trained networks beside their answers: plain data for the claims and figures."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from squad import analysis
from squad.core.checks import check_choice
from squad.data.images import ImageSet
from squad.errors import ArgumentError
from squad.fitting import FitSettings
from squad.models import Network, NetworkConfig, build
from squad.models.config import SquadConfig
from squad.models.networks import Stage
from squad.train import TrainingData
from squad.train.adam import Adam
from squad.train.step import make_steps
from squad.train.training_data import shuffled

__all__ = ["PROBES", "Subject", "check"]

#: Rows that are looked at; more would change nothing that is shown.
ROWS = 5000
#: The unit that is looked into, that of the paper's appendix, and so many rows of it and distributions near a shape.
UNIT, CASES, NEAREST = 12, 5, 3
#: Epochs before time is taken, and of which it is.
WARM_UP, TIMED = 2, 7


@dataclass(frozen=True)
class Subject:
    """What a probe sees.

    Attributes:
        network: trained, with members.
        settings: what it was trained with.
        x: (N, in), the test rows as the network takes them.
        images: the data set they are of.
        data: what it was trained on.
        seeds: of its members.
    """

    network: Network
    settings: FitSettings
    x: Tensor
    images: ImageSet
    data: TrainingData
    seeds: tuple[int, ...]


def spread(subject: Subject) -> dict[str, Any]:
    """Mean and standard deviation of what each layer puts out, before training and after, one a member.

    The spread is over rows and units; the last entry is the output layer's logits.
    """
    x = subject.x[:ROWS]
    fresh = build(subject.settings.network, x.shape[1], subject.network.classes, subject.seeds)
    return {
        "before": _spreads(fresh.to(x.device, x.dtype).eval(), x),
        "after": _spreads(subject.network, x),
    }


@torch.no_grad()
def _spreads(network: Network, x: Tensor) -> list[dict[str, list[float]]]:
    found = []
    y = network.with_member_axis(x)
    for stage in network.stages:
        y, _ = cast(Stage, stage)(y)
        std, mean = torch.std_mean(y.double(), dim=(-2, -1))
        found.append({"mean": mean.tolist(), "std": std.tolist()})
    return found


def information(subject: Subject) -> list[dict[str, Any]]:
    """What the latents of each layer tell about that layer's input, in bits, one number a member.

    I(z_k; input) with the marginal of z_k taken over the test rows: the mean over the units, the largest, and their
    sum.  It can be log2 C at the most.
    """
    found = []
    for layer in range(1, len(subject.settings.network.hidden) + 1):
        each = [
            analysis.information(analysis.posteriors(subject.network, subject.x[:ROWS], layer, member).probs)
            for member in range(cast(int, subject.network.members))
        ]
        found.append(
            {
                "mean": [float(bits.mean()) for bits in each],
                "largest": [float(bits.max()) for bits in each],
                "sum": [float(bits.sum()) for bits in each],
            }
        )
    return found


def stereotypes(subject: Subject) -> list[dict[str, Any]]:
    """Of each layer of the first member: the predicted distributions nearest to each shape, and how many have modes."""
    found = []
    for layer in range(1, len(subject.settings.network.hidden) + 1):
        predicted = analysis.posteriors(subject.network, subject.x, layer)
        kinds = analysis.stereotypes(predicted.probs.shape[-1])
        found.append(
            {
                "layer": layer,
                "modes": _short(analysis.mode_shares(predicted.probs)),
                "nearest": [_rounded(one.to_dict()) for one in analysis.nearest(predicted, kinds, NEAREST)],
            }
        )
    return found


def weights(subject: Subject) -> dict[str, Any]:
    """Of the paper's unit 12 of the first layer: its weights, and five rows for which it predicts something typical."""
    predicted = analysis.posteriors(subject.network, subject.x, 1)
    cases = analysis.cases(predicted, UNIT, analysis.stereotypes(predicted.probs.shape[-1]), CASES)
    return {
        "weights": _rounded(analysis.bin_weights(subject.network, 1, UNIT).to_dict()),
        "cases": [_rounded(case.to_dict()) for case in cases],
        "shape": list(subject.images.x_test.shape[1:]),
        "pictures": [subject.images.x_test[case.row].tolist() for case in cases],
        "classes": [subject.images.classes[subject.images.y_test[case.row]] for case in cases],
    }


def activation(subject: Subject) -> dict[str, Any]:
    """Of the same unit: its activation function; of all units of the first layer only its expectation."""
    units = range(1, subject.settings.network.hidden[0] + 1)
    each = [analysis.activation(subject.network, subject.x, 1, unit) for unit in units]
    return {
        "unit": _rounded(each[UNIT - 1].to_dict()),
        "others": [{"position": _short(one.position[::5]), "mean": _short(one.mean[::5])} for one in each],
    }


def epoch(subject: Subject) -> dict[str, Any]:
    """Seconds of an epoch's steps of one such network, without validation: median and quartiles of several."""
    device, own = subject.x.device, subject.settings
    config = own.training.resolved(own.network, subject.data.train.shape[1])
    x, y = (part.to(device) for part in (subject.data.x, subject.data.y))
    network = build(own.network.member(0), x.shape[1], subject.data.classes, [0]).to(device).train()
    numbers = {
        name: torch.tensor(config.for_each(name, 1), device=device) for name in ("lr", "weight_decay", "kl_multiplier")
    }
    adam = Adam(network, numbers["lr"], numbers["weight_decay"])
    seed = torch.zeros(1, dtype=torch.int64, device=device)
    steps = make_steps(network, adam, x, y, numbers["kl_multiplier"], seed, None, config.precision)
    order = shuffled(subject.data.train[:1].to(device), seed, 0, config.batch_size or 1)
    seconds = []
    for place in range(WARM_UP + TIMED):
        _wait(device)
        begun = time.perf_counter()
        steps.epoch(order, place * order.shape[1])
        _wait(device)
        seconds.append(time.perf_counter() - begun)
    low, median, high = torch.tensor(seconds[WARM_UP:]).quantile(torch.tensor([0.25, 0.5, 0.75])).tolist()
    return {"steps": order.shape[1], "batch_size": order.shape[2], "median": median, "q25": low, "q75": high}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _rounded(value: Any) -> Any:
    """Numbers with six digits: enough for any figure, and records stay small."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _short(values: Any) -> list[float]:
    return cast(list[float], _rounded(values.tolist()))


def check(name: str, network: NetworkConfig) -> None:
    """That a probe finds in such a network what it looks for: found out before it is trained."""
    check_choice("probes", name, tuple(PROBES))
    if name in ("information", "stereotypes", "weights", "activation") and not isinstance(network, SquadConfig):
        raise ArgumentError.of("probes", f"{name} for {network.name}", "of a network with quantized latents")
    if name in ("weights", "activation") and network.hidden[0] < UNIT:
        raise ArgumentError.of("probes", f"{name} of {network.hidden[0]} units", f"of {UNIT} at least")


PROBES: Mapping[str, Callable[[Subject], Any]] = {
    "curves": lambda _: None,  # one a way: what was asked is not kept
    "spread": spread,
    "information": information,
    "stereotypes": stereotypes,
    "weights": weights,
    "activation": activation,
    "epoch": epoch,
}
