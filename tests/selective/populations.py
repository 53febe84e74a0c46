"""Populations whose selective risk is known exactly at every threshold.

Let Q, uniform on (0, 1), be the share of the population that is more confident than a point.  A population is the
chance eta(q) of an error there, its integral, and the score that is shown, which falls as q grows.  The risk among
the most confident share q is then (integral of eta up to q) / q.  Where scores are rounded or discrete, a threshold
can only cut between levels, and a level reaches down to a known q.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MAKERS",
    "Population",
    "discrete",
    "five_levels",
    "flat",
    "overconfident",
    "rounded",
    "well_ranked",
    "worst_on_top",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Population:
    """One population.

    Attributes:
        name: what to call it.
        eta: the chance of an error at q.
        total: the integral of eta from 0 to q.
        growing: whether the risk grows (or stays) with coverage.
        levels: the scores there are, ascending, or None where the score is 1 - q.
        depths: for each level, the share of the population with this score or a higher one.
    """

    name: str
    eta: Callable[[Floats], Floats]
    total: Callable[[Floats], Floats]
    growing: bool
    levels: Floats | None = None
    depths: Floats | None = None

    @property
    def continuous(self) -> bool:
        return self.levels is None

    def draw(self, rng: np.random.Generator, *size: int) -> tuple[Floats, Bools]:
        """Draw confidences, and whether cases are wrong."""
        q = rng.random(size)
        wrong = rng.random(size) < self.eta(q)
        if self.levels is None or self.depths is None:
            return 1 - q, wrong
        # Depths decrease with the level: the level of q is the highest one whose depth reaches it.
        index = len(self.levels) - 1 - np.searchsorted(self.depths[::-1], q, side="left")
        return self.levels[np.maximum(index, 0)], wrong

    def coverage(self, threshold: float | Floats) -> Floats:
        """Fraction of cases with a confidence above the threshold."""
        at = np.asarray(threshold, dtype=np.float64)
        if self.levels is None or self.depths is None:
            return np.clip(1 - at, 0.0, 1.0)
        return np.append(self.depths, 0.0)[np.searchsorted(self.levels, at, side="right")]

    def risk(self, threshold: float | Floats) -> Floats:
        """Error rate among cases above the threshold; 0 where there are none."""
        q = self.coverage(threshold)
        return np.where(q > 0, self.total(q) / np.where(q > 0, q, 1.0), 0.0)

    def oracle(self, risk: float) -> float:
        """Largest coverage with a risk of at most ``risk``: what is possible if the population is known."""
        q = np.linspace(1e-6, 1, 1_000_000) if self.depths is None else self.depths
        fit = q[self.total(q) <= risk * q]
        return float(fit.max()) if fit.size else 0.0


def _power(q: Floats) -> Floats:
    return 0.6 * q**5


def _power_total(q: Floats) -> Floats:
    return 0.1 * q**6


def well_ranked(risk: float) -> Population:
    """10 % errors, nearly all at the end: the risk is q^5 / 10, and reaches 5 % at a coverage of 87 %."""
    return Population("well ranked", _power, _power_total, growing=True)


def flat(risk: float) -> Population:
    """The score is uninformative, and the error rate is just above the target: every certificate is false."""
    rate = risk * (1 + 1e-6)
    return Population("flat", lambda q: np.full_like(q, rate), lambda q: rate * q, growing=True)


def overconfident(risk: float) -> Population:
    """Well ranked except for the top tenth, whose error rate is three times the target: too high up to q = .3."""
    return Population(
        "overconfident at the top",
        lambda q: np.where(q < 0.1, 3 * risk, _power(q)),
        lambda q: 3 * risk * np.minimum(q, 0.1) + _power_total(q) - _power_total(np.minimum(q, 0.1)),
        growing=False,
    )


def rounded(population: Population, decimals: int) -> Population:
    """The same with scores rounded to a few decimals."""
    steps = 10**decimals
    levels = np.arange(steps + 1) / steps
    depths = np.clip(1 - (levels - 0.5 / steps), 0.0, 1.0)
    name = f"{population.name}, {decimals} decimal{'s' * (decimals > 1)}"
    return Population(name, population.eta, population.total, population.growing, levels, depths)


def discrete(
    name: str, masses: tuple[float, ...], rates: tuple[float, ...], levels: tuple[float, ...], growing: bool
) -> Population:
    """A few levels, the most confident first: their fractions, and the error rate in each."""
    depths = np.cumsum(masses)
    depths[-1] = 1.0
    share, rate = np.array(masses), np.array(rates)
    starts = depths - share

    def eta(q: Floats) -> Floats:
        return rate[np.minimum(np.searchsorted(depths, q, side="left"), len(rate) - 1)]

    def total(q: Floats) -> Floats:
        inside = np.clip(np.asarray(q)[..., None] - starts, 0.0, share)
        return np.asarray((inside * rate).sum(-1))

    return Population(name, eta, total, growing, np.array(levels)[::-1].copy(), depths[::-1].copy())


def five_levels(risk: float) -> Population:
    """Five levels with growing error rates; the third one brings the risk just above the target."""
    masses = (0.25, 0.15, 0.2, 0.2, 0.2)
    rates = (0.5 * risk, risk, 1.9 * risk, 3 * risk, 6 * risk)
    return discrete("discrete, 5 levels", masses, rates, (0.95, 0.7, 0.5, 0.3, 0.1), growing=True)


def worst_on_top(risk: float) -> Population:
    """Five levels, the first of which is the worst: the risk decreases to just above the target."""
    masses, top = (0.24, 0.06, 0.22, 0.24, 0.24), 1.2 * risk
    rest = (risk * (1 + 1e-6) - masses[0] * top) / (1 - masses[0])
    rates = (top, rest, rest, rest, rest)
    return discrete("discrete, worst on top", masses, rates, (0.95, 0.7, 0.5, 0.3, 0.1), growing=False)


#: Populations by name; each is made for a target, so that its risk crosses it.
MAKERS: dict[str, Callable[[float], Population]] = {
    "well ranked": well_ranked,
    "flat": flat,
    "overconfident at the top": overconfident,
    "well ranked, 1 decimal": lambda risk: rounded(well_ranked(risk), 1),
    "well ranked, 2 decimals": lambda risk: rounded(well_ranked(risk), 2),
    "overconfident at the top, 1 decimal": lambda risk: rounded(overconfident(risk), 1),
    "discrete, 5 levels": five_levels,
    "discrete, worst on top": worst_on_top,
}
