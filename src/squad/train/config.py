"""Training configuration, with the paper's hyperparameters as defaults."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from squad.core.checks import MIN_TEMPERATURE, check_choice, check_count, check_keys, check_number
from squad.errors import ArgumentError
from squad.models import NetworkConfig
from squad.models.config import PerMember
from squad.ops import BACKENDS, BackendName
from squad.ops.matmul_precision import PRECISIONS

__all__ = ["TrainConfig"]

#: Batch size and learning rate of the paper, for its 50,000 images.
PAPER_BATCH, PAPER_LR = 244, 8e-4
#: Default learning rate for data with fewer rows than 32 of the paper's batches.
SMALL_LR = 3e-3


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a training run.

    "Per member" means: a number for all members, or a tuple with one number for each.

    Attributes:
        lr: Initial learning rate of Adam; per member.  None: the paper's .0008, or .003 with fewer than 7,808 training
            rows, which make few steps.
        kl_multiplier: Weight of the KL in the loss, the paper's beta; per member.  None: the network's default, .0027
            for squad.
        weight_decay: Weight decay of the weight matrices, added to their gradient; per member.
        batch_size: Rows per step.  None: the paper's 244; with fewer than 7,808 training rows a 32nd of them, but at
            least 16.
        max_epochs: Maximum number of passes over the training rows.
        anneal_epochs: Epochs over which the temperature is annealed linearly; per member.  None: the network's default,
            60 for squad, but at most two thirds of max_epochs.
        temperature_start: Temperature of the relaxed samples in the first epoch; per member.
        temperature_end: Temperature of the relaxed samples after annealing; per member.
        lr_patience: Epochs without better validation accuracy after which the learning rate is divided by 10.
        stop_patience: Epochs without better validation accuracy after which a member stops (early stopping).
        adversarial: Train on adversarial examples in addition to the given rows, each feature moved by this fraction of
            its range (deep ensembles use .01); 0 disables it.
        precision: Precision of matrix products while training on a GPU: "tf32" rounds their factors to 10 bits, the
            format of NVIDIA's tensor cores, and is several times faster than "float32".  Validation uses the same
            precision; predictions are always made in full precision.
        backend: Implementation of the sampling operation: "auto", or "compile" for long runs on a CPU; see squad.ops.

    Examples:
        >>> TrainConfig(max_epochs=30).max_epochs
        30
    """

    lr: PerMember | None = None
    kl_multiplier: PerMember | None = None
    weight_decay: PerMember = 1e-5
    batch_size: int | None = None
    max_epochs: int = 200
    anneal_epochs: int | tuple[int, ...] | None = None
    temperature_start: PerMember = 1.0
    temperature_end: PerMember = 0.5
    lr_patience: int = 10
    stop_patience: int = 20
    adversarial: float = 0.0
    precision: Literal["tf32", "float32"] = "tf32"
    backend: BackendName = "auto"

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            value = tuple(value) if isinstance(value, (tuple, list)) else value
            if value is None and name in ("lr", "kl_multiplier"):
                continue
            # Converted to Python floats, because numpy's numbers could not be saved.
            checked = tuple(
                check_number(name, number, low, high, exclude=0.0 if low == 0 and name == "lr" else None)
                for number in (value if isinstance(value, tuple) else (value,))
            )
            object.__setattr__(self, name, checked if isinstance(value, tuple) else checked[0])
        for name, choices in (("precision", PRECISIONS), ("backend", ("auto", *BACKENDS))):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise ArgumentError.of(name, repr(value), "one of " + ", ".join(map(repr, choices)))
            object.__setattr__(self, name, check_choice(name, str(value), choices))
        for name in ("max_epochs", "lr_patience", "stop_patience"):
            object.__setattr__(self, name, check_count(name, getattr(self, name), 1))
        if self.batch_size is not None:
            object.__setattr__(self, "batch_size", check_count("batch_size", self.batch_size, 1))
        if self.anneal_epochs is not None:
            value = self.anneal_epochs
            value = tuple(value) if isinstance(value, (tuple, list)) else value
            for count in value if isinstance(value, tuple) else (value,):
                if check_count("anneal_epochs", count, 0) >= self.max_epochs:
                    hint = "The best weights are selected after annealing has ended."
                    raise ArgumentError.of("anneal_epochs", count, f"below max_epochs, {self.max_epochs}", hint)
            object.__setattr__(self, "anneal_epochs", value)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "TrainConfig":
        """Create a configuration from a mapping, such as a table of a TOML file.

        Args:
            settings: Names and values of settings; the others keep their defaults.

        Returns:
            The configuration.

        Raises:
            ArgumentError: For an unknown key, with the closest valid one as a suggestion.
        """
        check_keys("training", settings, [field.name for field in fields(cls)])
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data, for files."""
        return dataclasses.asdict(self)

    def resolved(self, network: NetworkConfig, rows: int) -> "TrainConfig":
        """Return the settings with network- and data-dependent defaults filled in, as they are run and saved.

        Args:
            network: Configuration of the network.
            rows: Number of training rows.

        Returns:
            A copy in which no setting is None.
        """
        anneal = self.anneal_epochs
        if network.anneal_epochs == 0:
            anneal = 0
        elif anneal is None:
            anneal = min(network.anneal_epochs, 2 * self.max_epochs // 3)
        small = rows < 32 * PAPER_BATCH
        lr = (SMALL_LR if small else PAPER_LR) if self.lr is None else self.lr
        batch = self.batch_size or (max(16, rows // 32) if small else PAPER_BATCH)
        return dataclasses.replace(
            self,
            lr=lr,
            kl_multiplier=network.kl_multiplier if self.kl_multiplier is None else self.kl_multiplier,
            anneal_epochs=anneal,
            batch_size=min(batch, rows),
        )

    def for_each(self, name: str, members: int) -> list[float]:
        """Return the setting ``name`` as a list with one number for each member.

        Args:
            name: Name of a setting that can be given per member, such as "lr".
            members: Number of members M.

        Returns:
            M numbers.

        Raises:
            ArgumentError: If the setting is a tuple of another length.
        """
        value = getattr(self, name)
        if not isinstance(value, tuple):
            return [value] * members
        if len(value) != members:
            raise ArgumentError.of(name, f"{len(value)} numbers", f"one number, or one for each of {members} members")
        return list(value)


#: Lower and upper bounds of numeric settings; the learning rate must be above its lower bound.
_RANGES = {
    "lr": (0.0, float("inf")),
    "kl_multiplier": (0.0, float("inf")),
    "weight_decay": (0.0, float("inf")),
    "temperature_start": (MIN_TEMPERATURE, float("inf")),
    "temperature_end": (MIN_TEMPERATURE, float("inf")),
    "adversarial": (0.0, 1.0),
}
