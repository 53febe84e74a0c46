"""What is looked at in trained networks beside their answers: plain data for the claims and figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from squad.core.divergences import mutual_information
from squad.data.images import ImageSet
from squad.fitting import FitSettings
from squad.layers import unstack
from squad.layers.quantized import SquadLayer
from squad.models import Network, build
from squad.models.networks import Stage

__all__ = ["PROBES", "Subject"]

#: Rows that are looked at; more would change nothing that is shown.
ROWS = 5000
NATS_A_BIT = 0.6931471805599453


@dataclass(frozen=True)
class Subject:
    """What a probe sees.

    Attributes:
        network: trained, with members.
        settings: what it was trained with.
        x: (N, in), the test rows as the network takes them.
        images: the data set they are of.
    """

    network: Network
    settings: FitSettings
    x: Tensor
    images: ImageSet


def spread(subject: Subject) -> dict[str, Any]:
    """Mean and standard deviation of what each layer puts out, before training and after, one a member.

    The spread is over rows and units; the last entry is the output layer's logits.
    """
    x = subject.x[:ROWS]
    fresh = build(subject.settings.network, x.shape[1], subject.network.classes, subject.settings.seeds)
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


@torch.no_grad()
def information(subject: Subject) -> list[dict[str, Any]]:
    """What the latents of each layer tell about that layer's input, in bits, one number a member.

    I(z_k; input) with the marginal of z_k taken over the test rows: the mean over the units, the largest, and their
    sum.  It can be log2 C at the most.  The input of a layer beyond the first is one sample of the layer before.
    """
    found = []
    y = subject.network.with_member_axis(subject.x[:ROWS])
    for stage in subject.network.stages:
        stage = cast(Stage, stage)
        if isinstance(stage.layer, SquadLayer):
            given = y.expand(cast(int, subject.network.members), -1, -1)
            # One member at a time: logits of all would be (members, rows, C, K) in float64.
            each = [
                mutual_information(layer.posterior(rows.double()), dim=0) / NATS_A_BIT
                for layer, rows in zip(unstack(stage.layer.double()), given, strict=True)
            ]
            stage.layer.to(subject.x.dtype)
            found.append(
                {
                    "mean": [float(bits.mean()) for bits in each],
                    "largest": [float(bits.max()) for bits in each],
                    "sum": [float(bits.sum()) for bits in each],
                }
            )
        y, _ = stage(y)
    return found


PROBES: Mapping[str, Callable[[Subject], Any]] = {"curves": lambda _: None, "spread": spread, "information": information}
