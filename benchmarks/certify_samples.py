"""Miss rates, costs, weights and strata: frequency of false certificates, and coverage, before and after.

The populations are those of tests/slow/simulate_samples.py.  Also the number of labels that the betting test of costs
needs, compared with the exact binomial test and the Hoeffding-Bentkus test, for costs of 0 and 1.
"""

from benchmarks.harness import arguments, rows, save
from tests.slow.simulate_samples import ALARM, CELLS, DELTA, REPETITIONS, SEED, labels_for_errors, run

RISKS = (0.01, 0.02, 0.05, 0.1)
#: True error rates, as fractions of the risk.
SHARES = (0.3, 0.6, 0.8)


def main() -> None:
    options = arguments(__doc__)
    cells = []
    for setting in CELLS:
        for one in run(setting):
            cells.append(
                {
                    "subject": setting.subject,
                    "population": setting.population,
                    "m": setting.m,
                    "limit": setting.limit,
                    "way": one.way,
                    "certified": one.certified,
                    "coverage": one.coverage,
                    "violations": one.false / one.repetitions,
                    "p_value": one.p_value,
                }
            )
    rows(
        f"false certificates in {REPETITIONS} repetitions, delta {DELTA}; an alarm is a p-value below {ALARM:.1e}",
        ["subject", "population", "m", "variant", "certified", "coverage", "false"],
        [
            [
                *(str(one[name]) for name in ("subject", "population", "m", "way")),
                *(f"{one[name]:.1%}" for name in ("certified", "coverage", "violations")),
            ]
            for one in cells
        ],
    )
    labels = [{"risk": risk, "share": share, **labels_for_errors(risk, share)} for risk in RISKS for share in SHARES]
    rows(
        "labels needed by a test of errors at level .01 to pass in 80 % of cases",
        ["risk", "error rate", "exact", "bets", "Hoeffding-Bentkus"],
        [
            [f"{one['risk']:g}", f"{one['risk'] * one['share']:g}", *(str(one[n]) for n in list(one)[2:])]
            for one in labels
        ],
    )
    settings = {"repetitions": REPETITIONS, "delta": DELTA, "alarm": ALARM, "level": 0.01, "power": 0.8}
    save("certify_samples", options.out, settings, {"cells": cells, "labels": labels}, SEED)


if __name__ == "__main__":
    main()
