"""Calibration cases among the test cases, found by their confidences: a model does not store its calibration rows."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from squad.predictor.answer import STEPS

__all__ = ["calibration_overlap"]

#: Fraction of the test cases that must be found before it is reported.
MIN_FRACTION = 0.2
#: Fraction of each set whose confidences must occur once: where rows repeat by nature, equal confidences mean nothing.
MIN_DISTINCT = 0.8
#: Smallest number of cases reported.
MIN_CASES = 10
#: Chance is estimated from confidences that differ by these numbers of steps of the grid.
SHIFTS = (-3, -2, -1, 1, 2, 3)


def calibration_overlap(test: NDArray[np.float64], calibration: NDArray[np.float64]) -> int:
    """Estimate how many test cases are calibration cases, whatever their order; 0 if it may be chance.

    A case has the same confidence whenever it is predicted, so a calibration case among the test cases has its twin.
    Only confidences that occur once in each set count, which must be most of them, and as many are expected to agree by
    chance as differ by a step or a few of the grid of confidences.

    Args:
        test: (N,), confidences of the test cases.
        calibration: (m,), confidences of the calibration cases.

    Returns:
        The estimated number of cases in both sets, if it is at least a fifth of the test cases.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> confidence = rng.uniform(0.5, 1, 300)
        >>> calibration_overlap(confidence[50:200], confidence[:100])
        50
        >>> calibration_overlap(confidence[:100], confidence[100:])
        0
    """
    own, theirs = _cells(test), _cells(calibration)
    if min(len(own) / max(1, len(test)), len(theirs) / max(1, len(calibration))) < MIN_DISTINCT:
        return 0
    shared = np.isin(own, theirs).sum()
    chance = np.mean([np.isin(own + shift, theirs).sum() for shift in SHIFTS])
    found = round(float(shared - chance))
    return found if found >= max(MIN_CASES, MIN_FRACTION * len(test)) else 0


def _cells(confidence: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cells of the grid of confidences that exactly one case is in."""
    inside = confidence[(confidence > 0) & (confidence < 1)]
    cells, counts = np.unique(np.rint(STEPS * logit(inside)).astype(np.int64), return_counts=True)
    return np.asarray(cells[counts == 1])
