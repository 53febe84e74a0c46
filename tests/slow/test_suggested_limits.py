"""Limits that a report suggests for the weakest class: does the next attempt to certify the model succeed with them?

Following a suggestion means new calibration cases, as many as it says, and the next attempt's share of delta.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from squad.report.summaries import by_class
from squad.report.weakest_class import Suggestion, find_weakest_class, suggest_limit
from squad.selective import certify

#: Number of models per population, and confidence level of their certificates.
MODELS, DELTA = 40, 0.01

Array = NDArray[Any]


@dataclass(frozen=True)
class Population:
    """Cases of several classes, whose errors have low confidences.

    Attributes:
        shares: Frequency of each class.
        miss: Miss rate of each class if every case is accepted.
        decay: How fast errors become rarer with confidence; 0 if they do not.
        risk: Risk that the first certificate is for.
        m: Number of its calibration cases.
        tested: Number of test cases.
        least: Least number of suggestions expected.
    """

    shares: tuple[float, ...]
    miss: tuple[float, ...]
    decay: float
    risk: float
    m: int
    tested: int
    least: int

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Array, Array, Array]:
        """Return confidences, predicted and true classes."""
        truth = rng.choice(len(self.shares), count, p=self.shares)
        confidence = rng.random(count)
        rate = np.array(self.miss)[truth] * (self.decay + 1) * (1 - confidence) ** self.decay
        wrong = rng.random(count) < rate
        return confidence, np.where(wrong, (truth + 1) % len(self.shares), truth), truth


POPULATIONS = {
    "few cases": Population((0.45, 0.45, 0.1), (0.01, 0.01, 0.2), 3, 0.02, 1000, 500, 10),
    "many cases": Population((0.45, 0.45, 0.1), (0.01, 0.01, 0.2), 3, 0.02, 10_000, 3000, 30),
    "errors at any confidence": Population((0.45, 0.45, 0.1), (0.005, 0.005, 0.15), 0.3, 0.05, 10_000, 1000, 20),
    "no order at all": Population((0.5, 0.4, 0.1), (0.005, 0.005, 0.1), 0, 0.05, 10_000, 2000, 20),
    "half of the cases": Population((0.5, 0.5), (0.005, 0.06), 3, 0.02, 2000, 2000, 20),
    "rare": Population((0.5, 0.45, 0.05), (0.005, 0.005, 0.15), 1, 0.05, 5000, 2000, 10),
    "nearly all missed": Population((0.5, 0.4, 0.1), (0.002, 0.002, 0.6), 0.2, 0.1, 10_000, 1000, 0),
    "ten alike": Population((0.1,) * 10, (0.03,) * 10, 2, 0.05, 4000, 2000, 20),
}


def follow(population: Population, repetition: int) -> tuple[float, bool] | None:
    """Certify a model, test it, and follow the suggestion; return its limit, and whether it could be certified."""
    rng = np.random.default_rng([repetition, population.m, population.tested])
    confidence, predicted, truth = population.draw(rng, population.m)
    first = certify(confidence, predicted == truth, population.risk, DELTA, attempt=1)
    if not first.certified:
        return None
    confidence, predicted, truth = population.draw(rng, population.tested)
    accepted = first.accepts(confidence)
    rows = by_class([str(index) for index in range(len(population.shares))], predicted, truth, accepted)
    risks = {"wrong": population.risk}
    weakest = find_weakest_class(rows, risks, 0.0)
    if weakest is None:
        return None
    name, own = f"miss rate {weakest.name}", int(weakest.name)
    wrong = predicted != truth
    harms = {"wrong": wrong, name: np.where(truth == own, wrong, np.nan)}
    found = suggest_limit(weakest, confidence, accepted, harms, risks, first, attempt=2)
    if not isinstance(found, Suggestion) or found.cases is None:
        return None
    confidence, predicted, truth = population.draw(rng, found.cases)
    missed = np.where(truth == own, predicted != truth, np.nan)
    second = certify(confidence, predicted == truth, found.risks, DELTA, harms={name: missed}, attempt=found.attempt)
    return found.risks[name], second.certified


@pytest.mark.parametrize("name", POPULATIONS)
def test_nine_of_ten_suggested_limits_are_confirmed(name: str) -> None:
    population = POPULATIONS[name]
    results = [found for repetition in range(MODELS) if (found := follow(population, repetition)) is not None]
    confirmed = sum(success for _, success in results)
    print(
        f"{name}: {confirmed} of {len(results)} suggestions confirmed, limits {sorted({limit for limit, _ in results})}"
    )
    assert len(results) >= population.least
    if population.least == 0:
        assert results == []  # no limit can be confirmed, so none is suggested
    assert confirmed >= 0.9 * len(results)
