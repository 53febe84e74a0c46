"""Certifying repeatedly until it succeeds: with all of delta at each attempt, and with delta divided among attempts.

False certificates: the population has an error rate just above the target at every threshold, so that any certificate
is false.  After a failure rows are added, or new ones are drawn, and the certification is repeated, at most ten times.
"All rows, twice as many": 250, 500, 1,000, ...; "all rows, 250 more": 250, 500, 750, ...; "all rows, as advised": the
total that the failed certificate recommends, so that the number depends on labels that are used again, which the proof
does not cover; "new rows, as advised": as many new rows, without the earlier ones.

Coverage: the cost of dividing delta, on the well-ranked population of benchmarks/certify_coverage.py.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.certify_coverage import error_probability
from benchmarks.harness import arguments, rows, save
from squad.selective import certify
from squad.selective.attempts import delta_share
from squad.selective.methods import METHODS, Options
from squad.selective.scored_cases import WRONG, Scores, rank

RISK, DELTA = 0.05, 0.05
FIRST, MOST, LOOKS = 250, 16_000, 10
REPETITIONS = 2000
SEED = 20_261_122
SIZES, TARGETS, STRICT, COVERAGES = (500, 2000, 5000), (0.005, 0.01, 0.02, 0.05), 0.01, 2000

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
#: Total number of rows of the next attempt (None: as many as the failed certificate recommends), and whether earlier
#: rows are used again.
Policy = tuple[Callable[[int], int] | None, bool]

POLICIES: dict[str, Policy] = {
    "all rows, twice as many": (lambda m: 2 * m, True),
    "all rows, 250 more": (lambda m: m + FIRST, True),
    "all rows, as advised": (None, True),
    "new rows, as advised": (None, False),
}


def is_certified(confidence: Floats, wrong: Bools, attempt: int | None) -> bool:
    """Whether the default method certifies anything, as `squad.certify` does, but without creating a certificate."""
    ranked = rank(Scores(confidence, {WRONG: wrong}))
    return bool(METHODS["fallback"](ranked, ranked.tallies[WRONG], RISK, DELTA * delta_share(attempt), Options()).any())


def false(policy: Policy, divided: bool, repetition: int) -> int:
    """Return the number of the attempt that gives a false certificate; 0 if none does."""
    next_size, reuse = policy
    rng = np.random.default_rng([SEED, repetition])
    confidence, wrong = rng.random(MOST), rng.random(MOST) < RISK * 1.0001
    m = FIRST
    for attempt in range(1, LOOKS + 1):
        if not reuse and attempt > 1:
            confidence, wrong = rng.random(m), rng.random(m) < RISK * 1.0001
        number = attempt if divided else None
        if is_certified(confidence[:m], wrong[:m], number):
            return attempt
        if next_size is None:
            needed = certify(confidence[:m], ~wrong[:m], RISK, DELTA, attempt=number).needed
            m = 2 * m if needed is None else needed
        else:
            m = next_size(m)
        if m > MOST:
            return 0
    return 0


def coverages(m: int, target: float) -> dict[str, float]:
    """Return the mean coverage with all of delta, and at each of the first attempts."""
    found: dict[str, list[float]] = {name: [] for name in ("only", "1", "2", "3")}
    for repetition in range(COVERAGES):
        rng = np.random.default_rng([SEED, m, repetition])
        q, luck = rng.random(m), rng.random(m)
        ranked = rank(Scores(1 - q, {WRONG: luck < error_probability(q, "well ranked", target)}))
        for name, accepted in found.items():
            level = STRICT * delta_share(None if name == "only" else int(name))
            shown = np.flatnonzero(METHODS["fallback"](ranked, ranked.tallies[WRONG], target, level, Options()))
            accepted.append(float(ranked.n[shown[-1]]) / m if len(shown) else 0.0)
    return {name: float(np.mean(accepted)) for name, accepted in found.items()}


def main() -> None:
    options = arguments(__doc__)
    certificates = []
    for name, policy in POLICIES.items():
        found = {
            kind: np.array([false(policy, divided, repetition) for repetition in range(REPETITIONS)])
            for kind, divided in (("before", False), ("after", True))
        }
        certificates.append(
            {"rows": name, **{kind: float((at > 0).mean()) for kind, at in found.items()}}
            | {f"{kind}, first attempt": float((at == 1).mean()) for kind, at in found.items()}
        )
        print(certificates[-1], flush=True)
    covered = [{"m": m, "target": target, **coverages(m, target)} for m in SIZES for target in TARGETS]
    rows(
        f"false certificates in {REPETITIONS} repetitions, delta {DELTA:.0%}",
        ["rows", "all of delta each time", "delta divided"],
        [[str(one["rows"]), f"{one['before']:.2%}", f"{one['after']:.2%}"] for one in certificates],
    )
    rows(
        f"mean coverage, delta {STRICT:.0%}",
        ["m", "target", "all of delta", "attempt 1", "attempt 2", "attempt 3"],
        [
            [str(one["m"]), f"{one['target']:.1%}", *(f"{one[name]:.1%}" for name in ("only", "1", "2", "3"))]
            for one in covered
        ],
    )
    settings = {
        "risk": RISK,
        "delta": DELTA,
        "first": FIRST,
        "looks": LOOKS,
        "repetitions": REPETITIONS,
        "shares": [delta_share(number) for number in range(1, 6)],
        "coverage": {"delta": STRICT, "repetitions": COVERAGES},
    }
    save("attempts", options.out, settings, {"false": certificates, "coverage": covered}, SEED)


if __name__ == "__main__":
    main()
