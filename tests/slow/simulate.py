"""Certificates from many samples of a population whose risk is known: how often are they false?

A cell is a method on a population, at a sample size, a target and a delta.  Samples are drawn once and shown to all
methods.  A violation is a certificate whose true risk is above its target; there may be a share delta of them, and the
exact binomial test says whether there are more.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from squad.selective.methods import METHODS, Options
from squad.selective.pilots import PILOTED, Pilot, order_of, thresholds_of
from squad.selective.scored_cases import WRONG, Ranked, Scores, rank
from tests.selective.populations import MAKERS, Floats, Population

__all__ = [
    "ALARM",
    "GRID",
    "PILOT",
    "REPETITIONS",
    "SEED",
    "SETTINGS",
    "Cell",
    "all_methods",
    "choose",
    "excess",
    "piloted",
    "run",
    "samples",
]

REPETITIONS = 2000
SEED = 7
#: For "grid": named here, before any sample is drawn.
GRID = np.arange(14, -1, -1) / 20
#: Cases of the pilot that chooses thresholds for "preset" and "pareto", drawn anew for every sample.
PILOT = 500
#: m, target, and the deltas that share the samples.  The large ones let a test see more.
SETTINGS: tuple[tuple[int, float, tuple[float, ...]], ...] = (
    (100, 0.05, (0.25,)),
    (1000, 0.05, (0.1,)),
    (1000, 0.02, (0.01,)),
    (10_000, 0.01, (0.01, 0.1)),
)
CELLS = len(METHODS) * len(MAKERS) * sum(len(deltas) for *_, deltas in SETTINGS)
#: A p-value below this is a violation of the guarantee, at 1e-3 for all cells together.
ALARM = 1e-3 / CELLS

#: From a ranked sample, and the options that a pilot chose, to a threshold; infinity where nothing is certified.
Chooser = Callable[[Ranked, Options], float]


@dataclass
class Cell:
    """Results of one method on one population."""

    method: str
    population: str
    m: int
    risk: float
    delta: float
    proven: bool
    repetitions: int = 0
    certified: int = 0
    violations: int = 0
    coverages: list[float] = field(default_factory=list, repr=False)

    @property
    def p_value(self) -> float:
        return excess(self.violations, self.repetitions, self.delta)

    @property
    def verdict(self) -> str:
        """Describe the result; what is not proven is marked, whatever the result."""
        if self.p_value < ALARM:
            return "VIOLATED, though proven" if self.proven else "VIOLATED; not proven"
        return "held, proven" if self.proven else "held; tested, not proven"

    def __str__(self) -> str:
        return (
            f"{self.method} on {self.population}, m = {self.m}, risk {self.risk:g}, delta {self.delta:g}: "
            f"{self.violations} of {self.repetitions} certificates false (p = {self.p_value:.1e}): {self.verdict}"
        )


def excess(violations: int, repetitions: int, delta: float) -> float:
    """Probability of at least this many violations if each occurs with probability delta."""
    return float(stats.binom.sf(violations - 1, repetitions, delta))


def proven(method: str, population: Population) -> bool:
    """Whether there is a proof.

    For thresholds fixed in advance and for the band: always.  Walks need a risk that grows with coverage, a binary
    search also scores without ties; bonferroni needs either.
    """
    if method in ("grid", "band", *PILOTED):
        return True
    if method == "sgr":
        return population.growing and population.continuous
    return population.growing or (method == "bonferroni" and population.continuous)


def choose(method: str, ranked: Ranked, risk: float, delta: float, options: Options | None = None) -> float:
    """Threshold of the method: as ``squad.certify`` for one rule, without creating a certificate."""
    shown = METHODS[method](ranked, ranked.tallies[WRONG], risk, delta, options or Options())
    places = np.flatnonzero(shown)
    return float(ranked.threshold[places[-1]]) if len(places) else np.inf


def samples(population: Population, m: int, repetitions: int, seed: int) -> Iterator[Scores]:
    """Samples of m cases; each repetition has its own seed."""
    for repetition in range(repetitions):
        confidence, wrong = population.draw(np.random.default_rng([SEED, seed, m, repetition]), m)
        yield Scores(confidence, {WRONG: wrong})


def piloted(pilot: Scores, method: str, m: int, risk: float, delta: float) -> tuple[Floats, Options]:
    """Thresholds that a pilot chooses, and the options of the method."""
    thresholds, shares = thresholds_of(pilot.confidence)
    if method == "preset":
        return thresholds, Options(shares=shares)
    return thresholds, Options(order=order_of(Pilot(pilot, True), thresholds, {WRONG: risk}, m, delta))


def run(
    population: Population,
    m: int,
    risk: float,
    choosers: dict[tuple[str, float], Chooser],
    repetitions: int = REPETITIONS,
    grid: Floats = GRID,
) -> list[Cell]:
    """A cell for each (method, delta)."""
    found: dict[tuple[str, float], list[float]] = {key: [] for key in choosers}
    pilots = samples(population, PILOT, repetitions, seed=9)
    for scores, pilot in zip(samples(population, m, repetitions, seed=0), pilots, strict=True):
        by_rank, named = rank(scores), rank(scores, grid)
        for (method, delta), chooser in choosers.items():
            ranked, options = named if method == "grid" else by_rank, Options()
            if method in PILOTED:
                thresholds, options = piloted(pilot, method, m, risk, delta)
                ranked = rank(scores, thresholds)
            found[method, delta].append(chooser(ranked, options))
    cells = []
    for (method, delta), chosen in found.items():
        at = np.array(chosen)
        certified = at < np.inf
        false = certified & (population.risk(at) > risk * (1 + 1e-9))
        cell = Cell(method, population.name, m, risk, delta, proven(method, population), repetitions)
        cell.certified, cell.violations = int(certified.sum()), int(false.sum())
        cell.coverages = population.coverage(at).tolist()
        cells.append(cell)
    return cells


def all_methods(risk: float, deltas: tuple[float, ...]) -> dict[tuple[str, float], Chooser]:
    """Every method of the library at every delta."""

    def chooser(method: str, delta: float) -> Chooser:
        return lambda ranked, options: choose(method, ranked, risk, delta, options)

    return {(method, delta): chooser(method, delta) for delta in deltas for method in METHODS}
