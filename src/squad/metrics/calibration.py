"""Calibration: are 80 % of the predictions with confidence 80 % correct?"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr

from squad.core.checks import check_choice, check_count, check_number
from squad.metrics.checks import Values, check_confidence

__all__ = ["Bin", "Kind", "clopper_pearson", "ece", "reliability"]

#: Binning schemes: bins of equal width, or with equal numbers of cases (equal mass).
Kind = Literal["width", "mass"]
KINDS: tuple[Kind, ...] = ("width", "mass")


@dataclass(frozen=True)
class Bin:
    """One bin of a reliability diagram.

    Attributes:
        start: Lower edge (``"width"``), or lowest confidence in the bin (``"mass"``).
        end: Upper edge (``"width"``), or highest confidence in the bin (``"mass"``).
        count: Number of cases, at least 1.
        confidence: Mean confidence.
        accuracy: Fraction of correct predictions.
        low: Lower end of the Clopper-Pearson interval of the accuracy.
        high: Upper end of that interval.

    See Also:
        reliability: Returns a list of these.

    Examples:
        >>> reliability([0.6, 0.9], [True, True], bins=1)[0].count
        2
    """

    start: float
    end: float
    count: int
    confidence: float
    accuracy: float
    low: float
    high: float


def ece(confidence: Values, correct: Values, bins: int = 15, kind: Kind = "width", debiased: bool = False) -> float:
    """Expected calibration error (ECE): mean absolute gap between confidence and accuracy over confidence bins.

    Bins have equal width (confidence c is in bin floor(c * bins), and 1 in the last one), or equal mass: by rank, from
    the lowest confidence.  With equal mass, cases of equal confidence share one bin, chosen by their mean rank, so that
    the order of rows does not matter.

    The gap of a bin is hardly ever exactly 0, so the plug-in ECE is biased upwards: a perfectly calibrated model has an
    ECE of about 0.07 with 15 bins and 200 cases.  ``debiased=True`` removes this bias.  As in data fission (Leiner et
    al., 2023), a gap d with standard error s (that of a calibrated bin) is split into d + sZ and d - sZ with Z standard
    normal, which are independent.  One of them determines the sign, the other the size, and averaging over Z replaces
    abs(d) by d (2 Phi(d/s) - 1) - 2 s phi(d/s).  Its expectation is 0 for a calibrated bin, the gap itself for a large
    gap, and less than the gap in between.  The result can be negative, as an unbiased estimate of 0 must be.  (The
    better known correction by Kumar et al., 2019, adds noise to d; where the gap is 0 it removes only 41 % of the
    bias.)

    Args:
        confidence: (N,), predicted probabilities of being correct, such as the softmax response.
        correct: (N,), whether each prediction is correct.
        bins: Number of bins, at least 1.
        kind: Binning scheme, "width" or "mass".
        debiased: Whether to remove the upward bias.

    Returns:
        The ECE, from 0 to 1; slightly negative values are possible if ``debiased``.

    See Also:
        reliability: The bins themselves.

    References:
        M. P. Naeini, G. F. Cooper and M. Hauskrecht, Obtaining well calibrated probabilities using Bayesian binning,
        AAAI 2015.

        C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, On calibration of modern neural networks, ICML 2017.

        A. Kumar, P. Liang and T. Ma, Verified uncertainty calibration, NeurIPS 2019.

        J. Leiner, B. Duan, L. Wasserman and A. Ramdas, Data fission: splitting a single data point, JASA, 2023.

    Examples:
        >>> ece([0.75, 0.75, 0.75, 0.75], [True, True, False, False])
        0.25
    """
    c, errors = check_confidence(confidence, correct, unit=True)
    index = _bin_indices(c, check_count("bins", bins, 1), check_choice("kind", kind, KINDS))
    gaps = np.abs(np.bincount(index, (~errors) - c))
    if debiased:
        # Sums instead of means, which include the weight of each bin.
        noise = np.sqrt(np.bincount(index, c * (1 - c)))
        ratio = np.divide(gaps, noise, out=np.full_like(gaps, np.inf), where=noise > 0)
        gaps = gaps * (2 * ndtr(ratio) - 1) - noise * np.sqrt(2 / np.pi) * np.exp(-(ratio**2) / 2)
    return float(gaps.sum() / len(c))


def reliability(
    confidence: Values, correct: Values, bins: int = 15, kind: Kind = "width", level: float = 0.95
) -> list[Bin]:
    """Bins of a reliability diagram, from the lowest confidence up; empty bins are omitted.

    The bins are those of :func:`ece`.

    Args:
        confidence: (N,), predicted probabilities of being correct, such as the softmax response.
        correct: (N,), whether each prediction is correct.
        bins: Number of bins, at least 1.
        kind: Binning scheme, "width" or "mass".
        level: Confidence level of each bin's Clopper-Pearson interval, individually.

    Returns:
        The non-empty bins.

    See Also:
        ece: Summary of the gaps in one number.

    References:
        C. J. Clopper and E. S. Pearson, The use of confidence or fiducial limits illustrated in the case of the
        binomial, Biometrika 26, 1934.

        C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, On calibration of modern neural networks, ICML 2017.

    Examples:
        >>> [(bar.count, bar.accuracy) for bar in reliability([0.2, 0.8, 0.9, 0.9], [True, True, False, True], bins=2)]
        [(1, 1.0), (3, 0.6666666666666666)]
    """
    c, errors = check_confidence(confidence, correct, unit=True)
    index = _bin_indices(c, check_count("bins", bins, 1), check_choice("kind", kind, KINDS))
    level = check_number("level", level, 0, 1, exclude=0)
    counts, right, sums = (np.bincount(index, weights) for weights in (None, ~errors, c))
    low, high = clopper_pearson(right, counts, 1 - level)
    found = []
    for b in np.flatnonzero(counts).tolist():
        start, end = b / bins, (b + 1) / bins
        if kind == "mass":
            inside = c[index == b]
            start, end = float(inside.min()), float(inside.max())
        n = int(counts[b])
        found.append(Bin(start, end, n, float(sums[b] / n), float(right[b] / n), float(low[b]), float(high[b])))
    return found


def _bin_indices(confidence: NDArray[np.float64], bins: int, kind: Kind) -> NDArray[np.int64]:
    """Return the bin index of each case, from 0."""
    if kind == "width":
        return np.minimum((confidence * bins).astype(np.int64), bins - 1)
    order = confidence.argsort()
    ranked = confidence[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    sizes = np.diff(starts, append=len(ranked))
    index = np.empty(len(ranked), dtype=np.int64)
    # In units of half a rank, so that mean ranks are integers.
    index[order] = np.repeat((2 * starts + sizes - 1) * bins // (2 * len(ranked)), sizes)
    return index


def clopper_pearson(
    hits: NDArray[Any], counts: NDArray[Any], miss: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return exact binomial confidence intervals.

    Args:
        hits: (B,), number of successes.
        counts: (B,), number of trials.
        miss: Probability with which an interval may miss the true rate, for each interval.

    Returns:
        Lower and upper ends, (B,) each.
    """
    rest = counts - hits
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), rest + 1, miss / 2), 0.0)
    high = np.where(rest > 0, betaincinv(hits + 1, np.maximum(rest, 1), 1 - miss / 2), 1.0)
    return low, high
