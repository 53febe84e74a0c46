"""The cases that are worth a look: the most confident mistakes, and those that are referred to a person."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squad.data.array_transform import ArrayTransform
from squad.data.tables import Table
from squad.predictor import Answer, Predictor
from squad.report.case_latents import Latents, latents_of
from squad.report.pictures import array_row, is_picture, png, table_row, value_range

__all__ = ["Case", "pick_cases"]

#: So many of each are shown.
SHOWN = 24
#: So many classes of a case are shown with their probabilities.
CLASSES = 5


@dataclass(frozen=True)
class Case:
    """One row of the test.

    Attributes:
        where: such as "row 17".
        said, truth: the class that was answered, and the right one.
        confidence: of the answer.
        accepted: by the certificate; None without one.
        classes: the most probable ones with their probabilities.
        disagreement: the share of its doubt that comes from samples (and members) that disagree; None if there is only
            one.
        picture: a data: address; None for a row that is no image.
        row: names and values; empty for an image.
        latents: behind the answer; None for a network without quantized latents.
    """

    where: str
    said: str
    truth: str
    confidence: float
    accepted: bool | None
    classes: list[tuple[str, float]]
    disagreement: float | None
    picture: str | None
    row: list[tuple[str, str]]
    latents: Latents | None


def pick_cases(
    predictor: Predictor,
    rows: Any,
    answer: Answer,
    used: NDArray[np.int64],
    truth: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    accepted: NDArray[np.bool_] | None,
) -> tuple[list[int], list[int], list[Case]]:
    """The most confident mistakes and the least confident referred cases, as places in a list of cases.

    Without a certificate nothing is referred: the least confident of all stand in their place.
    """
    confidence = answer.confidence[used]
    order = np.argsort(-confidence, kind="stable")
    mistakes = order[wrong[order]][:SHOWN]
    doubtful = order if accepted is None else order[~accepted[order]]
    referred = doubtful[::-1][:SHOWN]
    chosen = list(dict.fromkeys([*mistakes.tolist(), *referred.tolist()]))
    places = {case: place for place, case in enumerate(chosen)}
    behind = latents_of(predictor, _taken(rows, used[chosen]))
    pictures = isinstance(predictor.transform, ArrayTransform) and is_picture(predictor.transform.shape)
    limits = value_range(rows) if pictures else (0.0, 1.0)
    names = [str(name) for name in predictor.classes]
    many = predictor.members * predictor.num_samples > 1 and (predictor.members > 1 or predictor.sampling != "mean")
    cases = []
    for place, case in enumerate(chosen):
        row = int(used[case])
        p = answer.probabilities[row]
        entropy, mutual = float(answer.entropy[row]), float(answer.mutual_information[row])
        cases.append(
            Case(
                rows.where(row) if isinstance(rows, Table) else f"row {row + 1}",
                names[int(p.argmax())],
                names[int(truth[case])],
                float(confidence[case]),
                None if accepted is None else bool(accepted[case]),
                [(names[index], float(p[index])) for index in np.argsort(-p, kind="stable")[:CLASSES].tolist()],
                (min(1.0, mutual / entropy) if entropy > 0 else 0.0) if many else None,
                png(rows[row], limits) if pictures else None,
                [] if pictures else _row(predictor, rows, row),
                None if behind is None else behind[place],
            )
        )
    return [places[case] for case in mistakes.tolist()], [places[case] for case in referred.tolist()], cases


def _taken(rows: Any, at: NDArray[np.int64]) -> Any:
    """Some rows, in this order; their readings do not depend on the rest."""
    if isinstance(rows, Table):
        return Table(rows.frame.iloc[at].reset_index(drop=True), rows.source)
    return rows[at]


def _row(predictor: Predictor, rows: Any, row: int) -> list[tuple[str, str]]:
    if isinstance(predictor.transform, ArrayTransform):
        return array_row(rows[row])
    return table_row(rows, row, [column.name for column in predictor.transform.columns])
