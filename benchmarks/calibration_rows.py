"""Which calibration rows may be used: simulations behind two decisions.

Rows of one group: three or ten identical rows of a patient (the worst case) are not independent cases.  Frequency of
false certificates with all rows, and with one row per group, on well-ranked scores.

Rows that repeat by chance: how often new calibration rows are rejected as leaked, in tables with few distinct rows, by
a binomial test against the fraction of validation rows that occur in training, (k + 1) / (n + 2), and by the test in
use.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from benchmarks.harness import arguments, rows, save
from squad.data.chance_repeats import LEVEL, check_repeats, record_repeats
from squad.data.seen_rows import LeakError
from squad.selective import certify

SEED = 11
#: Rows per group and number of groups; the guarantee.
GROUPS, RISK, DELTA, DRAWS = ((1, 600), (3, 200), (3, 1000), (10, 200)), 0.03, 0.05, 1000
#: Number of distinct rows and the inequality of their frequencies; training, validation and calibration rows.
TABLES, SIZES, RUNS = ((3000, 1.0), (2000, 0.0), (200_000, 0.8)), ((800, 200, 600), (1800, 200, 1000)), 1000


def false_certificates(each: int, groups: int, one: bool) -> float:
    """Return how often the true risk exceeds the certified one: a case at q is wrong with probability .6 q^5."""
    false = 0
    for draw in range(DRAWS):
        rng = np.random.default_rng([SEED, each, groups, draw])
        q, luck = rng.random(groups), rng.random(groups)
        repeated = 1 if one else each
        # Slightly different within a group, so that confidences do not tie.
        confidence = np.repeat(1 - q, repeated) + 1e-9 * rng.random(groups * repeated)
        found = certify(confidence, np.repeat(luck >= 0.6 * q**5, repeated), RISK, DELTA)
        coverage = min(1 - found.threshold, 1.0) if found.certified else 0.0
        false += coverage**5 / 10 > RISK
    return false / DRAWS


def rejected(kinds: int, power: float, sizes: tuple[int, int, int]) -> dict[str, float]:
    """Return the fraction of new (not leaked) calibration sets that each test rejects."""
    weights = np.arange(1, kinds + 1) ** -power
    ends = np.cumsum(weights / weights.sum())
    found = {"binomial": 0, "used": 0}
    for run in range(RUNS):
        rng = np.random.default_rng([SEED, kinds, sum(sizes), run])

        def draw_rows(count: int, rng: np.random.Generator = rng) -> NDArray[np.uint64]:
            return np.searchsorted(ends[:-1], rng.random(count)).astype(np.uint64)

        train, validation, calibration = (draw_rows(size) for size in sizes)
        seen = np.r_[train, validation]
        repeats = int(np.isin(calibration, seen).sum())
        repeat_rate = (np.isin(validation, train).sum() + 1) / (len(validation) + 2)
        found["binomial"] += bool(bdtrc(repeats - 1, len(calibration), repeat_rate) < LEVEL)
        indices = np.arange(len(seen))
        try:
            check_repeats(
                repeats, len(calibration), **record_repeats(seen, indices[: len(train)], indices[len(train) :])
            )
        except LeakError:
            found["used"] += 1
    return {name: count / RUNS for name, count in found.items()}


def main() -> None:
    options = arguments(__doc__)
    groups: list[dict[str, Any]] = [
        {
            "rows": each,
            "groups": count,
            "all rows": false_certificates(each, count, False),
            "one": false_certificates(each, count, True),
        }
        for each, count in GROUPS
    ]
    tables: list[dict[str, Any]] = [
        {"kinds": kinds, "power": power, "sizes": sizes, **rejected(kinds, power, sizes)}
        for kinds, power in TABLES
        for sizes in SIZES
    ]
    rows(
        f"False certificates in %, delta {100 * DELTA:g} %",
        ["rows per group", "groups", "all rows", "one per group"],
        [[str(g["rows"]), str(g["groups"]), f"{100 * g['all rows']:.1f}", f"{100 * g['one']:.1f}"] for g in groups],
    )
    rows(
        "New calibration sets that are rejected, in %",
        ["distinct rows", "inequality", "sizes", "binomial", "used"],
        [
            [str(t["kinds"]), str(t["power"]), str(t["sizes"]), f"{100 * t['binomial']:.1f}", f"{100 * t['used']:.1f}"]
            for t in tables
        ],
    )
    settings = {"risk": RISK, "delta": DELTA, "draws": DRAWS, "runs": RUNS}
    save("calibration_rows", options.out, settings, {"groups": groups, "tables": tables}, SEED)


if __name__ == "__main__":
    main()
