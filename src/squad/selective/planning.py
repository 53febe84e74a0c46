"""How many labels a guarantee takes: before they are collected, and after too few were."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_choice, check_count, check_number
from squad.errors import ArgumentError
from squad.selective.attempts import check_attempt, share
from squad.selective.bounds import MOST
from squad.selective.methods import FALLBACK, FIXED, Options, least_cases, shows_alone, smallest
from squad.selective.pilots import PILOTED
from squad.selective.power import SAMPLES, SEED, SIMULATED, Drawn, Flat, chance_of_one, succeeds
from squad.selective.power_piloted import Piloted
from squad.selective.scored_cases import WRONG, Ranked, Scores

__all__ = ["check_share", "closest", "labels_needed", "plan", "success_probability"]

#: The least risk and delta: nobody can label what smaller ones take.
SMALLEST = 1e-9
#: The share of the coverage that was hoped for which counts as success.
NEAR = 0.9
#: By so much the simulated probability must be above the one that was asked for.
SPARE = 0.004
#: Samples that the search for the number begins with.
ROUGH = 2000
#: Where few cases may do and many do not, so many times as many as a test takes are tried.
FAR = 16
#: More cases than this are not planned for from a pilot.
MOST_PILOTED = 1 << 24


def check_share(name: str, value: float) -> float:
    """A number between 0 and 1, both left out."""
    try:
        number = check_number(name, value, SMALLEST, 1.0, exclude=1.0)
    except ArgumentError:
        given: object = value
        percent = isinstance(given, (int, float)) and not isinstance(given, bool) and 1 <= given < 100
        hint = f"{given:g} % is {given / 100:g}." if percent else ""  # type: ignore[operator]
        raise ArgumentError.of(
            name, repr(value), f"a number above 0 ({SMALLEST:g} at least) and below 1", hint
        ) from None
    return number


def plan(
    risk: float,
    delta: float = 0.01,
    coverage: float | None = None,
    error: float = 0.0,
    power: float = 0.9,
    *,
    method: str = "fallback",
    pilot: tuple[ArrayLike, ArrayLike] | None = None,
    attempt: int | None = None,
    ranks: int = 20,
    r_max: float = 0.1,
) -> int:
    """How many labelled cases to collect for a certificate.

    With so many calibration cases the method succeeds with probability ``power``: it certifies a rule that accepts at
    least nine tenths of ``coverage``.  What is known of the model is that the share ``coverage`` of all cases can be
    accepted with an error rate of ``error``; then the chance is that of the least favourable population, in which all
    accepted cases have this error rate and all others are wrong, and no lower for any other whose risk grows with
    coverage and whose confidences are hardly ever equal.  Or a ``pilot`` is known, and the chance is that of cases
    drawn from it: an estimate, and as good as the pilot is large.

    Args:
        risk: the share of wrong answers among the accepted that may not be exceeded.
        delta: the chance that the certificate is false.
        coverage: the share of cases that one hopes to accept.  All if left out; with a pilot, any certificate will do.
        error: the share of wrong answers expected among these; below ``risk``.
        power: the chance to succeed.
        method: that will be used, as of :func:`squad.certify`.  "grid" stands for one threshold, named in advance,
            that accepts ``coverage``.  "preset" and "pareto" take a ``pilot``, which is then taken to choose their
            thresholds as well.
        pilot: confidences and whether the answers are right, of cases like those to come and new to the model.  They
            must not be among the calibration cases.
        attempt: which attempt to certify the model it will be, and so at which share of ``delta``: 1 for the first one
            of ``Predictor.certify`` and ``squad certify``.  None for the only one, as of :func:`squad.certify`.
        ranks: of "bonferroni".
        r_max: of "band".

    >>> plan(risk=0.02, delta=0.01)  # if none of the answers is wrong
    228
    >>> plan(risk=0.02, delta=0.01, coverage=0.7, error=0.01)
    6192
    """
    power = check_share("power", power)
    asked = _Question.of(risk, delta, coverage, error, method, pilot, attempt, ranks, r_max)
    return asked.fewest(power)


def success_probability(
    m: int,
    risk: float,
    delta: float = 0.01,
    coverage: float | None = None,
    error: float = 0.0,
    *,
    method: str = "fallback",
    pilot: tuple[ArrayLike, ArrayLike] | None = None,
    attempt: int | None = None,
    ranks: int = 20,
    r_max: float = 0.1,
) -> float:
    """The chance that :func:`plan` speaks of, with m calibration cases: simulated, with a fixed seed, to .4 points.

    Args:
        m: calibration cases.
        risk: this and all others are as of :func:`plan`.
        delta: see there.
        coverage: see there.
        error: see there.
        method: see there.
        pilot: see there.
        attempt: see there.
        ranks: see there.
        r_max: see there.
    """
    m = check_count("m", m, 1, MOST)
    return _Question.of(risk, delta, coverage, error, method, pilot, attempt, ranks, r_max).chance(m, seed=SEED + 1)


@dataclass(eq=False)
class _Question:
    """What is planned for.

    Attributes:
        risk, coverage, error, method, options: as of :func:`plan`; coverage is None where any certificate will do.
        level: the attempt's share of delta.
        wrong: of the pilot's cases, the most confident first; None without a pilot.
    """

    risk: float
    level: float
    coverage: float | None
    error: float
    method: str
    options: Options
    wrong: NDArray[np.bool_] | None = None
    _known: tuple[int, int, int, Flat] | None = None

    @classmethod
    def of(
        cls,
        risk: float,
        delta: float,
        coverage: float | None,
        error: float,
        method: str,
        pilot: tuple[ArrayLike, ArrayLike] | None,
        attempt: int | None,
        ranks: int,
        r_max: float,
    ) -> "_Question":
        risk = check_share("risk", risk)
        level = check_share("delta", delta) * share(check_attempt(attempt))
        check_choice("method", method, (*SIMULATED, *PILOTED, "grid"))
        options = Options(check_count("ranks", ranks, 1), check_share("r_max", r_max))
        if method == "band" and risk > options.r_max:
            raise ArgumentError.of("risk", f"{risk:g}", f"at most r_max ({options.r_max:g}) for the method band")
        if coverage is not None:
            coverage = check_number("coverage", coverage, 0.0, 1.0, exclude=0.0)
        error = check_number("error", error, 0.0, 1.0)
        if pilot is None:
            if method in PILOTED:
                raise ArgumentError(
                    f"The method {method} is planned from a pilot: confidence and correct of some cases. Pass pilot, or"
                    " --pilot FILE."
                )
            if error >= risk:
                hint = "More labels will not help: accept fewer cases (a lower coverage), or allow a higher risk."
                raise ArgumentError.of("error", f"{error:g}", f"below the risk of {risk:g}", hint)
            return cls(risk, level, 1.0 if coverage is None else coverage, error, method, options)
        if error:
            raise ArgumentError.of("error", f"{error:g}", "left out where a pilot is given, which has its own")
        scores = Scores.of(*pilot)
        if not len(scores):
            raise ArgumentError.of("pilot", "no cases", "confidences and whether the answers are right")
        wrong = scores.harms[WRONG][np.argsort(-scores.confidence, kind="stable")]
        if not (np.cumsum(wrong) < risk * np.arange(1, len(wrong) + 1)).any():
            hint = "More labels will not help: allow a higher risk."
            raise ArgumentError.of(
                "pilot", f"{wrong.mean():.3g} wrong in all", f"below {risk:g} at some threshold", hint
            )
        if coverage is None:
            if method == "grid":
                raise ArgumentError.of(
                    "coverage", None, "named for the method grid: the share that a threshold accepts"
                )
            return cls(risk, level, None, 0.0, method, options, wrong)
        count = max(1, round((1.0 if method == "grid" else NEAR) * coverage * len(wrong)))
        error = float(wrong[:count].mean())
        if error >= risk:
            hint = "More labels will not help: accept fewer cases (a lower coverage), or allow a higher risk."
            got = f"one with {error:.3g} wrong among the {count:,} most confident"
            raise ArgumentError.of("pilot", got, f"below the risk of {risk:g} there", hint)
        return cls(risk, level, coverage, error, method, options, wrong)

    def chance(self, m: int, samples: int = SAMPLES, seed: int = SEED) -> float:
        """Of success with m cases."""
        if self.method == "grid":
            assert self.coverage is not None
            return chance_of_one(m, self.coverage, self.error, self.risk, self.level)
        least = 1 if self.coverage is None else math.ceil(NEAR * self.coverage * m - 1e-9)
        if self.method in PILOTED:
            return float(self._piloted.succeeds(m, least, self.method, self.risk, self.level, samples, seed).mean())
        paths = self._population(m, samples, seed).draw(m)
        return float(succeeds(paths, least, self.method, self.risk, self.level, self.options).mean())

    @cached_property
    def _piloted(self) -> Piloted:
        """The pilot as what fixes thresholds, too."""
        assert self.wrong is not None
        return Piloted.of(self.wrong)

    def _population(self, m: int, samples: int, seed: int) -> Flat | Drawn:
        if self.wrong is not None:
            return Drawn(self.wrong, samples, seed)
        assert self.coverage is not None
        most = 1 << math.ceil(math.log2(max(m, 2)))  # the same samples for m alone as for m among others
        if (found := self._known) is None or found[:3] != (most, samples, seed):
            found = self._known = (most, samples, seed, Flat(self.coverage, self.error, most, samples, seed))
        return found[3]

    @property
    def _starts_too_late(self) -> bool:
        """Whether the method starts where too much is accepted already, so that many cases are no better than few."""
        begin = {"fallback": FALLBACK, "fixed_sequence": FIXED}.get(self.method, ())
        return bool(begin) and all(self._risk_at(share) >= self.risk for share, _ in begin)

    def _risk_at(self, share: float) -> float:
        """The risk of the rule that accepts this share."""
        if self.wrong is not None:
            return float(self.wrong[: max(1, round(share * len(self.wrong)))].mean())
        assert self.coverage is not None
        return (min(share, self.coverage) * self.error + max(0.0, share - self.coverage)) / share

    def fewest(self, power: float) -> int:
        """The fewest cases with this chance, or up to a percent more; power does not quite grow with every case."""

        def enough(m: int) -> bool:
            return self.chance(m, ROUGH) >= power

        low, high = 0, max(8, round(self._guess()))
        most = MOST if self.wrong is None else MOST_PILOTED
        if self._starts_too_late:
            most = min(most, FAR * high)
        while high < most and not enough(high):
            low, high = high, high + max(1, high // (3 if self.wrong is None else 1))
        if high >= most and self._starts_too_late:
            raise ArgumentError(
                f"The method {self.method} starts at a quarter of the cases or more, where errors reach the risk of"
                f" {self.risk:g} already. Take the method sgr, band or bonferroni for so low a coverage."
            )
        if high >= most:
            what = "error" if self.wrong is None else "pilot"
            raise ArgumentError.of(
                what, f"{self.error:g}", f"further below the risk of {self.risk:g}: a billion labels will not do"
            )
        while not low and high > 1 and enough(3 * high // 4):
            high = 3 * high // 4
        low = low or 3 * high // 4
        while high - low > max(1, high // 200):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        # That was rough, by few samples; now with all of them, and with something to spare: of several numbers the one
        # is taken that looks best, and looks a little better than it is.
        step = max(1, high // 100)

        def surely(m: int) -> bool:
            return self.chance(m) >= power + (0.0 if self.method == "grid" else min(SPARE, (1 - power) / 2))

        while not surely(high):
            high += step
        while step:
            while high > step and surely(high - step):
                high -= step
            step = step // 2 if step > max(1, high // 1000) else 0
        return high

    def _guess(self) -> float:
        """About as many as one test takes."""
        return float(_rough(np.array(self.error), self.risk, self.level)) / (self.coverage or 1.0)


def labels_needed(
    ranked: Ranked, risks: Mapping[str, float], level: float, method: str, options: Options
) -> tuple[int | None, bool]:
    """About how many labels would do where these did not, and whether there is no hope.

    No hope is where the errors that were seen reach the risk at every rank.  Otherwise the rank is looked for that
    would pass first if the errors go on as they were; None if that should have been enough already.
    """
    costs = {name: ranked.tallies[name].losses is not None for name in risks}
    least = max(least_cases(method, risk, level, options, costs[name]) for name, risk in risks.items())
    none = dict.fromkeys(risks, 0.0)
    if ranked.m and any(not ranked.tallies[name].m for name in risks):
        return ranked.m + least, False  # at least so many: nobody knows how rare cases are that have not been seen
    if not ranked.m:
        return _until(dict.fromkeys(risks, 1.0), none, risks, level, method, options, costs), False
    good = ranked.n > 0
    for name, risk in risks.items():
        # As quotients: 7 of 200 are .035 to the bit, while .035 times 200 is a hair more than 7.
        good &= (ranked.tallies[name].rates < risk) & (ranked.tallies[name].n > 0)
    if not good.any() and ranked.n[-1]:
        return None, True
    if method == "grid":
        good[1:] = False  # the strictest threshold must pass before any other is tested
    if not good.any():
        return (least if ranked.m < least else None), False
    wanted = np.zeros(int(good.sum()))
    for name, risk in risks.items():
        tally = ranked.tallies[name]
        wanted = np.maximum(wanted, _rough(tally.rates[good], risk, level) * ranked.m / tally.n[good])
    place = int(np.flatnonzero(good)[wanted.argmin()])
    rates = {name: float(ranked.tallies[name].rates[place]) for name in risks}
    shares = {name: float(ranked.tallies[name].n[place] / ranked.m) for name in risks}
    needed = max(least, _until(shares, rates, risks, level, method, options, costs))
    return (needed if ranked.m < needed < MOST else None), False


def closest(ranked: Ranked, risks: Mapping[str, float]) -> dict[str, tuple[float, int]]:
    """By harm, the errors and the cases they are counted on, at the threshold that comes closest to the risks."""
    tallies = {name: ranked.tallies[name] for name in risks}
    far = np.max([np.where(one.n > 0, one.rates / risks[name], np.inf) for name, one in tallies.items()], axis=0)
    place = len(far) - 1 - int(far[::-1].argmin())  # of several the one that accepts most, which tells most
    return {name: (one.errors[place].item(), int(one.n[place])) for name, one in tallies.items()}


def _until(
    shares: Mapping[str, float],
    rates: Mapping[str, float],
    risks: Mapping[str, float],
    level: float,
    method: str,
    options: Options,
    costs: Mapping[str, bool],
) -> int:
    """Cases with which a rule passes, of which it accepts these shares, at these rates of errors and some bad luck."""

    def enough(m: int) -> bool:
        for name, risk in risks.items():
            n, rate = max(1, math.floor(shares[name] * m)), rates[name]
            seen = math.ceil(n * rate + 1.2816 * math.sqrt(n * rate * (1 - rate)))
            if not shows_alone(method, m, n, seen, risk, level, options, costs[name]):
                return False
        return True

    return smallest(enough, MOST)


def _rough(error: NDArray[np.float64], risk: float, level: float) -> NDArray[np.float64]:
    """Accepted cases that a test takes, by the normal approximation: good enough to choose a rank by."""
    at_level = math.sqrt(-2 * math.log(min(level, 0.5)))  # above the normal quantile, and of its order
    apart = at_level * math.sqrt(risk * (1 - risk)) + 1.2816 * np.sqrt(error * (1 - error))
    return np.maximum((apart / (risk - error)) ** 2, math.log(level) / math.log1p(-risk))
