"""Scores of the validation rows: they choose the thresholds of ``preset`` and ``pareto``, and in which order to test.

These rows were used for early stopping, so they must not certify.  They may choose: whatever thresholds are fixed
before the calibration set is drawn, in whatever order, the tests on the calibration set are valid.
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
from squad.selective.pilots import PILOTED, Pilot
from squad.selective.scored_cases import WRONG, Scores

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["MOST", "ValidationScores", "pilot_for", "validation_scores"]

#: More rows are not kept: they would choose no better.
MOST = 10_000
#: Fewer choose nothing of use.
FEWEST = 20


@dataclass(frozen=True, eq=False)
class ValidationScores:
    """What a model predicted for its validation rows.

    Attributes:
        confidence: (N,), before any recalibration.
        predicted, right: (N,), places of classes.
        sampling, num_samples: how the model was sampled.
    """

    confidence: NDArray[np.float64]
    predicted: NDArray[np.int64]
    right: NDArray[np.int64]
    sampling: str
    num_samples: int

    def __len__(self) -> int:
        return len(self.confidence)

    def to_tensors(self) -> dict[str, Tensor]:
        """As a file has them."""
        return {
            "confidence": torch.from_numpy(self.confidence),
            "predicted": torch.from_numpy(self.predicted),
            "right": torch.from_numpy(self.right),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], sampling: str, num_samples: int) -> "ValidationScores":
        """What :meth:`to_tensors` made."""
        confidence = tensors["confidence"].numpy().astype(np.float64)
        predicted, right = (tensors[name].numpy().astype(np.int64) for name in ("predicted", "right"))
        if confidence.ndim != 1 or not confidence.shape == predicted.shape == right.shape:
            raise ArgumentError.of("validation scores", f"the shape {confidence.shape}", "three lists of one length")
        if not np.isfinite(confidence).all():
            raise ArgumentError.of("validation scores", "confidences that are not finite", "numbers")
        return cls(confidence, predicted, right, sampling, num_samples)


def validation_scores(predictor: "Predictor", x: Any, right: NDArray[np.int64]) -> ValidationScores | None:
    """Predict validation rows; None if there are too few.

    Args:
        predictor: the model, without recalibration.
        x: rows, as its transform takes them.
        right: (N,), the places of their right classes.
    """
    if len(right) < FEWEST:
        return None
    answer = predictor.undecided(x)
    used = np.isfinite(answer.confidence) & ~answer.novel
    if int(used.sum()) < FEWEST:
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
    """The pilot of a method that takes one: of the user's rows, or of the validation rows.

    Args:
        predictor: the model.
        method: the method.
        given: (x, y), rows and labels; None takes the validation rows.
        harms: that will be tested.
        own: those of them that are the user's, which labels do not tell.
        costs: of confusions, for the harm "cost".
    """
    if method not in PILOTED:
        if given is not None:
            raise ArgumentError(f"pilot is for the methods preset and pareto; the method is {method}. Leave it out.")
        return None
    if given is None:
        found = _kept(predictor, method)
        confidence, predicted, right = found.confidence, found.predicted, found.right
        if predictor.recalibration is not None:
            confidence = on_grid(predictor.recalibration.confidence(confidence, len(predictor.classes)))
    else:
        if not isinstance(given, tuple) or len(given) != 2:
            raise ArgumentError.of("pilot", type(given).__name__, "(x, y): rows and their labels")
        rows, names = predictor.checked(given[0]), np.asarray(given[1])
        if names.shape != (len(rows),):
            raise ArgumentError.of("pilot", f"{len(rows)} rows and {len(names)} labels", "one label per row")
        used = np.ones(len(rows), dtype=np.bool_)
        used[list(rows.unreadable) if isinstance(rows, Table) else []] = False  # these have no label either
        right = np.full(len(rows), -1)
        right[used] = predictor.positions(names[used])
        answer = predictor.undecided(rows)
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
                    f"The method pareto needs harms that labels tell; {name!r} is one of your own. Take the method"
                    " preset, which needs confidences only, or squad.certify with arrays."
                ) from None
    return Pilot(Scores.of(confidence, predicted == right, losses), True)


def _kept(predictor: "Predictor", method: str) -> ValidationScores:
    found = predictor.validation_scores
    if found is None:
        why = "the model keeps no validation scores"
    elif (found.sampling, found.num_samples) != (predictor.sampling, predictor.num_samples):
        why = f"its validation scores are of {found.num_samples} {found.sampling} samples"
    else:
        return found
    hint = "Rows of validation will do; rows of the calibration set will not."
    raise ArgumentError.of("pilot", None, f"(x, y) for the method {method}: {why}", hint)
