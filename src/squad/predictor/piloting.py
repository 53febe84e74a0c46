"""Pilots: rows that choose the thresholds of the methods ``preset`` and ``pareto``, and the order of their tests.

By default these are the validation rows, whose scores a model stores.  They were used for early stopping, so they must
not certify; but they may choose.  Tests on the calibration set are valid for any thresholds, in any order, that were
fixed before the calibration set was drawn.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squad.data.tables import Table
from squad.errors import ArgumentError
from squad.predictor.answer import on_grid
from squad.predictor.harms import Costs, cost_matrix, harm_of
from squad.predictor.input_rows import class_positions, input_rows
from squad.predictor.row_pass import encode_in_chunks, predict
from squad.selective.pilots import PILOTED, Pilot
from squad.selective.scored_cases import WRONG, Scores

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["MAX_ROWS", "ValidationScores", "pilot_for", "validation_scores"]

#: Maximum number of validation rows whose scores are stored: more would choose no better.
MAX_ROWS = 10_000
#: Minimum number of validation rows for a useful choice.
MIN_ROWS = 20


@dataclass(frozen=True, eq=False)
class ValidationScores:
    """The predictions of a model for its validation rows.

    Attributes:
        confidence: (N,), before any recalibration.
        predicted, right: (N,), positions of the predicted and of the true class.
        sampling, num_samples: Sampling mode and number of samples of the predictions.
    """

    confidence: NDArray[np.float64]
    predicted: NDArray[np.int64]
    right: NDArray[np.int64]
    sampling: str
    num_samples: int

    def __len__(self) -> int:
        return len(self.confidence)

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the tensors that are saved."""
        return {
            "confidence": torch.from_numpy(self.confidence),
            "predicted": torch.from_numpy(self.predicted),
            "right": torch.from_numpy(self.right),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], sampling: str, num_samples: int) -> "ValidationScores":
        """Read what :meth:`to_tensors` returned."""
        confidence = tensors["confidence"].numpy().astype(np.float64)
        predicted, right = (tensors[name].numpy().astype(np.int64) for name in ("predicted", "right"))
        if confidence.ndim != 1 or not confidence.shape == predicted.shape == right.shape:
            raise ArgumentError.of("validation scores", f"shape {confidence.shape}", "three arrays of equal length")
        if not np.isfinite(confidence).all():
            raise ArgumentError.of("validation scores", "confidences that are not finite", "finite")
        return cls(confidence, predicted, right, sampling, num_samples)


def validation_scores(predictor: "Predictor", x: Any, right: NDArray[np.int64]) -> ValidationScores | None:
    """Predict validation rows; returns None if there are too few.

    Args:
        predictor: The model, without recalibration.
        x: Rows, as its transform takes them.
        right: (N,), positions of their true classes.
    """
    if len(right) < MIN_ROWS:
        return None
    answer = predict(predictor, encode_in_chunks(predictor, x), len(x))
    used = np.isfinite(answer.confidence) & ~answer.novel
    if int(used.sum()) < MIN_ROWS:
        return None
    predicted = answer.probabilities[used].argmax(1).astype(np.int64)
    sampling, num_samples = predictor.sampling, predictor.num_samples
    return ValidationScores(answer.confidence[used], predicted, right[used], sampling, num_samples)


def pilot_for(
    predictor: "Predictor",
    method: str,
    given: Any,
    harms: Iterable[str],
    own: Container[str] = (),
    costs: Costs | None = None,
) -> Pilot | None:
    """Return the pilot of a method that needs one, from the user's rows or from the validation rows.

    Args:
        predictor: The model.
        method: Method of selection; None is returned if it needs no pilot.
        given: (x, y), rows and labels; None: the validation rows.
        harms: Names of the harms that will be tested.
        own: Names of the harms among them that the user measured, which labels alone do not determine.
        costs: Costs of confusions, for the harm "cost".
    """
    if method not in PILOTED:
        if given is not None:
            raise ArgumentError(f"Only the methods preset and pareto take a pilot, not {method}. Leave it out.")
        return None
    if given is None:
        found = _stored_scores(predictor, method)
        confidence, predicted, right = found.confidence, found.predicted, found.right
        if predictor.recalibration is not None:
            confidence = on_grid(predictor.recalibration.confidence(confidence, len(predictor.classes)))
    else:
        if not isinstance(given, tuple) or len(given) != 2:
            raise ArgumentError.of("pilot", type(given).__name__, "a pair (x, y) of rows and labels")
        rows, names = input_rows(predictor.transform, given[0]), np.asarray(given[1])
        if names.shape != (len(rows),):
            raise ArgumentError.of("pilot", f"{len(rows)} rows and {len(names)} labels", "one label per row")
        used = np.ones(len(rows), dtype=np.bool_)
        used[list(rows.unreadable) if isinstance(rows, Table) else []] = False  # these have no label either
        right = np.full(len(rows), -1)
        right[used] = class_positions(predictor.classes, names[used])
        answer = predict(predictor, encode_in_chunks(predictor, rows), len(rows))
        used &= np.isfinite(answer.confidence) & ~answer.novel
        if not used.any():
            first = f"; the first: {answer.reason[0]}" if len(rows) else ""
            raise ArgumentError(f"None of the {len(rows):,} rows of the pilot can be used{first}. Pass other rows.")
        confidence, right = answer.confidence[used], right[used]
        predicted = answer.probabilities[used].argmax(1).astype(np.int64)
    losses = {}
    prices = None if costs is None else cost_matrix(costs, predictor.classes)
    for name in (name for name in harms if name != WRONG):
        try:
            losses[name] = harm_of(name, predictor.classes, predicted, right, prices)
        except ArgumentError:
            if name not in own:
                raise
            if method == "pareto":
                raise ArgumentError(
                    f"The method pareto needs harms that follow from labels, but {name!r} was given as an array. Use"
                    " the method preset, which needs confidences only, or squad.certify with arrays."
                ) from None
    return Pilot(Scores.of(confidence, predicted == right, losses), True)


def _stored_scores(predictor: "Predictor", method: str) -> ValidationScores:
    """Return the validation scores that the model stores, if they fit its sampling mode."""
    found = predictor.validation_scores
    if found is None:
        why = "the model stores no validation scores"
    elif (found.sampling, found.num_samples) != (predictor.sampling, predictor.num_samples):
        why = f"its validation scores are those of {found.num_samples} {found.sampling} samples"
    else:
        return found
    raise ArgumentError(
        f"The method {method} needs a pilot: {why}. Pass pilot=(x, y); validation rows will do, rows of the calibration"
        " set will not."
    )
