"""The path of a row through a model: encode → predict → decide.

Every prediction of the library takes this path: ``Predictor.answer``, the calibration rows of a certificate, the rows
of an evaluation.  Rows are encoded once, predicted once, and decided once per target of the certificate.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.data.encoding import Encoded
from squad.data.tables import Table, labels
from squad.errors import ArgumentError
from squad.predictor.answer import ACCEPTED, REFERRED, Answer, answer_of, on_grid, settled
from squad.selective.groups import ByGroup, plain_group
from squad.selective.scored_cases import as_groups

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = [
    "ARRAY",
    "COLUMN",
    "LABEL",
    "Progress",
    "decide",
    "encode",
    "encode_in_chunks",
    "predict",
    "predict_readable",
    "row_groups",
]

#: Rows that are encoded and predicted together: memory stays bounded however many there are.
CHUNK = 8192

#: Where the groups of a certificate with a threshold per group come from: the predicted label, a column, or an array.
LABEL, COLUMN, ARRAY = "label", "column", "array"

#: Called with the number of rows predicted so far, and the number of all rows.
Progress = Callable[[int, int], None]


def encode(predictor: "Predictor", rows: Any) -> Encoded:
    """Encode all rows at once: for callers that need the encoded rows besides the predictions.

    Args:
        predictor: The model.
        rows: Rows as :func:`squad.predictor.input_rows.input_rows` returns them.
    """
    return predictor.transform.apply(rows)


def encode_in_chunks(predictor: "Predictor", rows: Any) -> Iterator[Encoded]:
    """Encode rows chunk by chunk, in bounded memory; the arguments are those of :func:`encode`."""
    for start in range(0, len(rows), CHUNK):
        yield predictor.transform.apply(rows[start : start + CHUNK])


def predict(
    predictor: "Predictor", encoded: Encoded | Iterable[Encoded], count: int, progress: Progress | None = None
) -> Answer:
    """Predict encoded rows; the certificate of the model, if it has one, is not applied.

    Args:
        predictor: The model.
        encoded: All rows, or chunks of them.
        count: Number of all rows.
        progress: Called after each chunk.
    """
    p = np.empty((count, len(predictor.classes)))
    sample_entropy = np.empty(count)
    problems: dict[int, str] = {}
    novel: dict[int, str] = {}
    sampler = predictor._ready_sampler()
    start = 0
    for chunk in _chunks(encoded) if isinstance(encoded, Encoded) else encoded:
        end = start + len(chunk.x)
        drawn = sampler(torch.from_numpy(chunk.x))
        p[start:end] = _mean_over_members(drawn.probabilities).cpu().numpy()
        sample_entropy[start:end] = _mean_over_members(drawn.entropy).cpu().numpy()
        problems.update({start + row: reason for row, reason in chunk.problems.items()})
        distant = {} if predictor.row_distance is None else predictor.row_distance.reasons(chunk.x)
        novel.update({start + row: reason for row, reason in {**distant, **chunk.novel}.items()})
        start = end
        if progress is not None:
            progress(end, count)
    finite = np.isfinite(p).all(1) & np.isfinite(sample_entropy)
    for row in np.flatnonzero(~finite).tolist():
        problems.setdefault(row, "the network's output is not finite: this row lies far outside the training range")
    entropy = -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), 1)
    if predictor.members * sampler.num_samples == 1:
        sample_entropy = entropy  # one sample cannot disagree: exactly 0, without the rounding of two sums
    p, confidence = settled(p)
    recalibration = predictor.recalibration
    if recalibration is not None and not recalibration.unchanged:
        # From confidences on the grid, which do not depend on rounding.
        p[finite] = recalibration.apply(p[finite], confidence[finite])
        confidence = on_grid(p.max(1))
    # Rounding could leave either slightly below zero.
    mutual_information = np.maximum(entropy - sample_entropy, 0)
    return answer_of(p, confidence, np.maximum(entropy, 0), mutual_information, predictor.classes, problems, novel)


def predict_readable(predictor: "Predictor", rows: Any) -> Answer:
    """Predict rows without applying the certificate; a row that cannot be read is an error.

    Args:
        predictor: The model.
        rows: Rows as its transform takes them.
    """
    answer = predict(predictor, encode_in_chunks(predictor, rows), len(rows))
    unreadable = np.flatnonzero(np.isnan(answer.confidence))
    if len(unreadable):
        row = int(unreadable[0])
        raise ArgumentError(
            f"Row {row} (from 0) of X cannot be predicted: {answer.reason[row]}. Leave such rows out, or use"
            " Predictor.answer, which refers them."
        )
    return answer


def decide(
    predictor: "Predictor", rows: Any, answer: Answer, by: ArrayLike | None, risk: float | Mapping[str, float] | None
) -> Answer:
    """Accept or refer each row by the certificate; rows that could not be read, and novel ones, stay referred.

    Args:
        predictor: A model with a certificate.
        rows: The rows.
        answer: Their predictions, which are not changed.
        by: (N,), the group of each row, for a certificate by groups that were given as an array.
        risk: Target of the certificate that decides, if it has several.
    """
    certificate = predictor.certificate
    assert certificate is not None
    rules = certificate.target(risk)
    kind = certificate.details.get("by")
    if kind != ARRAY and by is not None:
        what = {None: "one threshold for all rows", LABEL: "a threshold per predicted label"}
        raise ArgumentError(
            f"`by` is not needed: the certificate has {what.get(kind, 'a threshold per column value')}."
        )
    if kind == ARRAY and by is None:
        raise ArgumentError(
            "The certificate has a threshold per group, and the groups were given as an array. Pass the group of each"
            " row: predictor.answer(x, by=groups)."
        )
    groups: NDArray[Any] | None = None
    if kind is not None:
        every = np.ones(len(answer), dtype=np.bool_)
        groups = row_groups(rows, certificate.by if by is None else by, answer.label, every)
    accepted = certificate.accepts(answer.confidence, groups, rules[0].risks) & (answer.decision != REFERRED)
    reason = answer.reason.copy()
    if groups is not None:
        rule_of = ByGroup((rule.group, rule) for rule in rules)
        for row, group in enumerate(groups.tolist()):
            rule = rule_of.find(group)
            if not reason[row] and (rule is None or not rule.certified):
                reason[row] = f"nothing was certified where {certificate.by} is {group or 'missing'}"
    decision = np.where(accepted, ACCEPTED, REFERRED).astype(object)
    return dataclasses.replace(answer, decision=decision, reason=reason)


def row_groups(rows: Any, by: Any, label: NDArray[Any], used: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the group of each used row: its predicted label, the value of a column, or the given array.

    Args:
        rows: The rows.
        by: "label", the name of a column, or (rows,) groups.
        label: Predicted labels of the used rows.
        used: (rows,), which rows are used.
    """
    if isinstance(by, str):
        if by == LABEL:
            return np.array([plain_group(name) for name in label.tolist()], dtype=object)
        if not isinstance(rows, Table):
            raise ArgumentError(
                f"An array has no column {by!r}. Pass by='label', or the group of each row as an array."
            )
        return labels(rows, by, strict=False)[used]
    values = as_groups("by", by)
    if values.shape != used.shape:
        raise ArgumentError.of("by", f"shape {values.shape}", f"of shape {used.shape}, one group per row")
    return values[used]


def _chunks(encoded: Encoded) -> Iterator[Encoded]:
    """Split encoded rows into chunks."""
    for start in range(0, len(encoded.x), CHUNK):
        parts = (
            {row - start: reason for row, reason in reasons.items() if start <= row < start + CHUNK}
            for reasons in (encoded.problems, encoded.novel)
        )
        yield Encoded(encoded.x[start : start + CHUNK], *parts)


def _mean_over_members(drawn: torch.Tensor) -> torch.Tensor:
    """Mean of (M, ...), summed member by member: a reduction's order would depend on the number of rows."""
    total = drawn[0]
    for member in drawn[1:]:
        total = total + member
    return total / len(drawn)
