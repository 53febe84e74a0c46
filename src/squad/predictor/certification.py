"""From a model and its calibration rows to a certificate, and the identity of the model that it is valid for."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.data.array_transform import ArrayTransform
from squad.data.cells import parse_numbers
from squad.data.tables import Table, labels
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError
from squad.predictor.calibration_rows import CalibrationRows, CertificationError
from squad.predictor.harms import COST, Costs, cost_matrix, harm_names, harm_of
from squad.predictor.row_pass import ARRAY, COLUMN, LABEL, row_groups
from squad.records import versions
from squad.selective.certificate import Certificate
from squad.selective.certify import Risk, certify_scores, check_targets
from squad.selective.resampling import resample
from squad.selective.scored_cases import WRONG, Scores, as_array, as_groups

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["certificate_for", "identity"]


def certificate_for(
    predictor: "Predictor",
    calibration: CalibrationRows,
    risk: Risk | Sequence[Risk],
    delta: float,
    method: str,
    *,
    by: str | ArrayLike | None,
    harms: Mapping[str, ArrayLike] | None,
    options: Mapping[str, Any],
    source: str | None,
    attempt: int | None,
    costs: Costs | None = None,
    sample: Mapping[str, Any] | None = None,
) -> tuple[Certificate, Scores]:
    """Return the certificate, and the scores that it is made from.

    Args:
        predictor: The model.
        calibration: The calibration rows.
        risk: Target, or several.
        delta: 1 - confidence level.
        method: Method of selection.
        by: Groups with a threshold each.
        harms: Losses of the user, by name.
        options: Options of the method.
        source: What the calibration set is called.
        attempt: Number of this attempt to certify the model.
        costs: Costs of confusions.
        sample: Weights and strata of the calibration rows; see ``_sampling_design``.
    """
    losses = {name: np.asarray(loss)[calibration.used] for name, loss in _check_lengths(harms, calibration).items()}
    prices = None if costs is None else cost_matrix(costs, predictor.classes)
    named = harm_names(risk)
    if prices is not None and COST in losses:
        raise ArgumentError(f"Pass either costs or harms[{COST!r}], not both.")
    if prices is not None and COST not in named:
        raise ArgumentError(f"costs need a risk for their mean. Name one for {COST!r}, such as --risk cost=.03.")
    from_labels = [name for name in named if name != WRONG and name not in losses]
    predicted = calibration.answer.probabilities.argmax(1)
    for name in from_labels:
        losses[name] = harm_of(name, predictor.classes, predicted, calibration.positions, prices)
    group_name, kind, groups = _groups(predictor, by, calibration)
    fractions = {COST} if prices is not None and not np.isin(prices, (0.0, 1.0)).all() else set()
    scores = Scores.of(calibration.answer.confidence, calibration.correct, losses, groups, fractions)
    targets = check_targets(risk, scores.harms)
    design = _sampling_design(predictor.transform, calibration.rows, calibration.used, sample or {})
    drawn = resample(scores, **design)
    details: dict[str, Any] = {
        "model": identity(predictor),
        "sampling": predictor.sampling,
        "num_samples": predictor.num_samples,
        "seeds": _layer_seeds(predictor),
        "by": kind,
        "calibration": {
            "source": source,
            "rows": len(calibration.used),
            "used": len(calibration.answer),
            "repeats": calibration.repeats,
            "sha256": calibration.sha256,
        },
        "assumptions": list(calibration.notes),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
    }
    if from_labels:
        details["harms"] = from_labels
    if prices is not None:
        details["costs"] = prices.tolist()
    made = certify_scores(drawn.scores, targets, delta, method, options, group_name, drawn.note(details), attempt)
    return made, drawn.scores


def _check_lengths(harms: Mapping[str, ArrayLike] | None, calibration: CalibrationRows) -> Mapping[str, ArrayLike]:
    """Return the losses of the user if each has one entry per given row."""
    expected = calibration.used.shape
    for name, loss in (harms or {}).items():
        if np.shape(loss) != expected:
            raise ArgumentError.of(f"harms[{name!r}]", f"shape {np.shape(loss)}", f"of shape {expected}, one per row")
    return harms or {}


def _groups(
    predictor: "Predictor", by: str | ArrayLike | None, calibration: CalibrationRows
) -> tuple[str, str | None, NDArray[Any] | None]:
    """Return what groups are called, where they come from (label, column or array), and the group of each used row."""
    if by is None:
        return "group", None, None
    if isinstance(by, str) and by == getattr(predictor.transform, "target", None):
        raise ArgumentError(
            f"by={by!r} is the column of true labels, which are unknown for new rows. Use by='label' for a threshold"
            " per predicted label."
        )
    values = row_groups(calibration.rows, by, calibration.answer.label, calibration.used)
    if isinstance(by, str) and by != LABEL and (empty := int((values == "").sum())):
        raise CertificationError(
            f"Every calibration row needs a group; column {by!r} is empty in {empty:,} rows. Fill it in, or leave such"
            " rows out."
        )
    if not isinstance(by, str):
        return "group", ARRAY, values
    return by, (LABEL if by == LABEL else COLUMN), values


def identity(predictor: "Predictor") -> str:
    """Return the SHA-256 of weights, seeds, input transform, classes, sampling mode and recalibration.

    A certificate is valid for one function from rows to confidences, and stores this hash.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(predictor.network.state_dict().items()):
        flat = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {flat.dtype} {tuple(flat.shape)}\n".encode())
        digest.update(flat.reshape(-1).numpy().tobytes())
    rest: dict[str, Any] = {
        "network": {"name": predictor.config.name, **predictor.config.to_dict()},
        "transform": predictor.transform.to_json(),
        "classes": list(predictor.classes),
        "sampling": [predictor.sampling, predictor.num_samples],
        "recalibration": predictor.recalibration and predictor.recalibration.to_json(),
    }
    if predictor.row_distance is not None:  # models of earlier versions have none, and keep their identity
        rest["row_distance"] = predictor.row_distance.digest()
    digest.update(json.dumps(rest, sort_keys=True).encode())
    return digest.hexdigest()


def _layer_seeds(predictor: "Predictor") -> dict[str, list[int]]:
    """Return the seeds of the stochastic layers, one per member; they are saved with the weights."""
    state = predictor.network.state_dict().items()
    return {name: tensor.reshape(-1).tolist() for name, tensor in state if name.rpartition(".")[2] == "seed"}


def _sampling_design(
    transform: TableTransform | ArrayTransform, rows: Any, used: NDArray[np.bool_], sample: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of :func:`squad.selective.resampling.resample`, for the used rows.

    Args:
        transform: Input transform of the model.
        rows: All rows.
        used: (rows,), which of them are used.
        sample: Weights and strata as arrays with an entry per row, or as names of columns; and the other arguments.
    """
    found = dict(sample)
    for name in ("weights", "strata"):
        value = found.get(name)
        if isinstance(value, str):
            found[name] = _column(transform, rows, name, value, used)
        elif value is not None:
            given = (as_groups if name == "strata" else as_array)(name, value)
            if given.shape != used.shape:
                raise ArgumentError.of(name, f"shape {given.shape}", f"of shape {used.shape}, one entry per row")
            found[name] = given[used]
    return found


def _column(
    transform: TableTransform | ArrayTransform, rows: Any, name: str, column: str, used: NDArray[np.bool_]
) -> NDArray[Any]:
    """Return a column of the used rows: text for strata, numbers for weights."""
    if not isinstance(rows, Table):
        raise ArgumentError(f"An array has no column {column!r}. Pass {name} as an array with one entry per row.")
    texts = labels(rows, column, strict=False)
    if empty := int((texts[used] == "").sum()):
        raise ArgumentError(
            f"{name} must be given for every used row; column {column!r} is empty in {empty:,} rows. Fill it in, or"
            " leave such rows out."
        )
    if name == "strata":
        return texts[used]
    if column in _features(transform):
        raise ArgumentError(
            f"{name} must not be a feature of the model, but {column!r} is one: a weight says how a row was sampled."
            f" Fit without it (--drop {column})."
        )
    numbers = parse_numbers([str(text) for text in texts[used].tolist()])
    if np.isnan(numbers).any():
        first = texts[used][int(np.flatnonzero(np.isnan(numbers))[0])]
        raise ArgumentError.of(name, f"{str(first)[:40]!r} in column {column!r}", "numbers")
    return numbers


def _features(transform: TableTransform | ArrayTransform) -> list[str]:
    """Return the names of the model's features."""
    if isinstance(transform, ArrayTransform):
        return list(transform.names or ())
    return [column.name for column in transform.columns]
