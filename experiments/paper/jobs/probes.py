"""Probes: measurements on trained networks beyond their predictions, as plain data for the claims and figures."""

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

__all__ = ["PROBES", "ProbeContext", "check_probe"]

#: Maximum number of test rows used; more would not change what is shown.
MAX_ROWS = 5000
#: Unit that is shown in detail, the one of the paper's appendix (counted from 1).
UNIT = 12
#: Number of example rows of that unit, and of distributions shown per shape.
CASES, NEAREST = 5, 3
#: Number of epochs before timing starts, and of epochs that are timed.
WARM_UP_EPOCHS, TIMED_EPOCHS = 2, 7


@dataclass(frozen=True)
class ProbeContext:
    """Input of a probe.

    Attributes:
        network: The trained networks, as members of one.
        settings: Settings of the fit.
        x: Preprocessed test rows, (N, in).
        images: The data set.
        data: The training data.
        seeds: Seeds of the members.
    """

    network: Network
    settings: FitSettings
    x: Tensor
    images: ImageSet
    data: TrainingData
    seeds: tuple[int, ...]


def spread(context: ProbeContext) -> dict[str, Any]:
    """Compute mean and standard deviation of each layer's output, before and after training, per member.

    Both are over rows and units; the last entry is the logits of the output layer.
    """
    x = context.x[:MAX_ROWS]
    fresh = build(context.settings.network, x.shape[1], context.network.classes, context.seeds)
    return {
        "before": _spreads(fresh.to(x.device, x.dtype).eval(), x),
        "after": _spreads(context.network, x),
    }


@torch.no_grad()
def _spreads(network: Network, x: Tensor) -> list[dict[str, list[float]]]:
    layers = []
    y = network.with_member_axis(x)
    for stage in network.stages:
        y, _ = cast(Stage, stage)(y)
        std, mean = torch.std_mean(y.double(), dim=(-2, -1))
        layers.append({"mean": mean.tolist(), "std": std.tolist()})
    return layers


def information(context: ProbeContext) -> list[dict[str, Any]]:
    """Compute the mutual information of the latents of each layer and the layer's input, in bits, per member.

    I(z_k; input) with the marginal of z_k estimated on the test rows: the mean over the units, the largest, and the
    sum. It is at most log2 C per unit.
    """
    layers = []
    for layer in range(1, len(context.settings.network.hidden) + 1):
        each = [
            analysis.information(analysis.posteriors(context.network, context.x[:MAX_ROWS], layer, member).probs)
            for member in range(cast(int, context.network.members))
        ]
        layers.append(
            {
                "mean": [float(bits.mean()) for bits in each],
                "largest": [float(bits.max()) for bits in each],
                "sum": [float(bits.sum()) for bits in each],
            }
        )
    return layers


def stereotypes(context: ProbeContext) -> list[dict[str, Any]]:
    """Find, in each layer of the first member, the predicted distributions nearest to each typical shape.

    Also the fractions of distributions with one, two, ... modes.
    """
    layers = []
    for layer in range(1, len(context.settings.network.hidden) + 1):
        predicted = analysis.posteriors(context.network, context.x, layer)
        shapes = analysis.stereotypes(predicted.probs.shape[-1])
        layers.append(
            {
                "layer": layer,
                "modes": _rounded_list(analysis.mode_shares(predicted.probs)),
                "nearest": [_rounded(one.to_dict()) for one in analysis.nearest(predicted, shapes, NEAREST)],
            }
        )
    return layers


def weights(context: ProbeContext) -> dict[str, Any]:
    """Return the weights of unit 12 of the first layer, and five rows for which it predicts a typical shape."""
    predicted = analysis.posteriors(context.network, context.x, 1)
    cases = analysis.cases(predicted, UNIT, analysis.stereotypes(predicted.probs.shape[-1]), CASES)
    return {
        "weights": _rounded(analysis.bin_weights(context.network, 1, UNIT).to_dict()),
        "cases": [_rounded(case.to_dict()) for case in cases],
        "shape": list(context.images.x_test.shape[1:]),
        "pictures": [context.images.x_test[case.row].tolist() for case in cases],
        "classes": [context.images.classes[context.images.y_test[case.row]] for case in cases],
    }


def activation(context: ProbeContext) -> dict[str, Any]:
    """Return the activation function of the same unit, and of all units of the first layer its expectation."""
    units = range(1, context.settings.network.hidden[0] + 1)
    each = [analysis.activation(context.network, context.x, 1, unit) for unit in units]
    return {
        "unit": _rounded(each[UNIT - 1].to_dict()),
        "others": [
            {"position": _rounded_list(one.position[::5]), "mean": _rounded_list(one.mean[::5])} for one in each
        ],
    }


def epoch(context: ProbeContext) -> dict[str, Any]:
    """Time the training steps of an epoch of one such network, without validation: median and quartiles in seconds."""
    device, settings = context.x.device, context.settings
    config = settings.training.resolved(settings.network, context.data.train.shape[1])
    x, y = (part.to(device) for part in (context.data.x, context.data.y))
    network = build(settings.network.member(0), x.shape[1], context.data.classes, [0]).to(device).train()
    tensors = {
        name: torch.tensor(config.for_each(name, 1), device=device) for name in ("lr", "weight_decay", "kl_multiplier")
    }
    adam = Adam(network, tensors["lr"], tensors["weight_decay"])
    seed = torch.zeros(1, dtype=torch.int64, device=device)
    steps = make_steps(network, adam, x, y, tensors["kl_multiplier"], seed, None, config.precision)
    order = shuffled(context.data.train[:1].to(device), seed, 0, config.batch_size or 1)
    seconds = []
    for index in range(WARM_UP_EPOCHS + TIMED_EPOCHS):
        _synchronize(device)
        start = time.perf_counter()
        steps.epoch(order, index * order.shape[1])
        _synchronize(device)
        seconds.append(time.perf_counter() - start)
    low, median, high = torch.tensor(seconds[WARM_UP_EPOCHS:]).quantile(torch.tensor([0.25, 0.5, 0.75])).tolist()
    return {"steps": order.shape[1], "batch_size": order.shape[2], "median": median, "q25": low, "q75": high}


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _rounded(value: Any) -> Any:
    """Round floats to six significant digits: enough for any figure, and records stay small."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _rounded_list(values: Any) -> list[float]:
    return cast(list[float], _rounded(values.tolist()))


def check_probe(name: str, network: NetworkConfig) -> None:
    """Check, before training, that a probe can be applied to a network.

    Raises:
        ArgumentError: If there is no such probe, or the network lacks what it needs.
    """
    check_choice("probes", name, tuple(PROBES))
    if name in ("information", "stereotypes", "weights", "activation") and not isinstance(network, SquadConfig):
        raise ArgumentError(f"The probe {name!r} needs a network with quantized latents, got {network.name!r}.")
    if name in ("weights", "activation") and network.hidden[0] < UNIT:
        raise ArgumentError(
            f"The probe {name!r} needs at least {UNIT} units in the first layer, got {network.hidden[0]}."
        )


#: The probes by name.
PROBES: Mapping[str, Callable[[ProbeContext], Any]] = {
    "curves": lambda _: None,  # recorded per prediction mode, from the predictions
    "spread": spread,
    "information": information,
    "stereotypes": stereotypes,
    "weights": weights,
    "activation": activation,
    "epoch": epoch,
}
