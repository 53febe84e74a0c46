"""Networks with random weights and unordered values, as training may produce."""

from typing import Any, cast

import torch
from torch import Tensor

from squad.layers.quantized import SquadLayer
from squad.models import Network, build, network_config
from squad.models.networks import Stage

#: Every kind of latent layer and of values.
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("squad", {"learn_values": "per_layer"}),
    ("squad", {"learn_values": "per_neuron"}),
    ("squad", {"learn_values": "fixed", "dropout": 0.3}),
    ("squad-factorized", {"rank": 1}),
    ("squad-factorized", {"rank": 1, "shared": True, "learn_values": "per_neuron"}),
    ("squad-factorized", {"rank": 3}),
    ("squad-factorized", {"rank": 3, "shared": True}),
]


def network(name: str = "squad", members: int = 2, **settings: Any) -> Network:
    config = network_config(name, {"hidden": (6, 5), "bins": 7, **settings})
    made = build(config, 8, 3, list(range(members)))
    shuffled = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for layer in made.modules():
            if isinstance(layer, SquadLayer):
                layer.values.copy_(layer.values[:, torch.randperm(layer.bins, generator=shuffled)])
                for parameter in layer.parameters():
                    parameter.add_(0.3 * torch.randn(parameter.shape, generator=shuffled))
    return made.eval()


def rows(count: int = 50) -> Tensor:
    return 2 * torch.randn(count, 8, generator=torch.Generator().manual_seed(1))


def layer_of(made: Network, layer: int, member: int) -> SquadLayer:
    """A layer of one member, counted from 1, without the member dimension."""
    found = cast(SquadLayer, cast(Stage, made.stages[layer - 1]).layer)
    return found if found.members is None else found.member(member)


def inputs_of(made: Network, x: Tensor, layer: int, member: int) -> Tensor:
    """The input of a layer, computed by the network itself in eval mode."""
    y = x.unsqueeze(0)
    for stage in list(made.stages)[: layer - 1]:
        y, _ = stage(y)
    return y[member if len(y) > 1 else 0]
