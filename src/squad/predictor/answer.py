"""The predictions of a model for rows, with confidences and decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ACCEPTED", "REFERRED", "UNCERTIFIED", "Answer", "answer_of"]

ACCEPTED, REFERRED, UNCERTIFIED = "accepted", "referred", "uncertified"


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
        return str(self.to_frame()._repr_html_())

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas data frame: label, confidence, decision, entropy, mutual_information and reason."""
        import pandas as pd

        names = ("label", "confidence", "decision", "entropy", "mutual_information", "reason")
        return pd.DataFrame({name: getattr(self, name) for name in names})


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
