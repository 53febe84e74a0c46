"""How often a certificate is false: every method on populations whose risk is known (tests/slow/test_validity.py).

Methods with a proof are marked as proven; the others are only tested here, and are marked so whatever the outcome.
"""

from benchmarks.harness import arguments, rows, save
from tests.selective.populations import MAKERS
from tests.slow.simulate import ALARM, REPETITIONS, SEED, SETTINGS, all_methods, run


def main() -> None:
    options = arguments(__doc__)
    results = []
    for m, risk, deltas in SETTINGS:
        for make in MAKERS.values():
            for cell in run(make(risk), m, risk, all_methods(risk, deltas)):
                results.append(
                    {
                        "method": cell.method,
                        "population": cell.population,
                        "m": m,
                        "risk": risk,
                        "delta": cell.delta,
                        "certified": cell.certified / cell.repetitions,
                        "coverage": sum(cell.coverages) / cell.repetitions,
                        "violations": cell.violations / cell.repetitions,
                        "p_value": cell.p_value,
                        "proven": cell.proven,
                        "verdict": cell.verdict,
                    }
                )
    rows(
        f"false certificates in {REPETITIONS} repetitions; an alarm is a p-value below {ALARM:.1e}",
        ["method", "population", "m", "risk", "delta", "certified", "false", "p", "verdict"],
        [
            [
                str(one["method"]),
                str(one["population"]),
                str(one["m"]),
                f"{one['risk']:g}",
                f"{one['delta']:g}",
                f"{one['certified']:.1%}",
                f"{one['violations']:.2%}",
                f"{one['p_value']:.1e}",
                str(one["verdict"]),
            ]
            for one in results
        ],
    )
    settings = {"repetitions": REPETITIONS, "alarm": ALARM, "test": "exact binomial, one-sided"}
    save("certify_validity", options.out, settings, results, SEED)


if __name__ == "__main__":
    main()
