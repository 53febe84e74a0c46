"""Estimates after a failed certification: how many labels would be enough, and which threshold comes closest."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from squad.selective.bounds import MAX_CASES
from squad.selective.methods import Options, min_cases, shows_alone, smallest
from squad.selective.scored_cases import Ranked

__all__ = ["cases_for_one_test", "closest", "labels_needed"]


def labels_needed(
    ranked: Ranked, risks: Mapping[str, float], level: float, method: str, options: Options
) -> tuple[int | None, bool]:
    """Estimate how many labels would be enough where these were not, and whether the case is hopeless.

    It is hopeless if the observed errors reach the risk at every rank.  Otherwise, the number is that of the rank that
    would pass first if errors continued at the observed rates; None if that should have been enough already.

    Args:
        ranked: Rules of the calibration cases.
        risks: Risks by harm.
        level: Significance level of the next attempt.
        method: Name of the method.
        options: Options of the method.

    Returns:
        Number of labels, or None; and whether it is hopeless.
    """
    costs = {name: ranked.tallies[name].losses is not None for name in risks}
    least = max(min_cases(method, risk, level, options, costs[name]) for name, risk in risks.items())
    none = dict.fromkeys(risks, 0.0)
    if ranked.m and any(not ranked.tallies[name].m for name in risks):
        return ranked.m + least, False  # a lower limit: the frequency of cases not seen yet is unknown
    if not ranked.m:
        return _cases_until_pass(dict.fromkeys(risks, 1.0), none, risks, level, method, options, costs), False
    good = ranked.n > 0
    for name, risk in risks.items():
        # Compare quotients: 7 / 200 is exactly .035, while .035 * 200 is slightly more than 7.
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
        wanted = np.maximum(wanted, cases_for_one_test(tally.rates[good], risk, level) * ranked.m / tally.n[good])
    index = int(np.flatnonzero(good)[wanted.argmin()])
    rates = {name: float(ranked.tallies[name].rates[index]) for name in risks}
    shares = {name: float(ranked.tallies[name].n[index] / ranked.m) for name in risks}
    needed = max(least, _cases_until_pass(shares, rates, risks, level, method, options, costs))
    return (needed if ranked.m < needed < MAX_CASES else None), False


def closest(ranked: Ranked, risks: Mapping[str, float]) -> dict[str, tuple[float, int]]:
    """Return, by harm, the errors and the cases they are counted on, at the threshold closest to the risks.

    Args:
        ranked: Rules of the cases.
        risks: Target, by harm.

    Returns:
        By harm: number of errors (or total cost), and number of accepted cases that the harm is counted on.
    """
    tallies = {name: ranked.tallies[name] for name in risks}
    far = np.max([np.where(one.n > 0, one.rates / risks[name], np.inf) for name, one in tallies.items()], axis=0)
    index = len(far) - 1 - int(far[::-1].argmin())  # among ties, the one with the largest coverage
    return {name: (one.errors[index].item(), int(one.n[index])) for name, one in tallies.items()}


def _cases_until_pass(
    shares: Mapping[str, float],
    rates: Mapping[str, float],
    risks: Mapping[str, float],
    level: float,
    method: str,
    options: Options,
    costs: Mapping[str, bool],
) -> int:
    """Return the number of cases with which a rule of these coverages and error rates most likely passes."""

    def enough(m: int) -> bool:
        for name, risk in risks.items():
            n, rate = max(1, math.floor(shares[name] * m)), rates[name]
            seen = math.ceil(n * rate + 1.2816 * math.sqrt(n * rate * (1 - rate)))
            if not shows_alone(method, m, n, seen, risk, level, options, costs[name]):
                return False
        return True

    return smallest(enough, MAX_CASES)


def cases_for_one_test(error: NDArray[np.float64], risk: float, level: float) -> NDArray[np.float64]:
    """Return the approximate number of accepted cases that a test needs, to choose a rank by.

    Args:
        error: Expected error rates, each below ``risk``.
        risk: Target.
        level: Significance level.

    Returns:
        Number of accepted cases, one per error rate.
    """
    at_level = math.sqrt(-2 * math.log(min(level, 0.5)))  # above the normal quantile, and of its order
    apart = at_level * math.sqrt(risk * (1 - risk)) + 1.2816 * np.sqrt(error * (1 - error))
    return np.maximum((apart / (risk - error)) ** 2, math.log(level) / math.log1p(-risk))
