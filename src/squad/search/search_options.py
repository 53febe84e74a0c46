"""Options of a search: how it is run, not what is searched."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from squad.core.checks import check_count, check_keys, check_number
from squad.errors import ArgumentError
from squad.models.config import CONFIGS
from squad.predictor import choose_device
from squad.predictor.device import named_device
from squad.settings import TOP
from squad.train import TrainConfig

__all__ = ["SearchOptions", "check_option_names"]

#: Maximum default number of slots, and the divisor of the number of trials that limits it in small studies: TPE learns
#: only from finished trials.
MAX_SLOTS, TRIALS_PER_SLOT = 32, 5


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How a search is run.

    Attributes:
        trials: Total number of trials, including those of earlier runs.
        slots: Number of trials that train together on one device; None for a fifth of ``trials``, at most 32.
        device: "auto", "cpu" or "cuda".
        storage: URL of a database shared by several workers, postgresql://...; None for a file in the study's folder.
        study: Name of the study in the storage; None for the folder's name, or the only study in the folder's file.
        ray: "auto", "local" or HOST:PORT of a Ray cluster; None for this process alone.
        workers: Number of workers on a cluster; None for one per GPU, or one per machine without GPUs.
        minutes: Stop after this time, and queue running trials again; None for no limit.
        prune: Whether to prune trials whose validation accuracy falls below the median of complete ones.
        stale_after: Seconds without a heartbeat after which a worker's trials are given to others.
        retry_for: Seconds to retry for if the database server cannot be reached; 0 disables retries.
        defaults: Whether the first trial of a new study has the default settings.
        restart: Whether to delete an existing study first.

    Examples:
        >>> SearchOptions(trials=40).slots_of(1)
        8
    """

    trials: int = 100
    slots: int | None = None
    device: str = "auto"
    storage: str | None = field(default=None, repr=False)  # may contain a password
    study: str | None = None
    ray: str | None = None
    workers: int | None = None
    minutes: float | None = None
    prune: bool = False
    stale_after: float = 600.0
    retry_for: float = 60.0
    defaults: bool = True
    restart: bool = False

    def __post_init__(self) -> None:
        check_count("trials", self.trials, 1)
        if self.slots is not None:
            check_count("slots", self.slots, 1)
        if self.minutes is not None:
            check_number("minutes", self.minutes, 0.0, exclude=0.0)
        check_number("stale_after", self.stale_after, 1.0)
        check_number("retry_for", self.retry_for, 0.0)
        if not isinstance(self.defaults, bool):
            raise ArgumentError.of("defaults", repr(self.defaults), "True or False")
        if self.device != "auto":
            named_device(self.device)
        if self.ray is None:
            choose_device(self.device)  # on a cluster, the workers check it
            if self.workers is not None:
                hint = "Without Ray, run the same command several times with one --storage."
                raise ArgumentError(f"workers = {self.workers} needs a Ray cluster (ray). {hint}")
            return
        if self.workers is not None:
            check_count("workers", self.workers, 1)
        if self.ray not in ("auto", "local") and ":" not in self.ray:
            raise ArgumentError.of("ray", repr(self.ray), "auto, local or HOST:PORT")

    def slots_of(self, workers: int) -> int:
        """Return the number of slots of each of ``workers`` workers."""
        return self.slots or max(1, min(MAX_SLOTS, self.trials // (TRIALS_PER_SLOT * workers)))


def check_option_names(names: Mapping[str, Any]) -> None:
    """Check that all names are options of a search; the error for a setting of a fit says where it belongs."""
    known = [field.name for field in fields(SearchOptions)]
    tables = {
        "network": {field.name for config in CONFIGS.values() for field in fields(config)},
        "training": {field.name for field in fields(TrainConfig)},
        "prediction": {"sampling", "num_samples"},
    }
    for name in names:
        if name in known:
            continue
        usage = next((f'{{"{table}": {{"{name}": ...}}}}' for table, own in tables.items() if name in own), None)
        if name in TOP:
            usage = f'{{"{name}": ...}}'
        if usage is not None:
            raise ArgumentError(f"{name} is a setting of a fit, not an option of a search. Pass settings={usage}.")
        check_keys("a search", [name], known)
