"""From a model and its calibration rows to a certificate."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError
from squad.predictor.calibration_rows import CalibrationRows, CertificationError
from squad.predictor.harms import COST, Costs, cost_matrix, harm_names, harm_of
from squad.predictor.identity import identity, layer_seeds
from squad.predictor.row_pass import ARRAY, COLUMN, LABEL, row_groups
from squad.predictor.sampling_design import sampling_design
from squad.records import versions
from squad.selective.certificate import Certificate
from squad.selective.certify import Risk, certify_scores, check_targets
from squad.selective.resampling import resample
from squad.selective.scored_cases import WRONG, Scores

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["certificate_for"]


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
        sample: Weights and strata of the calibration rows; see ``sampling_design``.
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
    design = sampling_design(predictor.transform, calibration.rows, calibration.used, sample or {})
    drawn = resample(scores, **design)
    details: dict[str, Any] = {
        "model": identity(predictor),
        "sampling": predictor.sampling,
        "num_samples": predictor.num_samples,
        "seeds": layer_seeds(predictor),
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
