"""Certified selection implemented a second time: slow, literal, and independent of `squad.selective`.

Plain loops over small samples.  Counts are integers, binomial tails come from exact integer arithmetic, and each method
is the sequence of tests that its definition names.  A method returns the set of n that passed: for several harms, the
sets are intersected.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

STARTS = ((1, 4, 0.8), (1, 2, 0.1), (3, 4, 0.1))


class Tails:
    """P(Bin(n, risk) <= k), each the float closest to the exact value; the table grows with n."""

    def __init__(self, risk: float) -> None:
        self.part, self.whole = risk.as_integer_ratio()
        self.masses = [1]  # of the last n, times whole**n
        self.table = [[1.0]]

    def __call__(self, k: int, n: int) -> float:
        while len(self.table) <= n:
            self._grow()
        return self.table[n][k]

    def _grow(self) -> None:
        right = [mass * (self.whole - self.part) for mass in self.masses]
        wrong = [mass * self.part for mass in self.masses]
        self.masses = [a + b for a, b in zip([*right, 0], [0, *wrong], strict=True)]
        scale, total, row = self.whole ** len(self.table), 0, []
        for mass in self.masses:
            total += mass
            row.append(total / scale)  # Python rounds a quotient of integers correctly
        self.table.append(row)


tails = cache(Tails)


def passes(errors: int, n: int, risk: float, level: float) -> bool:
    return tails(risk)(errors, n) <= level


def most_errors(n: int, risk: float, level: float) -> int:
    """k_a(n)."""
    found = -1
    while found < n and passes(found + 1, n, risk, level):
        found += 1
    return found


def fewest(risk: float, level: float, m: int) -> int | None:
    """n_zero(a), if it is at most m."""
    return next((n for n in range(1, m + 1) if passes(0, n, risk, level)), None)


@dataclass(frozen=True)
class Ranked:
    """Group ends n of a sample, errors S_n among the top n, and the threshold that accepts exactly these."""

    m: int
    ends: list[int]
    errors: list[int]
    thresholds: list[float]

    @classmethod
    def of(cls, confidence: Sequence[float], wrong: Sequence[int]) -> "Ranked":
        distinct = sorted(set(confidence), reverse=True)
        ends, errors, thresholds = [], [], []
        for i, value in enumerate(distinct):
            ends.append(sum(c >= value for c in confidence))
            errors.append(sum(w for c, w in zip(confidence, wrong, strict=True) if c >= value))
            thresholds.append(distinct[i + 1] if i + 1 < len(distinct) else -math.inf)
        return cls(len(confidence), ends, errors, thresholds)

    def end_from(self, rank: int) -> int:
        """The first group end >= rank."""
        return next(n for n in self.ends if n >= rank)

    def wrong(self, n: int) -> int:
        return self.errors[self.ends.index(n)]


@dataclass(frozen=True)
class Options:
    thresholds: tuple[float, ...] = ()
    ranks: int = 20
    r_max: float = 0.1
    pilot: tuple[float, ...] = ()
    pilot_losses: Mapping[str, Sequence[int]] = field(default_factory=dict)


def search(samples: Sequence[tuple[Ranked, float]], level: float) -> set[int]:
    """A binary search at the ranks of which all harms are tested; the samples differ in their errors only."""
    passed: set[int] = set()
    sample = samples[0][0]
    if sample.m == 0:
        return passed
    tests = 0
    while 2**tests < sample.m:  # the ceiling of log2 m, without rounding
        tests += 1
    tests = max(1, tests)
    low, high = 0, sample.m + 1
    for _ in range(tests):
        if high - low <= 1:
            break
        n = sample.end_from((low + high + 1) // 2)
        if all(passes(one.wrong(n), n, risk, level / tests) for one, risk in samples):
            passed.add(n)
            low = n
        else:
            high = 1 + max([0, *(end for end in sample.ends if end < n)])
    return passed


def sgr(sample: Ranked, risk: float, level: float, options: Options) -> set[int]:
    return search([(sample, risk)], level)


def bonferroni(sample: Ranked, risk: float, level: float, options: Options) -> set[int]:
    if sample.m == 0:
        return set()
    ranks = [-(-j * sample.m // options.ranks) for j in range(1, options.ranks + 1)]
    ends = {sample.end_from(rank) for rank in ranks}
    return {n for n in ends if passes(sample.wrong(n), n, risk, level / options.ranks)}


def start(m: int, risk: float, level: float, over: int, under: int) -> int | None:
    """n_j of the start at over/under of m, or None if it is infeasible."""
    least = fewest(risk, level, m)
    if least is None:
        return None
    most = most_errors(max(least, m * over // under), risk, level)
    return next(n for n in range(1, m + 1) if most_errors(n, risk, level) >= most)


def starts_of(m: int, risk: float, level: float, table: Sequence[tuple[int, int, float]]) -> list[tuple[int, float]]:
    """(n_j, weight) of the starts that remain after weights were passed on."""
    found: list[tuple[int, float]] = []
    handed = 0.0
    for over, under, weight in table:
        share = handed + weight
        n = start(m, risk, share * level, over, under)
        if n is None or (found and found[-1][0] == n):
            handed = share
        else:
            found.append((n, share))
            handed = 0.0
    if found:
        found[0] = (found[0][0], found[0][1] + handed)
    return found


def chains(sample: Ranked, risk: float, level: float, starts: list[tuple[int, float]]) -> set[int]:
    passed: set[int] = set()
    share = 0.0  # of the current chain; 0 if there is none
    before = 0
    for n in sample.ends:
        share += sum(weight for first, weight in starts if before < first <= n)
        before = n
        if share == 0:
            continue
        if sample.wrong(n) <= most_errors(n, risk, share * level):
            passed.add(n)
        else:
            share = 0.0
    return passed


def fallback(sample: Ranked, risk: float, level: float, options: Options) -> set[int]:
    return chains(sample, risk, level, starts_of(sample.m, risk, level, STARTS))


def fixed_sequence(sample: Ranked, risk: float, level: float, options: Options) -> set[int]:
    return chains(sample, risk, level, starts_of(sample.m, risk, level, [(1, 4, 1.0)]))


def crossing(m: int, places: Sequence[int], bounds: Sequence[Any]) -> Any:
    """P(for some i fewer than places[i] of m uniform numbers are <= bounds[i]), in whatever numbers the bounds are.

    The first i with which that happens, and how many there are then (v), are f[i, v].  What is known without a
    boundary, P(v numbers are <= bounds[i]), is the sum of f[i, v] and of all ways to come there after the first time.
    """
    first: list[tuple[int, Any, Any]] = []  # v, bound, probability
    for i, (place, bound) in enumerate(zip(places, bounds, strict=True)):
        found = []
        for v in range(places[i - 1] if i else 0, place):
            ways = mass(v, m, bound)
            for u, before, chance in first:
                ways -= chance * mass(v - u, m - u, (bound - before) / (1 - before))
            found.append((v, bound, ways))
        first += found
    return sum(chance for *_, chance in first)


def mass(k: int, n: int, chance: Any) -> Any:
    """P(Bin(n, chance) = k)."""
    return 0 if k < 0 else math.comb(n, k) * chance**k * (1 - chance) ** (n - k)


@cache
def joint_level(m: int, places: tuple[int, ...], delta: float) -> float:
    """The largest number with three digits at which the bounds of these order statistics hold jointly."""
    levels = [float(f"{digits}e{power}") for power in range(-12, 0) for digits in range(100, 1000)]
    low = sum(level <= delta / len(places) for level in levels) - 1  # holds, by the union bound
    high = sum(level <= delta for level in levels)  # a single bound fails with a higher probability than delta
    while high - low > 1:
        middle = (low + high) // 2
        quantiles = stats.beta.ppf(1 - levels[middle], places, [m + 1 - place for place in places]).tolist()
        if crossing(m, places, quantiles) <= delta * (1 - 1e-6):
            low = middle
        else:
            high = middle
    return levels[low]


def spaced(last: int, apart: Callable[[int], float]) -> tuple[int, ...]:
    """1, ..., last, in steps of at least one."""
    found = [1]
    while found[-1] < last:
        found.append(min(last, found[-1] + max(1, math.floor(apart(found[-1])))))
    return tuple(found)


def band_bounds(sample: Ranked, level: float, r_max: float) -> list[float]:
    """u / l at every group end."""
    m = sample.m
    if m == 0:
        return []
    places = spaced(min(math.floor(r_max * m) + 1, m), lambda k: 0.2 * math.sqrt(k))
    alone = joint_level(m, places, 0.9 * level)
    uppers = dict(
        zip(places, stats.beta.ppf(1 - alone, places, [m + 1 - place for place in places]).tolist(), strict=True)
    )
    first = min(max(1, math.floor(m * uppers[1] / r_max)), m)
    mirrored = spaced(m + 1 - first, lambda k: 0.5 * math.sqrt(k * (1 - k / (m + 1))))
    alone = joint_level(m, mirrored, 0.1 * level)
    ranks = [m + 1 - place for place in mirrored]
    lowers = dict(zip(ranks, stats.beta.ppf(alone, ranks, mirrored).tolist(), strict=True))
    bounds = []
    for n, k in zip(sample.ends, sample.errors, strict=True):
        upper = min((bound for place, bound in uppers.items() if place >= k + 1), default=1.0)
        lower = max((bound for rank, bound in lowers.items() if rank <= n), default=0.0)
        bounds.append(upper / lower if lower else 1.0)
    return bounds


def divided_bounds(sample: Ranked, level: float, r_max: float) -> list[float]:
    """The same with the levels of earlier versions."""
    m = sample.m
    if m == 0:
        return []
    counts = math.ceil(1.3 * r_max * m) + 10
    anchors = sorted({round(float(x)) for x in np.geomspace(1, m, 120)})
    below = [max(anchor for anchor in anchors if anchor <= n) for n in sample.ends]
    # All at once, because calls of scipy.stats are slow.
    lowers = stats.beta.ppf(0.1 * level / 120, below, [m + 1 - anchor for anchor in below])
    uppers = stats.beta.ppf(1 - 0.9 * level / counts, [k + 1 for k in range(m)], [m - k for k in range(m)])
    bounds = []
    for k, lower in zip(sample.errors, lowers, strict=True):
        upper = 1.0 if k >= counts or k >= m else float(uppers[k])
        bounds.append(upper / float(lower))
    return bounds


def band(sample: Ranked, risk: float, level: float, options: Options) -> set[int]:
    bounds = band_bounds(sample, level, options.r_max)
    return {n for n, bound in zip(sample.ends, bounds, strict=True) if bound <= risk}


#: Methods that test thresholds fixed in advance.
NAMED = ("grid", "preset", "pareto")
Method = Callable[[Ranked, float, float, Options], set[int]]
BY_RANK: Mapping[str, Method] = {
    "sgr": sgr,
    "bonferroni": bonferroni,
    "fixed_sequence": fixed_sequence,
    "fallback": fallback,
    "band": band,
}


def grid(confidence: Sequence[float], wrong: Sequence[int], risk: float, level: float, options: Options) -> set[float]:
    """Thresholds that passed."""
    passed: set[float] = set()
    for threshold in sorted(options.thresholds, reverse=True):
        n = sum(c > threshold for c in confidence)
        errors = sum(w for c, w in zip(confidence, wrong, strict=True) if c > threshold)
        if not passes(errors, n, risk, level):
            break
        passed.add(threshold)
    return passed


def chosen(options: Options) -> list[tuple[float, float]]:
    """A threshold for every percent of the pilot's cases, the strictest first, and the fraction that it accepts."""
    falling = sorted(options.pilot, reverse=True)
    cases = len(falling)
    limits = {(*falling, -math.inf)[math.ceil(Fraction(step, 100) * cases)] for step in range(1, 101)}
    shares = [(limit, sum(c > limit for c in falling) / cases) for limit in sorted(limits, reverse=True)]
    return [(limit, share) for limit, share in shares if share]


def preset(
    confidence: Sequence[float],
    wrong: Mapping[str, Sequence[int]],
    target: Mapping[str, float],
    level: float,
    options: Options,
) -> set[float]:
    """Thresholds that passed for all harms, with starts at the pilot's coverages of the harm that starts last."""
    passed: set[float] = set()
    begins = [starts_of(len(confidence), risk, level, STARTS) for risk in target.values()]
    if not all(begins):
        return passed
    planned = [share * len(confidence) for _, share in chosen(options)]
    waiting = max(begins, key=lambda begin: sum(count < begin[0][0] for count in planned))
    share = 0.0
    for (threshold, _), count in zip(chosen(options), planned, strict=True):
        share += sum(weight for n, weight in waiting if count >= n)
        waiting = [(n, weight) for n, weight in waiting if count < n]
        taken = [i for i, c in enumerate(confidence) if c > threshold]
        errors = {harm: sum(wrong[harm][i] for i in taken) for harm in target}
        if share and all(passes(errors[harm], len(taken), risk, share * level) for harm, risk in target.items()):
            passed.add(threshold)
        else:
            share = 0.0
    return passed


def margin(threshold: float, harm: str, m: int, risk: float, level: float, options: Options) -> float:
    """By how many standard deviations a test with m cases is expected to pass."""
    cases = len(options.pilot)
    taken = [w for c, w in zip(options.pilot, options.pilot_losses[harm], strict=True) if c > threshold]
    n = len(taken) * m // cases
    allowed = most_errors(n, risk, level)
    if allowed < 0:
        return -math.inf
    rate = (sum(taken) + 0.5) / (len(taken) + 1)
    deviation = math.sqrt(n * rate * (1 - rate) * (1 + (n - 1) / (len(taken) + 2)))
    return round((allowed + 0.5 - n * rate) / deviation, 6)


def order(target: Mapping[str, float], m: int, level: float, options: Options) -> list[float]:
    """Thresholds in their testing order."""
    rest = [limit for limit, _ in chosen(options)]
    margins = {
        limit: min(margin(limit, harm, m, risk, level, options) for harm, risk in target.items()) for limit in rest
    }
    found: list[float] = []
    while rest:
        best = max(rest, key=lambda limit: (margins[limit], limit))
        if margins[best] == -math.inf and found:
            break
        found.append(best)
        rest = [limit for limit in rest if limit < best]
    return found


def pareto(
    confidence: Sequence[float], wrong: Sequence[int], risk: float, level: float, thresholds: Sequence[float]
) -> set[float]:
    """Thresholds that passed, in turn, until one did not."""
    passed: set[float] = set()
    for threshold in thresholds:
        errors = [w for c, w in zip(confidence, wrong, strict=True) if c > threshold]
        if not passes(sum(errors), len(errors), risk, level):
            break
        passed.add(threshold)
    return passed


@dataclass(frozen=True)
class Answer:
    """Expected rule: number of accepted cases, threshold, and errors among them."""

    n: int
    threshold: float
    errors: Mapping[str, int]
    level: float
    hopeless: bool | None


def certify(
    confidence: Sequence[float],
    losses: Mapping[str, Sequence[int]],
    risks: Sequence[Mapping[str, float]],
    delta: float,
    method: str,
    by: Sequence[object] | None = None,
    options: Options | None = None,
) -> dict[tuple[int, object], Answer]:
    """One expected rule for each (index of the target, group)."""
    options = options or Options()
    groups: list[object] = [None] if by is None else sorted(set(by), key=str)
    answers: dict[tuple[int, object], Answer] = {}
    for index, target in enumerate(risks):
        level = delta / ((len(target) if method == "band" else len(risks)) * len(groups))
        for group in groups:
            mine = [i for i in range(len(confidence)) if by is None or by[i] == group]
            scores = [confidence[i] for i in mine]
            wrong = {harm: [losses[harm][i] for i in mine] for harm in target}
            turn = order(target, len(confidence) // len(groups), level, options) if method == "pareto" else []
            answers[index, group] = _answer(scores, wrong, target, level, method, options, turn)
    return answers


def _answer(
    scores: Sequence[float],
    wrong: Mapping[str, Sequence[int]],
    target: Mapping[str, float],
    level: float,
    method: str,
    options: Options,
    turn: Sequence[float],
) -> Answer:
    fixed: Sequence[float] = options.thresholds
    if method in ("preset", "pareto"):
        fixed = [limit for limit, _ in chosen(options)]
    if method in NAMED:
        if method == "preset":
            named = [preset(scores, wrong, target, level, options)]
        else:
            named = [
                pareto(scores, wrong[harm], risk, level, turn)
                if method == "pareto"
                else grid(scores, wrong[harm], risk, level, options)
                for harm, risk in target.items()
            ]
        threshold = min(set.intersection(*named), default=math.inf)
    else:
        ranked = {harm: Ranked.of(scores, wrong[harm]) for harm in target}
        if method == "sgr":  # separate searches would test different ranks
            sets = [search([(ranked[harm], risk) for harm, risk in target.items()], level)]
        else:
            sets = [BY_RANK[method](ranked[harm], risk, level, options) for harm, risk in target.items()]
        best = max(set.intersection(*sets), default=0)
        sample = next(iter(ranked.values()))
        threshold = sample.thresholds[sample.ends.index(best)] if best else math.inf
    taken = [i for i, c in enumerate(scores) if c > threshold]
    errors = {harm: sum(wrong[harm][i] for i in taken) for harm in target}
    hopeless = _hopeless(scores, wrong, target, fixed if method in NAMED else (*scores, -math.inf))
    return Answer(len(taken), threshold, errors, level, hopeless)


def _hopeless(
    scores: Sequence[float],
    wrong: Mapping[str, Sequence[int]],
    target: Mapping[str, float],
    thresholds: Sequence[float],
) -> bool | None:
    """Whether the observed error rate of some harm reaches its target at every rank; None without observations."""
    seen = False
    for threshold in thresholds:
        taken = [i for i, c in enumerate(scores) if c > threshold]
        seen = seen or bool(taken)
        if taken and all(sum(wrong[harm][i] for i in taken) < risk * len(taken) for harm, risk in target.items()):
            return False
    return True if seen else None
