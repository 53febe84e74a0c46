"""From rows and labels to a predictor: fit the input transform, split, train."""

import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from squad.core.checks import check_count, check_number, check_size
from squad.data.array_transform import ArrayTransform
from squad.data.cells import cell_text, group_names
from squad.data.chance_repeats import record_repeats
from squad.data.column_names import check_texts
from squad.data.columns import NumberColumn
from squad.data.identifiers import identifier_warning, identifiers
from squad.data.novelty import RowDistance
from squad.data.seen_rows import SeenRows, row_hashes, rows_digest
from squad.data.splits import validation_rows
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError, DataError, SquadWarning
from squad.files.plain import plain_settings
from squad.models import NetworkConfig, network_config
from squad.predictor import Predictor, choose_device
from squad.predictor.piloting import MAX_ROWS, validation_scores
from squad.train import Progress, TrainConfig, TrainingData, fit

__all__ = ["FitSettings", "Prepared", "fit_predictor", "prepare"]


#: Above this number of classes, and one class per two rows, labels look like a regression target.
MAX_CLASSES = 20

SAME_ROWS = (
    "warning: Every class has only one row, so the validation rows are the training rows: their accuracy means nothing."
)


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """All settings of a fit: together with the data they determine the result.

    Attributes:
        network: Configuration of the network; see :func:`squad.models.network_config`.
        training: Settings of training.
        members: Number of networks in the ensemble, trained together (batched).
        seed: Seed of the first member; member i is trained with seed + i.  For ensembles that share no member, choose
            seeds further apart.
        validation: Fraction of the rows used for early stopping, above 0 and at most 0.9, stratified by class; drawn
            with ``seed``.
        split_per_member: Whether each member has its own validation rows, drawn with its own seed.  (Splits by group
            may differ in size; the larger ones then lose their last rows, since members are trained together.)
        sampling: Sampling mode of validation and prediction; None for the network's default.
        num_samples: Number of samples T of validation and prediction; None for the network's default.

    Examples:
        >>> settings = FitSettings(members=3, seed=10, training=TrainConfig(max_epochs=50))
        >>> settings.seeds
        [10, 11, 12]
    """

    network: NetworkConfig = field(default_factory=lambda: network_config("squad"))
    training: TrainConfig = field(default_factory=TrainConfig)
    members: int = 1
    seed: int = 0
    validation: float = 0.1
    split_per_member: bool = False
    sampling: str | None = None
    num_samples: int | None = None

    def __post_init__(self) -> None:
        network: object = self.network
        training: object = self.training
        if not isinstance(network, NetworkConfig):
            raise ArgumentError.of("network", repr(network)[:60], "settings, such as network_config('squad')")
        if not isinstance(training, TrainConfig):
            raise ArgumentError.of("training", repr(training)[:60], "settings, such as TrainConfig(max_epochs=50)")
        # Python numbers, whatever type was given: JSON knows no others.
        object.__setattr__(self, "members", check_size("members", self.members, 1))
        object.__setattr__(self, "seed", check_count("seed", self.seed, 0, 2**62))
        plain = {name: plain_settings(value) for name, value in self.training.to_dict().items()}
        object.__setattr__(self, "training", TrainConfig.of(plain))
        object.__setattr__(self, "validation", check_number("validation", self.validation, 0.0, 0.9, exclude=0.0))
        if not isinstance(self.split_per_member, bool):
            raise ArgumentError.of("split_per_member", repr(self.split_per_member), "true or false")
        self.network.check_members(self.members)
        self.network.check_sampling(self.sampling, self.num_samples)
        for setting in dataclasses.fields(self.training):
            if isinstance(getattr(self.training, setting.name), tuple):
                self.training.for_each(setting.name, self.members)

    @property
    def seeds(self) -> list[int]:
        """The seed of each member."""
        return [self.seed + index for index in range(self.members)]


def fit_predictor(
    x: Any,
    labels: Sequence[Any] | NDArray[Any],
    settings: FitSettings | None = None,
    *,
    target: str | None = None,
    drop: Sequence[str] = (),
    group: str | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 30.0,
    record: Mapping[str, Any] | None = None,
    keep_row_hashes: bool = True,
    names: Sequence[str] | None = None,
    refer_novel: bool = True,
) -> Predictor:
    """Train a model on rows and their labels.

    Args:
        x: A table, or an array (N, features), (N, height, width) or (N, height, width, channels).
        labels: (N,), class labels: texts, whole numbers or booleans.
        settings: Settings of the fit; default: ``FitSettings()``.
        target: Name of the column of labels, if ``x`` is a table.
        drop: Names of the columns to leave out, if ``x`` is a table.
        group: Name of the column that ``groups`` was read from, if ``x`` is a table; it is left out as well.
        groups: (N,), group of each row; rows of one group always land in the same split.
        device: Device to train on.
        progress: Receives progress reports.
        checkpoint: File to resume from if it exists, and to write during training.
        checkpoint_seconds: Minimum time between two checkpoints.
        record: Further entries of the model's record, such as where the data came from.
        keep_row_hashes: Whether to store hashes of the rows (and groups), so that the model can refuse to be certified
            on them.  The hashes reveal whether a given row, or one much like it, was among them.
        names: Names of the features of an array that came from a data frame; rows are then matched by name.
        refer_novel: Whether to refer rows that are unlike the training rows: numbers far outside their range (another
            unit, -999 for "unknown"), or a row that is far from all others.

    Returns:
        The trained model.

    Raises:
        ArgumentError: If an argument is invalid, or the number of labels is not that of the rows.
        DataError: If rows or labels cannot be used for training; the message names the first such row.

    See Also:
        squad.SquadClassifier: The same as a scikit-learn estimator.

    Examples:
        >>> from squad.models import MLPConfig
        >>> x = np.linspace([-1, 1], [1, -1], 60)
        >>> settings = FitSettings(network=MLPConfig(hidden=(4,)), training=TrainConfig(max_epochs=2))
        >>> model = fit_predictor(x, np.where(x[:, 0] > 0, "high", "low"), settings)
        >>> model.classes
        ('high', 'low')
    """
    settings = settings or FitSettings()
    device = choose_device(device)
    ready = prepare(
        x, labels, settings, target=target, drop=drop, group=group, groups=groups, names=names, ranges=refer_novel
    )
    data, y, classes = ready.data, ready.data.y.numpy(), ready.classes
    train, validation, hashes = data.train[0].numpy(), data.validation[0].numpy(), row_hashes(data.x.numpy())
    seen_rows = SeenRows.of(data.x.numpy(), group_names(groups), train, validation, hashes) if keep_row_hashes else None
    # Before training, whose result an interrupt after it would lose.
    row_distance = RowDistance.fit(data.x.numpy()) if refer_novel else None
    fitted = fit(
        settings.network,
        settings.training,
        data,
        settings.seeds,
        sampling=settings.sampling,
        num_samples=settings.num_samples,
        device=device,
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
    )
    counts = np.bincount(y, minlength=len(classes))
    made = {
        **(record or {}),
        "seed": settings.seed,
        "validation": settings.validation,
        "split_per_member": settings.split_per_member,
        "rows": {"training": data.train.shape[1], "validation": data.validation.shape[1]},
        "group": group,
        "rows_sha256": rows_digest(hashes) if keep_row_hashes else None,
        "repeats": record_repeats(hashes, train, validation),
        "class_counts": {str(name): int(count) for name, count in zip(classes, counts, strict=True)},
        "training": fitted.config.to_dict(),
        "members": [result._asdict() for result in fitted.members],
        "notes": list(ready.notes),
        "seconds": round(fitted.seconds, 3),
        "device": device.type,
        "history": fitted.history,
    }
    predictor = Predictor(
        fitted.network,
        settings.network
        if len(fitted.members) == fitted.network.members
        else _config_of_usable(settings.network, fitted.members),
        ready.transform,
        classes,
        sampling=settings.sampling,
        num_samples=settings.num_samples,
        record=made,
        seen_rows=seen_rows,
        row_distance=row_distance,
    )
    return _with_validation_scores(predictor, x, data)


def _with_validation_scores(predictor: Predictor, x: Any, data: TrainingData) -> Predictor:
    """Add the scores of the rows that all members were validated on, and none was trained on."""
    parts = data.validation.numpy()
    rows = functools.reduce(np.intersect1d, parts)
    rows = np.setdiff1d(rows, data.train.numpy().ravel())[:MAX_ROWS]
    chosen: Any
    if isinstance(x, Table):
        chosen = Table(x.frame.iloc[rows].reset_index(drop=True), x.source)
    else:
        chosen = (x if isinstance(x, (np.ndarray, torch.Tensor)) else np.asarray(x))[rows]
    return predictor._replace(validation_scores=validation_scores(predictor, chosen, data.y.numpy()[rows]))


@dataclass(frozen=True)
class Prepared:
    """Rows and labels, ready for training.

    Attributes:
        classes: Class labels, sorted.
        transform: Transform from the user's rows to ``data.x``.
        data: Encoded rows, split into training and validation rows.
        notes: Messages for the user, such as warnings about columns.
    """

    classes: list[Any]
    transform: TableTransform | ArrayTransform
    data: TrainingData
    notes: tuple[str, ...]


def prepare(
    x: Any,
    labels: Sequence[Any] | NDArray[Any],
    settings: FitSettings,
    *,
    target: str | None = None,
    drop: Sequence[str] = (),
    group: str | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
    names: Sequence[str] | None = None,
    ranges: bool = True,
) -> Prepared:
    """Check, encode and split rows, without training.

    Args:
        x: A table, or an array (N, features), (N, height, width) or (N, height, width, channels).
        labels: (N,), class labels: texts, whole numbers or booleans.
        settings: Settings of the fit; seeds and validation fraction determine the split.
        target: Name of the column of labels, if ``x`` is a table.
        drop: Names of the columns to leave out, if ``x`` is a table.
        group: Name of the column that ``groups`` was read from, if ``x`` is a table; it is left out as well.
        groups: (N,), group of each row; rows of one group always land in the same split.
        names: Names of the features of an array that came from a data frame.
        ranges: Whether to record the range of each number, so that rows far outside can be referred.

    Returns:
        The encoded rows, their split, and the transform.

    Raises:
        ArgumentError: If an argument is invalid, or the number of labels is not that of the rows.
        DataError: If rows or labels cannot be used for training; the message names the first such row.

    Examples:
        >>> ready = prepare(np.arange(40.0).reshape(20, 2), [0, 1] * 10, FitSettings(validation=0.2))
        >>> ready.classes, ready.data.train.shape, ready.data.validation.shape
        ([0, 1], torch.Size([1, 16]), torch.Size([1, 4]))
    """
    classes, y = _classes(labels)
    check_texts("A label", classes)
    check_texts("A group", np.unique(group_names(groups)).tolist())
    if isinstance(x, Table):
        if target is None:
            raise ArgumentError.of("target", "None", "the name of the column of labels")
        check_texts("The name of a column", x.columns)
        fitted = TableTransform.fit(x, target, drop, group, ranges)
        for column in fitted.columns:
            check_texts(f"A category of column {column.name!r}", getattr(column, "values", ()))
        numbers = [column.name for column in fitted.columns if isinstance(column, NumberColumn)]
        transform: TableTransform | ArrayTransform = fitted
    elif target is not None or group is not None or len(drop):
        hint = "squad.data.tables.Table.of(frame) makes one of a data frame."
        raise ArgumentError.of("x", type(x).__name__, "a table where target, drop or group is given", hint)
    else:
        transform = ArrayTransform.fit(x, names, ranges)
    encoded = transform.apply(x)
    if encoded.problems:
        row, reason = next(iter(encoded.problems.items()))
        raise DataError(f"Row {row + 1} (from 1) cannot be used for training: {reason}. Correct it, or leave it out.")
    if len(encoded.x) != len(y):
        raise ArgumentError.of("labels", f"{len(y)} labels for {len(encoded.x)} rows", "one label per row")
    data = _split(encoded.x, y, len(classes), settings, groups)
    notes = [SAME_ROWS] if torch.equal(data.train, data.validation) else []
    if isinstance(x, Table) and (found := identifiers(x, numbers)):
        text = identifier_warning(found, option=True)
        warnings.warn(text, SquadWarning, stacklevel=3)  # before hours of training
        notes.append(f"warning: {text}")
    return Prepared(classes, transform, data, (*transform.notes, *notes))


def _classes(labels: Sequence[Any] | NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the classes, sorted, and the position of each label among them."""
    array = np.asarray(labels)
    if array.ndim != 1 or not array.size:
        raise ArgumentError.of("labels", f"shape {array.shape}", "a non-empty list with one label per row")
    if array.dtype == object:
        array = _typed(array)
    elif array.dtype.kind not in "biufU":
        raise DataError(f"labels must be texts, whole numbers or booleans, got {array.dtype}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise DataError(f"Every row must have a label; that of row {row + 1} (from 1) is {array[row]}.")
    names, y = np.unique(array, return_inverse=True)
    if len(names) > MAX_CLASSES and 2 * len(names) > len(array):
        raise DataError(
            f"Labels must be classes; {len(names)} different ones in {len(array)} rows look like a regression target. "
            "Only classification is supported."
        )
    if len(names) < 2:
        raise DataError(f"At least two classes are needed; all {len(array)} labels are {names.tolist()[0]!r}.")
    return names.tolist(), y.astype(np.int64)


def _typed(labels: NDArray[np.object_]) -> NDArray[Any]:
    """Convert labels that are Python objects: to booleans or integers if all are, otherwise to text."""
    for row, label in enumerate(labels.tolist()):
        # The text "None" or "NA" may be the name of a class; a missing value is not.
        if not isinstance(label, str) and cell_text(label) is None:
            raise DataError(f"Every row must have a label; that of row {row + 1} (from 1) is missing.")
    kinds = {type(label) for label in labels.tolist()}
    return labels.astype(kinds.pop()) if kinds in ({bool}, {int}) else labels.astype(str)


def _split(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    classes: int,
    settings: FitSettings,
    groups: Sequence[Any] | NDArray[Any] | None,
) -> TrainingData:
    if groups is None and np.bincount(y).max() == 1:
        # One row per class: no row can be held out, so the training rows are used for validation.
        every = torch.arange(len(y)).unsqueeze(0)
        return TrainingData(torch.from_numpy(x), torch.from_numpy(y), classes, every, every)
    seeds = settings.seeds if settings.split_per_member else [settings.seed]
    parts = [validation_rows(y, settings.validation, seed, groups) for seed in seeds]
    # Splits by group may differ in size by a few rows.  Members are trained together, so longer ones are cut.
    shortest = [min(len(part[side]) for part in parts) for side in (0, 1)]
    train, validation = (
        torch.from_numpy(np.stack([part[side][: shortest[side]] for part in parts])) for side in (0, 1)
    )
    return TrainingData(torch.from_numpy(x), torch.from_numpy(y), classes, train, validation)


def _config_of_usable(config: NetworkConfig, members: Sequence[Any]) -> NetworkConfig:
    """Return the settings of the members that have weights."""
    usable = [index for index, result in enumerate(members) if result.best_epoch is not None]
    own: dict[str, Any] = {
        name: tuple(value[index] for index in usable)
        for name in ("dropout", "init_scale")
        if isinstance(value := getattr(config, name), tuple)
    }
    return dataclasses.replace(config, **own)
