"""Miss rates, costs, weights and strata on populations whose risk is known: how often is a certificate false?

Let q be the share of cases that are more confident than a case; its confidence is 1 - q.  A way is what one would do
without the capability ("before") or with it ("after").  In populations called "at the boundary" every rule is false by
a hair, so that certificates are false whenever there are any: the share of these may be delta, no more.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from squad.errors import ArgumentError
from squad.selective import certify
from squad.selective.betting import bets_for
from squad.selective.bounds import most_errors
from tests.slow.simulate import excess

__all__ = ["ALARM", "CELLS", "DELTA", "FAULTS", "REPETITIONS", "SEED", "Outcome", "Setting", "labels_for_errors", "run"]

REPETITIONS = 2000
DELTA = 0.1
SEED = 23
#: By a hair.
ABOVE = 1.001

Floats = NDArray[np.float64]
#: From a generator to the arguments of certify, by way.
Draw = Callable[[np.random.Generator], Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Setting:
    """One setting to simulate.

    Attributes:
        subject: "miss rate", "costs", "weights" or "strata".
        population: its name.
        m: calibration cases.
        limit: what must not be exceeded.
        draw: a sample, as arguments of certify for each way.
        harm: the true rate of the harm in question among cases whose q is below a number.
    """

    subject: str
    population: str
    m: int
    limit: float
    draw: Draw
    harm: Callable[[float], float]


@dataclass(frozen=True)
class Outcome:
    """Results of one procedure."""

    way: str
    certified: float
    coverage: float
    false: int
    repetitions: int

    @property
    def p_value(self) -> float:
        return excess(self.false, self.repetitions, DELTA)


def run(setting: Setting, repetitions: int = REPETITIONS) -> list[Outcome]:
    """All procedures on the same samples."""
    false: dict[str, int] = {}
    found: dict[str, list[float]] = {}
    for repetition in range(repetitions):
        rng = np.random.default_rng([SEED, setting.m, repetition])
        for way, arguments in setting.draw(rng).items():
            try:
                threshold = certify(delta=DELTA, **arguments).threshold
            except ArgumentError:  # a stratum ran out, or no case was drawn
                threshold = math.inf
            coverage = 0.0 if threshold == math.inf else 1 - max(threshold, 0.0)
            found.setdefault(way, []).append(coverage)
            false[way] = false.get(way, 0) + int(coverage > 0 and setting.harm(coverage) > setting.limit)
    return [
        Outcome(way, float(np.mean(np.array(one) > 0)), float(np.mean(one)), false[way], repetitions)
        for way, one in found.items()
    ]


def _miss_rates(flat: bool) -> Setting:
    """One case in five is ill, and more often predicted as well than the other way round."""
    m, limit = 4000, 0.1

    def ill_missed(q: Floats) -> Floats:
        return np.full_like(q, limit * ABOVE) if flat else 0.4 * q

    def draw(rng: np.random.Generator) -> Mapping[str, Mapping[str, Any]]:
        q, ill = rng.random(m), rng.random(m) < 0.2
        wrong = rng.random(m) < np.where(ill, ill_missed(q), 0.02)
        cases: dict[str, Any] = {"confidence": 1 - q, "correct": ~wrong}
        miss = np.where(ill, wrong, np.nan)
        return {
            "before": {**cases, "risk": 0.05},
            "after": {**cases, "risk": {"wrong": 0.05, "miss rate ill": limit}, "harms": {"miss rate ill": miss}},
        }

    name = "at the boundary" if flat else "the less confident, the more missed"
    return Setting("miss rate", name, m, limit, draw, lambda c: limit * ABOVE if flat else 0.2 * c)


#: Costs of errors; their means are below.
PRICES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "nearly 1": lambda rng, m: np.full(m, 0.999),
    ".2": lambda rng, m: np.full(m, 0.2),
    ".2, one in ten 1": lambda rng, m: np.where(rng.random(m) < 0.1, 1.0, 0.2),
    "uniform": lambda rng, m: rng.random(m),
}
MEANS = {"nearly 1": 0.999, ".2": 0.2, ".2, one in ten 1": 0.28, "uniform": 0.5}


def _costs(price: str, flat: bool) -> Setting:
    """Before: everything that costs anything is an error, and the risk is that of errors."""
    m, limit, mean = 2000, 0.03, MEANS[price]

    def draw(rng: np.random.Generator) -> Mapping[str, Mapping[str, Any]]:
        q = rng.random(m)
        wrong = rng.random(m) < (limit * ABOVE / mean if flat else np.minimum(0.16 * q**2 / mean, 1))
        cost = np.where(wrong, PRICES[price](rng, m), 0.0)
        cases: dict[str, Any] = {"confidence": 1 - q, "correct": ~wrong}
        return {
            "before": {**cases, "risk": limit},
            "after": {**cases, "risk": {"cost": limit}, "harms": {"cost": cost}},
        }

    def harm(c: float) -> float:
        if flat:
            return limit * ABOVE
        edge = min(c, math.sqrt(mean / 0.16))  # where every prediction is wrong
        return (0.16 * edge**3 / 3 + mean * (c - edge)) / c

    return Setting("costs", f"{price}, {'at the boundary' if flat else 'well ranked'}", m, limit, draw, harm)


def _weights(flat: bool, fault: float | None = None) -> Setting:
    """Hard cases are half of the new ones, and a tenth of the sample.  A fault is a bound that clips weights."""
    m, limit = 4000, 0.05
    easy = 0.01

    def hard_wrong(q: Floats) -> Floats:
        return np.full_like(q, 2 * limit * ABOVE - easy) if flat else 0.3 * q

    def draw(rng: np.random.Generator) -> Mapping[str, Mapping[str, Any]]:
        q, hard = rng.random(m), rng.random(m) < 0.1
        wrong = rng.random(m) < np.where(hard, hard_wrong(q), easy)
        weights = np.where(hard, 5.0, 5 / 9)
        cases: dict[str, Any] = {"confidence": 1 - q, "correct": ~wrong, "risk": limit}
        if fault is not None:
            return {"faulty": {**cases, "weights": np.minimum(weights, fault), "max_weight": fault}}
        return {"before": cases, "after": {**cases, "weights": weights, "max_weight": 5.0}}

    def harm(c: float) -> float:
        return limit * ABOVE if flat else 0.5 * easy + 0.5 * 0.15 * c

    name = "at the boundary" if flat else "hard cases rare in the sample"
    return Setting("weights", name, m, limit, draw, harm)


def _shifted() -> Setting:
    """A covariate x whose density in the sample is 1.9 - 1.8 x, and 1 among new cases; errors grow with it."""
    m, limit = 6000, 0.05

    def draw(rng: np.random.Generator) -> Mapping[str, Mapping[str, Any]]:
        q = rng.random(m)
        x = (1.9 - np.sqrt(1.9**2 - 3.6 * rng.random(m))) / 1.8
        wrong = rng.random(m) < 2 * limit * ABOVE * x
        cases: dict[str, Any] = {"confidence": 1 - q, "correct": ~wrong, "risk": limit}
        return {"before": cases, "after": {**cases, "weights": 1 / (1.9 - 1.8 * x), "max_weight": 10.0}}

    return Setting("weights", "covariate shift, at the boundary", m, limit, draw, lambda c: limit * ABOVE)


def _strata(flat: bool) -> Setting:
    """As many ill as well in the sample, one in twenty ill among new cases; errors are on the well."""
    m, limit, share = 3000, 0.05, 0.05

    def well_wrong(q: Floats) -> Floats:
        return np.full_like(q, (limit * ABOVE - share * 0.01) / (1 - share)) if flat else 0.12 * q

    def draw(rng: np.random.Generator) -> Mapping[str, Mapping[str, Any]]:
        q, ill = rng.random(m), np.arange(m) % 2 == 0
        wrong = rng.random(m) < np.where(ill, 0.01, well_wrong(q))
        cases: dict[str, Any] = {"confidence": 1 - q, "correct": ~wrong, "risk": limit}
        return {"before": cases, "after": {**cases, "strata": ill, "population": {True: share, False: 1 - share}}}

    def harm(c: float) -> float:
        return limit * ABOVE if flat else share * 0.01 + (1 - share) * 0.06 * c

    name = "at the boundary" if flat else "the rare class oversampled"
    return Setting("strata", name, m, limit, draw, harm)


CELLS = (
    _miss_rates(True),
    _miss_rates(False),
    *(_costs(price, True) for price in PRICES),
    *(_costs(price, False) for price in PRICES),
    _weights(True),
    _weights(False),
    _shifted(),
    _strata(True),
    _strata(False),
)
#: A p-value below this is a violation of the guarantee, at 1e-3 for all cells together.
ALARM = 1e-3 / len(CELLS)

FAULTS = {"weights that are cut": _weights(True, fault=2.0), "a weight for all": _weights(True, fault=5 / 9)}


def labels_for_errors(risk: float, share: float, level: float = 0.01, power: float = 0.8) -> dict[str, int]:
    """Accepted cases with which each test has this power, if costs are 0 and 1 with a mean of share * risk."""

    def bets(n: int) -> int:
        """The most errors that pass."""
        k = np.arange(n + 1)[:, None]
        bet = bets_for(n, risk)
        logs = (n - k) * np.log1p(bet * risk) + k * np.log1p(bet * (risk - 1))
        return int(np.sum(np.logaddexp.reduce(logs, axis=1) - math.log(3) >= -math.log(level))) - 1

    def hoeffding_bentkus(n: int) -> int:
        k = np.arange(math.floor(risk * n) + 1)
        mean = k / n
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = np.where(k > 0, mean * np.log(mean / risk), 0.0) + (1 - mean) * np.log((1 - mean) / (1 - risk))
        p = np.minimum(np.exp(-n * kl), math.e * stats.binom.cdf(k, n, risk))
        return int(np.sum(p <= level)) - 1

    def needed(most: Callable[[int], int]) -> int:
        n = 16
        while stats.binom.cdf(most(n), n, share * risk) < power:
            n = math.ceil(1.005 * n)
        return n

    tests = {"exact": lambda n: int(most_errors(n, risk, level)), "bets": bets, "hoeffding-bentkus": hoeffding_bentkus}
    return {name: needed(most) for name, most in tests.items()}
