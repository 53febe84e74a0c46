"""Methods that choose among rules with a guarantee: each returns the rules whose risk was shown to be small enough.

All of them use the exact binomial test (:mod:`squad.selective.bounds`), Beta quantiles, or, for costs, betting
(:mod:`squad.selective.betting`); they differ in which rules they test, and at which level.  Each returns a mask over
the rules, so that several harms can be required of one rule: it must pass for each of them.  That does not divide delta
(an intersection-union test; docs/explanation/guarantees.md has the proof).

References:
    Y. Geifman and R. El-Yaniv, Selective classification for deep neural networks, NeurIPS 2017 (SGR).

    A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, Learn then test: calibrating predictive
    algorithms to achieve risk control, 2021.

    P. Bauer, Multiple testing in clinical trials, Statistics in Medicine 10, 1991 (fixed-sequence testing).

    B. L. Wiens, A fixed sequence Bonferroni procedure for testing multiple endpoints, Pharmaceutical Statistics 2, 2003
    (the fallback procedure).
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
from squad.selective.bounds import MAX_CASES, min_cases_with, min_cases_without_errors, most_errors, passes
from squad.selective.scored_cases import WRONG, Ranked
from squad.selective.tallies import Tally

__all__ = [
    "FALLBACK",
    "FIXED",
    "METHODS",
    "Options",
    "Start",
    "certified_rules",
    "cost_starts",
    "could_show",
    "min_cases",
    "preset_weights",
    "search_ends",
    "shows_alone",
    "smallest",
    "starts",
    "starts_of",
    "statements",
    "tests_of",
    "walk",
]

#: Starts of the fallback procedure (the name is from the literature: Wiens, 2003), as a fraction of the cases, with
#: their shares of delta.
FALLBACK = ((1 / 4, 0.8), (1 / 2, 0.1), (3 / 4, 0.1))
#: A single start, with all of delta: fixed-sequence testing.
FIXED = ((1 / 4, 1.0),)

_ONE_RULE = np.ones(1, dtype=np.int64)


@dataclass(frozen=True)
class Options:
    """Options that only some methods use.

    Attributes:
        ranks: For bonferroni, number of ranks tested.
        r_max: For band, largest risk of interest.
        levels: For band, how its levels are determined.
        shares: For preset, coverage that each threshold was chosen for.
        counted: For preset, fraction of cases that a harm is counted on, for harms that are not counted on all.
        orders: For pareto, indices of thresholds in testing order, for each target.
        order: Testing order of the current target.
    """

    ranks: int = 20
    r_max: float = 0.1
    levels: str = BERK_JONES
    shares: tuple[float, ...] = ()
    counted: tuple[tuple[str, float], ...] = ()
    orders: tuple[tuple[int, ...], ...] = ()
    order: tuple[int, ...] = ()

    def of_target(self, index: int) -> "Options":
        """Return the options with the testing order of one target."""
        return dataclasses.replace(self, order=self.orders[index]) if self.orders else self

    def counted_of(self, harm: str, m: int) -> int:
        """Return how many of m cases a harm is expected to be counted on: the true number depends on labels.

        Args:
            harm: Name of the harm.
            m: Number of cases.

        Returns:
            Number of cases, at most m.
        """
        return math.floor(dict(self.counted).get(harm, 1.0) * m)


@dataclass(frozen=True)
class Start:
    """Start of a chain of tests.

    Attributes:
        n: Number of accepted cases at which the chain begins.
        weight: Share of the level.
    """

    n: int
    weight: float


@functools.lru_cache(maxsize=1024)  # simulations repeat the same arguments many times
def starts(m: int, risk: float, level: float, plan: tuple[tuple[float, float], ...]) -> tuple[Start, ...]:
    """Return the starts that are possible with m cases; they do not depend on the data.

    A start that cannot pass with m cases, or repeats the one before, passes its weight on to the next one.  What the
    last one leaves goes to the first, without moving it.

    Args:
        m: Number of cases.
        risk: Target.
        level: Significance level.
        plan: Fractions of the cases, with their shares of the level.

    Returns:
        The starts, from the fewest accepted cases to the most.

    Examples:
        >>> starts(1000, 0.02, 0.01, FALLBACK)[0].n
        239
    """
    found: list[Start] = []
    passed_on = 0.0
    for share, weight in plan:
        weight_here, passed_on = weight + passed_on, 0.0
        least = min_cases_without_errors(risk, weight_here * level)
        if least > m:
            passed_on = weight_here
            continue
        allowed = most_errors(max(least, math.floor(share * m)), risk, weight_here * level)
        n = min_cases_with(allowed, risk, weight_here * level)
        if found and n <= found[-1].n:
            passed_on = weight_here
            continue
        found.append(Start(n, weight_here))
    if found:
        found[0] = Start(found[0].n, found[0].weight + passed_on)
        return tuple(found)
    least = min_cases_without_errors(risk, level)
    return (Start(least, 1.0),) if least <= m else ()


def starts_of(tally: Tally, risk: float, level: float, plan: tuple[tuple[float, float], ...]) -> tuple[Start, ...]:
    """Return the starts that are possible with the cases of a harm.

    Args:
        tally: Errors or costs of the harm, by rule.
        risk: Target.
        level: Significance level.
        plan: Fractions of the cases, with their shares of the level.

    Returns:
        The starts, from the fewest accepted cases to the most.
    """
    return (starts if tally.losses is None else cost_starts)(tally.m, risk, level, plan)


@functools.lru_cache(maxsize=1024)
def cost_starts(m: int, risk: float, level: float, plan: tuple[tuple[float, float], ...]) -> tuple[Start, ...]:
    """Return the starts for a harm with costs: at these fractions of the cases, or where costs of 0 could pass.

    Args:
        m: Number of cases.
        risk: Target for the mean cost.
        level: Significance level.
        plan: Fractions of the cases, with their shares of the level.

    Returns:
        The starts, from the fewest accepted cases to the most.
    """
    found: list[Start] = []
    passed_on = 0.0
    for share, weight in plan:
        weight_here, passed_on = weight + passed_on, 0.0
        n = max(min_cases_without_cost(risk, weight_here * level), math.floor(share * m))
        if n > m or (found and n <= found[-1].n):
            passed_on = weight_here
        else:
            found.append(Start(n, weight_here))
    if found:
        found[0] = Start(found[0].n, found[0].weight + passed_on)
        return tuple(found)
    least = min_cases_without_cost(risk, level)
    return (Start(least, 1.0),) if least <= m else ()


def min_cases_without_cost(risk: float, level: float) -> int:
    """Return the smallest number of cases that passes a test of costs if all costs are 0."""
    return smallest(lambda n: log_wealth_at_most(n, 0.0, risk) >= -math.log(level), MAX_CASES)


def walk(tally: Tally, begin: Sequence[Start], risk: float, level: float) -> NDArray[np.bool_]:
    """Test rules in fixed sequence, upwards from each start until one fails.

    The level of a chain is the sum of the weights of the starts it has passed since it began.  When it fails, the next
    start, which it has not reached, begins a new chain.

    Args:
        tally: Error counts of the harm.
        begin: Starts, ascending.
        risk: Target.
        level: Significance level.

    Returns:
        (rules,), whether each rule passed.
    """
    rules = len(tally.n)
    weights: dict[int, float] = {}
    for start in begin:  # starts within one group of tied confidences add up
        index = int(np.searchsorted(tally.n, start.n, side="left"))
        if index < rules:
            weights[index] = weights.get(index, 0.0) + start.weight
    return _chains([(tally, risk)], weights, level)


def _chains(harms: Sequence[tuple[Tally, float]], weights: Mapping[int, float], level: float) -> NDArray[np.bool_]:
    """Test chains for harms that must all pass, given the starts' weights by rule index, ascending."""
    rules = len(harms[0][0].n)
    shown = np.zeros(rules, dtype=np.bool_)
    indices = [*weights, rules]
    weight = 0.0
    for index, end in itertools.pairwise(indices):
        weight += weights[index]
        failed = min(_first_failure(tally, index, end, risk, weight * level) for tally, risk in harms)
        shown[index:failed] = True
        if failed < end:
            weight = 0.0
    return shown


def _first_failure(tally: Tally, begin: int, end: int, risk: float, level: float) -> int:
    """Return the first of the rules begin to end - 1 that does not pass, or ``end``."""
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
    """Fixed-sequence testing with several starts: the fallback procedure of Wiens (2003), with exact binomial tests.

    An instance of Learn then Test (Angelopoulos et al., 2021).
    """
    return walk(tally, starts_of(tally, risk, level, FALLBACK), risk, level)


def fixed_sequence(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Fixed-sequence testing with a single start (Bauer, 1991)."""
    return walk(tally, starts_of(tally, risk, level, FIXED), risk, level)


def sgr(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Selection with guaranteed risk (SGR; Geifman and El-Yaniv, 2017): a binary search over ceil(log2 m) ranks.

    Unlike the published code: with integer counts, whole groups of tied confidences, full coverage among the ranks, and
    no threshold where nothing passed.
    """
    return _binary_search(ranked, [(tally, risk)], level)


def _binary_search(ranked: Ranked, harms: Sequence[tuple[Tally, float]], level: float) -> NDArray[np.bool_]:
    """Search for the largest rank at which all harms pass."""
    n = ranked.n
    shown = np.zeros(len(n), dtype=np.bool_)
    tests = tests_of(ranked.m)
    low, high = 0, ranked.m + 1
    for _ in range(tests):
        if high - low <= 1:
            break
        index = int(np.searchsorted(n, (low + high + 1) // 2, side="left"))
        if all(tally.passes(index, risk, level / tests) for tally, risk in harms):
            shown[index] = True
            low = int(n[index])
        else:
            high = int(n[index - 1]) + 1 if index else 1
    return shown


def tests_of(m: int) -> int:
    """Return the number of ranks that a binary search over m cases tests.

    Examples:
        >>> tests_of(1000)
        10
    """
    return max(1, math.ceil(math.log2(m))) if m else 0


def search_ends(m: int, n: int) -> int:
    """Return where a binary search over m cases without ties ends if exactly the rules up to n pass.

    Args:
        m: Number of cases.
        n: Number of cases that the last passing rule accepts.

    Returns:
        Number of cases that the rule found by the search accepts; 0 if it finds none.

    Examples:
        >>> search_ends(100, 37), search_ends(100, 0)
        (37, 0)
    """
    low, high = 0, m + 1
    for _ in range(tests_of(m)):
        if high - low <= 1:
            break
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle <= n else (low, middle)
    return low


def bonferroni(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Test evenly spaced ranks, each at an equal share of the level; the risk need not increase with coverage."""
    m, n = ranked.m, ranked.n
    shown = np.zeros(len(n), dtype=np.bool_)
    if not m:
        return shown
    count = options.ranks
    ranks = [-(-index * m // count) for index in range(1, count + 1)]
    indices = np.unique(np.searchsorted(n, ranks, side="left"))
    shown[indices] = tally.passes(indices, risk, level / count)
    return shown


def grid(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Test thresholds fixed in advance, from the strictest until one fails, each at the full level."""
    rules = len(ranked.n)
    shown = np.zeros(rules, dtype=np.bool_)
    if rules:
        failed = np.flatnonzero(~tally.passes(np.arange(rules), risk, level))
        shown[: failed[0] if len(failed) else rules] = True
    return shown


def band(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Use bounds that hold at all thresholds at once."""
    return risk_bounds(tally.m, tally.n, tally.errors, level, options.r_max, options.levels) <= risk


def preset_weights(
    m: int, harms: Sequence[tuple[str, float, bool]], level: float, options: Options
) -> dict[int, float]:
    """Return weights by threshold index: each start is the first threshold chosen to accept enough cases.

    Starts must not depend on how many calibration cases a threshold accepts, or belong to a class.  With several harms,
    the one that must start last decides.

    Args:
        m: Number of calibration cases.
        harms: For each harm: name, risk, and whether it has costs.
        level: Significance level of the tests.
        options: Options of the method.

    Returns:
        Share of the level by index of the threshold.
    """
    found = []
    for name, risk, costs in harms:
        of = options.counted_of(name, m)
        weights: dict[int, float] = {}
        for start in (cost_starts if costs else starts)(of, risk, level, FALLBACK):
            index = next((index for index, share in enumerate(options.shares) if share * of >= start.n), None)
            if index is not None:
                weights[index] = weights.get(index, 0.0) + start.weight
        if not weights:
            return {}
        found.append(weights)
    return max(found, key=lambda weights: next(iter(weights)))


def _preset(ranked: Ranked, risks: Mapping[str, float], level: float, options: Options) -> NDArray[np.bool_]:
    """Test one chain for all harms: separate chains would exceed delta if no harm is the worst everywhere."""
    tallies = {name: ranked.tallies[name] for name in risks}
    named = [(name, risk, tallies[name].losses is not None) for name, risk in risks.items()]
    harms = [(tallies[name], risk) for name, risk in risks.items()]
    return _chains(harms, preset_weights(ranked.m, named, level, options), level)


def preset(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Test thresholds that a pilot fixed in advance, from the strictest on, with several starts (Wiens, 2003)."""
    return _preset(dataclasses.replace(ranked, tallies={WRONG: tally}), {WRONG: risk}, level, options)


def pareto(ranked: Ranked, tally: Tally, risk: float, level: float, options: Options) -> NDArray[np.bool_]:
    """Test thresholds in an order chosen on a pilot, each at the full level, until one fails (Pareto testing)."""
    shown = np.zeros(len(ranked.n), dtype=np.bool_)
    order = np.array(options.order, dtype=np.int64)
    failed = np.flatnonzero(~tally.passes(order, risk, level))
    shown[order[: failed[0] if len(failed) else len(order)]] = True
    return shown


#: Methods by name; each maps (rules, error counts, risk, level, options) to a mask of the rules that passed.
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


def certified_rules(
    method: str, ranked: Ranked, risks: Mapping[str, float], level: float, options: Options
) -> NDArray[np.bool_]:
    """Return the rules for which every harm was shown to be rare enough, each at ``level``.

    Args:
        method: Name of the method.
        ranked: Rules of the calibration cases.
        risks: Target, by harm.
        level: Significance level.
        options: Options of the method.

    Returns:
        (rules,), whether each rule is certified.
    """
    harms = [(ranked.tallies[name], risk) for name, risk in risks.items()]
    if method == "sgr":  # separate searches would test different ranks
        return _binary_search(ranked, harms, level)
    if method == "preset":
        return _preset(ranked, risks, level, options)
    shown = np.ones(len(ranked.n), dtype=np.bool_)
    for tally, risk in harms:
        shown &= METHODS[method](ranked, tally, risk, level, options)
    return shown


def statements(method: str, targets: Sequence[Mapping[str, float]], groups: int) -> int:
    """Return the number of statements that delta is divided between: one per target and group, for any number of harms.

    A band holds for all targets at once, but is a statement about every harm.

    Args:
        method: Name of the method.
        targets: Risks by harm, one mapping per target.
        groups: Number of groups with a threshold each; 1 without groups.

    Returns:
        Number of statements, at least 1.

    Examples:
        >>> statements("fallback", [{"wrong": 0.02}, {"wrong": 0.05}], 3)
        6
    """
    if method == "band":
        return len({name for target in targets for name in target}) * max(1, groups)
    return len(targets) * max(1, groups)


def shows_alone(
    method: str, m: int, n: int, errors: float, risk: float, level: float, options: Options, costs: bool = False
) -> bool:
    """Whether the method, if it tests the rule that accepts n of m cases, finds these errors few enough; approximate.

    Args:
        method: Name of the method.
        m: Number of cases.
        n: Number of accepted cases.
        errors: Errors among these; for costs, their total cost.
        risk: Target.
        level: Significance level.
        options: Options of the method.
        costs: Whether the harm has costs between 0 and 1.

    Returns:
        Whether the errors are few enough.
    """
    if method == "band":
        bound = risk_bounds(m, np.array([n]), np.array([errors]), level, options.r_max, options.levels, rough=True)
        return bool(bound[0] <= risk)
    if method == "sgr" and n > m // 2 + 1:
        # The search tests the middle first, and turns back if that fails.
        n, errors = m // 2 + 1, math.ceil(errors * (m // 2 + 1) / n)
    share = {"sgr": tests_of(m), "bonferroni": options.ranks}.get(method, 1)
    if costs:
        return log_wealth_at_most(n, errors / max(n, 1), risk) >= -math.log(level / share)
    return bool(passes(errors, n, risk, level / share))


def could_show(
    method: str, m: int, risk: float, level: float, options: Options, costs: bool = False, rough: bool = False
) -> bool:
    """Whether the method certifies anything with m cases that are all correct and tied, so accepted together.

    Args:
        method: Name of the method.
        m: Number of cases.
        risk: Target.
        level: Significance level.
        options: Options of the method.
        costs: Whether the harm has costs between 0 and 1.
        rough: Whether to approximate the levels of a band of many cases by those of the next power of two, which are
            slightly lower; used for planning.

    Returns:
        Whether anything is certified.

    Examples:
        >>> could_show("fallback", 100, 0.02, 0.01, Options()), could_show("fallback", 300, 0.02, 0.01, Options())
        (False, True)
    """
    if not m:
        return False
    if method == "band":
        return bool(
            risk_bounds(m, _ONE_RULE * m, _ONE_RULE * 0, level, options.r_max, options.levels, rough)[0] <= risk
        )
    level /= {"sgr": tests_of(m), "bonferroni": options.ranks}.get(method, 1)
    if costs:
        return log_wealth_at_most(m, 0.0, risk) >= -math.log(level)
    return bool(passes(0, m, risk, level))


@functools.lru_cache(maxsize=1024)
def min_cases(method: str, risk: float, level: float, options: Options, costs: bool = False) -> int:
    """Return the number of cases below which the method never certifies anything; approximate for bands.

    Args:
        method: Name of the method.
        risk: Target.
        level: Significance level.
        options: Options of the method.
        costs: Whether the harm has costs between 0 and 1.

    Returns:
        Number of cases.

    Examples:
        >>> min_cases("sgr", 0.02, 0.01, Options())
        337
    """
    return smallest(lambda m: could_show(method, m, risk, level, options, costs, rough=True), MAX_CASES)


def smallest(enough: Callable[[int], bool], most: int) -> int:
    """Return the smallest integer from 1 on that is enough, by doubling and bisection; ``most`` if none below it is.

    Args:
        enough: Whether an integer is enough; if so, larger ones must be enough as well.
        most: Limit of the search.

    Returns:
        The integer.

    Examples:
        >>> smallest(lambda number: number**2 >= 1000, 10**6)
        32
    """
    low, high = 0, 64
    while not enough(high):
        if high >= most:
            return most
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
