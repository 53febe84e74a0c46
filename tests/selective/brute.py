"""Certified selection written a second time: slow, literal, and without a look at `squad.selective`.

Plain loops over small samples.  Counts are whole numbers, binomial tails come from exact integer arithmetic, and each
method is the sequence of tests that its definition names.  A method returns the set of n that passed: several harms
are joined by the intersection of their sets.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

STARTS = ((1, 4, 0.8), (1, 2, 0.1), (3, 4, 0.1))


class Tails:
    """P(Bin(n, risk) <= k), each the float nearest to the exact value; a table that grows as n is asked for."""

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
    """The group ends n of a sample, the errors S_n among the top n, and the threshold that accepts just these."""

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


def sgr(sample: Ranked, risk: float, level: float, options: Options) -> set[int]:
    passed: set[int] = set()
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
        if passes(sample.wrong(n), n, risk, level / tests):
            passed.add(n)
            low = n
        else:
            high = 1 + max([0, *(end for end in sample.ends if end < n)])
    return passed


def bonferroni(sample: Ranked, risk: float, level: float, options: Options) -> set[int]:
    if sample.m == 0:
        return set()
    ranks = [-(-j * sample.m // options.ranks) for j in range(1, options.ranks + 1)]
    ends = {sample.end_from(rank) for rank in ranks}
    return {n for n in ends if passes(sample.wrong(n), n, risk, level / options.ranks)}


def start(m: int, risk: float, level: float, over: int, under: int) -> int | None:
    """n_j of the start at over/under of m, or None where it is infeasible."""
    least = fewest(risk, level, m)
    if least is None:
        return None
    most = most_errors(max(least, m * over // under), risk, level)
    return next(n for n in range(1, m + 1) if most_errors(n, risk, level) >= most)


def starts_of(m: int, risk: float, level: float, table: Sequence[tuple[int, int, float]]) -> list[tuple[int, float]]:
    """(n_j, weight) of the starts that are left after weights were handed on."""
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
    share = 0.0  # of the chain that is open; 0: none is
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


def band_bounds(sample: Ranked, level: float, r_max: float) -> list[float]:
    """u / l at every group end."""
    m = sample.m
    if m == 0:
        return []
    counts = math.ceil(1.3 * r_max * m) + 10
    anchors = sorted({round(float(x)) for x in np.geomspace(1, m, 120)})
    below = [max(anchor for anchor in anchors if anchor <= n) for n in sample.ends]
    # All at once, because a call of scipy.stats takes long.
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


Method = Callable[[Ranked, float, float, Options], set[int]]
BY_RANK: Mapping[str, Method] = {
    "sgr": sgr,
    "bonferroni": bonferroni,
    "fixed_sequence": fixed_sequence,
    "fallback": fallback,
    "band": band,
}


def grid(confidence: Sequence[float], wrong: Sequence[int], risk: float, level: float, options: Options) -> set[float]:
    """The thresholds that passed."""
    passed: set[float] = set()
    for threshold in sorted(options.thresholds, reverse=True):
        n = sum(c > threshold for c in confidence)
        errors = sum(w for c, w in zip(confidence, wrong, strict=True) if c > threshold)
        if not passes(errors, n, risk, level):
            break
        passed.add(threshold)
    return passed


@dataclass(frozen=True)
class Answer:
    """What one rule has to be: how many points it accepts, its threshold, the errors among them."""

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
    """One answer for each (index of the target, group)."""
    options = options or Options()
    groups: list[object] = [None] if by is None else sorted(set(by), key=str)
    answers: dict[tuple[int, object], Answer] = {}
    for index, target in enumerate(risks):
        level = delta / ((1 if method == "band" else len(risks)) * len(groups) * len(target))
        for group in groups:
            mine = [i for i in range(len(confidence)) if by is None or by[i] == group]
            scores = [confidence[i] for i in mine]
            wrong = {harm: [losses[harm][i] for i in mine] for harm in target}
            answers[index, group] = _answer(scores, wrong, target, level, method, options)
    return answers


def _answer(
    scores: Sequence[float],
    wrong: Mapping[str, Sequence[int]],
    target: Mapping[str, float],
    level: float,
    method: str,
    options: Options,
) -> Answer:
    if method == "grid":
        named = [grid(scores, wrong[harm], risk, level, options) for harm, risk in target.items()]
        threshold = min(set.intersection(*named), default=math.inf)
    else:
        ranked = {harm: Ranked.of(scores, wrong[harm]) for harm in target}
        sets = [BY_RANK[method](ranked[harm], risk, level, options) for harm, risk in target.items()]
        best = max(set.intersection(*sets), default=0)
        sample = next(iter(ranked.values()))
        threshold = sample.thresholds[sample.ends.index(best)] if best else math.inf
    taken = [i for i, c in enumerate(scores) if c > threshold]
    errors = {harm: sum(wrong[harm][i] for i in taken) for harm in target}
    hopeless = _hopeless(scores, wrong, target, options.thresholds if method == "grid" else (*scores, -math.inf))
    return Answer(len(taken), threshold, errors, level, hopeless)


def _hopeless(
    scores: Sequence[float],
    wrong: Mapping[str, Sequence[int]],
    target: Mapping[str, float],
    thresholds: Sequence[float],
) -> bool | None:
    """Whether the observed error of some harm reaches its target at every rank; None where nothing is observed."""
    seen = False
    for threshold in thresholds:
        taken = [i for i, c in enumerate(scores) if c > threshold]
        seen = seen or bool(taken)
        if taken and all(sum(wrong[harm][i] for i in taken) < risk * len(taken) for harm, risk in target.items()):
            return False
    return True if seen else None
