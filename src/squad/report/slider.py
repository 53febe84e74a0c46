"""What the slider looks up: for each risk that can be chosen, the threshold and what follows from it.

With calibration scores the thresholds come from the band, whose bounds hold for every choice at once.  The page only
shows what is worked out here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from squad.report.number_format import at_most
from squad.report.risk_coverage import best, steps
from squad.selective import Scores, band_of
from squad.selective.scored_cases import WRONG

__all__ = ["BandSettings", "Choice", "Slider", "accepts", "make_slider", "risks", "smallest"]

#: Round numbers, near enough to evenly apart on a log scale.
ROUND = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 9.0)
#: Where the slider begins, unless smaller risks can be promised; and the smallest beginning.
LOW, LOWEST = 1e-3, 1e-4
#: Cases that the figures are told for.
OF = 1000


@dataclass(frozen=True)
class Choice:
    """One position of the slider.

    Attributes:
        risk: the share of accepted answers that may be wrong.
        accepts: "above" a threshold, "all" or "none".
        threshold: what the confidence must be above; None where everything or nothing is accepted.
        coverage: the share of calibration cases that are accepted, where there are such.
        most_wrong: of :data:`OF` cases, how many wrong answers pass at most: rounded up; where there is a promise.
        accepted, wrong: observed on the test: how many were accepted, and how many of these were wrong.
    """

    risk: float
    accepts: str
    threshold: float | None
    coverage: float | None
    most_wrong: int | None
    accepted: int
    wrong: int


@dataclass(frozen=True)
class Slider:
    """All positions.

    Attributes:
        promised: whether there are calibration scores, so that thresholds come with a promise.
        delta: the chance that anything the slider promises is false; None without a promise.
        calibration: how many calibration cases there are.
        r_max: the largest risk that the promise is for.
        choices: one a position, from the smallest risk.
    """

    promised: bool
    delta: float | None
    calibration: int
    r_max: float
    choices: list[Choice]


def accepts(threshold: float) -> tuple[str, float | None]:
    """A threshold without infinities, which JSON does not know."""
    if math.isfinite(threshold):
        return "above", threshold
    return ("none" if threshold > 0 else "all"), None


def risks(low: float, high: float, others: Sequence[float] = ()) -> list[float]:
    """Round risks from ``low`` to ``high``, with ``high`` itself and ``others`` that lie between."""
    low = min(low, high / 10)
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = {round(mantissa * 10.0**ten, 12) for ten in tens for mantissa in ROUND}
    found |= {high, *others}
    return sorted(risk for risk in found if low * (1 - 1e-9) <= risk <= high * (1 + 1e-9))


class BandSettings(NamedTuple):
    """How the slider's guarantee is made.

    Attributes:
        delta: the chance that any of it is false, for all attempts to certify the model together.
        level: the share of this attempt, at which it is tested.
        r_max: the largest risk it is for.
    """

    delta: float
    level: float
    r_max: float


def smallest(scores: Scores | None, settings: BandSettings) -> float:
    """Where a slider begins: at .1 %, or at the smallest risk that can be promised if that is smaller."""
    if scores is None or not len(scores):
        return LOW
    found = float(band_of(scores.confidence, ~scores.harms[WRONG], settings.level, settings.r_max).bound.min())
    return max(LOWEST, min(LOW, found))


def make_slider(
    at: Sequence[float],
    confidence: NDArray[np.float64],
    wrong: NDArray[np.bool_],
    scores: Scores | None,
    settings: BandSettings,
) -> Slider:
    """The positions ``at`` these risks, for the test's confidences (N,) and errors (N,)."""
    choices = []
    if scores is None or not len(scores):
        seen = steps(confidence, wrong)
        for risk in at:
            place = best(seen, risk)
            threshold = math.inf if place is None else float(seen.threshold[place])
            choices.append(Choice(risk, *accepts(threshold), None, None, *_observed(confidence, wrong, threshold)))
        return Slider(False, None, 0, settings.r_max, choices)
    band = band_of(scores.confidence, ~scores.harms[WRONG], settings.level, settings.r_max)
    for risk in at:
        place = band.at(risk) if risk <= settings.r_max else None
        if place is None:
            choices.append(Choice(risk, "none", None, 0.0, 0, 0, 0))
            continue
        threshold, coverage = float(band.threshold[place]), float(band.n[place] / band.m)
        # The band bounds P(wrong and accepted) by u, and P(accepted) from below by l <= n / m; u / l <= risk, so that
        # u <= risk n / m: the count is as certain as the risk.
        most = at_most(risk * coverage, OF)
        observed = _observed(confidence, wrong, threshold)
        choices.append(Choice(risk, *accepts(threshold), coverage, most, *observed))
    return Slider(True, settings.delta, len(scores), settings.r_max, choices)


def _observed(confidence: NDArray[np.float64], wrong: NDArray[np.bool_], threshold: float) -> tuple[int, int]:
    accepted = confidence > threshold
    return int(accepted.sum()), int((accepted & wrong).sum())
