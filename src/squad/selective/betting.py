"""Tests of a mean cost, for costs anywhere between 0 and 1: betting against "the mean is above r".

Who bets a share b of a fortune on every case, at odds that are fair if the mean cost is r, has
``prod(1 + b (r - L_i))`` afterwards.  If the mean is r or more, the expected fortune is at most 1, so that it reaches
``1 / a`` with probability at most a (Markov): the mean is shown to be at most r, at level a, where it does.  The same
holds for the mean fortune of several bets.

Bets are fixed in advance, so the order of the cases does not matter.  They may depend on how many cases there are:
with n of them, the rules that just pass have a mean cost below r by so much that the best bet on errors (costs of 0 and
1) is the s of ``(1 - s) ln(1 - s) + s = c (1 - r) / (n r)``, in shares of the largest bet that can never ruin,
``1 / (1 - r)``; c stands for the logarithm of the level.  Costs that vary less allow larger bets: s, 2 s and 4 s get a
third of the fortune each.

References:
    I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, JRSS B, 2024.
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["SHARES", "bets_for", "log_wealth", "log_wealth_at_most"]

#: Shares of the largest bet that can never ruin, from large to small by steps of the square root of 2.
SHARES = 63 / 64 * 2.0 ** -(np.arange(32) / 2)
#: How far apart the three bets are, in these steps.
APART = (0, 2, 4)
#: The logarithm of the level that bets are made for, whatever the level is: a test at a lower level then implies one at
#: a higher level, which sequences of tests rely on.
AIM = math.log(100)


def _first_uses(risk: float) -> NDArray[np.float64]:
    """(31,), ascending: the number of cases from which on the middle bet is the next smaller one."""
    between = SHARES[:-1] * 2**-0.25
    return np.asarray(AIM * (1 - risk) / (risk * ((1 - between) * np.log1p(-between) + between)))


def bets_for(n: float, risk: float) -> NDArray[np.float64]:
    """The bets on each of n cases, (3,); the fortune is divided evenly between them."""
    place = int(np.searchsorted(_first_uses(risk), n, side="right"))
    return np.asarray(SHARES[[max(place - apart, 0) for apart in APART]] / (1 - risk))


def log_wealth(losses: NDArray[np.float64], risk: float) -> NDArray[np.float64]:
    """The logarithm of the mean fortune after 0, 1, ..., m cases, (m + 1,), each with the bets for so many.

    Args:
        losses: (m,), costs between 0 and 1.
        risk: r.
    """
    m = len(losses)
    places = np.searchsorted(_first_uses(risk), np.arange(1, m + 1), side="right")
    total = np.full(m, -np.inf)
    gains = risk - losses
    for share in range(int(places[-1]) + 1 if m else 0):
        weight = sum((np.maximum(places - apart, 0) == share).astype(np.float64) for apart in APART)
        used = np.flatnonzero(weight)
        if len(used):
            end = used[-1] + 1
            logs = np.cumsum(np.log1p(SHARES[share] / (1 - risk) * gains[:end]))[used]
            total[used] = np.logaddexp(total[used], logs + np.log(weight[used]))
    return np.append(0.0, total - math.log(len(APART)))


def log_wealth_at_most(n: float, mean: float, risk: float) -> float:
    """The most that n cases with this mean cost can give: the fortune if all cost the same (Jensen's inequality)."""
    logs = n * np.log1p(bets_for(n, risk) * (risk - mean))
    return float(np.logaddexp.reduce(logs) - math.log(len(APART)))
