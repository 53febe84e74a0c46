"""The paper's networks: hidden layers of one kind and a linear output layer, each optionally preceded by dropout."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from squad.core.checks import check_count
from squad.core.noise import make_key
from squad.errors import ArgumentError
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
    """Output of a network.

    Attributes:
        logits: (N, classes); with members (M, N, classes).
        kl: KL divergence per row in nats, summed over latents and layers: (N,) or (M, N); zeros without latents.
    """

    logits: Tensor
    kl: Tensor


#: Layers with latent variables: what :class:`Stage` and :class:`squad.models.Sampler` know how to sample.
LATENT_LAYERS = (SquadLayer, GaussianLinear)


class Stage(nn.Module):
    """One layer of a network with its dropout and activation.

    Attributes:
        dropout: Dropout before the layer, or None.
        layer: A layer of this library.
        relu: Whether a ReLU follows.
    """

    dropout: Dropout | None

    def __init__(self, dropout: Dropout | None, layer: MemberModule, relu: bool = False) -> None:
        super().__init__()
        if isinstance(layer, StochasticModule) and not isinstance(layer, LATENT_LAYERS):
            # Its KL and its seed would be ignored silently.
            raise ArgumentError(
                f"A network cannot sample a layer of type {type(layer).__name__}. Add it to LATENT_LAYERS,"
                " Stage.forward and Sampler."
            )
        self.register_module("dropout", dropout)  # registered before the layer even if None: fixes the order of modules
        self.layer = layer
        self.relu = relu

    def extra_repr(self) -> str:
        """Return the text for ``print(stage)``; it must be equal for networks to be stacked."""
        return "relu" if self.relu else ""

    def layer_input(self, x: Tensor, seed: Tensor | None = None, step: int | Tensor = 0) -> Tensor:
        """Return the input of the layer: x after dropout, if there is any."""
        if self.dropout is None:
            return x
        if not self.dropout.training:
            return cast(Tensor, self.dropout(x))
        return self.dropout.drop(x, seed=seed, step=step)

    def forward(
        self, x: Tensor, seeds: tuple[Tensor | None, Tensor | None] = (None, None), step: int | Tensor = 0
    ) -> tuple[Tensor, Tensor | None]:
        """Apply dropout, layer and activation.

        Args:
            x: (..., in).
            seeds: Noise seeds of the layer and of the dropout; None draws from torch's generator.
            step: Training step, which selects the noise together with the seeds.

        Returns:
            The output (..., out), and the KL of each row (...) or None if the layer has no KL.
        """
        layer_seed, dropout_seed = seeds
        x = self.layer_input(x, dropout_seed, step)
        if not isinstance(self.layer, LATENT_LAYERS):
            out = self.layer(x)
            return (out.relu() if self.relu else out), None
        if self.layer.training:
            return self.layer.sample_with_kl(x, seed=layer_seed, step=step)
        return self.layer.predict_with_kl(x)


class Network(nn.Module):
    """A network of the paper, created from its configuration.

    Args:
        config: Kind of network and its settings.
        in_features: Number of features of a row of x.
        classes: Number of classes.

    Shape:
        x (N, in); with members also (M or 1, N, in).

    See Also:
        :func:`build`: Creates a network with one member per seed.
        :class:`Sampler`: Predicts with T samples.

    Examples:
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
            Stage(_dropout(config, fan_in), _hidden_layer(config, fan_in, size), relu=_has_relu(config))
            for fan_in, size in itertools.pairwise(sizes)
        ]
        self.stages = nn.ModuleList([*stages, Stage(_dropout(config, sizes[-1]), Linear(sizes[-1], classes))])

    @property
    def members(self) -> int | None:
        """Number of members, or None for a network without a member axis."""
        return next(layer.members for layer in self.modules() if isinstance(layer, MemberModule))

    @property
    def has_latents(self) -> bool:
        """Whether any layer has latents, and so a KL."""
        return any(isinstance(layer, LATENT_LAYERS) for layer in self.modules())

    @property
    def has_temperature(self) -> bool:
        """Whether any layer has a temperature."""
        return any(isinstance(layer, SquadLayer) for layer in self.modules())

    def extra_repr(self) -> str:
        """Return the text for ``print(network)``; it must be equal for networks to be stacked."""
        return f"in_features={self.in_features}, classes={self.classes}"

    def with_member_axis(self, x: Tensor) -> Tensor:
        """Return x with a member axis if this network has members and x (N, in) lacks one."""
        if self.members is None or x.dim() != 2:
            return x
        return x.unsqueeze(0)

    def streams(self, seed: Tensor) -> list[Tensor | None]:
        """Return noise seeds: layer and dropout of each stage, alternating; None for modules without noise."""
        layers = [layer for stage in self.stages for layer in (cast(Stage, stage).layer, cast(Stage, stage).dropout)]
        return [seed + index if isinstance(layer, StochasticModule) else None for index, layer in enumerate(layers)]

    def run(
        self, x: Tensor, *, seed: Tensor | list[Tensor | None] | None = None, step: int | Tensor = 0, head: bool = True
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits, and the KL of each layer that has one, not summed.

        Args:
            x: As in :meth:`forward`.
            seed: As in :meth:`forward`, or the result of :meth:`streams`, computed once for many steps.
            step: As in :meth:`forward`.
            head: Whether to apply the output layer; if not, its input is returned in place of the logits.
        """
        x = self.with_member_axis(x)
        if isinstance(seed, Tensor):
            if not isinstance(step, Tensor):
                seed, step = make_key(seed, step, x.device)  # once for all stages
            seed = self.streams(seed)
        kls: list[Tensor] = []
        for index, stage in enumerate(self.stages):
            assert isinstance(stage, Stage)
            seeds = (None, None) if seed is None else (seed[2 * index], seed[2 * index + 1])
            if not head and index == len(self.stages) - 1:
                return stage.layer_input(x, seeds[1], step), kls
            x, kl = stage(x, seeds, step)
            if kl is not None:
                kls.append(kl)
        return x, kls

    def forward(self, x: Tensor, *, seed: Tensor | None = None, step: int | Tensor = 0) -> Output:
        """Compute logits and KL in one pass, with fresh noise in training and with the layers' own seeds in eval mode.

        Args:
            x: (N, in); with members also (M or 1, N, in).
            seed: Selects the noise of a training step together with ``step``: int64 () or (M,), well mixed
                (:func:`squad.core.noise.hashed_seeds`).  None draws the noise from torch's generator.
            step: Number of the training step.
        """
        logits, kls = self.run(x, seed=seed, step=step)
        return Output(logits, sum(kls[1:], kls[0]) if kls else logits.new_zeros(logits.shape[:-1]))


def build(config: NetworkConfig, in_features: int, classes: int, seeds: Sequence[int]) -> Network:
    """Create a network with one member per seed; a member depends on its own settings and seed only.

    It is created on the CPU in torch's default dtype; the seeds of eval mode are set as well.

    Args:
        config: Kind of network and its settings; settings "per member" must have one number for each seed.
        in_features: Number of features of a row of x.
        classes: Number of classes.
        seeds: One seed for each of the M members.

    See Also:
        :func:`restore`: Creates a network from saved tensors.

    Examples:
        >>> from squad.models import SquadConfig, build
        >>> build(SquadConfig(hidden=(8,)), in_features=4, classes=3, seeds=[0, 1]).members
        2
    """
    config.check_members(len(seeds))
    networks = []
    for index, seed in enumerate(seeds):
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            # Not torch.manual_seed, which would also seed the GPUs' generators, permanently.
            torch.default_generator.manual_seed(seed)
            networks.append(_member(config, index, in_features, classes))
    with torch.device("cpu"):
        network = stack(networks)
        _seed(network, torch.tensor(list(seeds)))
    return network


def blank(config: NetworkConfig, in_features: int, classes: int, members: int) -> Network:
    """Create the network of :func:`build` without its numbers: on the device "meta", where tensors take no memory."""
    config.check_members(members)
    with torch.device("meta"), _ShapesOnly():
        return stack([_member(config, 0, in_features, classes)] * check_count("members", members, 1))


class _ShapesOnly(TorchFunctionMode):
    """Context in which functions that fill tensors do nothing.

    On the device "meta" they do nothing anyway, but first import half of torch's compiler, which takes a second.
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
    """Create one member, with dropout modules if any member has dropout."""
    member_config = config.member(index)
    network = Network(member_config, in_features, classes)
    has_dropout = any(rate > 0 for rate in config.dropout) if isinstance(config.dropout, tuple) else config.dropout > 0
    if has_dropout and member_config.dropout == 0:  # a member with rate 0 among others with dropout
        _insert_dropout(network, member_config)
    return network


def _seed(network: Network, seeds: Tensor) -> None:
    """Set the seeds of eval mode, which depend on a member's seed and the layer's position only."""
    for index, stage in enumerate(network.stages):
        assert isinstance(stage, Stage)
        for offset, layer in enumerate((stage.layer, stage.dropout)):
            if isinstance(layer, StochasticModule):
                layer.seed.copy_(layer.hashed_seed(seeds, 2 * index + offset))


def _hidden_layer(config: NetworkConfig, fan_in: int, size: int) -> MemberModule:
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
