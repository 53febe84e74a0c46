"""What a network is made of: one frozen class of settings for each of the paper's networks, by name.

A setting that says "one a member" takes a number for all members, or a tuple with one for each.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self, TypeAlias

from squad.core.checks import check_choice, check_count, check_keys, check_number, check_size
from squad.errors import ArgumentError

__all__ = [
    "CONFIGS",
    "DLGMConfig",
    "FactorizedSquadConfig",
    "MLPConfig",
    "MaxoutDropoutConfig",
    "NetworkConfig",
    "PerMember",
    "ReluDropoutConfig",
    "SquadConfig",
    "network_config",
]

PerMember: TypeAlias = float | tuple[float, ...]

#: Samples of MC dropout and of Gaussian latents.
MC_SAMPLES = 32


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Settings that all networks have.

    Attributes:
        hidden: the number of units of each hidden layer.
        dropout: rate of the dropout before each layer, the output layer among them; 0 is none; one a member.
        test_dropout: whether prediction drops too (MC dropout).
        init_scale: of the hidden layers' weights, whose std is sqrt(init_scale / fan_in); He's is 2; one a member.
    """

    #: What the command, files and the estimator call the network.
    name: ClassVar[str]
    #: How it can be sampled at prediction time; the first is what is taken unless another is asked for.
    samplings: ClassVar[tuple[str, ...]] = ("mean",)
    #: How many samples it takes unless told otherwise.
    num_samples: ClassVar[int] = 1
    #: The multiplier of its KL unless another is asked for.
    kl_multiplier: ClassVar[float] = 0.0
    #: Epochs over which its temperature falls unless told otherwise; 0 for a network that has none.
    anneal_epochs: ClassVar[int] = 0

    hidden: tuple[int, ...] = (32, 32)
    dropout: PerMember = 0.0
    test_dropout: bool = False
    init_scale: PerMember = 2.0

    def __post_init__(self) -> None:
        hidden: object = self.hidden
        if not isinstance(hidden, (tuple, list)) or not hidden:
            raise ArgumentError.of("hidden", repr(self.hidden), "a list of layer sizes, such as [32, 32]")
        object.__setattr__(self, "hidden", tuple(check_size("hidden", size, 1) for size in hidden))
        for name, least, most in (("dropout", 0.0, 1.0), ("init_scale", 0.0, float("inf"))):
            value = getattr(self, name)
            each = value if isinstance(value, (tuple, list)) else (value,)
            out = most if name == "dropout" else least
            # Python's own floats, whatever type they came in: files know no other.
            found = tuple(check_number(name, number, least, most, exclude=out) for number in each)
            object.__setattr__(self, name, found if isinstance(value, (tuple, list)) else found[0])
        if not isinstance(self.test_dropout, bool):
            raise ArgumentError.of("test_dropout", repr(self.test_dropout), "true or false")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """From a mapping, such as a table of a TOML file; an unknown key is an error with a suggestion."""
        check_keys(f"the network {cls.name}", settings, [field.name for field in fields(cls)])
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for files."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def ways(self) -> tuple[str, ...]:
        """How a network with these settings can be sampled; the first is the default."""
        return ("sample", "mean") if self.samplings == ("mean",) and self.random_dropout else self.samplings

    def check_sampling(self, sampling: str | None, num_samples: int | None) -> tuple[str, int]:
        """How predictions are made: what was asked for, or the defaults."""
        sampling = self.ways[0] if sampling is None else sampling
        if sampling not in self.ways:
            allowed = "one of " + ", ".join(map(repr, self.ways))
            raise ArgumentError.of("sampling", repr(sampling), f"{allowed} for the network {self.name}")
        if num_samples is None:
            num_samples = MC_SAMPLES if self.random_dropout else self.num_samples
        return sampling, check_count("num_samples", num_samples, 1, 999_999)

    @property
    def random_dropout(self) -> bool:
        """Whether any member drops anything at prediction time."""
        rates = self.dropout if isinstance(self.dropout, tuple) else (self.dropout,)
        return self.test_dropout and any(rate > 0 for rate in rates)

    def member(self, index: int) -> Self:
        """The settings of one member."""
        own = {
            name: value[index] for name in ("dropout", "init_scale") if isinstance(value := getattr(self, name), tuple)
        }
        return dataclasses.replace(self, **own)

    def check_members(self, members: int) -> None:
        """That what is given one a member is given for each of them."""
        for name in ("dropout", "init_scale"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != members:
                raise ArgumentError.of(
                    name, f"{len(value)} numbers", f"one number, or one for each of {members} members"
                )


@dataclass(frozen=True, kw_only=True)
class SquadConfig(NetworkConfig):
    """``squad``: layers of quantized latents, :class:`squad.SquadLinear`.

    Attributes:
        bins: C, how many values a latent can take.
        spacing: where the values start, "linear" or "gaussian".
        limit: of linear spacing, over [-limit, limit].
        prior: "uniform" or "gaussian".
        learn_values: "per_layer", "per_neuron" or "fixed".
        init_scale: the paper's 3.214.
    """

    name = "squad"
    samplings = ("stratified", "relaxed", "hard", "mean")
    num_samples = 8
    kl_multiplier = 0.0027
    anneal_epochs = 60

    init_scale: PerMember = 3.214
    bins: int = 15
    spacing: Literal["linear", "gaussian"] = "linear"
    limit: float = 3.5
    prior: Literal["uniform", "gaussian"] = "uniform"
    learn_values: Literal["per_layer", "per_neuron", "fixed"] = "per_layer"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bins", check_size("bins", self.bins, 2))
        check_choice("spacing", self.spacing, ("linear", "gaussian"))
        check_choice("prior", self.prior, ("uniform", "gaussian"))
        check_choice("learn_values", self.learn_values, ("per_layer", "per_neuron", "fixed"))
        object.__setattr__(self, "limit", check_number("limit", self.limit, 0.0, exclude=0.0))


@dataclass(frozen=True, kw_only=True)
class FactorizedSquadConfig(SquadConfig):
    """``squad-factorized``: many bins for few weights, :class:`squad.FactorizedSquadLinear`.

    Attributes:
        rank: B, how many numbers stand between the input and a neuron's C logits.
        shared: one W' for a whole layer instead of one a neuron.
        init_scale: of W''.
        others: as in ``squad``; the defaults are those that did best on SVHN.
    """

    name = "squad-factorized"
    kl_multiplier = 5e-5

    init_scale: PerMember = 0.051
    bins: int = 37
    limit: float = 1.7
    rank: int = 4
    shared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rank", check_size("rank", self.rank, 1))
        if not isinstance(self.shared, bool):
            raise ArgumentError.of("shared", repr(self.shared), "true or false")


@dataclass(frozen=True, kw_only=True)
class MLPConfig(NetworkConfig):
    """``mlp``: linear layers with ReLU."""

    name = "mlp"


@dataclass(frozen=True, kw_only=True)
class ReluDropoutConfig(NetworkConfig):
    """``relu-dropout``: MC dropout on ReLU units."""

    name = "relu-dropout"
    samplings = ("sample", "mean")
    num_samples = MC_SAMPLES

    dropout: PerMember = 0.1
    test_dropout: bool = True


@dataclass(frozen=True, kw_only=True)
class MaxoutDropoutConfig(ReluDropoutConfig):
    """``maxout-dropout``: MC dropout on maxout units, the paper's stronger baseline.

    Attributes:
        pieces: C, the linear pieces of a unit.
    """

    name = "maxout-dropout"

    pieces: int = 11

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pieces", check_size("pieces", self.pieces, 1))


@dataclass(frozen=True, kw_only=True)
class DLGMConfig(NetworkConfig):
    """``dlgm``: Gaussian latents with a mean-field posterior, the information bottleneck with Gaussians."""

    name = "dlgm"
    samplings = ("sample", "mean")
    num_samples = MC_SAMPLES
    kl_multiplier = 1e-3


_ALL: tuple[type[NetworkConfig], ...] = (
    SquadConfig,
    FactorizedSquadConfig,
    MLPConfig,
    MaxoutDropoutConfig,
    ReluDropoutConfig,
    DLGMConfig,
)
CONFIGS: dict[str, type[NetworkConfig]] = {config.name: config for config in _ALL}


def network_config(name: str, settings: Mapping[str, Any] | None = None) -> NetworkConfig:
    """The settings of the network called ``name``, its defaults changed by ``settings``.

    >>> network_config("maxout-dropout", {"dropout": 0.3}).dropout
    0.3
    """
    if not isinstance(name, str) or name not in CONFIGS:
        near = difflib.get_close_matches(str(name), CONFIGS, 1)
        hint = f"Did you mean {near[0]!r}?" if near else ""
        raise ArgumentError.of("model", repr(name), "one of " + ", ".join(map(repr, CONFIGS)), hint)
    return CONFIGS[name].of(settings or {})
