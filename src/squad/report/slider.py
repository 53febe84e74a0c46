"""Positions of the risk slider: for each risk, the confidence threshold and its consequences.

With calibration scores, thresholds come from the method ``band``, whose bounds hold for all risks simultaneously.
The page only looks up what is computed here.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from squad.report.number_format import round_up
from squad.report.risk_coverage import largest_coverage, rank_cases
from squad.selective import Scores, band_of
from squad.selective.scored_cases import WRONG

__all__ = [
    "BandSettings",
    "Slider",
    "SliderPosition",
    "accepted_range",
    "distinct_risks",
    "largest_risk",
    "make_slider",
    "slider_range",
    "slider_risks",
]

#: Round numbers, approximately evenly spaced on a log scale.
MANTISSAS = (
    *(1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8),
    *(3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 9.0),
)
#: Smallest risk of the slider, and the number of digits to which the ends of its range are rounded.
SMALLEST_START, END_DIGITS = 1e-4, 2
#: The slider's guarantee covers risks up to this number of times the error rate on the test set, so that there usually
#: is one at which every case is accepted; the band pays little for it.
ERROR_RATE_FACTOR, LARGEST_RISK = 2.0, 0.9
#: Number of cases that counts on the page refer to.
REFERENCE_CASES = 1000


@dataclass(frozen=True)
class SliderPosition:
    """One position of the slider.

    Attributes:
        risk: Selective risk chosen at this position.
        accepts: "above" a threshold, "all" or "none".
        threshold: Threshold that a confidence must exceed; None if all or no cases are accepted.
        coverage: Fraction of the calibration cases accepted; None without calibration scores.
        max_wrong: Upper bound on the wrong predictions accepted among :data:`REFERENCE_CASES` cases, rounded up; None
            without calibration scores.
        accepted: Number of test cases accepted.
        wrong: Number of wrong predictions among them.
    """

    risk: float
    accepts: str
    threshold: float | None
    coverage: float | None
    max_wrong: int | None
    accepted: int
    wrong: int


@dataclass(frozen=True)
class Slider:
    """All positions of the slider for one model.

    Attributes:
        guaranteed: Whether thresholds carry a guarantee, which needs calibration scores.
        delta: Probability that any of the slider's guarantees fails; None without a guarantee.
        calibration_cases: Number of calibration cases.
        r_max: Largest risk that the guarantee covers.
        positions: One per risk, in ascending order.
    """

    guaranteed: bool
    delta: float | None
    calibration_cases: int
    r_max: float
    positions: list[SliderPosition]


def accepted_range(threshold: float) -> tuple[str, float | None]:
    """Return a threshold without infinities, which JSON does not have: "above" and the number, "all", or "none".

    Examples:
        >>> accepted_range(0.9), accepted_range(math.inf), accepted_range(-math.inf)
        (('above', 0.9), ('none', None), ('all', None))
    """
    if math.isfinite(threshold):
        return "above", threshold
    return ("none" if threshold > 0 else "all"), None


def slider_risks(low: float, high: float, others: Sequence[float] = ()) -> list[float]:
    """Return round risks from ``low`` to ``high``, including both, and the ``others`` up to ``high``.

    Args:
        low: Smallest risk.
        high: Largest risk.
        others: Further risks, such as those of a certificate.

    Returns:
        Risks, ascending.

    Examples:
        >>> slider_risks(0.017, 0.024, [0.01, 0.2])
        [0.01, 0.017, 0.018, 0.02, 0.022, 0.024]
    """
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    rounded = {round(mantissa * 10.0**exponent, 12) for exponent in exponents for mantissa in MANTISSAS}
    return sorted(
        {risk for risk in rounded if low < risk < high} | {low, high} | {risk for risk in others if risk < high}
    )


def distinct_risks(sliders: Sequence["Slider"], certified: Collection[float]) -> list[float]:
    """Return the risks at which some threshold changes: others would be positions that do what their neighbours do.

    Of risks with the same thresholds, the smallest is kept, or those of certificates if there are any; but always the
    smallest of all, where the slider begins.

    Args:
        sliders: Sliders of all models, with the same risks.
        certified: Risks of certificates.

    Returns:
        Risks, ascending; some of those of the sliders.

    Examples:
        >>> one = [SliderPosition(risk, "above", 0.9, None, None, 5, 0) for risk in (0.01, 0.02, 0.03)]
        >>> other = SliderPosition(0.04, "all", None, None, None, 9, 1)
        >>> sliders = [Slider(False, None, 0, 0.1, [*one, other])]
        >>> distinct_risks(sliders, []), distinct_risks(sliders, [0.02])
        ([0.01, 0.04], [0.01, 0.04])
    """
    columns = zip(*(slider.positions for slider in sliders), strict=True)
    found: list[float] = []
    for _, group in groupby(columns, lambda column: [(position.accepts, position.threshold) for position in column]):
        risks = [column[0].risk for column in group]
        found += (found and [risk for risk in risks if risk in certified]) or risks[:1]
    return found


def largest_risk(error_rates: Sequence[float], certified: Collection[float], least: float) -> float:
    """Return the largest risk that the slider's guarantee covers, with two digits.

    It depends on the test set and on risks that were fixed in advance, not on the calibration labels, with which the
    guarantee would not hold (unless the calibration set is tested again, of which the report warns).

    Args:
        error_rates: Error rates on the test set.
        certified: Risks that certificates were made for, whether or not they could be certified.
        least: Lower bound on the result.

    Returns:
        The risk.

    Examples:
        >>> largest_risk([0.02, 0.03], [0.01], 0.1), largest_risk([0.239], [0.15], 0.1)
        (0.1, 0.48)
    """
    rounded = [_rounded_up(ERROR_RATE_FACTOR * rate) for rate in error_rates if rate]
    return max(least, *certified, min(LARGEST_RISK, max(rounded, default=0.0)))


class BandSettings(NamedTuple):
    """Settings of the slider's guarantee.

    Attributes:
        delta: Probability that it fails, over all attempts to certify the model together.
        level: Part of delta spent by this attempt; the significance level of its tests.
        r_max: Largest risk that it covers.
    """

    delta: float
    level: float
    r_max: float


def slider_range(
    confidence: NDArray[np.float64], wrong: NDArray[np.bool_], scores: Scores | None, settings: BandSettings
) -> tuple[float, float] | None:
    """Return the risks between which the choice of a risk makes a difference for a model.

    The range starts at the smallest risk that can be guaranteed (without calibration scores: the smallest observed one
    above 0) and ends at the error rate of the model, where it need not abstain.  Both ends are rounded up.

    Args:
        confidence: (N,), confidences of the test cases.
        wrong: (N,), whether each prediction on the test set is wrong.
        scores: Calibration scores; None if they are not stored.
        settings: Settings of the guarantee.

    Returns:
        Smallest and largest risk; None if no risk can be guaranteed, or if the model makes no error.
    """
    if scores is None or not len(scores):
        ranked = rank_cases(confidence, wrong)
        # A threshold is worth choosing only if no later one, which accepts more cases, has a smaller risk.
        worthwhile = np.minimum.accumulate((ranked.errors[WRONG] / ranked.n)[::-1])
        if not worthwhile[0]:
            return None
        return _rounded_up(float(worthwhile[worthwhile > 0].min())), _rounded_up(float(worthwhile[0]))
    band = band_of(scores.confidence, ~scores.harms[WRONG], settings.level, settings.r_max)
    smallest, for_all_cases = float(band.bound.min()), float(band.bound[-1])
    if smallest > settings.r_max:
        return None
    # The guarantee for all cases may need a larger risk than the error rate.
    ends = (max(smallest, SMALLEST_START), max(float(wrong.mean()), for_all_cases, smallest))
    low, high = (min(_rounded_up(risk), settings.r_max) for risk in ends)
    return low, high


def _rounded_up(risk: float) -> float:
    """Round a risk up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(risk)) - END_DIGITS + 1)
    return float(round(math.ceil(risk / unit - 1e-9) * unit, 12))


def make_slider(
    risks: Sequence[float],
    confidence: NDArray[np.float64],
    wrong: NDArray[np.bool_],
    scores: Scores | None,
    settings: BandSettings,
) -> Slider:
    """Compute the slider's positions.

    Args:
        risks: Risk of each position.
        confidence: (N,), confidences of the test cases.
        wrong: (N,), whether each prediction on the test set is wrong.
        scores: Calibration scores; without them, thresholds are chosen on the test set and carry no guarantee.
        settings: Settings of the guarantee.

    Returns:
        The slider, with one position per risk.
    """
    positions = []
    if scores is None or not len(scores):
        ranked = rank_cases(confidence, wrong)
        for risk in risks:
            index = largest_coverage(ranked, risk)
            threshold = math.inf if index is None else float(ranked.threshold[index])
            observed = _observed(confidence, wrong, threshold)
            positions.append(SliderPosition(risk, *accepted_range(threshold), None, None, *observed))
        return Slider(False, None, 0, settings.r_max, positions)
    band = band_of(scores.confidence, ~scores.harms[WRONG], settings.level, settings.r_max)
    for risk in risks:
        index = band.at(risk) if risk <= settings.r_max else None
        if index is None:
            positions.append(SliderPosition(risk, "none", None, 0.0, 0, 0, 0))
            continue
        threshold, coverage = float(band.threshold[index]), float(band.n[index] / band.m)
        # The band bounds P(wrong and accepted) by u from above and P(accepted) by l <= n / m from below. Since
        # u / l <= risk, u <= risk n / m: the bound on the count holds at the same confidence level as the risk.
        max_wrong = round_up(risk * coverage, REFERENCE_CASES)
        observed = _observed(confidence, wrong, threshold)
        positions.append(SliderPosition(risk, *accepted_range(threshold), coverage, max_wrong, *observed))
    return Slider(True, settings.delta, len(scores), settings.r_max, positions)


def _observed(confidence: NDArray[np.float64], wrong: NDArray[np.bool_], threshold: float) -> tuple[int, int]:
    """Return the number of test cases accepted, and of wrong predictions among them."""
    accepted = confidence > threshold
    return int(accepted.sum()), int((accepted & wrong).sum())
