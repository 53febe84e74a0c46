"""Confidences on a grid of log-odds, so that equal rows have equal confidences on every machine."""

import numpy as np
from numpy.typing import NDArray

from squad.core.portable_math import exp_neg, log

__all__ = ["on_grid", "settled"]

#: Steps of the grid per unit of log-odds.
STEPS = 32768

#: Probabilities that differ by less count as equal: far more than float64 rounding, far less than anybody reads.
TIE = 1e-10


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
