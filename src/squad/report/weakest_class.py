"""The class that a model misses most often, and the next certificate that would bound its miss rate."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from squad.metrics.calibration import clopper_pearson
from squad.report.summaries import ClassRow
from squad.selective.attempts import MAX_ATTEMPTS, delta_share
from squad.selective.certificate import Certificate
from squad.selective.methods import Options, certified_rules
from squad.selective.risk_text import MISS_RATE, WRONG
from squad.selective.scored_cases import Ranked
from squad.selective.tallies import Tally

__all__ = [
    "MOST_TIMES",
    "NONE_ACCEPTED",
    "NO_ATTEMPT_LEFT",
    "SUGGESTED_LIMITS",
    "TOO_FEW",
    "UNLIKELY",
    "Obstacle",
    "Suggestion",
    "WeakestClass",
    "certify_option",
    "find_weakest_class",
    "suggest_limit",
]

#: Classes are compared by the lower ends of these intervals, so that one error in a handful of cases does not decide.
INTERVAL_MISS = 0.1
#: A miss rate is above a limit if the limit would give that many errors in fewer than 1 % of test sets.
SURPRISE_LEVEL = 0.01
#: Limits to suggest for a miss rate, strictest first.
SUGGESTED_LIMITS = (0.02, 0.05, 0.1, 0.2, 0.3)
#: Method of the suggested certificate, the default of ``squad certify``.
SUGGESTED_METHOD = "fallback"
#: A limit is suggested if at least this fraction of simulated calibration sets confirms it.
SUCCESS = 0.5
#: Number of simulated calibration sets.
DRAWS = 100
#: If the calibration set is too small for any limit, sets of up to this many times its size are tried.
MOST_TIMES = 64
#: Why no limit is suggested.
Obstacle = Literal["no test case is accepted", "no attempt is left", "success is unlikely", "too few test cases"]
NONE_ACCEPTED: Obstacle = "no test case is accepted"
NO_ATTEMPT_LEFT: Obstacle = "no attempt is left"
UNLIKELY: Obstacle = "success is unlikely"
TOO_FEW: Obstacle = "too few test cases"
#: With fewer test cases of a class, its miss rate is not called too high for every limit.
MIN_CLASS_CASES = 30
#: Number of bisections (of the logarithm) for the number of cases that would be enough.
BISECTIONS = 3


@dataclass(frozen=True)
class Suggestion:
    """Risks for the next attempt to certify the model, which would bound the miss rate of a class too.

    Attributes:
        risks: Risks by harm.
        delta: Delta of the attempt, that of the present certificate.
        attempt: Number of the attempt.
        cases: Number of new calibration cases with which it probably succeeds, even if the class is missed as often as
            the upper end of the interval for its miss rate says; None if the test set cannot tell.
        least: The same if the class is missed as often as in the test set.  Both are rounded unless they are that of
            the present calibration set.
        method: Method of the attempt; None if it is that of the present certificate.
        assumed: Harms that do not follow from labels: the suggestion takes them to be certified again.
    """

    risks: dict[str, float]
    delta: float
    attempt: int
    cases: int | None
    least: int
    method: str | None = None
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class WeakestClass:
    """A class that is missed more often than guaranteed; if there is none, the one with the highest miss rate.

    Attributes:
        name: Name of the class.
        n: Number of its cases, among accepted ones if there is a certificate that accepts any.
        missed: Number of these that were predicted as another class.
        referred: Number of its other cases, which are referred; None without a certificate that accepts any.
        exceeds: Whether its miss rate is above its own bound or else the guaranteed risk (without one, above the error
            rate), and more so than chance explains.
        limit: Bound on its miss rate that the certificate guarantees, if any.
        suggestion: How the next attempt would probably bound its miss rate, or why none would; None if it is bounded
            already, or without a certificate.
    """

    name: str
    n: int
    missed: int
    referred: int | None
    exceeds: bool
    limit: float | None
    suggestion: Suggestion | Obstacle | None = None


def find_weakest_class(rows: Sequence[ClassRow], risks: Mapping[str, float], error_rate: float) -> WeakestClass | None:
    """Find the class whose miss rate is most clearly above what is guaranteed, or else the highest.

    Every class is tested, so that no class with an extreme miss rate is hidden by another with few cases.

    Args:
        rows: Counts of every class.
        risks: Certified limits, by harm; empty if nothing is certified.
        error_rate: Error rate on the test set.

    Returns:
        The class; None if no case is missed.

    Examples:
        >>> rows = [ClassRow("a", 90, 1, 92, 3, 5, "b"), ClassRow("b", 25, 9, 20, 1, 9, "a")]
        >>> found = find_weakest_class(rows, {"wrong": 0.1}, 0.08)
        >>> found.name, found.missed, found.exceeds
        ('b', 9, True)
    """
    from scipy.special import bdtrc

    seen = [row for row in rows if row.missed]
    if not seen:
        return None
    missed, n = (np.array([getattr(row, name) for row in seen]) for name in ("missed", "n"))
    low, _ = clopper_pearson(missed, n, INTERVAL_MISS)
    limits = [risks.get(f"{MISS_RATE} {row.name}") for row in seen]
    references = [risks.get(WRONG, error_rate) if limit is None else limit for limit in limits]
    p = bdtrc(missed - 1, n, np.array(references))
    exceeds = p < SURPRISE_LEVEL / len(rows)
    # Tiny p-values may all be 0.
    index = int(np.lexsort((-low, p))[0]) if exceeds.any() else int(low.argmax())
    found = seen[index]
    return WeakestClass(found.name, found.n, found.missed, found.referred, bool(exceeds[index]), limits[index])


def suggest_limit(
    weakest: WeakestClass,
    confidence: NDArray[np.float64],
    accepted: NDArray[np.bool_],
    harms: Mapping[str, NDArray[Any]],
    risks: Mapping[str, float],
    certificate: Certificate,
    attempt: int,
) -> Suggestion | Obstacle:
    """Suggest the strictest limit for the miss rate of a class that a new calibration set would probably confirm.

    A limit is suggested if the method certifies it, together with the other risks, in at least half of the calibration
    sets drawn from the test cases.  To stay on the safe side of chance, the accepted cases of the class are missed as
    often as the upper end of the interval for their miss rate says, at any threshold.  If there is no such limit,
    larger calibration sets are tried with the highest one, also with the class missed as in the test set: the truth
    probably lies between these two.  The present calibration cases are not used: a limit that their labels suggest
    must not be certified with them.

    Args:
        weakest: The class; the certificate does not bound its miss rate.
        confidence: (N,), confidences of the test cases.
        accepted: (N,), cases that the certificate accepts; the class is counted among these.
        harms: By name, (N,), harms of the test cases, with NaN where they are not counted; includes the miss rate of
            the class.  Risks of other harms are taken to be certified again.
        risks: Target of the certificate: risks by harm.
        certificate: The present certificate.
        attempt: Number of the next attempt, which has a share of delta.

    Returns:
        The risks and the number of cases; or why there are none: no case is accepted, no attempt is left, or no number
        of cases up to ``MOST_TIMES`` that of the present ones is enough, as far as the test set can tell.
    """
    if not accepted.any():
        return NONE_ACCEPTED
    if attempt > MAX_ATTEMPTS:
        return NO_ATTEMPT_LEFT
    harm = f"{MISS_RATE} {weakest.name}"
    low, high = clopper_pearson(np.array([weakest.missed]), np.array([weakest.n]), INTERVAL_MISS)
    worst = _Population.of(confidence, accepted, harms, harm, float(high[0]))
    others = {name: risk for name, risk in risks.items() if name in harms}
    cases, level = certificate.m, certificate.delta * delta_share(attempt)
    method = None if certificate.method == SUGGESTED_METHOD else SUGGESTED_METHOD

    def suggestion(limit: float, count: int | None, least: int) -> Suggestion:
        assumed = tuple(name for name in risks if name not in harms)
        return Suggestion({**risks, harm: limit}, certificate.delta, attempt, count, least, method, assumed)

    # A limit below the miss rate would be certified by mistake only.
    limits = [limit for limit in SUGGESTED_LIMITS if limit > high[0]]
    for limit, often in zip(limits, worst.success(others, harm, limits, cases, level), strict=True):
        if often >= SUCCESS:
            return suggestion(limit, cases, cases)
    highest = SUGGESTED_LIMITS[-1]
    if highest <= weakest.missed / weakest.n:
        return TOO_FEW if weakest.n < MIN_CLASS_CASES and low[0] < highest else UNLIKELY
    least = _enough_cases(_Population.of(confidence, accepted, harms, harm), others, harm, highest, cases, level)
    if least is None:
        return TOO_FEW if weakest.n < MIN_CLASS_CASES else UNLIKELY
    most = _enough_cases(worst, others, harm, highest, least, level, MOST_TIMES * cases) if limits else None
    return suggestion(highest, most, least)


def _enough_cases(
    population: "_Population",
    risks: Mapping[str, float],
    harm: str,
    limit: float,
    first: int,
    level: float,
    largest: int | None = None,
) -> int | None:
    """Return a number of calibration cases, at least ``first``, with which a limit is probably certified.

    It is ``first``, or rounded up to two digits.  None if ``largest``, by default ``MOST_TIMES`` that of the first, is
    not enough.
    """

    def enough(count: int) -> bool:
        return bool(population.success(risks, harm, [limit], count, level)[0] >= SUCCESS)

    if enough(first):
        return first
    few, many, largest = first, 2 * first, largest or MOST_TIMES * first
    while many <= largest and not enough(many):
        few, many = many, 2 * many
    if many > largest:
        return None
    for _ in range(BISECTIONS):
        middle = round(math.sqrt(few * many))
        few, many = (few, middle) if enough(middle) else (middle, many)
    step = int(10 ** max(len(str(many)) - 2, 0))
    return -(-many // step) * step


@dataclass(frozen=True, eq=False)
class _Population:
    """Test cases to draw calibration sets from, the most confident first.

    Attributes:
        ends: (rules,), index of the last case that each rule accepts; cases of equal confidence are accepted together.
        counted: By harm, (N,), whether it is counted on each case.
        rates: By harm, (N,), probability that a case drawn has it: 0 or 1, or the miss rate of a class.
    """

    ends: NDArray[np.int64]
    counted: dict[str, NDArray[np.bool_]]
    rates: dict[str, NDArray[np.float64]]

    @classmethod
    def of(
        cls,
        confidence: NDArray[np.float64],
        accepted: NDArray[np.bool_],
        harms: Mapping[str, NDArray[Any]],
        harm: str,
        rate: float | None = None,
    ) -> "_Population":
        """Return the test cases; with ``rate``, one harm has this rate among accepted cases, at any threshold."""
        order = np.argsort(-confidence, kind="stable")
        sorted_ = confidence[order]
        losses = {name: loss[order].astype(np.float64) for name, loss in harms.items()}
        counted = {name: ~np.isnan(loss) for name, loss in losses.items()}
        rates = {name: np.nan_to_num(loss) for name, loss in losses.items()}
        if rate is not None:
            rates[harm][counted[harm] & accepted[order]] = rate
        return cls(np.flatnonzero(np.append(sorted_[1:] != sorted_[:-1], True)), counted, rates)

    def success(
        self, risks: Mapping[str, float], harm: str, limits: Sequence[float], cases: int, level: float
    ) -> NDArray[np.float64]:
        """Return, for each limit of a harm, the fraction of calibration sets in which it is certified with the risks.

        Args:
            risks: Risks of other harms.
            harm: The harm.
            limits: Its limits.
            cases: Number of calibration cases.
            level: Significance level.
        """
        rng = np.random.default_rng(0)
        size = len(self.counted[harm])
        found = np.zeros(len(limits))
        for _ in range(DRAWS if len(limits) else 0):
            drawn = np.bincount(rng.integers(size, size=cases), minlength=size)
            n = np.cumsum(drawn)[self.ends]
            tallies = {name: self._tally(drawn, name, rng) for name in (*risks, harm)}
            ranked = Ranked(cases, n, np.full(len(n), np.nan), tallies)
            rest = certified_rules(SUGGESTED_METHOD, ranked, risks, level, Options())
            for index, limit in enumerate(limits if rest.any() else ()):
                both = rest & certified_rules(SUGGESTED_METHOD, ranked, {harm: limit}, level, Options())
                found[index] += both.any()
        return found / DRAWS

    def _tally(self, drawn: NDArray[np.int64], harm: str, rng: np.random.Generator) -> Tally:
        counted, rate = drawn * self.counted[harm], self.rates[harm]
        harmed = counted * (rate == 1)
        chance = np.flatnonzero((rate > 0) & (rate < 1) & (counted > 0))
        harmed[chance] = rng.binomial(counted[chance], rate[chance])
        n = np.cumsum(counted)
        return Tally(int(n[-1]), n[self.ends], np.cumsum(harmed)[self.ends])


def certify_option(risks: Mapping[str, float]) -> str | None:
    """Return risks as the value of ``squad certify --risk``; None if the name of a class cannot be written there.

    Examples:
        >>> certify_option({"wrong": 0.02, "miss rate b": 0.1})
        "'0.02,miss rate b=0.1'"
    """
    if any(set(name) & set(",=") or not name.isprintable() for name in risks):
        return None
    return shlex.quote(",".join(f"{risk:g}" if name == WRONG else f"{name}={risk:g}" for name, risk in risks.items()))
