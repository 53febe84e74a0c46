"""Power of ``preset`` and ``pareto``, whose thresholds are fixed by a pilot, by simulation.

The pilot both fixes the thresholds and describes the population.  A sample then consists of the numbers of cases
between neighbouring thresholds, which are multinomial, and the errors among them, which are binomial.
``tests/selective/test_power.py`` compares these tests with those of :mod:`squad.selective.methods`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from squad.selective.methods import Options, preset_weights
from squad.selective.pilots import THRESHOLDS, Pilot, order_of, thresholds_of
from squad.selective.power import SAMPLES, SEED, Boundary
from squad.selective.scored_cases import WRONG, Scores

__all__ = ["Piloted"]


@dataclass(frozen=True, eq=False)
class Piloted:
    """A population as described by a pilot.

    Attributes:
        pilot: Cases of the pilot.
        thresholds: (K,), thresholds, the strictest first.
        shares: (K,), coverage of each.
        rates: (K,), error rate between each threshold and the one before.
    """

    pilot: Pilot
    thresholds: NDArray[np.float64]
    shares: tuple[float, ...]
    rates: NDArray[np.float64]

    @classmethod
    def of(cls, wrong: NDArray[np.bool_]) -> "Piloted":
        """Create the population from whether the cases of a pilot are wrong, the most confident first.

        Args:
            wrong: (cases,), whether each prediction is wrong, the most confident first.

        Returns:
            The population.
        """
        confidence = 1.0 - np.arange(len(wrong)) / len(wrong)
        thresholds, shares = thresholds_of(confidence, THRESHOLDS)
        ends = np.round(np.array(shares) * len(wrong)).astype(np.int64)
        errors = np.append(0, np.cumsum(wrong))[ends]
        rates = np.diff(errors, prepend=0) / np.diff(ends, prepend=0)
        return cls(Pilot(Scores(confidence, {WRONG: wrong}), True), thresholds, shares, rates)

    def succeeds(
        self,
        m: int,
        least: int,
        method: str,
        risk: float,
        level: float,
        samples: int = SAMPLES,
        seed: int = SEED,
    ) -> NDArray[np.bool_]:
        """Return, per sample, whether the method certifies a rule that accepts ``least`` of m cases, and one.

        Args:
            m: Number of calibration cases.
            least: Number of cases that the rule must accept.
            method: "preset" or "pareto".
            risk: Target.
            level: Significance level.
            samples: Number of simulated samples.
            seed: Seed of the simulation.

        Returns:
            (samples,), booleans.
        """
        rng = np.random.default_rng([seed, m])
        steps = np.diff(self.shares, prepend=0.0)
        between = rng.multinomial(m, steps / steps.sum(), samples)
        errors = np.cumsum(rng.binomial(between, self.rates), axis=1)
        n = np.cumsum(between, axis=1)
        if method == "pareto":
            return self._in_order(n, errors, m, least, risk, level)
        return self._in_chains(n, errors, m, least, risk, level)

    def _in_order(
        self, n: NDArray[np.int64], errors: NDArray[np.int64], m: int, least: int, risk: float, level: float
    ) -> NDArray[np.bool_]:
        good = Boundary.of(risk, level, m)
        alive, found = np.ones(len(n), dtype=np.bool_), np.zeros(len(n), dtype=np.bool_)
        for index in order_of(self.pilot, self.thresholds, {WRONG: risk}, m, level):
            alive &= good(errors[:, index], n[:, index])
            found |= alive & (n[:, index] >= max(least, 1))
        return found

    def _in_chains(
        self, n: NDArray[np.int64], errors: NDArray[np.int64], m: int, least: int, risk: float, level: float
    ) -> NDArray[np.bool_]:
        weights = preset_weights(m, [(WRONG, risk, False)], level, Options(shares=self.shares))
        chain, found = np.zeros(len(n)), np.zeros(len(n), dtype=np.bool_)
        for index in range(len(self.shares)):
            chain = chain + weights.get(index, 0.0)
            for weight in np.unique(chain[chain > 0]):
                members = np.flatnonzero(chain == weight)
                passed = Boundary.of(risk, float(weight * level), m)(errors[members, index], n[members, index])
                found[members[passed]] |= n[members[passed], index] >= max(least, 1)
                chain[members[~passed]] = 0.0
        return found
