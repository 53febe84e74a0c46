"""Two kinds of cases in the order of a score, with equal scores as one step: what every ranking metric starts from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SLACK", "Ties", "before"]

#: What rounding may add to a share of a count: 0.07 x 100 is 7.000000000000001, and means 7.
SLACK = 1e-9


@dataclass(frozen=True)
class Ties:
    """How many good and bad cases stand at or above each distinct score, the highest score first.

    Attributes:
        good, bad: (G,), the counts; the last are all there are.
    """

    good: NDArray[np.int64]
    bad: NDArray[np.int64]

    @classmethod
    def of(cls, good: NDArray[np.float64], bad: NDArray[np.float64]) -> "Ties":
        """From the scores of the good cases and those of the bad ones; either may be none, but not both."""
        # Each kind is sorted by itself, and a stable sort of the two runs only merges them.  This is faster than one
        # argsort of all (by a third at a million), as that moves indices around and then reads in random order.
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
        """From confidences of answers, good being those that are right."""
        return cls.of(confidence[~errors], confidence[errors])

    @property
    def all(self) -> NDArray[np.int64]:
        """(G,), the cases at or above each score."""
        return self.good + self.bad

    def misranked(self) -> float:
        """Pairs of a good and a bad case of which the bad one stands higher; equal scores count one half."""
        # In whole numbers, so that no rounding turns a tie of two models.
        return int(np.diff(self.good, prepend=0) @ (self.bad + before(self.bad))) / 2


def before(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cumulative counts without those of the step itself."""
    return np.append(np.int64(0), counts[:-1])
