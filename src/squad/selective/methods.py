"""Methods that choose among rules with a guarantee: each says for which rules the risk was shown to be small enough.

All of them test by the exact binomial (:mod:`squad.selective.bounds`) or by Beta quantiles; they differ in which rules
they look at, and at what level.  Every one returns a mask over the rules, so that several harms can be required of the
same rule: it must be among the rules shown for each.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from squad.selective.bands import risk_bounds
from squad.selective.bounds import MOST, fewest, fewest_with, most_errors, passes
from squad.selective.scores import Ranked

__all__ = [
    "FALLBACK",
    "FIXED",
    "METHODS",
    "Options",
    "Start",
    "least_cases",
    "search_ends",
    "shown_for_all",
    "shows_alone",
    "smallest",
    "starts",
    "tests_of",
    "walk",
]

#: Where a fallback procedure may begin, as a share of the cases, and how delta is shared out.
FALLBACK = ((1 / 4, 0.8), (1 / 2, 0.1), (3 / 4, 0.1))
#: One start, with all of it.
FIXED = ((1 / 4, 1.0),)


@dataclass(frozen=True)
class Options:
    """What only some methods look at.

    Attributes:
        ranks: of bonferroni, how many.
        r_max: of band, the largest risk that may be asked for.
    """

    ranks: int = 20
    r_max: float = 0.1


@dataclass(frozen=True)
class Start:
    """Where a chain of tests begins: at ``n`` accepted cases, with this share of the level."""

    n: int
    weight: float


@functools.lru_cache(maxsize=1024)  # simulations ask for the same many times
def starts(m: int, risk: float, level: float, plan: tuple[tuple[float, float], ...]) -> tuple[Start, ...]:
    """The starts that m cases allow; they depend on nothing that is looked at.

    A start that cannot pass with m cases, or repeats the one before, hands its weight on to the next.  What the last
    one leaves goes to the first, without moving it.
    """
    found: list[Start] = []
    handed = 0.0
    for share, weight in plan:
        own, handed = weight + handed, 0.0
        zero = fewest(risk, own * level)
        if zero > m:
            handed = own
            continue
        allowed = most_errors(max(zero, math.floor(share * m)), risk, own * level)
        n = fewest_with(allowed, risk, own * level)
        if found and n <= found[-1].n:
            handed = own
            continue
        found.append(Start(n, own))
    if found:
        found[0] = Start(found[0].n, found[0].weight + handed)
        return tuple(found)
    zero = fewest(risk, level)
    return (Start(zero, 1.0),) if zero <= m else ()


def walk(
    n: NDArray[np.int64], errors: NDArray[np.int64], begin: Sequence[Start], risk: float, level: float
) -> NDArray[np.bool_]:
    """Fixed-sequence tests over the rules, upward from each start until one fails.

    A chain's level is the sum of the weights of the starts it has passed since it began.  When it fails, the next
    start, which it has not reached, opens a new one.
    """
    shown = np.zeros(len(n), dtype=np.bool_)
    weights: dict[int, float] = {}
    for start in begin:  # several in one group of equal confidences add up
        place = int(np.searchsorted(n, start.n, side="left"))
        if place < len(n):
            weights[place] = weights.get(place, 0.0) + start.weight
    places = [*weights, len(n)]
    weight = 0.0
    for place, end in itertools.pairwise(places):
        weight += weights[place]
        failed = _first_failure(n, errors, place, end, risk, weight * level)
        shown[place:failed] = True
        if failed < end:
            weight = 0.0
    return shown


def _first_failure(
    n: NDArray[np.int64], errors: NDArray[np.int64], begin: int, end: int, risk: float, level: float
) -> int:
    """The first rule of begin ... end - 1 that does not pass, or ``end``."""
    # With the same number of errors more cases pass more easily: only where errors have come can a test fail anew.
    block = 64
    while begin < end:
        stop = min(begin + block, end)
        tested = begin + np.flatnonzero(np.append(True, np.diff(errors[begin:stop]) > 0))
        failed = np.flatnonzero(~passes(errors[tested], n[tested], risk, level))
        if len(failed):
            return int(tested[failed[0]])
        begin, block = stop, 4 * block
    return end


def fallback(
    m: int, n: NDArray[np.int64], errors: NDArray[np.int64], risk: float, level: float, options: Options
) -> NDArray[np.bool_]:
    """Fixed-sequence testing with several starts (Learn then Test, with the exact binomial)."""
    return walk(n, errors, starts(m, risk, level, FALLBACK), risk, level)


def fixed_sequence(
    m: int, n: NDArray[np.int64], errors: NDArray[np.int64], risk: float, level: float, options: Options
) -> NDArray[np.bool_]:
    """The same with one start."""
    return walk(n, errors, starts(m, risk, level, FIXED), risk, level)


def sgr(
    m: int, n: NDArray[np.int64], errors: NDArray[np.int64], risk: float, level: float, options: Options
) -> NDArray[np.bool_]:
    """Selection with guaranteed risk (Geifman and El-Yaniv 2017): a binary search over ceil(log2 m) ranks.

    With integer counts, whole groups of equal confidence, full coverage among the ranks, and no threshold where
    nothing passed.
    """
    return _search(m, n, [(errors, risk)], level)


def _search(
    m: int, n: NDArray[np.int64], harms: Sequence[tuple[NDArray[np.int64], float]], level: float
) -> NDArray[np.bool_]:
    """A binary search for the largest rank at which all harms pass."""
    shown = np.zeros(len(n), dtype=np.bool_)
    tests = tests_of(m)
    low, high = 0, m + 1
    for _ in range(tests):
        if high - low <= 1:
            break
        place = int(np.searchsorted(n, (low + high + 1) // 2, side="left"))
        if all(passes(errors[place], n[place], risk, level / tests) for errors, risk in harms):
            shown[place] = True
            low = int(n[place])
        else:
            high = int(n[place - 1]) + 1 if place else 1
    return shown


def tests_of(m: int) -> int:
    """How many ranks a binary search over m looks at."""
    return max(1, math.ceil(math.log2(m))) if m else 0


def search_ends(m: int, n: int) -> int:
    """Where a binary search over m cases, none of equal confidence, ends if the rules up to n pass and no others."""
    low, high = 0, m + 1
    for _ in range(tests_of(m)):
        if high - low <= 1:
            break
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle <= n else (low, middle)
    return low


def bonferroni(
    m: int, n: NDArray[np.int64], errors: NDArray[np.int64], risk: float, level: float, options: Options
) -> NDArray[np.bool_]:
    """Evenly spaced ranks, each at its part of the level; the risk need not grow with coverage."""
    shown = np.zeros(len(n), dtype=np.bool_)
    if not m:
        return shown
    count = options.ranks
    ranks = [-(-place * m // count) for place in range(1, count + 1)]
    places = np.unique(np.searchsorted(n, ranks, side="left"))
    shown[places] = passes(errors[places], n[places], risk, level / count)
    return shown


def grid(
    m: int, n: NDArray[np.int64], errors: NDArray[np.int64], risk: float, level: float, options: Options
) -> NDArray[np.bool_]:
    """Thresholds named in advance, in turn from the strictest until one fails, each at the full level."""
    shown = np.zeros(len(n), dtype=np.bool_)
    if len(n):
        failed = np.flatnonzero(~passes(errors, n, risk, level))
        shown[: failed[0] if len(failed) else len(n)] = True
    return shown


def band(
    m: int, n: NDArray[np.int64], errors: NDArray[np.int64], risk: float, level: float, options: Options
) -> NDArray[np.bool_]:
    """A bound that holds at all thresholds at once."""
    return risk_bounds(m, n, errors, level, options.r_max) <= risk


METHODS: dict[
    str,
    Callable[[int, NDArray[np.int64], NDArray[np.int64], float, float, Options], NDArray[np.bool_]],
] = {
    "fallback": fallback,
    "sgr": sgr,
    "fixed_sequence": fixed_sequence,
    "bonferroni": bonferroni,
    "grid": grid,
    "band": band,
}


def shown_for_all(
    method: str, ranked: Ranked, risks: Mapping[str, float], level: float, options: Options
) -> NDArray[np.bool_]:
    """The rules for which every harm was shown to be rare enough, each of them at ``level``."""
    harms = [(ranked.errors[name], risk) for name, risk in risks.items()]
    if method == "sgr":  # searches for each harm would look at different ranks
        return _search(ranked.m, ranked.n, harms, level)
    shown = np.ones(len(ranked.n), dtype=np.bool_)
    for errors, risk in harms:
        shown &= METHODS[method](ranked.m, ranked.n, errors, risk, level, options)
    return shown


def shows_alone(method: str, m: int, n: int, errors: int, risk: float, level: float, options: Options) -> bool:
    """Whether the method, if it looks at the rule that accepts n of m cases, finds so many errors few enough."""
    if method == "band":
        return bool(risk_bounds(m, np.array([n]), np.array([errors]), level, options.r_max)[0] <= risk)
    if method == "sgr" and n > m // 2 + 1:
        # Its first look is at the middle; if that fails, it turns back.
        n, errors = m // 2 + 1, math.ceil(errors * (m // 2 + 1) / n)
    share = {"sgr": tests_of(m), "bonferroni": options.ranks}.get(method, 1)
    return bool(passes(errors, n, risk, level / share))


@functools.lru_cache(maxsize=1024)
def least_cases(method: str, risk: float, level: float, options: Options) -> int:
    """With fewer calibration cases than this the method shows nothing, even if all are right and equally confident."""
    if method == "sgr":  # equal confidences are looked at together
        return smallest(lambda m: bool(passes(0, m, risk, level / tests_of(m))), MOST)
    return smallest(lambda m: shows_alone(method, m, m, 0, risk, level, options), MOST)


def smallest(enough: Callable[[int], bool], most: int) -> int:
    """The smallest number from 1 on that is enough, by doubling and bisection; ``most`` if none below it is."""
    low, high = 0, 64
    while not enough(high):
        if high >= most:
            return most
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
