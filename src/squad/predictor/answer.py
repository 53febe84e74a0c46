"""The predictions of a model for rows: labels, confidences on a grid, decisions.

Confidences are rounded to a grid of log-odds, so that equal rows have equal confidences on every machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squad.core.portable_math import exp_neg, log
from squad.printable import printable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ACCEPTED", "ANSWER_COLUMNS", "REFERRED", "UNCERTIFIED", "Answer", "answer_of", "on_grid", "settled"]

ACCEPTED, REFERRED, UNCERTIFIED = "accepted", "referred", "uncertified"

#: Attributes of an answer that are columns of its data frame, and of the output of ``squad predict``.
ANSWER_COLUMNS = ("label", "confidence", "decision", "entropy", "mutual_information", "reason")

#: Steps of the grid per unit of log-odds.
STEPS = 32768

#: Probabilities that differ by less count as equal: far more than float64 rounding, far less than anybody reads.
TIE = 1e-10


@dataclass(frozen=True, eq=False)
class Answer:
    """Predictions for N rows, with their uncertainty.

    Attributes:
        label: (N,), the most likely class; None for a row that could not be read.
        confidence: (N,), its probability (the softmax response), float64, rounded to steps of 1/32768 in log-odds (8e-6
            around 0.5, ever finer towards 0 and 1); NaN for a row that could not be read.
        decision: (N,), "accepted" or "referred" (the model abstains) by the certificate; "uncertified" without one.
        entropy: (N,), entropy of the class probabilities before recalibration, in nats.
        mutual_information: (N,), between the class and the sample (and member) that predicts it, in nats: the part of
            the entropy that comes from samples that disagree.
        probabilities: (N, classes), class probabilities.
        reason: (N,), why a row could not be read, is novel, or has no certified threshold; empty otherwise.
        novel: (N,), whether a row is unlike the training rows: a number far outside its range, or the row as a whole.
            Its prediction is given, but such a row is never accepted.

    See Also:
        squad.Predictor.answer: Returns it.

    Examples:
        >>> import squad
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = squad.SquadClassifier(hidden=(8,), max_epochs=5, random_state=0).fit(X, y)
        >>> answer = model.predictor_.answer(X[:3])
        >>> answer
        Answer(3 rows: 3 uncertified)
        >>> answer.probabilities.shape
        (3, 3)
        >>> list(answer.to_frame().columns)
        ['label', 'confidence', 'decision', 'entropy', 'mutual_information', 'reason']
    """

    label: NDArray[Any]
    confidence: NDArray[np.float64]
    decision: NDArray[Any]
    entropy: NDArray[np.float64]
    mutual_information: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    reason: NDArray[Any]
    novel: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.label)

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """(N,), whether the certificate accepts each row; all False without a certificate."""
        return np.asarray(self.decision == ACCEPTED, dtype=np.bool_)

    def __repr__(self) -> str:
        counts = {name: int(np.sum(self.decision == name)) for name in (ACCEPTED, REFERRED, UNCERTIFIED)}
        text = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return f"Answer({len(self):,} rows{': ' * bool(text)}{text})"

    def _repr_html_(self) -> str:
        """As a table in notebooks: the first and last rows."""
        return printable(str(self.to_frame()._repr_html_()))

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas data frame: label, confidence, decision, entropy, mutual_information and reason."""
        import pandas as pd

        return pd.DataFrame({name: getattr(self, name) for name in ANSWER_COLUMNS})


def answer_of(
    p: NDArray[np.float64],
    confidence: NDArray[np.float64],
    entropy: NDArray[np.float64],
    mutual_information: NDArray[np.float64],
    classes: Sequence[Any],
    problems: Mapping[int, str],
    novel: Mapping[int, str] | None = None,
) -> Answer:
    """Make answers without a certificate; rows with problems, and novel ones, are referred.

    Args:
        p: (N, classes), class probabilities.
        confidence: (N,).
        entropy: (N,).
        mutual_information: (N,).
        classes: Their names.
        problems: Row -> why it has no prediction.
        novel: Row -> why it is unlike the training rows.
    """
    label: NDArray[Any] = np.array(classes)[p.argmax(1)]
    decision = np.full(len(p), UNCERTIFIED, dtype=object)
    reason = np.full(len(p), "", dtype=object)
    if problems:
        rows = list(problems)
        label = label.astype(object)
        label[rows] = None
        decision[rows] = REFERRED
        reason[rows] = list(problems.values())
        for numbers in (p, entropy, mutual_information, confidence):
            numbers[rows] = np.nan
    is_novel = np.zeros(len(p), dtype=np.bool_)
    for row, why in (novel or {}).items():
        if row not in problems:
            is_novel[row], decision[row], reason[row] = True, REFERRED, why
    return Answer(label, confidence, decision, entropy, mutual_information, p, reason, is_novel)


def on_grid(confidence: NDArray[np.float64], rest: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Round confidences to the grid.

    A matrix product rounds a row differently at other positions in a batch and on other machines: equal rows would
    differ slightly, and a threshold could fall between them.  On the grid they are equal, unless the edge of a step
    falls into that difference, which is about 1e-14 for probabilities in float64.  Steps are the same to the bit on
    every machine (:mod:`squad.core.portable_math`).  Thresholds are steps, and a confidence equal to the threshold is
    not accepted.

    Args:
        confidence: (N,), confidences.
        rest: (N,), 1 - confidence, to its own precision: near 1 a confidence has no digits left for its log-odds.
    """
    rest = 1 - confidence if rest is None else rest
    inside = (confidence > 0) & (rest > 0)
    odds = np.where(inside, confidence, 0.5) / np.where(inside, rest, 0.5)
    steps = np.round(STEPS * log(np.maximum(odds, 1 / odds)))
    less_likely = exp_neg(steps / STEPS)
    found = np.where(odds >= 1, 1 / (1 + less_likely), less_likely / (1 + less_likely))
    return np.where(inside, found, confidence)


def settled(p: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return probabilities whose largest does not depend on rounding, and the confidence of each row on the grid.

    Of classes that are equally likely up to rounding (``TIE``) the first one is predicted: its probability is swapped
    with the largest.

    Args:
        p: (N, classes), probabilities.
    """
    rows = np.arange(len(p))
    largest = p.argmax(1)
    with np.errstate(invalid="ignore"):
        first = (p >= p.max(1, keepdims=True) - TIE).argmax(1)
    first = np.where(np.isnan(p).any(1), largest, first)
    p = p.copy()
    p[rows, largest], p[rows, first] = p[rows, first], p[rows, largest]
    others = p.copy()
    others[rows, first] = 0.0
    return p, on_grid(p[rows, first], others.sum(1))
