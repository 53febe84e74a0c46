"""Whether `squad.plan` states correct success probabilities: on the population it assumes, and on two easier ones.

Each cell is a risk, an error rate, a coverage and a method.  The method of `squad.certify` is run on 2,000 samples of
the size that plan recommends; success is a certificate that accepts at least nine tenths of the coverage.  The
simulated probability must be within 2 points of the stated one.  For comparison: the sizes recommended formerly, for a
single test of a fixed number of accepted cases, and how often the method succeeds with those.

Ranked: the same error rate among accepted cases, but growing with the cube of the rank, and half of the others are
wrong.  There the stated probability is only a lower bound.
"""

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import arguments, rows, save
from squad.selective import plan, success_probability
from squad.selective.bounds import MAX_CASES, min_cases_with, tail
from squad.selective.methods import METHODS, Options
from squad.selective.pilots import PILOTED, Pilot, order_of, thresholds_of
from squad.selective.scored_cases import WRONG, Scores, rank

DELTA, POWER = 0.01, 0.9
#: Risk, error rate among accepted cases, coverage.
CELLS = tuple(
    (risk, share * risk, coverage) for risk in (0.02, 0.1) for share in (0.0, 0.25, 0.5) for coverage in (0.5, 0.8)
)
COMPARED = ("fallback", "fixed_sequence", "sgr", "bonferroni", "band", "grid")
#: Plans from a pilot set of this size, of a ranked population: risk, coverage, method.
PILOT = 2000
PLANNED = tuple((risk, 0.5, method) for risk in (0.02, 0.1) for method in (*COMPARED, *PILOTED))
REPETITIONS = 2000
SEED = 20_261_121

Floats = NDArray[np.float64]


def before(risk: float, coverage: float, error: float) -> int:
    """Return the size that plan recommended formerly: floor(m coverage) accepted cases, tested once."""
    errors = 0
    while tail(errors, n := min_cases_with(errors, risk, DELTA), error) < POWER and n < MAX_CASES:
        errors += 1
    return math.ceil(n / coverage - 1e-9)


def draw_scores(rng: np.random.Generator, m: int, error: float, coverage: float, ranked: bool) -> Scores:
    q, luck = np.sort(rng.random(m)), rng.random(m)
    if ranked:
        wrong = luck < np.where(q < coverage, 4 * error * (q / coverage) ** 3, 0.5)
    else:
        wrong = luck < np.where(q < coverage, error, 1.0)
    return Scores(1 - q, {WRONG: wrong})


def accepts_enough(scores: Scores, pilot: Scores | None, risk: float, coverage: float, method: str) -> bool:
    """Whether the method succeeds; ``pilot`` determines the thresholds of preset and pareto."""
    m = len(scores)
    thresholds, options = None, Options()
    if method == "grid":  # one threshold, chosen in advance
        one = rank(scores, np.array([1 - coverage]))
        return bool(one.tallies[WRONG].passes(0, risk, DELTA))
    if pilot is not None:
        thresholds, shares = thresholds_of(pilot.confidence)
        order = order_of(Pilot(pilot, True), thresholds, {WRONG: risk}, m, DELTA)
        options = Options(shares=shares, order=order)
    all_ = rank(scores, thresholds)
    shown = np.flatnonzero(METHODS[method](all_, all_.tallies[WRONG], risk, DELTA, options))
    return bool(len(shown) and all_.n[shown[-1]] >= 0.9 * coverage * m - 1e-9)


def succeeded(m: int, risk: float, error: float, coverage: float, method: str, ranked: bool, seed: int) -> bool:
    scores = draw_scores(np.random.default_rng([SEED, seed]), m, error, coverage, ranked)
    return accepts_enough(scores, None, risk, coverage, method)


def from_pilot(risk: float, coverage: float, method: str) -> dict[str, object]:
    """Return a plan from pilot scores, and how often it succeeds for cases drawn from these."""
    known = draw_scores(np.random.default_rng([SEED, PILOT]), PILOT, 0.4 * risk, 0.7, ranked=True)
    wrong = known.harms[WRONG]
    pilot_scores = known.confidence, ~wrong
    m = plan(risk, DELTA, coverage, power=POWER, method=method, pilot=pilot_scores)
    successes = 0
    for seed in range(REPETITIONS):
        rng = np.random.default_rng([SEED, seed, 1])
        taken = np.sort(rng.integers(PILOT, size=m))
        scores = Scores(known.confidence[taken] - 1e-9 * rng.random(m), {WRONG: wrong[taken]})
        if method == "grid":  # the threshold that accepts this fraction of the pilot set
            limit = np.sort(known.confidence)[::-1][round(coverage * PILOT) - 1] - 2e-9
            successes += bool(rank(scores, np.array([limit])).tallies[WRONG].passes(0, risk, DELTA))
            continue
        pilot = Scores(known.confidence - 1e-9, {WRONG: wrong}) if method in PILOTED else None
        successes += accepts_enough(scores, pilot, risk, coverage, method)
    stated = success_probability(m, risk, DELTA, coverage, method=method, pilot=pilot_scores)
    cell = {"risk": risk, "coverage": coverage, "method": method, "m": m, "stated": stated}
    return {**cell, "simulated": successes / REPETITIONS}


def success_rate(
    m: int, risk: float, error: float, coverage: float, method: str, ranked: bool, repetitions: int
) -> float:
    seeds = range(repetitions)
    return sum(succeeded(m, risk, error, coverage, method, ranked, seed) for seed in seeds) / repetitions


def main() -> None:
    options = arguments(__doc__)
    results = []
    for risk, error, coverage in CELLS:
        old = before(risk, coverage, error)
        for method in COMPARED:
            m = plan(risk, DELTA, coverage, error, POWER, method=method)
            cell = {
                "risk": risk,
                "error": error,
                "coverage": coverage,
                "method": method,
                "m": m,
                "stated": success_probability(m, risk, DELTA, coverage, error, method=method),
                "simulated": success_rate(m, risk, error, coverage, method, False, REPETITIONS),
                "ranked": success_rate(m, risk, error, coverage, method, True, REPETITIONS // 8),
                "before": {
                    "m": old,
                    "simulated": success_rate(old, risk, error, coverage, method, False, REPETITIONS // 8),
                },
            }
            results.append(cell)
            print(cell, flush=True)
    rows(
        f"labels for a success probability of {POWER:.0%}, and success rates in {REPETITIONS} repetitions",
        ["risk", "error", "coverage", "method", "m", "stated", "simulated", "ranked", "before: m", "succeeds"],
        [
            [
                f"{one['risk']:.0%}",
                f"{one['error']:.2%}",
                f"{one['coverage']:.0%}",
                str(one["method"]),
                f"{one['m']:,}",
                f"{one['stated']:.1%}",
                f"{one['simulated']:.1%}",
                f"{one['ranked']:.1%}",
                f"{one['before']['m']:,}",  # type: ignore[index]
                f"{one['before']['simulated']:.1%}",  # type: ignore[index]
            ]
            for one in results
        ],
    )
    pilots = [from_pilot(*cell) for cell in PLANNED]
    for one in pilots:
        print(one, flush=True)
    settings = {
        "delta": DELTA,
        "power": POWER,
        "repetitions": REPETITIONS,
        "methods": COMPARED,
        "pilot": PILOT,
    }
    save("plan_power", options.out, settings, {"cells": results, "pilots": pilots}, SEED)


if __name__ == "__main__":
    main()
