"""The paper's networks: hidden layers of one kind, an output layer, and dropout before each."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from squad.core.checks import check_count
from squad.core.noise import make_key
from squad.layers import (
    Dropout,
    FactorizedSquadLinear,
    GaussianLinear,
    Linear,
    MaxoutLinear,
    SquadLinear,
    stack,
)
from squad.layers.members import MemberModule
from squad.layers.quantized import SquadLayer
from squad.layers.stochastic import StochasticModule
from squad.models.config import (
    DLGMConfig,
    FactorizedSquadConfig,
    MaxoutDropoutConfig,
    NetworkConfig,
    SquadConfig,
)

__all__ = ["Network", "Output", "Stage", "blank", "build"]


class Output(NamedTuple):
    """What a network returns.

    Attributes:
        logits: (N, classes); with members (M, N, classes).
        kl: in nats, summed over latents and layers, one a row: (N,) or (M, N); zeros for a network without latents.
    """

    logits: Tensor
    kl: Tensor


class Stage(nn.Module):
    """One layer of a network, with what comes before and after it.

    Attributes:
        dropout: before the layer, or None.
        layer: a layer of this library.
        relu: whether a ReLU follows.
    """

    dropout: Dropout | None

    def __init__(self, dropout: Dropout | None, layer: MemberModule, relu: bool = False) -> None:
        super().__init__()
        self.register_module("dropout", dropout)  # in its place before the layer, even if there is none
        self.layer = layer
        self.relu = relu

    def extra_repr(self) -> str:
        """What ``print(stage)`` shows, and what must agree for networks to be stacked."""
        return "relu" if self.relu else ""

    def dropped(self, x: Tensor, seed: Tensor | None = None, step: int | Tensor = 0) -> Tensor:
        """What the layer is given: x after the dropout, if there is one."""
        if self.dropout is None:
            return x
        if not self.dropout.training:
            return cast(Tensor, self.dropout(x))
        return self.dropout.drop(x, seed=seed, step=step)

    def forward(
        self, x: Tensor, seeds: tuple[Tensor | None, Tensor | None] = (None, None), step: int | Tensor = 0
    ) -> tuple[Tensor, Tensor | None]:
        """(..., in) -> (..., out) and the KL of each row, if the layer has one; seeds of the layer and the dropout."""
        seed, of_dropout = seeds
        x = self.dropped(x, of_dropout, step)
        if not isinstance(self.layer, (SquadLayer, GaussianLinear)):
            out = self.layer(x)
            return (out.relu() if self.relu else out), None
        if self.layer.training:
            return self.layer.sample_with_kl(x, seed=seed, step=step)
        return self.layer.predict_with_kl(x)


class Network(nn.Module):
    """A network of the paper, made from its settings.

    Args:
        config: which network, and its settings.
        in_features: size of a row of x.
        classes: how many classes.

    Shape:
        x (N, in); with members also (M or 1, N, in).

    >>> from squad.models import SquadConfig
    >>> net = Network(SquadConfig(hidden=(8,)), in_features=4, classes=3)
    >>> out = net(torch.zeros(5, 4))
    >>> out.logits.shape, out.kl.shape
    (torch.Size([5, 3]), torch.Size([5]))
    """

    def __init__(self, config: NetworkConfig, in_features: int, classes: int) -> None:
        super().__init__()
        self.in_features = check_count("in_features", in_features, 1)
        self.classes = check_count("classes", classes, 2)
        sizes = [in_features, *config.hidden]
        stages = [
            Stage(_dropout(config, fan_in), _hidden(config, fan_in, size), relu=_has_relu(config))
            for fan_in, size in itertools.pairwise(sizes)
        ]
        self.stages = nn.ModuleList([*stages, Stage(_dropout(config, sizes[-1]), Linear(sizes[-1], classes))])

    @property
    def members(self) -> int | None:
        """How many networks this one is."""
        return next(layer.members for layer in self.modules() if isinstance(layer, MemberModule))

    @property
    def has_latents(self) -> bool:
        """Whether any layer has a KL."""
        return any(isinstance(layer, (SquadLayer, GaussianLinear)) for layer in self.modules())

    @property
    def has_temperature(self) -> bool:
        """Whether any layer has one."""
        return any(isinstance(layer, SquadLayer) for layer in self.modules())

    def extra_repr(self) -> str:
        """What ``print(network)`` shows, and what must agree for networks to be stacked."""
        return f"in_features={self.in_features}, classes={self.classes}"

    def with_member_axis(self, x: Tensor) -> Tensor:
        """``x`` with its member axis, if this network has one."""
        if self.members is None or x.dim() != 2:
            return x
        return x.unsqueeze(0)

    def streams(self, seed: Tensor) -> list[Tensor | None]:
        """Seeds of the layer and of the dropout of each stage, one after the other; None where nothing is drawn."""
        layers = [layer for stage in self.stages for layer in (cast(Stage, stage).layer, cast(Stage, stage).dropout)]
        return [seed + place if isinstance(layer, StochasticModule) else None for place, layer in enumerate(layers)]

    def run(
        self, x: Tensor, *, seed: Tensor | list[Tensor | None] | None = None, step: int | Tensor = 0, head: bool = True
    ) -> tuple[Tensor, list[Tensor]]:
        """What :meth:`forward` sums up: logits, and the KL of each layer that has one.

        Args:
            x: as there.
            seed: as there, or what :meth:`streams` made of it, so that not every step has to.
            step: as there.
            head: whether the output layer follows; without it "logits" are what it would be given.
        """
        x = self.with_member_axis(x)
        if isinstance(seed, Tensor):
            if not isinstance(step, Tensor):
                seed, step = make_key(seed, step, x.device)  # once for all stages
            seed = self.streams(seed)
        kls: list[Tensor] = []
        for place, stage in enumerate(self.stages):
            assert isinstance(stage, Stage)
            seeds = (None, None) if seed is None else (seed[2 * place], seed[2 * place + 1])
            if not head and place == len(self.stages) - 1:
                return stage.dropped(x, seeds[1], step), kls
            x, own = stage(x, seeds, step)
            if own is not None:
                kls.append(own)
        return x, kls

    def forward(self, x: Tensor, *, seed: Tensor | None = None, step: int | Tensor = 0) -> Output:
        """One pass: with fresh noise in training, in eval mode by the layers' own seeds.

        Args:
            x: (N, in); with members also (M or 1, N, in).
            seed: names the noise of a training step together with ``step``: int64 () or (M,), well mixed
                (:func:`squad.core.noise.hashed_seeds`).  Without one it comes from torch's generator.
            step: which training step.
        """
        logits, kls = self.run(x, seed=seed, step=step)
        return Output(logits, sum(kls[1:], kls[0]) if kls else logits.new_zeros(logits.shape[:-1]))


def build(config: NetworkConfig, in_features: int, classes: int, seeds: Sequence[int]) -> Network:
    """A network with one member for each seed; a member depends on its own settings and seed alone.

    Made on the CPU in torch's default dtype, with the seeds of eval mode set as well.
    """
    config.check_members(len(seeds))
    networks = []
    for index, seed in enumerate(seeds):
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            # Not torch.manual_seed, which would seed the GPUs as well, and leave them so.
            torch.default_generator.manual_seed(seed)
            networks.append(_member(config, index, in_features, classes))
    with torch.device("cpu"):
        network = stack(networks)
        _seed(network, torch.tensor(list(seeds)))
    return network


def blank(config: NetworkConfig, in_features: int, classes: int, members: int) -> Network:
    """What :func:`build` makes, without its numbers: on the device "meta", where tensors take no memory."""
    config.check_members(members)
    with torch.device("meta"), _ShapesOnly():
        return stack([_member(config, 0, in_features, classes)] * check_count("members", members, 1))


class _ShapesOnly(TorchFunctionMode):
    """Inside, what fills tensors does nothing.

    On the device "meta" it would do nothing either, but first import half of torch's compiler, which takes a second.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.normal_, Tensor.mul_):
            return args[0]
        if func is torch.randint:
            return torch.empty(args[1], dtype=torch.int64)
        if func is torch.stack:
            return args[0][0].new_empty((len(args[0]), *args[0][0].shape))
        return func(*args, **(kwargs or {}))


def _member(config: NetworkConfig, index: int, in_features: int, classes: int) -> Network:
    """One network, with dropout wherever another member has it."""
    own = config.member(index)
    network = Network(own, in_features, classes)
    dropping = any(rate > 0 for rate in config.dropout) if isinstance(config.dropout, tuple) else config.dropout > 0
    if dropping and own.dropout == 0:  # a member that drops nothing among others that do
        _insert_dropout(network, own)
    return network


def _seed(network: Network, seeds: Tensor) -> None:
    """Seeds of eval mode, by a member's own seed and the place in the network, whatever else is in it."""
    for place, stage in enumerate(network.stages):
        assert isinstance(stage, Stage)
        for offset, layer in enumerate((stage.layer, stage.dropout)):
            if isinstance(layer, StochasticModule):
                layer.seed.copy_(layer.hashed_seed(seeds, 2 * place + offset))


def _hidden(config: NetworkConfig, fan_in: int, size: int) -> MemberModule:
    if isinstance(config, SquadConfig):
        shared: dict[str, Any] = {
            "spacing": config.spacing,
            "limit": config.limit,
            "prior": config.prior,
            "learn_values": config.learn_values,
            "init_scale": config.init_scale,
        }
        if isinstance(config, FactorizedSquadConfig):
            return FactorizedSquadLinear(fan_in, size, config.bins, rank=config.rank, shared=config.shared, **shared)
        return SquadLinear(fan_in, size, config.bins, **shared)
    if isinstance(config, MaxoutDropoutConfig):
        return MaxoutLinear(fan_in, size, config.pieces, init_scale=config.init_scale)
    if isinstance(config, DLGMConfig):
        return GaussianLinear(fan_in, size, init_scale=config.init_scale)
    return Linear(fan_in, size, init_scale=config.init_scale)


def _has_relu(config: NetworkConfig) -> bool:
    return not isinstance(config, (SquadConfig, MaxoutDropoutConfig, DLGMConfig))


def _dropout(config: NetworkConfig, features: int, always: bool = False) -> Dropout | None:
    if config.dropout == 0 and not always:
        return None
    return Dropout(features, config.dropout, sampling="sample" if config.test_dropout else "mean")


def _insert_dropout(network: Network, config: NetworkConfig) -> None:
    for stage in network.stages:
        assert isinstance(stage, Stage)
        stage.dropout = _dropout(config, stage.layer.in_features, always=True)
