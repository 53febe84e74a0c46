"""Thresholds, and an order to test them in, chosen on a pilot: cases that are independent of the calibration set.

Tests of thresholds that were fixed before the calibration set was drawn, in a fixed order, assume nothing about the
ranking: the guarantee holds for any risk-coverage curve.  A pilot only chooses *which* thresholds are tested, and in
which order.  A bad pilot (small, from another population, or of rows that were used for early stopping) costs coverage,
not validity.

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

#: Methods that need a pilot.
PILOTED = ("preset", "pareto")
#: Number of thresholds chosen: one per percent of coverage.
THRESHOLDS = 100
#: Up to this many distinct confidences, two independent sets of cases may well have the same ones.
MAX_COMMON_CONFIDENCES = 20
#: Two sets are taken for the same cases if this fraction of confidences, in order, agrees within this tolerance
#: relative to their range.
SAME_TOLERANCE, SAME_FRACTION = 1e-3, 0.9


@dataclass(frozen=True, eq=False)
class Pilot:
    """Cases that choose thresholds.

    Attributes:
        scores: Confidences and harms of the cases.
        labelled: Whether the harms are known; if not, all of them are False.

    Examples:
        >>> pilot = pilot_of(([0.9, 0.8], [True, False]))
        >>> len(pilot), pilot.labelled
        (2, True)
    """

    scores: Scores
    labelled: bool

    def __len__(self) -> int:
        return len(self.scores)


def pilot_of(given: Any) -> Pilot:
    """Check the user's pilot: confidences, (confidence, correct) or (confidence, correct, harms).

    Returns:
        The pilot; ``labelled`` says whether correctness was given.

    Examples:
        >>> pilot_of([0.9, 0.8]).labelled
        False
    """
    if isinstance(given, Pilot):
        return given
    if isinstance(given, tuple) and len(given) in (2, 3) and np.ndim(given[0]):
        found = Pilot(Scores.of(given[0], given[1], given[2] if len(given) == 3 else None), True)
    else:
        confidence: ArrayLike | torch.Tensor = given
        found = Pilot(Scores.of(confidence, np.ones(np.shape(as_array("pilot", confidence)), dtype=np.bool_)), False)
    if not len(found):
        raise ArgumentError.of("pilot", "no cases", "confidences of cases outside the calibration set")
    return found


def thresholds_of(confidence: NDArray[np.float64], count: int = THRESHOLDS) -> tuple[NDArray[Any], tuple[float, ...]]:
    """Return thresholds at evenly spaced coverages, the strictest first, and the coverage of each on the pilot.

    Args:
        confidence: (cases,), confidences of the pilot.
        count: Number of coverages; ties leave fewer thresholds.

    Returns:
        (thresholds,), descending, and the fraction of the pilot that each accepts.

    Examples:
        >>> limits, coverages = thresholds_of(np.array([0.9, 0.8, 0.7, 0.6]), 2)
        >>> limits.tolist(), coverages
        ([0.7, -inf], (0.5, 1.0))
    """
    falling = np.sort(confidence)[::-1]
    cases = len(falling)
    ends = [-(-step * cases // count) for step in range(1, count + 1)]
    limits = np.unique(np.append(falling, -np.inf)[ends])[::-1]
    accepted = np.searchsorted(-falling, -limits, side="left")
    some = accepted > 0
    return limits[some], tuple((accepted[some] / cases).tolist())


def counted_shares(pilot: Pilot, targets: Sequence[Mapping[str, float]]) -> tuple[tuple[str, float], ...]:
    """Estimate the fraction of cases that harms are counted on, for those not counted on all cases of the pilot.

    Args:
        pilot: Labelled cases.
        targets: Risks by harm, one mapping per target.

    Returns:
        Pairs of harm and fraction.
    """
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
    """Return indices of the thresholds in the order in which ``pareto`` tests them.

    The first one is the most likely to pass with m calibration cases; then always the most likely of those that accept
    more.  A threshold that accepts fewer cases than an earlier one would be of no use.

    Args:
        pilot: Labelled cases.
        thresholds: Thresholds, descending.
        risks: Risks by harm.
        m: Number of calibration cases.
        level: Significance level of the tests.

    Returns:
        Indices into ``thresholds``; thresholds that would be of no use are left out.
    """
    ranked = rank(pilot.scores, thresholds)
    likely = np.full(len(thresholds), np.inf)
    for name, risk in risks.items():
        tally = ranked.tallies[name]
        likely = np.minimum(likely, _margins(tally.n * m // len(pilot), tally.errors, tally.n, risk, level))
    order: list[int] = []
    first = 0
    while first < len(likely):
        index = first + int(likely[first:].argmax())
        if likely[index] == -np.inf and order:
            break  # none of the rest can pass
        order.append(index)
        first = index + 1
    return tuple(order)


def _margins(
    n: NDArray[np.int64], errors: NDArray[Any], seen: NDArray[np.int64], risk: float, level: float
) -> NDArray[np.float64]:
    """Return the margin by which n future cases are expected to pass, in standard deviations of their errors.

    Args:
        n: (rules,), number of accepted future cases.
        errors: (rules,), errors among the accepted cases of the pilot.
        seen: (rules,), number of accepted cases of the pilot.
        risk: Target.
        level: Significance level of the test.
    """
    low, high = np.full(n.shape, -1), n.copy()  # bisection for the largest passing number of errors
    while (open_ := high - low > 1).any():
        middle = (low + high) // 2
        good = passes(middle, n, risk, level)
        low, high = np.where(open_ & good, middle, low), np.where(open_ & ~good, middle, high)
    weight = seen + 1.0  # Jeffreys' prior: half an error and half a success
    rate = (errors + 0.5) / weight
    spread = n * rate * (1 - rate) * (1 + (n - 1) / (weight + 1))  # beta-binomial
    with np.errstate(divide="ignore", invalid="ignore"):
        # Rounded to a millionth, so that another version of SciPy does not change the order.
        return np.where(low < 0, -np.inf, np.round((low + 0.5 - n * rate) / np.sqrt(spread), 6))


def _same_cases(pilot: NDArray[np.float64], confidence: NDArray[np.float64]) -> bool:
    """Whether both are confidences of the same cases: equal in any order, or nearly equal in the same order."""
    if len(pilot) != len(confidence):
        return False
    # The tolerance shrinks with the number of cases: large sorted samples are close to each other.
    near = min(SAME_TOLERANCE, 0.05 / len(confidence) ** 0.5) * max(float(np.ptp(confidence)), 1e-300)
    return bool(
        np.array_equal(np.sort(pilot), np.sort(confidence))
        or np.mean(np.abs(pilot - confidence) <= near) > SAME_FRACTION
    )


def check_pilot(pilot: Pilot, method: str, targets: Sequence[Mapping[str, float]], scores: Scores) -> None:
    """Check that a pilot contains what the method needs, and is not the calibration set itself.

    Args:
        pilot: The pilot.
        method: Name of the method.
        targets: Risks by harm, one mapping per target.
        scores: Scores of the calibration cases.
    """
    if method == "pareto":
        if not pilot.labelled:
            hint = "The method preset needs confidences only."
            raise ArgumentError.of("pilot", "confidences", "(confidence, correct) for the method pareto", hint)
        for name in (name for target in targets for name in target if name not in pilot.scores.harms):
            known = ", ".join(pilot.scores.harms)
            hint = "Pass pilot=(confidence, correct, {harm: losses})."
            raise ArgumentError(f"The pilot has no losses of {name!r}, which risk bounds; it has {known}. {hint}")
    if len(np.unique(scores.confidence)) > MAX_COMMON_CONFIDENCES and _same_cases(
        pilot.scores.confidence, scores.confidence
    ):
        hint = "Thresholds must not be chosen on the cases that test them."
        raise ArgumentError.of("pilot", "the calibration cases", "cases outside the calibration set", hint)
