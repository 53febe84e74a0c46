"""How well confidence ranks answers: errors should be among the least confident ones."""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError
from squad.metrics.inputs import check_confidence

__all__ = ["aurc", "coverage_at_risk"]


def coverage_at_risk(confidence: ArrayLike | torch.Tensor, correct: ArrayLike | torch.Tensor, risk: float) -> float:
    """The largest share of cases that a threshold on confidence can answer with an error rate of at most ``risk``.

    Equal confidences are answered together or not at all.  0 if no threshold will do.  This is what was observed on
    these cases, with the best threshold for them: no promise for others.

    Args:
        confidence: (N,), the higher the surer, on any scale.
        correct: (N,), whether each answer is right.
        risk: the error rate allowed among the answered, from 0 to 1.

    >>> coverage_at_risk([0.9, 0.8, 0.7, 0.6], [True, True, False, True], 0.3)
    1.0
    >>> coverage_at_risk([0.9, 0.8, 0.7, 0.6], [True, True, False, True], 0.1)
    0.5
    """
    if not 0 <= risk <= 1:
        raise ArgumentError.of("risk", risk, "between 0 and 1")
    sizes, errors = _ties(*check_confidence(confidence, correct))
    answered, wrong = np.cumsum(sizes), np.cumsum(errors)
    good = answered[wrong / answered <= risk]
    return float(good[-1] / answered[-1]) if len(good) else 0.0


def aurc(confidence: ArrayLike | torch.Tensor, correct: ArrayLike | torch.Tensor) -> float:
    """Area under the risk-coverage curve: the error rate among the n most confident, as a mean over n = 1 to N.

    Equal confidences are taken in random order, and the expected value is returned: exact, and the same in any order.

    Args:
        confidence: (N,), the higher the surer, on any scale.
        correct: (N,), whether each answer is right.

    >>> aurc([0.9, 0.8], [True, False])
    0.25
    >>> aurc([0.5, 0.5], [True, False])
    0.5
    """
    sizes, errors = _ties(*check_confidence(confidence, correct))
    # Among equals, each is wrong with the share of errors there: the expected count grows by that with every rank.
    expected = np.cumsum(np.repeat(errors / sizes, sizes))
    return float((expected / np.arange(1, len(expected) + 1)).mean())


def _ties(confidence: NDArray[np.float64], errors: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of cases and of errors at each confidence, the highest first."""
    _, place, sizes = np.unique(-confidence, return_inverse=True, return_counts=True)
    return sizes, np.bincount(place, weights=errors, minlength=len(sizes)).astype(np.int64)
