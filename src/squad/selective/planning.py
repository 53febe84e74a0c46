"""How many labels a promise takes: before they are collected, and after too few were."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from squad.core.checks import check_number
from squad.errors import ArgumentError
from squad.selective.bounds import MOST, fewest_with, tail
from squad.selective.methods import Options, least_cases, shows_alone, smallest
from squad.selective.scores import Ranked

__all__ = ["check_share", "labels_needed", "plan"]

#: The least risk and delta: nobody can label what smaller ones take.
SMALLEST = 1e-9
#: Further on, so many below the one that bisection finds.
SAW = 100
#: Up to so many errors every count is tried, one after the other.
SCANNED = 4096


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


def plan(risk: float, delta: float = 0.01, coverage: float = 1.0, error: float = 0.0, power: float = 0.9) -> int:
    """How many labelled cases to collect, so that a promise can be made with them.

    If the model accepts the share ``coverage`` of all cases and is wrong on the share ``error`` of those, a test of
    that rule with this many calibration cases shows "at most ``risk`` are wrong, with certainty 1 - ``delta``" with the
    chance ``power``.  (Methods test several rules and may take somewhat more, or accept somewhat less.)

    Args:
        risk: the share of wrong answers among the accepted that may not be exceeded.
        delta: the chance that the promise is false.
        coverage: the share of cases that one hopes to accept.
        error: the share of wrong answers expected among these; below ``risk``.
        power: the chance to succeed.

    >>> plan(risk=0.02, delta=0.01)  # if none of the answers is wrong
    228
    >>> plan(risk=0.02, delta=0.01, coverage=0.7, error=0.01)
    2799
    """
    risk, delta, power = check_share("risk", risk), check_share("delta", delta), check_share("power", power)
    coverage = check_number("coverage", coverage, 0.0, 1.0, exclude=0.0)
    error = check_number("error", error, 0.0, 1.0)
    if error >= risk:
        hint = "More labels will not help: accept fewer cases (a lower coverage), or allow a higher risk."
        raise ArgumentError.of("error", f"{error:g}", f"below the risk of {risk:g}", hint)
    n = _accepted(risk, delta, error, power)
    if n >= MOST:
        raise ArgumentError.of(
            "error", f"{error:g}", f"further below the risk of {risk:g}: a billion labels will not do"
        )
    m = math.ceil(n / coverage - 1e-9)
    while math.floor(m * coverage + 1e-9) < n:
        m += 1
    return m


def _accepted(risk: float, level: float, error: float, power: float) -> int:
    """The fewest accepted cases that pass with this power.

    With k errors allowed, the fewest cases that pass have the best chance; so only these are tried, k by k.
    """
    for k in range(SCANNED):
        n = fewest_with(k, risk, level)
        if n >= MOST or tail(k, n, error) >= power:
            return n
        if k == 64 and tail(8 * SCANNED, fewest_with(8 * SCANNED, risk, level), error) < power:
            break  # far away: do not walk there
    low, high = 0, SCANNED
    while tail(high, n := fewest_with(high, risk, level), error) < power:
        if n >= MOST:
            return MOST
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = tail(middle, fewest_with(middle, risk, level), error) >= power
        low, high = (low, middle) if enough else (middle, high)
    # Power is not quite monotone in the count: a slightly smaller one may do.
    smaller = (k for k in range(max(high - SAW, 0), high) if tail(k, fewest_with(k, risk, level), error) >= power)
    return fewest_with(next(smaller, high), risk, level)


def labels_needed(
    ranked: Ranked, risks: Mapping[str, float], level: float, method: str, options: Options
) -> tuple[int | None, bool]:
    """About how many labels would do where these did not, and whether there is no hope.

    No hope is where the errors that were seen reach the risk at every rank.  Otherwise the rank is looked for that
    would pass first if the errors go on as they were; None if that should have been enough already.
    """
    least = max(least_cases(method, risk, level, options) for risk in risks.values())
    if not ranked.m:
        return _until(1.0, dict.fromkeys(risks, 0.0), risks, level, method, options), False
    good = ranked.n > 0
    for name, risk in risks.items():
        # As quotients: 7 of 200 are .035 to the bit, while .035 times 200 is a hair more than 7.
        good &= ranked.errors[name] / np.maximum(ranked.n, 1) < risk
    if not good.any() and ranked.n[-1]:
        return None, True
    if method == "grid":  # the strictest threshold must pass before any other is looked at
        good[1:] = False
    if not good.any():
        return (least if ranked.m < least else None), False
    share = ranked.n[good] / ranked.m
    wanted = np.zeros(len(share))
    for name, risk in risks.items():
        wanted = np.maximum(wanted, _rough(ranked.errors[name][good] / ranked.n[good], risk, level) / share)
    best = int(wanted.argmin())
    place = int(np.flatnonzero(good)[best])
    rates = {name: float(ranked.errors[name][place] / ranked.n[place]) for name in risks}
    needed = max(least, _until(float(share[best]), rates, risks, level, method, options))
    return (needed if ranked.m < needed < MOST else None), False


def _until(
    share: float,
    rates: Mapping[str, float],
    risks: Mapping[str, float],
    level: float,
    method: str,
    options: Options,
) -> int:
    """Cases with which a rule passes that accepts this share of them, at these rates of errors and some bad luck."""

    def enough(m: int) -> bool:
        n = max(1, math.floor(share * m))
        seen = {name: math.ceil(n * rate + 1.2816 * math.sqrt(n * rate * (1 - rate))) for name, rate in rates.items()}
        return all(shows_alone(method, m, n, seen[name], risk, level, options) for name, risk in risks.items())

    return smallest(enough, MOST)


def _rough(error: NDArray[np.float64], risk: float, level: float) -> NDArray[np.float64]:
    """Accepted cases that a test takes, by the normal approximation: good enough to choose a rank by."""
    at_level = math.sqrt(-2 * math.log(min(level, 0.5)))  # above the normal quantile, and of its order
    apart = at_level * math.sqrt(risk * (1 - risk)) + 1.2816 * np.sqrt(error * (1 - error))
    return np.maximum((apart / (risk - error)) ** 2, math.log(level) / math.log1p(-risk))
