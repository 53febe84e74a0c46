"""How likely a method is to succeed with m calibration cases: simulated on a population that is given.

A sample is kept as its path through (accepted cases, errors among them), from the most confident case on.  The corners
after each run of errors are all that a method's tests depend on, so thousands of samples are tested at once.
``tests/selective/test_power.py`` holds these tests to those of :mod:`squad.selective.methods`.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, gammaln, xlog1py, xlogy

from squad.selective.bands import risk_bounds
from squad.selective.bounds import MOST, passes
from squad.selective.methods import FALLBACK, FIXED, Options, starts, tests_of

__all__ = ["SAMPLES", "SEED", "SIMULATED", "Boundary", "Drawn", "Flat", "Paths", "chance_of_one", "succeeds"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Of all that is simulated: the same question has the same answer.
SEED = 20_261_118
#: Samples: a chance of .9 is then known to .2 points.
SAMPLES = 20_000
#: Corners that are kept at once, in all and of one sample; where there are more, several errors make one.
CORNERS, LONGEST = 12_000_000, 3000
#: Terms of a sum over accepted cases.
TERMS = 1000
#: Counts of errors whose boundary is kept; where there are more, every k-th.
BOUNDARY = 20_000


@dataclass(frozen=True, eq=False)
class Paths:
    """Samples of m cases each.

    Attributes:
        m: cases.
        n: (samples, corners), accepted cases at the end of each run of errors; never falls, the last is m.
        errors: (samples, corners), errors among them.
    """

    m: int
    n: Ints
    errors: Ints

    def only(self, some: Ints) -> "Paths":
        """Some of the samples, in their order."""
        return self if len(some) == len(self.n) else Paths(self.m, self.n[some], self.errors[some])

    def at(self, n: int | Ints) -> Ints:
        """(samples,), the errors among the n most confident; n may differ from sample to sample."""
        wanted = np.broadcast_to(np.asarray(n), self.n.shape[:1])
        after = (self.n < wanted[:, None]).sum(1)  # the corner at the end of the run that has the n-th case
        rows = np.arange(len(self.n))
        before = np.where(after > 0, self.errors[rows, after - 1], 0)
        # A run has its right cases first, then its errors.
        return np.asarray(np.maximum(before, self.errors[rows, after] - (self.n[rows, after] - wanted)))


class Flat:
    """The least favourable population of a rule: the most confident share ``coverage`` has errors at one rate.

    All others are wrong.  Of all populations whose risk grows with coverage, and in which a rule accepts this share at
    this error rate, none makes it harder for a method (docs/selection.md has the proof).

    Args:
        coverage: the share.
        error: the rate.
        most: cases of a sample, at most.
        samples: how many.
        seed: of the samples.
    """

    def __init__(self, coverage: float, error: float, most: int, samples: int = SAMPLES, seed: int = SEED) -> None:
        self.coverage, self.most, self.seed = coverage, most, seed
        mean = coverage * error * most
        count = math.ceil(mean + 8 * math.sqrt(mean)) + 8 if error else 0
        self.step = -(-count // LONGEST) if count else 1
        corners = -(-count // self.step)
        samples = min(samples, CORNERS // (corners + 1))
        rng = np.random.default_rng(seed)
        if not error:
            gaps = np.empty((samples, 0), dtype=np.int64)
        elif self.step == 1:
            gaps = rng.geometric(error, (samples, corners)).astype(np.int64)
        else:
            gaps = rng.negative_binomial(self.step, error, (samples, corners)) + self.step
        self.places = np.cumsum(gaps, 1)

    def draw(self, m: int) -> Paths:
        """Samples of m cases; their errors stand at the same places for every m."""
        good = np.random.default_rng([self.seed, m]).binomial(m, self.coverage, len(self.places))[:, None]
        inside = self.places <= good
        seen = int(inside.sum(1).max()) if inside.size else 0
        places, inside = self.places[:, :seen], inside[:, :seen]
        # Behind the good ones all are wrong, up to the end; errors that would have come there are part of that run.
        errors = self.step * inside.sum(1)[:, None] + m - good
        counts = self.step * np.arange(1, seen + 1)
        n = np.where(inside, places, m)
        return Paths(m, np.append(n, np.full_like(good, m), 1), np.append(np.where(inside, counts, errors), errors, 1))


class Drawn:
    """The population that a pilot suggests: cases are drawn from them, with replacement.

    Copies of one score are accepted one by one: the population has no equal confidences.

    Args:
        wrong: (N,), whether each is wrong, the most confident first.
        samples: how many.
        seed: of the samples.
    """

    def __init__(self, wrong: Bools, samples: int = SAMPLES, seed: int = SEED) -> None:
        self.seed = seed
        # Cases beside each other that are all right, or all wrong, are drawn together.
        begins = np.append(0, np.flatnonzero(wrong[1:] != wrong[:-1]) + 1)
        self.wrong = wrong[begins]
        self.shares = np.diff(np.append(begins, len(wrong))) / len(wrong)
        self.samples = max(min(samples, 500), min(samples, CORNERS // 2 // len(begins)))

    def draw(self, m: int) -> Paths:
        """Samples of m cases."""
        rng = np.random.default_rng([self.seed, m])
        often = rng.multinomial(m, self.shares, self.samples)
        end = np.append(self.wrong[:-1] > self.wrong[1:], True)  # of a run of errors, and of all
        return Paths(m, np.cumsum(often, 1)[:, end], np.cumsum(often * self.wrong, 1)[:, end])


def chance_of_one(m: int, coverage: float, error: float, risk: float, level: float) -> float:
    """The chance that one rule passes that was named in advance: accepted cases are binomial, and errors among them.

    Exactly, but for sums of thousands of terms, of which every k-th is taken.
    """
    spread = 7 * math.sqrt(m * coverage * (1 - coverage)) + 10
    n = np.arange(max(0, math.floor(m * coverage - spread)), min(m, math.ceil(m * coverage + spread)) + 1)
    if len(n) > TERMS:
        n = np.unique(np.linspace(n[0], n[-1], TERMS).astype(np.int64))
    logs = gammaln(m + 1) - gammaln(n + 1) - gammaln(m - n + 1) + xlogy(n, coverage) + xlog1py(m - n, -coverage)
    weights = np.exp(logs - logs.max())
    allowed = _most_errors(n, risk, level)
    passed = np.where(allowed < 0, 0.0, bdtr(np.maximum(allowed, 0), np.maximum(n, 1), error))
    return float((weights * passed).sum() / weights.sum())


def succeeds(paths: Paths, least: int, method: str, risk: float, level: float, options: Options) -> Bools:
    """(samples,), whether the method shows a rule that accepts at least ``least`` cases, and one."""
    return SIMULATED[method](paths, min(max(least, 1), paths.m), risk, level, options)


Test = Callable[[Paths, int, float, float, Options], Bools]


def _walk(plan: tuple[tuple[float, float], ...]) -> Test:
    """See :func:`squad.selective.methods.walk`."""

    def test(paths: Paths, least: int, risk: float, level: float, options: Options) -> Bools:
        found = np.zeros(len(paths.n), dtype=np.bool_)
        weights = np.zeros(len(paths.n))  # of the chain that each sample is in; 0 where there is none
        begin = starts(paths.m, risk, level, plan)
        for place, start in enumerate(begin):
            last = begin[place + 1].n - 1 if place + 1 < len(begin) else paths.m
            weights = weights + start.weight
            for weight in np.unique(weights):
                chain = np.flatnonzero(weights == weight)
                some = paths.only(chain)
                good = Boundary.of(risk, float(weight * level), paths.m)
                alive = good(some.at(start.n), start.n)
                bad = ~good(some.errors, some.n) & (some.n > start.n)
                # Within a run of errors each is worse than the one before: the corners, and the end, say it all.
                for end in (least, last):
                    if start.n < end <= last:
                        through = alive & ~(bad & (some.n <= end)).any(1) & good(some.at(end), end)
                    else:
                        through = alive
                    if end == least and least <= last:
                        found[chain] |= through
                weights[chain[~through]] = 0.0
        return found

    return test


def _sgr(paths: Paths, least: int, risk: float, level: float, options: Options) -> Bools:
    tests = tests_of(paths.m)
    good = Boundary.of(risk, level / tests, paths.m)
    low = np.zeros(len(paths.n), dtype=np.int64)
    high = np.full(len(paths.n), paths.m + 1)
    for _ in range(tests):
        middle = (low + high + 1) // 2
        looks = high - low > 1
        passed = looks & good(paths.at(np.minimum(middle, paths.m)), middle)
        low, high = np.where(passed, middle, low), np.where(looks & ~passed, middle, high)
    return low >= least


def _bonferroni(paths: Paths, least: int, risk: float, level: float, options: Options) -> Bools:
    good = Boundary.of(risk, level / options.ranks, paths.m)
    ranks = sorted({-(-place * paths.m // options.ranks) for place in range(1, options.ranks + 1)})
    found = np.zeros(len(paths.n), dtype=np.bool_)
    for n in ranks:
        if n >= least:
            found |= good(paths.at(n), n)
    return found


def _band(paths: Paths, least: int, risk: float, level: float, options: Options) -> Bools:
    # A rule with as many errors is shown the more easily the more it accepts: ends of runs of right cases, and least.
    earlier = np.pad(paths.errors, ((0, 0), (1, 0)))[:, :-1]
    n = np.append(paths.n - (paths.errors - earlier), np.full((len(paths.n), 1), least), 1)
    errors = np.append(earlier, paths.at(least)[:, None], 1)
    wanted = (n >= least) & (errors < risk * n)
    found = np.zeros(n.shape, dtype=np.bool_)
    found[wanted] = risk_bounds(paths.m, n[wanted], errors[wanted], level, options.r_max) <= risk
    return np.asarray(found.any(1))


#: The methods whose chance is known by simulation.
SIMULATED: dict[str, Test] = {
    "fallback": _walk(FALLBACK),
    "fixed_sequence": _walk(FIXED),
    "sgr": _sgr,
    "bonferroni": _bonferroni,
    "band": _band,
}


class Boundary:
    """Whether so many errors among n pass, for arrays: the fewest cases that pass with k errors are found once."""

    def __init__(self, risk: float, level: float, m: int) -> None:
        most = math.ceil(risk * m + 4 * math.sqrt(risk * m)) + 10
        self.step = -(-most // BOUNDARY)
        counts = np.minimum(self.step * np.arange(-(-most // self.step) + 1), m)
        # By bisection, all at once; whatever passes with more than m cases only, does not pass here.
        low, high = counts.copy(), np.full(len(counts), m + 1)
        while (high - low > 1).any():
            middle = (low + high) // 2
            passed = passes(counts, middle, risk, level)
            low, high = np.where(passed, low, middle), np.where(passed, middle, high)
        self.fewest = np.where(high > m, MOST, high)

    def __call__(self, errors: Ints, n: Ints | int) -> Bools:
        """Whether so many errors among n are few enough, for arrays."""
        place = np.minimum(errors if self.step == 1 else -(-errors // self.step), len(self.fewest) - 1)
        return np.asarray(self.fewest[place] <= n)

    @classmethod
    def of(cls, risk: float, level: float, m: int) -> "Boundary":
        """For at least m cases; those of another m will mostly do."""
        return _boundary(risk, level, 1 << math.ceil(math.log2(max(m, 2))))


@functools.lru_cache(maxsize=64)
def _boundary(risk: float, level: float, m: int) -> Boundary:
    return Boundary(risk, level, m)


def _most_errors(n: Ints, risk: float, level: float) -> Ints:
    """The most errors among each n that pass; -1 if not even 0 do."""
    # The most are near the mean: looked for there, unless the level is beyond all reason.
    spread = np.sqrt(-2 * np.log(min(level, 0.5)) * risk * n) - 2 * math.log(min(level, 0.5)) + 2
    low = np.maximum(np.floor(risk * n - 2 * spread).astype(np.int64) - 1, -1)
    high = np.minimum(np.ceil(risk * n + 2 * spread).astype(np.int64) + 1, n)
    low = np.where((low < 0) | passes(low, n, risk, level), low, -1)
    high = np.where(passes(high, n, risk, level), n, high)
    while (high - low > 1).any():
        middle = (low + high) // 2
        passed = passes(middle, n, risk, level)
        low, high = np.where(passed, middle, low), np.where(passed, high, middle)
    return np.asarray(low)
