"""Network configurations: one frozen dataclass of hyperparameters for each of the paper's networks, by name.

A setting marked "per member" takes one number for all members, or a tuple with one number for each.
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

#: A number for all members, or one number for each.
PerMember: TypeAlias = float | tuple[float, ...]

#: Default number of samples T of MC dropout and of Gaussian latents.
MC_SAMPLES = 32


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Settings that all networks share.

    Attributes:
        hidden: Number of units of each hidden layer.
        dropout: Dropout rate before each layer, including the output layer; 0 disables dropout; per member.
        test_dropout: Whether dropout stays active at prediction time (MC dropout).
        init_scale: Scale of the hidden layers' initial weights, whose standard deviation is sqrt(init_scale / fan_in);
            2 is He initialization; per member.

    See Also:
        :func:`network_config`: Creates a configuration by the name of the network.

    Examples:
        >>> config = MLPConfig(hidden=(16,), dropout=(0.1, 0.3))
        >>> config.member(1).dropout
        0.3
    """

    #: Name of the network in commands, files and the estimator.
    name: ClassVar[str]
    #: Sampling modes available at prediction time; the first is the default.
    samplings: ClassVar[tuple[str, ...]] = ("mean",)
    #: Default number of samples T.
    num_samples: ClassVar[int] = 1
    #: Default KL multiplier.
    kl_multiplier: ClassVar[float] = 0.0
    #: Default number of epochs over which the temperature is annealed; 0 for networks without a temperature.
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
        for name, low, high in (("dropout", 0.0, 1.0), ("init_scale", 0.0, float("inf"))):
            value = getattr(self, name)
            numbers = value if isinstance(value, (tuple, list)) else (value,)
            excluded = high if name == "dropout" else low
            # Converted to Python floats, whatever type was passed, because JSON and TOML know no others.
            checked = tuple(check_number(name, number, low, high, exclude=excluded) for number in numbers)
            object.__setattr__(self, name, checked if isinstance(value, (tuple, list)) else checked[0])
        if not isinstance(self.test_dropout, bool):
            raise ArgumentError.of("test_dropout", repr(self.test_dropout), "true or false")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Create a configuration from a mapping, such as a table of a TOML file.

        Args:
            settings: Names and values of settings; the others keep their defaults.

        Returns:
            The configuration.

        Raises:
            ArgumentError: For an unknown key, with the closest valid one as a suggestion.
        """
        check_keys(f"the network {cls.name}", settings, [field.name for field in fields(cls)])
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data, for files."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def sampling_modes(self) -> tuple[str, ...]:
        """Sampling modes of a network with these settings; the first is the default."""
        return ("sample", "mean") if self.samplings == ("mean",) and self.random_dropout else self.samplings

    def check_sampling(self, sampling: str | None, num_samples: int | None) -> tuple[str, int]:
        """Return the sampling mode and the number of samples, with defaults in place of None.

        Args:
            sampling: Sampling mode; None for the network's default.
            num_samples: Number of samples T, from 1 to 999,999; None for the network's default.

        Returns:
            The sampling mode and the number of samples.

        Raises:
            ArgumentError: For a sampling mode that this network does not have, or a number of samples out of range.
        """
        sampling = self.sampling_modes[0] if sampling is None else sampling
        if sampling not in self.sampling_modes:
            allowed = "one of " + ", ".join(map(repr, self.sampling_modes))
            raise ArgumentError.of("sampling", repr(sampling), f"{allowed} for the network {self.name}")
        if num_samples is None:
            num_samples = MC_SAMPLES if self.random_dropout else self.num_samples
        return sampling, check_count("num_samples", num_samples, 1, 999_999)

    @property
    def random_dropout(self) -> bool:
        """Whether dropout is active at prediction time for any member."""
        rates = self.dropout if isinstance(self.dropout, tuple) else (self.dropout,)
        return self.test_dropout and any(rate > 0 for rate in rates)

    def member(self, index: int) -> Self:
        """Return the settings of one member."""
        own = {
            name: value[index] for name in ("dropout", "init_scale") if isinstance(value := getattr(self, name), tuple)
        }
        return dataclasses.replace(self, **own)

    def check_members(self, members: int) -> None:
        """Check that settings with one number per member have ``members`` numbers."""
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
        bins: Number of values C that a latent can take.
        spacing: Initial spacing of the values, "linear" or "gaussian".
        limit: Half the range of linear spacing, which is [-limit, limit].
        prior: Prior over the bins, "uniform" or "gaussian".
        learn_values: How the values are learned: "per_layer", "per_neuron" or "fixed".
        init_scale: Scale of the initial weights, 3.214 in the paper; see :class:`NetworkConfig`.

    Examples:
        >>> config = SquadConfig(hidden=(64,), bins=11)
        >>> config.sampling_modes
        ('stratified', 'relaxed', 'hard', 'mean')
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

    The other settings are those of :class:`SquadConfig`; the defaults are those that did best on SVHN.

    Attributes:
        rank: Size B of the bottleneck between the input and a neuron's C logits.
        shared: Whether a layer has one W' instead of one per neuron.
        init_scale: Scale of the initial W''; per member.

    Examples:
        >>> FactorizedSquadConfig(rank=2).bins
        37
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
    """``mlp``: linear layers with ReLU; the settings are those of :class:`NetworkConfig`.

    Examples:
        >>> MLPConfig(hidden=(64, 64)).sampling_modes
        ('mean',)
    """

    name = "mlp"


@dataclass(frozen=True, kw_only=True)
class ReluDropoutConfig(NetworkConfig):
    """``relu-dropout``: MC dropout on ReLU units.

    Attributes:
        dropout: Dropout rate before each layer, 0.1 by default; per member.
        test_dropout: Whether dropout stays active at prediction time; True by default.

    Examples:
        >>> ReluDropoutConfig(dropout=0.2).check_sampling(None, None)
        ('sample', 32)
    """

    name = "relu-dropout"
    samplings = ("sample", "mean")
    num_samples = MC_SAMPLES

    dropout: PerMember = 0.1
    test_dropout: bool = True


@dataclass(frozen=True, kw_only=True)
class MaxoutDropoutConfig(ReluDropoutConfig):
    """``maxout-dropout``: MC dropout on maxout units, the paper's stronger baseline.

    Attributes:
        pieces: Number of linear pieces C per unit.

    Examples:
        >>> MaxoutDropoutConfig(pieces=5).dropout
        0.1
    """

    name = "maxout-dropout"

    pieces: int = 11

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pieces", check_size("pieces", self.pieces, 1))


@dataclass(frozen=True, kw_only=True)
class DLGMConfig(NetworkConfig):
    """``dlgm``: Gaussian latents with a mean-field posterior (the variational information bottleneck).

    The settings are those of :class:`NetworkConfig`.

    Examples:
        >>> DLGMConfig(hidden=(16,)).check_sampling("sample", 8)
        ('sample', 8)
    """

    name = "dlgm"
    samplings = ("sample", "mean")
    num_samples = MC_SAMPLES
    kl_multiplier = 1e-3


_CONFIG_CLASSES: tuple[type[NetworkConfig], ...] = (
    SquadConfig,
    FactorizedSquadConfig,
    MLPConfig,
    MaxoutDropoutConfig,
    ReluDropoutConfig,
    DLGMConfig,
)
#: Configuration classes by the name of their network.
CONFIGS: dict[str, type[NetworkConfig]] = {config.name: config for config in _CONFIG_CLASSES}


def network_config(name: str, settings: Mapping[str, Any] | None = None) -> NetworkConfig:
    """Return the configuration of the network ``name``: its defaults, overridden by ``settings``.

    Args:
        name: One of the keys of :data:`CONFIGS`, such as ``"squad"``.
        settings: Settings that differ from the defaults.

    Returns:
        The configuration, of the class that :data:`CONFIGS` lists.

    Raises:
        ArgumentError: For an unknown network or setting, with a suggestion.

    See Also:
        :func:`build`: Creates a network from a configuration.

    Examples:
        >>> network_config("maxout-dropout", {"dropout": 0.3}).dropout
        0.3
    """
    if not isinstance(name, str) or name not in CONFIGS:
        suggestions = difflib.get_close_matches(str(name), CONFIGS, 1)
        hint = f"Did you mean {suggestions[0]!r}?" if suggestions else ""
        raise ArgumentError.of("model", repr(name), "one of " + ", ".join(map(repr, CONFIGS)), hint)
    return CONFIGS[name].of(settings or {})
