"""What a predictor says about rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squad.core.portable_math import exp_of_minus, log_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ACCEPTED", "REFERRED", "UNCERTIFIED", "Answer", "answer_of", "on_grid", "settled"]

ACCEPTED, REFERRED, UNCERTIFIED = "accepted", "referred", "uncertified"

#: Steps of log-odds, 1 in so many, on which confidences stand.
STEPS = 32768

#: Probabilities that differ by less are equal: far more than float64 rounds by, far less than anybody reads.
TIE = 1e-10


@dataclass(frozen=True, eq=False)
class Answer:
    """What a predictor says about N rows.

    Attributes:
        label: (N,), the most likely class; None for a row that could not be read.
        confidence: (N,), its probability (the softmax response), float64, rounded to steps of 1/32768 in log-odds (8e-6
            in the middle, ever finer towards 0 and 1); NaN for a row that could not be read.
        decision: (N,), "accepted" or "referred", by the certificate; "uncertified" where there is none.
        entropy: (N,), of the class probabilities before recalibration, in nats.
        mutual_information: (N,), between the class and which sample (and member) is asked, in nats: how much of the
            entropy comes from samples that disagree.
        probabilities: (N, classes).
        reason: (N,), why a row could not be read, is novel, or has no threshold of its own; empty otherwise.
        novel: (N,), whether a row is unlike those of training: a number far outside its range, or the row as a whole.
            Its prediction is given, but such a row is never accepted.
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

    def to_frame(self) -> "pd.DataFrame":
        """As a pandas data frame: label, confidence, decision, entropy, mutual_information and reason."""
        import pandas as pd

        names = ("label", "confidence", "decision", "entropy", "mutual_information", "reason")
        return pd.DataFrame({name: getattr(self, name) for name in names})


def on_grid(confidence: NDArray[np.float64], rest: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Confidences on steps of log-odds.

    A matrix product rounds a row differently at different places and on other machines: equal rows would differ by a
    hair, and a threshold could fall between them.  On the grid they are equal, unless a step's edge falls into that
    hair, which is 1e-14 or so where probabilities come in float64.  Steps are the same to the bit on every machine
    (:mod:`squad.core.portable_math`): a threshold is one of them, and what stands on it is not accepted.

    Args:
        confidence: (N,).
        rest: (N,), 1 - confidence, to its own precision: near 1 a confidence has no digits left for its log-odds.
    """
    rest = 1 - confidence if rest is None else rest
    inside = (confidence > 0) & (rest > 0)
    odds = np.where(inside, confidence, 0.5) / np.where(inside, rest, 0.5)
    steps = np.round(STEPS * log_of(np.maximum(odds, 1 / odds)))
    against = exp_of_minus(steps / STEPS)  # of the less likely side
    found = np.where(odds >= 1, 1 / (1 + against), against / (1 + against))
    return np.where(inside, found, confidence)


def settled(p: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities (N, classes) without ties that rounding could turn, and the confidence of each row on the grid.

    Of classes that are equally likely but for rounding (``TIE``) the first is the label: it changes places with the
    one that happens to be ahead.
    """
    rows = np.arange(len(p))
    ahead = p.argmax(1)
    with np.errstate(invalid="ignore"):
        first = (p >= p.max(1, keepdims=True) - TIE).argmax(1)
    first = np.where(np.isnan(p).any(1), ahead, first)
    p = p.copy()
    p[rows, ahead], p[rows, first] = p[rows, first], p[rows, ahead]
    others = p.copy()
    others[rows, first] = 0.0
    return p, on_grid(p[rows, first], others.sum(1))


def answer_of(
    p: NDArray[np.float64],
    confidence: NDArray[np.float64],
    entropy: NDArray[np.float64],
    mutual: NDArray[np.float64],
    classes: Sequence[Any],
    problems: Mapping[int, str],
    novel: Mapping[int, str] | None = None,
) -> Answer:
    """Answers without a certificate; rows with problems, and novel ones, are referred.

    Args:
        p: (N, classes).
        confidence: (N,).
        entropy: (N,).
        mutual: (N,), mutual information.
        classes: their names.
        problems: why rows have no prediction, by position.
        novel: why rows are unlike those of training, by position.
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
        for numbers in (p, entropy, mutual, confidence):
            numbers[rows] = np.nan
    unlike = np.zeros(len(p), dtype=np.bool_)
    for row, why in (novel or {}).items():
        if row not in problems:
            unlike[row], decision[row], reason[row] = True, REFERRED, why
    return Answer(label, confidence, decision, entropy, mutual, p, reason, unlike)
