"""Cumulative counts of good and bad cases by score, with equal scores as one step: the basis of all ranking metrics."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SLACK", "Ties", "before"]

#: Tolerance for rounding in fractions of counts: 0.07 x 100 is 7.000000000000001, and means 7.
SLACK = 1e-9


@dataclass(frozen=True)
class Ties:
    """Cumulative numbers of good and bad cases at or above each distinct score, the highest score first.

    Attributes:
        good: (G,), good cases at or above each of G distinct scores; the last entry counts all of them.
        bad: (G,), likewise for bad cases.
    """

    good: NDArray[np.int64]
    bad: NDArray[np.int64]

    @classmethod
    def of(cls, good: NDArray[np.float64], bad: NDArray[np.float64]) -> "Ties":
        """Count good and bad cases from their scores; one of the two may be empty, but not both.

        Args:
            good: Scores of the good cases, any number.
            bad: Scores of the bad cases, any number.

        Returns:
            The counts at each distinct score.
        """
        # Sort each kind separately; a stable argsort of the two sorted runs then only merges them.  This is a third
        # faster at a million scores than one argsort of all, which moves indices and then reads in random order.
        runs = np.negative(np.concatenate((good, bad)))
        runs[: len(good)].sort()
        runs[len(good) :].sort()
        order = runs.argsort(kind="stable")
        scores = runs[order]
        last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
        count = np.cumsum(order >= len(good), dtype=np.int64)[last]
        return cls(last + 1 - count, count)

    @classmethod
    def split(cls, confidence: NDArray[np.float64], errors: NDArray[np.bool_]) -> "Ties":
        """Count good and bad cases from all predictions; errors are the bad cases.

        Args:
            confidence: (N,), confidence scores.
            errors: (N,), whether each prediction is wrong.

        Returns:
            The counts at each distinct confidence.
        """
        return cls.of(confidence[~errors], confidence[errors])

    @property
    def all(self) -> NDArray[np.int64]:
        """(G,), number of cases at or above each score."""
        return self.good + self.bad

    def misranked(self) -> float:
        """Return the number of (good, bad) pairs in which the bad case scores higher; ties count one half."""
        # Integer arithmetic: rounding must not decide between two models that tie.
        return int(np.diff(self.good, prepend=0) @ (self.bad + before(self.bad))) / 2


def before(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Shift cumulative counts by one step: counts strictly above each score."""
    return np.append(np.int64(0), counts[:-1])
