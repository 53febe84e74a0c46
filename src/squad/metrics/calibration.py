"""Whether confidence is what it says: of the answers given with 80 %, are 80 % right?"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr

from squad.core.checks import check_choice, check_count, check_number
from squad.metrics.checks import Values, check_confidence

__all__ = ["Bin", "Kind", "ece", "reliability"]

#: How confidences are put into bins: of equal width, or with equally many cases in each.
Kind = Literal["width", "mass"]
KINDS: tuple[Kind, ...] = ("width", "mass")


@dataclass(frozen=True)
class Bin:
    """One bar of a reliability diagram.

    Attributes:
        start, end: its edges (``"width"``), or the lowest and the highest confidence in it (``"mass"``).
        count: cases in it, one at least.
        confidence: their mean confidence.
        accuracy: the share that was right.
        low, high: Clopper-Pearson interval of the accuracy.
    """

    start: float
    end: float
    count: int
    confidence: float
    accuracy: float
    low: float
    high: float


def ece(confidence: Values, correct: Values, bins: int = 15, kind: Kind = "width", debiased: bool = False) -> float:
    """Expected calibration error: the gap between confidence and accuracy, in absolute value, as a mean over the cases.

    Confidences are put into bins, either of equal width (c goes into bin floor(c bins), 1 into the last), or of equal
    mass: by rank, from the lowest.  There equal confidences go into one bin together, by their mean rank, so that the
    order of rows does not matter.

    A bin's gap is hardly ever 0, so ECE is above 0 even where confidence is perfect: by about 0.07 with 15 bins and 200
    cases.  ``debiased`` takes this off.  A gap d with standard error s (that of a calibrated bin) is split, as in data
    fission (Leiner et al., 2023), into d + sZ and d - sZ with Z normal, which are independent.  One gives the sign, the
    other the size, and the mean over Z replaces abs(d): d (2 Phi(d/s) - 1) - 2 s phi(d/s).  Its expectation is 0 for a
    calibrated bin, the gap for a large one, and less than the gap in between.  The result can be below 0, as an
    estimate of 0 has to be now and then.  (The better known correction, by noise added to d, is that of Kumar et al.,
    2019; where the gap is 0 it takes off only 41 % of the bias.)

    Args:
        confidence: (N,), probabilities that the answer is right, such as the softmax response.
        correct: (N,), whether each answer is right.
        bins: how many.
        kind: "width" or "mass".
        debiased: without what noise adds.

    >>> ece([0.75, 0.75, 0.75, 0.75], [True, True, False, False])
    0.25
    """
    c, errors = check_confidence(confidence, correct, unit=True)
    place = _places(c, check_count("bins", bins, 1), check_choice("kind", kind, KINDS))
    gaps = np.abs(np.bincount(place, (~errors) - c))
    if debiased:
        # In sums, not means: a bin's weight is then there already.
        noise = np.sqrt(np.bincount(place, c * (1 - c)))
        ratio = np.divide(gaps, noise, out=np.full_like(gaps, np.inf), where=noise > 0)
        gaps = gaps * (2 * ndtr(ratio) - 1) - noise * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2)
    return float(gaps.sum() / len(c))


def reliability(
    confidence: Values, correct: Values, bins: int = 15, kind: Kind = "width", level: float = 0.95
) -> list[Bin]:
    """What a reliability diagram shows, from the lowest confidence up; bins without a case are left out.

    The bins are those of :func:`ece`.

    Args:
        confidence: (N,), probabilities that the answer is right, such as the softmax response.
        correct: (N,), whether each answer is right.
        bins: how many.
        kind: "width" or "mass".
        level: of each bin's interval, by itself.

    >>> [(bar.count, bar.accuracy) for bar in reliability([0.2, 0.8, 0.9, 0.9], [True, True, False, True], bins=2)]
    [(1, 1.0), (3, 0.6666666666666666)]
    """
    c, errors = check_confidence(confidence, correct, unit=True)
    place = _places(c, check_count("bins", bins, 1), check_choice("kind", kind, KINDS))
    level = check_number("level", level, 0, 1, exclude=0)
    counts, right, sums = (np.bincount(place, weights) for weights in (None, ~errors, c))
    low, high = _clopper_pearson(right, counts, 1 - level)
    found = []
    for b in np.flatnonzero(counts).tolist():
        start, end = b / bins, (b + 1) / bins
        if kind == "mass":
            inside = c[place == b]
            start, end = float(inside.min()), float(inside.max())
        n = int(counts[b])
        found.append(Bin(start, end, n, float(sums[b] / n), float(right[b] / n), float(low[b]), float(high[b])))
    return found


def _places(confidence: NDArray[np.float64], bins: int, kind: Kind) -> NDArray[np.int64]:
    """The bin of each case, from 0."""
    if kind == "width":
        return np.minimum((confidence * bins).astype(np.int64), bins - 1)
    order = confidence.argsort()
    ranked = confidence[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    sizes = np.diff(starts, append=len(ranked))
    place = np.empty(len(ranked), dtype=np.int64)
    # In halves, so that a mean rank stays a whole number.
    place[order] = np.repeat((2 * starts + sizes - 1) * bins // (2 * len(ranked)), sizes)
    return place


def _clopper_pearson(
    hits: NDArray[Any], counts: NDArray[Any], miss: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The exact interval of a binomial share, which misses it with a chance of at most ``miss``."""
    rest = counts - hits
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), rest + 1, miss / 2), 0.0)
    high = np.where(rest > 0, betaincinv(hits + 1, np.maximum(rest, 1), 1 - miss / 2), 1.0)
    return low, high
