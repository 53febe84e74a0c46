"""Selection of the cases to show: the most confident errors and the least confident referred cases."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.array_transform import ArrayTransform
from squad.data.tables import Table
from squad.predictor import Answer, Predictor
from squad.report.case_latents import CaseLatents, case_latents
from squad.report.case_values import CaseValue, case_values
from squad.report.pictures import MAX_BYTES, image_url, is_picture, value_range

__all__ = ["Case", "row_name", "select_cases"]

#: Maximum number of errors shown, and of referred cases.
MAX_CASES_SHOWN = 24
#: Bytes of all images of a report together; it should not take more than 1.5 MB.
ALL_IMAGES_BYTES = 900_000
#: Maximum number of class probabilities shown per case.
MAX_CLASSES_SHOWN = 5


@dataclass(frozen=True)
class Case:
    """One test case.

    Attributes:
        where: Location, such as "row 17".
        predicted: Predicted class.
        truth: True class.
        confidence: Confidence of the prediction.
        accepted: Whether the certificate accepts the prediction; None without a certificate.
        classes: Most probable classes with their probabilities.
        disagreement: Fraction of the predictive entropy that is due to disagreement between samples (and members):
            mutual information over entropy. None for a single sample.
        picture: The image as a ``data:`` URL; None for a row that is not an image.
        values: Values of its features, the most unusual first; empty for an image.
        latents: Latent distributions; None for a network without quantized latents.
    """

    where: str
    predicted: str
    truth: str
    confidence: float
    accepted: bool | None
    classes: list[tuple[str, float]]
    disagreement: float | None
    picture: str | None
    values: list[CaseValue]
    latents: CaseLatents | None


def select_cases(
    predictor: Predictor,
    rows: Any,
    answer: Answer,
    used: NDArray[np.int64],
    truth: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    accepted: NDArray[np.bool_] | None,
    models: int = 1,
) -> tuple[list[int], list[int], list[Case]]:
    """Select the most confident errors and the least confident referred cases.

    Without a certificate no case is referred; the least confident of all cases are selected instead.

    Args:
        predictor: Model that made the predictions.
        rows: All test rows.
        answer: Predictions for all test rows.
        used: (N,), indices of the rows that are evaluated.
        truth: (N,), index of the true class of each evaluated row.
        wrong: (N,), whether each prediction is wrong.
        accepted: (N,), whether each prediction is accepted; None without a certificate.
        models: Number of models in the report, which share the space for images.

    Returns:
        Indices of the errors and of the referred cases in the list of cases, and that list.
    """
    confidence = answer.confidence[used]
    order = np.argsort(-confidence, kind="stable")
    mistakes = order[wrong[order]][:MAX_CASES_SHOWN]
    candidates = order if accepted is None else order[~accepted[order]]
    referred = candidates[::-1][:MAX_CASES_SHOWN]
    selected = list(dict.fromkeys([*mistakes.tolist(), *referred.tolist()]))
    index_of = {case: index for index, case in enumerate(selected)}
    latents = case_latents(predictor, _take_rows(rows, used[selected]))
    pictures = isinstance(predictor.transform, ArrayTransform) and is_picture(predictor.transform.shape)
    most_bytes = min(MAX_BYTES, ALL_IMAGES_BYTES // (models * max(1, len(selected))))
    limits = value_range(rows) if pictures else (0.0, 1.0)
    values = [] if pictures or not selected else case_values(predictor.transform, rows, used[selected].tolist())
    names = [str(name) for name in predictor.classes]
    several_samples = predictor.members > 1 or (predictor.num_samples > 1 and predictor.sampling != "mean")
    cases = []
    for index, case in enumerate(selected):
        row = int(used[case])
        p = answer.probabilities[row]
        entropy, mutual = float(answer.entropy[row]), float(answer.mutual_information[row])
        cases.append(
            Case(
                row_name(rows, row),
                names[int(p.argmax())],
                names[int(truth[case])],
                float(confidence[case]),
                None if accepted is None else bool(accepted[case]),
                [(names[k], float(p[k])) for k in np.argsort(-p, kind="stable")[:MAX_CLASSES_SHOWN].tolist()],
                (min(1.0, mutual / entropy) if entropy > 0 else 0.0) if several_samples else None,
                image_url(rows[row], limits, most_bytes) if pictures else None,
                [] if pictures else values[index],
                None if latents is None else latents[index],
            )
        )
    return [index_of[case] for case in mistakes.tolist()], [index_of[case] for case in referred.tolist()], cases


def row_name(rows: Any, row: int) -> str:
    """Return the location of a row, counted from 1, such as "row 17".

    Args:
        rows: Table or array.
        row: Index of the row, from 0.

    Returns:
        Text such as "row 17", or the line of the file.
    """
    return rows.where(row) if isinstance(rows, Table) else f"row {row + 1}"


def _take_rows(rows: Any, indices: NDArray[np.int64]) -> Any:
    """Return the rows at these indices; how a row is encoded does not depend on the others."""
    if isinstance(rows, Table):
        return Table(rows.frame.iloc[indices].reset_index(drop=True), rows.source)
    return rows[indices]
