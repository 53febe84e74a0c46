"""Thresholds, and an order to test them in, from a pilot: cases that are independent of the calibration set.

Tests of thresholds that were fixed before the calibration set was drawn, in an order that was fixed as well, need
nothing of the ranking: the guarantee holds for any risk-coverage curve.  A pilot only chooses *which* thresholds are
tested, and in which order.  A bad pilot (small, from elsewhere, or of rows that were used for early stopping) costs
coverage, not validity.

References:
    B. Laufer-Goldshtein, A. Fisch, R. Barzilay and T. Jaakkola, Efficiently controlling multiple risks with Pareto
    testing, ICLR 2023.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError
from squad.selective.bounds import passes
from squad.selective.scored_cases import Scores, as_array, rank

__all__ = ["PILOTED", "THRESHOLDS", "Pilot", "check_pilot", "counted_shares", "order_of", "pilot_of", "thresholds_of"]

#: The methods that take a pilot.
PILOTED = ("preset", "pareto")
#: How many thresholds are taken from it: at every percent of coverage.
THRESHOLDS = 100
#: With so few different confidences, two sets of cases may well have the same.
FEW = 20
#: Confidences so near to each other, as a part of their range, for so many cases in the same order, are of the same.
NEAR, MOST_OF = 1e-3, 0.9


@dataclass(frozen=True, eq=False)
class Pilot:
    """Cases that choose thresholds.

    Attributes:
        scores: their confidences and harms.
        labelled: whether the harms are known; without, they are all False.
    """

    scores: Scores
    labelled: bool

    def __len__(self) -> int:
        return len(self.scores)


def pilot_of(given: Any) -> Pilot:
    """Check what a user gave: confidences, (confidence, correct) or (confidence, correct, harms)."""
    if isinstance(given, Pilot):
        return given
    if isinstance(given, tuple) and len(given) in (2, 3) and np.ndim(given[0]):
        found = Pilot(Scores.of(given[0], given[1], given[2] if len(given) == 3 else None), True)
    else:
        confidence: ArrayLike | torch.Tensor = given
        found = Pilot(Scores.of(confidence, np.ones(np.shape(as_array("pilot", confidence)), dtype=np.bool_)), False)
    if not len(found):
        raise ArgumentError.of("pilot", "no cases", "confidences of cases that are not in the calibration set")
    return found


def thresholds_of(confidence: NDArray[np.float64], count: int = THRESHOLDS) -> tuple[NDArray[Any], tuple[float, ...]]:
    """Thresholds at evenly spaced coverages, the strictest first, and the share of the pilot that each accepts.

    Args:
        confidence: (cases,), of the pilot.
        count: of coverages; equal confidences leave fewer thresholds.
    """
    falling = np.sort(confidence)[::-1]
    cases = len(falling)
    ends = [-(-step * cases // count) for step in range(1, count + 1)]
    limits = np.unique(np.append(falling, -np.inf)[ends])[::-1]
    accepted = np.searchsorted(-falling, -limits, side="left")
    some = accepted > 0
    return limits[some], tuple((accepted[some] / cases).tolist())


def counted_shares(pilot: Pilot, targets: Sequence[Mapping[str, float]]) -> tuple[tuple[str, float], ...]:
    """For the harms that are not counted on all cases of the pilot, on which share of cases they are, about."""
    found = {}
    for name in dict.fromkeys(name for target in targets for name in target if name in pilot.scores.harms):
        loss = pilot.scores.harms[name]
        count = len(loss) if loss.dtype == np.bool_ else int((~np.isnan(loss)).sum())
        if count < len(loss):
            found[name] = (count + 1) / (len(loss) + 2)
    return tuple(found.items())


def order_of(
    pilot: Pilot, thresholds: NDArray[np.float64], risks: Mapping[str, float], m: int, level: float
) -> tuple[int, ...]:
    """Places of the thresholds in the order in which ``pareto`` tests them.

    The first is the one that will most likely pass with m calibration cases; then always the most likely one of those
    that accept more.  One that accepts less than an earlier one would be of no use.

    Args:
        pilot: labelled cases.
        thresholds: descending.
        risks: by harm.
        m: calibration cases.
        level: of the tests.
    """
    ranked = rank(pilot.scores, thresholds)
    likely = np.full(len(thresholds), np.inf)
    for name, risk in risks.items():
        tally = ranked.tallies[name]
        likely = np.minimum(likely, _margins(tally.n * m // len(pilot), tally.errors, tally.n, risk, level))
    order: list[int] = []
    first = 0
    while first < len(likely):
        place = first + int(likely[first:].argmax())
        if likely[place] == -np.inf and order:
            break  # none of the rest can pass
        order.append(place)
        first = place + 1
    return tuple(order)


def _margins(
    n: NDArray[np.int64], errors: NDArray[Any], seen: NDArray[np.int64], risk: float, level: float
) -> NDArray[np.float64]:
    """By how many standard deviations the errors among n cases to come are expected to be few enough.

    Args:
        n: (rules,), accepted cases to come.
        errors: (rules,), among the accepted cases of the pilot.
        seen: (rules,), how many these are.
        risk: to be shown.
        level: of the test.
    """
    low, high = np.full(n.shape, -1), n.copy()  # the most errors that pass, by bisection
    while (open_ := high - low > 1).any():
        middle = (low + high) // 2
        good = passes(middle, n, risk, level)
        low, high = np.where(open_ & good, middle, low), np.where(open_ & ~good, middle, high)
    weight = seen + 1.0  # Jeffreys' prior: half an error and half a success
    rate = (errors + 0.5) / weight
    spread = n * rate * (1 - rate) * (1 + (n - 1) / (weight + 1))  # beta-binomial
    with np.errstate(divide="ignore", invalid="ignore"):
        # In steps of a millionth: another version of scipy must not change the order.
        return np.where(low < 0, -np.inf, np.round((low + 0.5 - n * rate) / np.sqrt(spread), 6))


def _same(pilot: NDArray[np.float64], confidence: NDArray[np.float64]) -> bool:
    """Whether both are confidences of the same cases: equal ones in any order, or nearly equal ones in the same."""
    if len(pilot) != len(confidence):
        return False
    # Of very many cases, sorted, those of two samples are as near.
    near = min(NEAR, 0.05 / len(confidence) ** 0.5) * max(float(np.ptp(confidence)), 1e-300)
    return bool(
        np.array_equal(np.sort(pilot), np.sort(confidence)) or np.mean(np.abs(pilot - confidence) <= near) > MOST_OF
    )


def check_pilot(pilot: Pilot, method: str, targets: Sequence[Mapping[str, float]], scores: Scores) -> None:
    """That a pilot knows what the method must know, and is not the calibration set itself."""
    if method == "pareto":
        if not pilot.labelled:
            hint = "The method preset takes confidences alone."
            raise ArgumentError.of("pilot", "confidences", "(confidence, correct) for the method pareto", hint)
        for name in (name for target in targets for name in target if name not in pilot.scores.harms):
            known = ", ".join(pilot.scores.harms)
            hint = "Pass pilot=(confidence, correct, {harm: losses})."
            raise ArgumentError.of("pilot", f"cases without {name!r}", f"with every harm of risk ({known})", hint)
    if len(np.unique(scores.confidence)) > FEW and _same(pilot.scores.confidence, scores.confidence):
        hint = "Thresholds must be chosen with other cases than those that test them."
        raise ArgumentError.of("pilot", "the calibration cases", "cases that are not in the calibration set", hint)
