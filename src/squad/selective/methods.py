"""Methods that choose among rules with a guarantee: each says for which rules the risk was shown to be small enough.

All of them test by the exact binomial (:mod:`squad.selective.bounds`), by Beta quantiles, or, for costs, by betting
(:mod:`squad.selective.betting`); they differ in which rules they look at, and at what level.  Every one returns a mask
over the rules, so that several harms can be required of the same rule: it must be among the rules shown for each.  That
takes no part of delta (an intersection-union test; docs/selection.md has the proof).
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from squad.selective.bands import BERK_JONES, risk_bounds
from squad.selective.betting import log_wealth_at_most
from squad.selective.bounds import MOST, fewest, fewest_with, most_errors, passes
from squad.selective.scored_cases import WRONG, Ranked
from squad.selective.tallies import Tally

__all__ = [
    "FALLBACK",
    "FIXED",
    "METHODS",
    "Options",
    "Start",
    "cost_starts",
    "could_show",
    "least_cases",
    "preset_weights",
    "search_ends",
    "shown_for_all",
    "shows_alone",
    "smallest",
    "starts",
    "starts_of",
    "statements",
    "tests_of",
    "walk",
]

#: Where a fallback procedure may begin, as a share of the cases, and how delta is shared out.
FALLBACK = ((1 / 4, 0.8), (1 / 2, 0.1), (3 / 4, 0.1))
#: One start, with all of it.
FIXED = ((1 / 4, 1.0),)

_ONE = np.ones(1, dtype=np.int64)


@dataclass(frozen=True)
class Options:
    """What only some methods look at.

    Attributes:
        ranks: of bonferroni, how many.
        r_max: of band, the largest risk that may be asked for.
        levels: of band, how its levels are found.
        shares: of preset, the coverage that each threshold was chosen for.
        counted: of preset, the share of cases that a harm is counted on, for harms that are not counted on all.
        orders: of pareto, the places of thresholds in the order of their tests, for each target.
        order: the one of the target that is tested.
    """

    ranks: int = 20
    r_max: float = 0.1
    levels: str = BERK_JONES
    shares: tuple[float, ...] = ()
    counted: tuple[tuple[str, float], ...] = ()
    orders: tuple[tuple[int, ...], ...] = ()
    order: tuple[int, ...] = ()

    def of_target(self, place: int) -> "Options":
        """With the order of one target."""
        return dataclasses.replace(self, order=self.orders[place]) if self.orders else self

    def counted_of(self, harm: str, m: int) -> int:
        """On how many of m cases a harm is counted, by the pilot: how many it is in fact is known from labels only."""
        return math.floor(dict(self.counted).get(harm, 1.0) * m)


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


def starts_of(tally: Tally, risk: float, level: float, plan: tuple[tuple[float, float], ...]) -> tuple[Start, ...]:
    """The starts that the cases of a harm allow."""
    return (starts if tally.losses is None else cost_starts)(tally.m, risk, level, plan)


@functools.lru_cache(maxsize=1024)
def cost_starts(m: int, risk: float, level: float, plan: tuple[tuple[float, float], ...]) -> tuple[Start, ...]:
    """The same for costs: at these shares of the cases, or where costs of 0 could pass."""
    found: list[Start] = []
    handed = 0.0
    for share, weight in plan:
        own, handed = weight + handed, 0.0
        n = max(fewest_free(risk, own * level), math.floor(share * m))
        if n > m or (found and n <= found[-1].n):
            handed = own
        else:
            found.append(Start(n, own))
    if found:
        found[0] = Start(found[0].n, found[0].weight + handed)
        return tuple(found)
    zero = fewest_free(risk, level)
    return (Start(zero, 1.0),) if zero <= m else ()


def fewest_free(risk: float, level: float) -> int:
    """The fewest cases that pass a test of costs if none costs anything."""
    return smallest(lambda n: log_wealth_at_most(n, 0.0, risk) >= -math.log(level), MOST)


def walk(tally: Tally, begin: Sequence[Start], risk: float, level: float) -> NDArray[np.bool_]:
    """Fixed-sequence tests over the rules, upward from each start until one fails.

    A chain's level is the sum of the weights of the starts it has passed since it began.  When it fails, the next
    start, which it has not reached, opens a new one.
    """
    rules = len(tally.n)
    weights: dict[int, float] = {}
    for start in begin:  # several in one group of equal confidences add up
        place = int(np.searchsorted(tally.n, start.n, side="left"))
        if place < rules:
            weights[place] = weights.get(place, 0.0) + start.weight
    return _chains([(tally, risk)], weights, level)


def _chains(harms: Sequence[tuple[Tally, float]], weights: Mapping[int, float], level: float) -> NDArray[np.bool_]:
    """The same for harms that must all pass, with the starts' weights by the places of their rules, ascending."""
    rules = len(harms[0][0].n)
    shown = np.zeros(rules, dtype=np.bool_)
    places = [*weights, rules]
    weight = 0.0
    for place, end in itertools.pairwise(places):
        weight += weights[place]
        failed = min(_first_failure(tally, place, end, risk, weight * level) for tally, risk in harms)
        shown[place:failed] = True
        if failed < end:
            weight = 0.0
    return shown


def _first_failure(tally: Tally, begin: int, end: int, risk: float, level: float) -> int:
    """The first rule of begin ... end - 1 that does not pass, or ``end``."""
    block = 64
    while begin < end:
        stop = min(begin + block, end)
        tested = begin + np.flatnonzero(np.append(True, tally.may_fail_anew(begin, stop)))
        failed = np.flatnonzero(~tally.passes(tested, risk, level))
        if len(failed):
            return int(tested[failed[0]])
        begin, block = stop, 4 * block
    return end


def fallback(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Fixed-sequence testing with several starts (Learn then Test, with the exact binomial)."""
    return walk(tally, starts_of(tally, risk, level, FALLBACK), risk, level)


def fixed_sequence(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """The same with one start."""
    return walk(tally, starts_of(tally, risk, level, FIXED), risk, level)


def sgr(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Selection with guaranteed risk (Geifman and El-Yaniv 2017): a binary search over ceil(log2 m) ranks.

    With integer counts, whole groups of equal confidence, full coverage among the ranks, and no threshold where
    nothing passed.
    """
    return _search(ranked, [(tally, risk)], level)


def _search(ranked: Ranked, harms: Sequence[tuple[Tally, float]], level: float) -> NDArray[np.bool_]:
    """A binary search for the largest rank at which all harms pass."""
    n = ranked.n
    shown = np.zeros(len(n), dtype=np.bool_)
    tests = tests_of(ranked.m)
    low, high = 0, ranked.m + 1
    for _ in range(tests):
        if high - low <= 1:
            break
        place = int(np.searchsorted(n, (low + high + 1) // 2, side="left"))
        if all(tally.passes(place, risk, level / tests) for tally, risk in harms):
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


def bonferroni(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Evenly spaced ranks, each at its part of the level; the risk need not grow with coverage."""
    m, n = ranked.m, ranked.n
    shown = np.zeros(len(n), dtype=np.bool_)
    if not m:
        return shown
    count = options.ranks
    ranks = [-(-place * m // count) for place in range(1, count + 1)]
    places = np.unique(np.searchsorted(n, ranks, side="left"))
    shown[places] = tally.passes(places, risk, level / count)
    return shown


def grid(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Thresholds named in advance, in turn from the strictest until one fails, each at the full level."""
    rules = len(ranked.n)
    shown = np.zeros(rules, dtype=np.bool_)
    if rules:
        failed = np.flatnonzero(~tally.passes(np.arange(rules), risk, level))
        shown[: failed[0] if len(failed) else rules] = True
    return shown


def band(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """A bound that holds at all thresholds at once."""
    return risk_bounds(tally.m, tally.n, tally.errors, level, options.r_max, options.levels) <= risk


def preset_weights(
    m: int, harms: Sequence[tuple[str, float, bool]], level: float, options: Options
) -> dict[int, float]:
    """Weights by place: each start is at the first threshold that was chosen to accept as many cases.

    That must not depend on how many cases a threshold does accept, nor on how many cases have a class, which depend on
    the calibration set.  Of several harms the one that must start last decides.

    Args:
        m: calibration cases.
        harms: name, risk and whether it has costs, of each.
        level: of the tests.
        options: of the method.
    """
    found = []
    for name, risk, costs in harms:
        of = options.counted_of(name, m)
        weights: dict[int, float] = {}
        for start in (cost_starts if costs else starts)(of, risk, level, FALLBACK):
            place = next((place for place, share in enumerate(options.shares) if share * of >= start.n), None)
            if place is not None:
                weights[place] = weights.get(place, 0.0) + start.weight
        if not weights:
            return {}
        found.append(weights)
    return max(found, key=lambda weights: next(iter(weights)))


def _preset(ranked: Ranked, risks: Mapping[str, float], level: float, options: Options) -> NDArray[np.bool_]:
    """One chain for all harms: chains of their own would take more than delta if no harm is the worst everywhere."""
    tallies = {name: ranked.tallies[name] for name in risks}
    named = [(name, risk, tallies[name].losses is not None) for name, risk in risks.items()]
    harms = [(tallies[name], risk) for name, risk in risks.items()]
    return _chains(harms, preset_weights(ranked.m, named, level, options), level)


def preset(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Thresholds that a pilot fixed in advance, from the strictest on, with several starts (Wiens 2003)."""
    return _preset(dataclasses.replace(ranked, tallies={WRONG: tally}), {WRONG: risk}, level, options)


def pareto(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Thresholds in an order chosen on a pilot, each at the full level, until one fails (Pareto testing)."""
    shown = np.zeros(len(ranked.n), dtype=np.bool_)
    order = np.array(options.order, dtype=np.int64)
    failed = np.flatnonzero(~tally.passes(order, risk, level))
    shown[order[: failed[0] if len(failed) else len(order)]] = True
    return shown


METHODS: dict[
    str,
    Callable[[Ranked, Tally, float, float, Options], NDArray[np.bool_]],
] = {
    "fallback": fallback,
    "sgr": sgr,
    "fixed_sequence": fixed_sequence,
    "bonferroni": bonferroni,
    "grid": grid,
    "band": band,
    "preset": preset,
    "pareto": pareto,
}


def shown_for_all(
    method: str, ranked: Ranked, risks: Mapping[str, float], level: float, options: Options
) -> NDArray[np.bool_]:
    """The rules for which every harm was shown to be rare enough, each of them at ``level``."""
    harms = [(ranked.tallies[name], risk) for name, risk in risks.items()]
    if method == "sgr":  # searches for each harm would look at different ranks
        return _search(ranked, harms, level)
    if method == "preset":
        return _preset(ranked, risks, level, options)
    shown = np.ones(len(ranked.n), dtype=np.bool_)
    for tally, risk in harms:
        shown &= METHODS[method](ranked, tally, risk, level, options)
    return shown


def statements(method: str, targets: Sequence[Mapping[str, float]], groups: int) -> int:
    """Between how many statements delta is divided: one for each target and group, however many harms a target has.

    A band holds for all targets at once, but is a statement about every harm.

    Args:
        method: the method.
        targets: risks by harm.
        groups: how many groups have a threshold of their own; 1 without.
    """
    if method == "band":
        return len({name for target in targets for name in target}) * max(1, groups)
    return len(targets) * max(1, groups)


def shows_alone(
    method: str, m: int, n: int, errors: float, risk: float, level: float, options: Options, costs: bool = False
) -> bool:
    """Whether the method, if it looks at the rule that accepts n of m cases, finds so many errors few enough; roughly.

    Args:
        method: the method.
        m: cases.
        n: accepted cases.
        errors: among these; with costs, what they cost in all.
        risk: that is to be shown.
        level: of the test.
        options: of the method.
        costs: whether the harm has costs between 0 and 1.
    """
    if method == "band":
        bound = risk_bounds(m, np.array([n]), np.array([errors]), level, options.r_max, options.levels, rough=True)
        return bool(bound[0] <= risk)
    if method == "sgr" and n > m // 2 + 1:
        # Its first look is at the middle; if that fails, it turns back.
        n, errors = m // 2 + 1, math.ceil(errors * (m // 2 + 1) / n)
    share = {"sgr": tests_of(m), "bonferroni": options.ranks}.get(method, 1)
    if costs:
        return log_wealth_at_most(n, errors / max(n, 1), risk) >= -math.log(level / share)
    return bool(passes(errors, n, risk, level / share))


def could_show(
    method: str, m: int, risk: float, level: float, options: Options, costs: bool = False, rough: bool = False
) -> bool:
    """Whether the method shows anything with m cases if all are right and equally confident, so accepted together.

    Args:
        method: the method.
        m: cases.
        risk: that is to be shown.
        level: of the test.
        options: of the method.
        costs: whether the harm has costs between 0 and 1.
        rough: for plans: of many cases, a band's levels are those of the next power of two, which are a little lower.
    """
    if not m:
        return False
    if method == "band":
        return bool(risk_bounds(m, _ONE * m, _ONE * 0, level, options.r_max, options.levels, rough)[0] <= risk)
    level /= {"sgr": tests_of(m), "bonferroni": options.ranks}.get(method, 1)
    if costs:
        return log_wealth_at_most(m, 0.0, risk) >= -math.log(level)
    return bool(passes(0, m, risk, level))


@functools.lru_cache(maxsize=1024)
def least_cases(method: str, risk: float, level: float, options: Options, costs: bool = False) -> int:
    """With fewer calibration cases than this the method shows nothing, whatever their labels are; roughly for bands."""
    return smallest(lambda m: could_show(method, m, risk, level, options, costs, rough=True), MOST)


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
