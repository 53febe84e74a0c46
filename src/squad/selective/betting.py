"""Tests of a mean cost, for costs between 0 and 1, by betting against the hypothesis "the mean is above r".

A gambler who bets a fraction b of the current wealth on every case, at odds that are fair if the mean cost is r, ends
with ``prod(1 + b (r - L_i))``.  If the mean is r or more, the expected wealth is at most 1, so by Markov's inequality
it reaches ``1 / a`` with probability at most a: wherever it does, the mean is shown to be at most r at level a.  The
same holds for the average wealth of several betting strategies.

Bets are fixed in advance, so the order of the cases does not matter.  They may depend on the number n of cases: the
best bet on errors (costs of 0 and 1) for rules that just pass is the solution s of ``(1 - s) ln(1 - s) + s = c (1 - r)
/ (n r)``, as a fraction of ``1 / (1 - r)``, the largest bet that can never lose everything; c stands for minus the
logarithm of the level.  Costs that vary less allow larger bets, so s, 2 s and 4 s each get one third of the initial
wealth.

References:
    I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, Journal of the Royal
    Statistical Society B, 2024.
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["BET_FRACTIONS", "bets_for", "log_wealth", "log_wealth_at_most"]

#: Bets as fractions of the largest bet that can never lose everything, decreasing by factors of sqrt(2).
BET_FRACTIONS = 63 / 64 * 2.0 ** -(np.arange(32) / 2)
#: Offsets of the three bets in BET_FRACTIONS: s, 2 s and 4 s.
BET_OFFSETS = (0, 2, 4)
#: Logarithm of the wealth that bets are optimized for, regardless of the level: a test passed at a lower level then
#: also passes at a higher one, which sequences of tests rely on.
LOG_TARGET_WEALTH = math.log(100)


def _switch_points(risk: float) -> NDArray[np.float64]:
    """(31,), ascending: numbers of cases from which on the middle bet is the next smaller one."""
    between = BET_FRACTIONS[:-1] * 2**-0.25
    return np.asarray(LOG_TARGET_WEALTH * (1 - risk) / (risk * ((1 - between) * np.log1p(-between) + between)))


def bets_for(n: float, risk: float) -> NDArray[np.float64]:
    """Return the three bets on each of n cases, (3,); the initial wealth is divided evenly between them.

    Args:
        n: Number of cases.
        risk: Target for the mean cost.

    Returns:
        (3,), bets: with a bet b, a case of cost c multiplies the wealth by 1 + b (risk - c).

    Examples:
        >>> bets_for(100, 0.1).round(2).tolist()
        [0.77, 1.09, 1.09]
    """
    index = int(np.searchsorted(_switch_points(risk), n, side="right"))
    return np.asarray(BET_FRACTIONS[[max(index - offset, 0) for offset in BET_OFFSETS]] / (1 - risk))


def log_wealth(losses: NDArray[np.float64], risk: float) -> NDArray[np.float64]:
    """Return the log of the mean wealth after 0, 1, ..., m cases, each with the bets for that number of cases.

    Args:
        losses: (m,), costs between 0 and 1.
        risk: Mean cost r to be tested.

    Returns:
        (m + 1,), log-wealth.
    """
    m = len(losses)
    indices = np.searchsorted(_switch_points(risk), np.arange(1, m + 1), side="right")
    total = np.full(m, -np.inf)
    gains = risk - losses
    for share in range(int(indices[-1]) + 1 if m else 0):
        weight = sum((np.maximum(indices - offset, 0) == share).astype(np.float64) for offset in BET_OFFSETS)
        used = np.flatnonzero(weight)
        if len(used):
            end = used[-1] + 1
            logs = np.cumsum(np.log1p(BET_FRACTIONS[share] / (1 - risk) * gains[:end]))[used]
            total[used] = np.logaddexp(total[used], logs + np.log(weight[used]))
    return np.append(0.0, total - math.log(len(BET_OFFSETS)))


def log_wealth_at_most(n: float, mean: float, risk: float) -> float:
    """Return the largest log-wealth of n cases with this mean cost: all cost the same (Jensen's inequality).

    Args:
        n: Number of cases.
        mean: Mean cost of the cases.
        risk: Target for the mean cost.

    Returns:
        Natural logarithm of the wealth, which starts at 1.
    """
    logs = n * np.log1p(bets_for(n, risk) * (risk - mean))
    return float(np.logaddexp.reduce(logs) - math.log(len(BET_OFFSETS)))
