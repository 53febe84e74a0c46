"""Power of the methods: probability of success with m calibration cases, by simulation on a given population.

A sample is represented by its path through (accepted cases, errors among them), from the most confident case on.  The
tests of a method depend only on the corners after each run of errors, so thousands of samples are tested at once.
``tests/selective/test_power.py`` compares these tests with those of :mod:`squad.selective.methods`.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, gammaln, xlog1py, xlogy

from squad.selective.bands import risk_bounds
from squad.selective.bounds import MAX_CASES, passes
from squad.selective.methods import FALLBACK, FIXED, Options, starts, tests_of

__all__ = [
    "SAMPLES",
    "SEED",
    "SIMULATED",
    "Boundary",
    "LeastFavourable",
    "Paths",
    "PilotPopulation",
    "succeeds",
    "success_of_one_threshold",
]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Seed of all simulations, so that results are reproducible.
SEED = 20_261_118
#: Number of samples: a probability of 0.9 is then known to within 0.2 percentage points.
SAMPLES = 20_000
#: Maximum number of corners held in memory, in total and per sample; beyond, several errors are merged into one corner.
MAX_CORNERS, MAX_CORNERS_PER_SAMPLE = 12_000_000, 3000
#: Maximum number of terms of a sum over accepted cases.
MAX_TERMS = 1000
#: Maximum number of error counts whose boundary is stored; beyond, every k-th.
MAX_BOUNDARY_COUNTS = 20_000


@dataclass(frozen=True, eq=False)
class Paths:
    """Samples of m cases each.

    Attributes:
        m: Number of cases.
        n: (samples, corners), accepted cases at the end of each run of errors; non-decreasing, the last is m.
        errors: (samples, corners), errors among these.
    """

    m: int
    n: Ints
    errors: Ints

    def only(self, some: Ints) -> "Paths":
        """Return a subset of the samples, in their order."""
        return self if len(some) == len(self.n) else Paths(self.m, self.n[some], self.errors[some])

    def at(self, n: int | Ints) -> Ints:
        """Return the errors among the n most confident cases, (samples,); n may differ between samples."""
        wanted = np.broadcast_to(np.asarray(n), self.n.shape[:1])
        after = (self.n < wanted[:, None]).sum(1)  # corner at the end of the run that contains the n-th case
        rows = np.arange(len(self.n))
        before = np.where(after > 0, self.errors[rows, after - 1], 0)
        # A run consists of correct cases, followed by errors.
        return np.asarray(np.maximum(before, self.errors[rows, after] - (self.n[rows, after] - wanted)))


class LeastFavourable:
    """Least favourable population: constant error rate among accepted cases, and all other cases are wrong.

    Among all populations whose risk increases with coverage and in which a rule accepts this fraction at this error
    rate, none makes it harder for a method (docs/explanation/guarantees.md has the proof).

    Args:
        coverage: Fraction of accepted cases.
        error: Error rate among these.
        most: Maximum size of a sample.
        samples: Number of samples.
        seed: Seed of the samples.
    """

    def __init__(self, coverage: float, error: float, most: int, samples: int = SAMPLES, seed: int = SEED) -> None:
        self.coverage, self.most, self.seed = coverage, most, seed
        mean = coverage * error * most
        count = math.ceil(mean + 8 * math.sqrt(mean)) + 8 if error else 0
        self.step = -(-count // MAX_CORNERS_PER_SAMPLE) if count else 1
        corners = -(-count // self.step)
        samples = min(samples, MAX_CORNERS // (corners + 1))
        rng = np.random.default_rng(seed)
        if not error:
            gaps = np.empty((samples, 0), dtype=np.int64)
        elif self.step == 1:
            gaps = rng.geometric(error, (samples, corners)).astype(np.int64)
        else:
            gaps = rng.negative_binomial(self.step, error, (samples, corners)) + self.step
        self.places = np.cumsum(gaps, 1)

    def draw(self, m: int) -> Paths:
        """Draw samples of m cases; their errors have the same positions for every m.

        Args:
            m: Number of cases per sample.

        Returns:
            Errors of every sample as a function of the number of accepted cases.
        """
        good = np.random.default_rng([self.seed, m]).binomial(m, self.coverage, len(self.places))[:, None]
        inside = self.places <= good
        seen = int(inside.sum(1).max()) if inside.size else 0
        places, inside = self.places[:, :seen], inside[:, :seen]
        # Beyond the accepted fraction all cases are wrong, up to the end; errors drawn there are part of that run.
        errors = self.step * inside.sum(1)[:, None] + m - good
        counts = self.step * np.arange(1, seen + 1)
        n = np.where(inside, places, m)
        return Paths(m, np.append(n, np.full_like(good, m), 1), np.append(np.where(inside, counts, errors), errors, 1))


class PilotPopulation:
    """The population that a pilot suggests: cases are drawn from the pilot with replacement.

    Copies of a case are accepted one by one: the population has no ties.

    Args:
        wrong: (N,), whether each case is wrong, the most confident first.
        samples: Number of samples.
        seed: Seed of the samples.
    """

    def __init__(self, wrong: Bools, samples: int = SAMPLES, seed: int = SEED) -> None:
        self.seed = seed
        # Neighbouring cases that are all correct, or all wrong, are drawn together.
        begins = np.append(0, np.flatnonzero(wrong[1:] != wrong[:-1]) + 1)
        self.wrong = wrong[begins]
        self.shares = np.diff(np.append(begins, len(wrong))) / len(wrong)
        self.samples = max(min(samples, 500), min(samples, MAX_CORNERS // 2 // len(begins)))

    def draw(self, m: int) -> Paths:
        """Draw samples of m cases.

        Args:
            m: Number of cases per sample.

        Returns:
            Errors of every sample as a function of the number of accepted cases.
        """
        rng = np.random.default_rng([self.seed, m])
        counts = rng.multinomial(m, self.shares, self.samples)
        end = np.append(self.wrong[:-1] > self.wrong[1:], True)  # end of a run of errors, or of the sample
        return Paths(m, np.cumsum(counts, 1)[:, end], np.cumsum(counts * self.wrong, 1)[:, end])


def success_of_one_threshold(m: int, coverage: float, error: float, risk: float, level: float) -> float:
    """Return the probability that one threshold fixed in advance passes: accepted cases and their errors are binomial.

    Exact, except that sums of thousands of terms are evaluated at every k-th term.

    Args:
        m: Number of calibration cases.
        coverage: Probability that the threshold accepts a case.
        error: Error probability of accepted cases.
        risk: Target.
        level: Significance level.

    Returns:
        The probability.

    Examples:
        >>> round(success_of_one_threshold(500, 0.8, 0.005, 0.02, 0.01), 3)
        0.412
    """
    spread = 7 * math.sqrt(m * coverage * (1 - coverage)) + 10
    n = np.arange(max(0, math.floor(m * coverage - spread)), min(m, math.ceil(m * coverage + spread)) + 1)
    if len(n) > MAX_TERMS:
        n = np.unique(np.linspace(n[0], n[-1], MAX_TERMS).astype(np.int64))
    logs = gammaln(m + 1) - gammaln(n + 1) - gammaln(m - n + 1) + xlogy(n, coverage) + xlog1py(m - n, -coverage)
    weights = np.exp(logs - logs.max())
    allowed = _most_errors_per_n(n, risk, level)
    passed = np.where(allowed < 0, 0.0, bdtr(np.maximum(allowed, 0), np.maximum(n, 1), error))
    return float((weights * passed).sum() / weights.sum())


def succeeds(paths: Paths, least: int, method: str, risk: float, level: float, options: Options) -> Bools:
    """Return, per sample, whether the method certifies a rule that accepts at least ``least`` cases, and one.

    Args:
        paths: Samples.
        least: Number of cases that the rule must accept.
        method: Name of the method.
        risk: Target.
        level: Significance level.
        options: Options of the method.

    Returns:
        (samples,), booleans.
    """
    return SIMULATED[method](paths, min(max(least, 1), paths.m), risk, level, options)


Test = Callable[[Paths, int, float, float, Options], Bools]


def _simulate_walk(plan: tuple[tuple[float, float], ...]) -> Test:
    """Return the counterpart of :func:`squad.selective.methods.walk`."""

    def test(paths: Paths, least: int, risk: float, level: float, options: Options) -> Bools:
        found = np.zeros(len(paths.n), dtype=np.bool_)
        weights = np.zeros(len(paths.n))  # level of the chain that each sample is in; 0 where there is none
        begin = starts(paths.m, risk, level, plan)
        for index, start in enumerate(begin):
            last = begin[index + 1].n - 1 if index + 1 < len(begin) else paths.m
            weights = weights + start.weight
            for weight in np.unique(weights):
                chain = np.flatnonzero(weights == weight)
                some = paths.only(chain)
                good = Boundary.of(risk, float(weight * level), paths.m)
                alive = good(some.at(start.n), start.n)
                bad = ~good(some.errors, some.n) & (some.n > start.n)
                # Within a run of errors each rule is worse than the one before: corners and the end are enough.
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


def _simulate_sgr(paths: Paths, least: int, risk: float, level: float, options: Options) -> Bools:
    tests = tests_of(paths.m)
    good = Boundary.of(risk, level / tests, paths.m)
    low = np.zeros(len(paths.n), dtype=np.int64)
    high = np.full(len(paths.n), paths.m + 1)
    for _ in range(tests):
        middle = (low + high + 1) // 2
        active = high - low > 1
        passed = active & good(paths.at(np.minimum(middle, paths.m)), middle)
        low, high = np.where(passed, middle, low), np.where(active & ~passed, middle, high)
    return low >= least


def _simulate_bonferroni(paths: Paths, least: int, risk: float, level: float, options: Options) -> Bools:
    good = Boundary.of(risk, level / options.ranks, paths.m)
    ranks = sorted({-(-index * paths.m // options.ranks) for index in range(1, options.ranks + 1)})
    found = np.zeros(len(paths.n), dtype=np.bool_)
    for n in ranks:
        if n >= least:
            found |= good(paths.at(n), n)
    return found


def _simulate_band(paths: Paths, least: int, risk: float, level: float, options: Options) -> Bools:
    # With equal errors, a rule passes more easily the more it accepts: test ends of runs of correct cases, and least.
    earlier = np.pad(paths.errors, ((0, 0), (1, 0)))[:, :-1]
    n = np.append(paths.n - (paths.errors - earlier), np.full((len(paths.n), 1), least), 1)
    errors = np.append(earlier, paths.at(least)[:, None], 1)
    wanted = (n >= least) & (errors < risk * n)
    found = np.zeros(n.shape, dtype=np.bool_)
    found[wanted] = risk_bounds(paths.m, n[wanted], errors[wanted], level, options.r_max) <= risk
    return np.asarray(found.any(1))


#: Methods whose power is computed by simulation.
SIMULATED: dict[str, Test] = {
    "fallback": _simulate_walk(FALLBACK),
    "fixed_sequence": _simulate_walk(FIXED),
    "sgr": _simulate_sgr,
    "bonferroni": _simulate_bonferroni,
    "band": _simulate_band,
}


class Boundary:
    """Vectorized binomial test: the smallest n that passes with k errors is computed once for all k.

    Args:
        risk: Target.
        level: Significance level.
        m: Maximum number of cases.
    """

    def __init__(self, risk: float, level: float, m: int) -> None:
        most = math.ceil(risk * m + 4 * math.sqrt(risk * m)) + 10
        self.step = -(-most // MAX_BOUNDARY_COUNTS)
        counts = np.minimum(self.step * np.arange(-(-most // self.step) + 1), m)
        # Bisection for all counts at once; counts that need more than m cases do not pass.
        low, high = counts.copy(), np.full(len(counts), m + 1)
        while (high - low > 1).any():
            middle = (low + high) // 2
            passed = passes(counts, middle, risk, level)
            low, high = np.where(passed, low, middle), np.where(passed, middle, high)
        self.fewest = np.where(high > m, MAX_CASES, high)

    def __call__(self, errors: Ints, n: Ints | int) -> Bools:
        """Return whether these numbers of errors among n pass."""
        index = np.minimum(errors if self.step == 1 else -(-errors // self.step), len(self.fewest) - 1)
        return np.asarray(self.fewest[index] <= n)

    @classmethod
    def of(cls, risk: float, level: float, m: int) -> "Boundary":
        """Return a cached boundary for at least m cases, shared between neighbouring m.

        Args:
            risk: Target.
            level: Significance level.
            m: Number of cases that the boundary must cover.

        Returns:
            The boundary.
        """
        return _boundary(risk, level, 1 << math.ceil(math.log2(max(m, 2))))


@functools.lru_cache(maxsize=64)
def _boundary(risk: float, level: float, m: int) -> Boundary:
    return Boundary(risk, level, m)


def _most_errors_per_n(n: Ints, risk: float, level: float) -> Ints:
    """Return the largest number of errors among each n that passes; -1 if not even 0 does."""
    # The number is close to the mean: search there first, and everywhere only for extreme levels.
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
