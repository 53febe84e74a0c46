"""Does `squad.plan` keep its word?  Certificates on the population it speaks of, and on two that are easier.

Every cell is a risk, an error rate, a coverage and a method.  Of the number of cases that plan gives, `squad.certify`'s
own method is run on 2,000 samples; success is a certificate that accepts at least nine tenths of the coverage.  The
stated probability must be met within 2 points.  Beside it: the numbers that were given before, for one test of a fixed
number of accepted cases, and how often the method succeeds with those.

Ranked: the same share of errors among the accepted, growing with the cube of the rank, and half of the others are
wrong.  Its stated probability is a lower bound only.
"""

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import arguments, rows, save
from squad.selective import plan, success_probability
from squad.selective.bounds import MOST, fewest_with, tail
from squad.selective.methods import METHODS, Options
from squad.selective.scores import WRONG, Scores, rank

DELTA, POWER = 0.01, 0.9
#: Risk, error rate among the accepted, coverage.
CELLS = tuple(
    (risk, share * risk, coverage) for risk in (0.02, 0.1) for share in (0.0, 0.25, 0.5) for coverage in (0.5, 0.8)
)
COMPARED = ("fallback", "fixed_sequence", "sgr", "bonferroni", "band", "grid")
REPETITIONS = 2000
SEED = 20_261_121

Floats = NDArray[np.float64]


def before(risk: float, coverage: float, error: float) -> int:
    """What plan gave: floor(m coverage) accepted cases, tested once."""
    errors = 0
    while tail(errors, n := fewest_with(errors, risk, DELTA), error) < POWER and n < MOST:
        errors += 1
    return math.ceil(n / coverage - 1e-9)


def succeeded(m: int, risk: float, error: float, coverage: float, method: str, ranked: bool, seed: int) -> bool:
    rng = np.random.default_rng([SEED, seed])
    q, luck = np.sort(rng.random(m)), rng.random(m)
    if ranked:
        wrong = luck < np.where(q < coverage, 4 * error * (q / coverage) ** 3, 0.5)
    else:
        wrong = luck < np.where(q < coverage, error, 1.0)
    if method == "grid":  # one threshold, named in advance
        one = rank(Scores(1 - q, {WRONG: wrong}), np.array([1 - coverage]))
        return bool(one.tallies[WRONG].passes(0, risk, DELTA))
    all_ = rank(Scores(1 - q, {WRONG: wrong}))
    shown = np.flatnonzero(METHODS[method](all_, all_.tallies[WRONG], risk, DELTA, Options()))
    return bool(len(shown) and all_.n[shown[-1]] >= 0.9 * coverage * m - 1e-9)


def share(m: int, risk: float, error: float, coverage: float, method: str, ranked: bool, often: int) -> float:
    return sum(succeeded(m, risk, error, coverage, method, ranked, seed) for seed in range(often)) / often


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
                "simulated": share(m, risk, error, coverage, method, False, REPETITIONS),
                "ranked": share(m, risk, error, coverage, method, True, REPETITIONS // 8),
                "before": {"m": old, "simulated": share(old, risk, error, coverage, method, False, REPETITIONS // 8)},
            }
            results.append(cell)
            print(cell, flush=True)
    rows(
        f"labels for a success probability of {POWER:.0%}, and how often it succeeds in {REPETITIONS} repetitions",
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
    settings = {"delta": DELTA, "power": POWER, "repetitions": REPETITIONS, "methods": COMPARED}
    save("plan_power", options.out, settings, results, SEED)


if __name__ == "__main__":
    main()
