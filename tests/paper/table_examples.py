"""A small plan with made-up records, for the tests of tables."""

from typing import Any

from experiments.paper.jobs.measure import DEFAULT_METHOD, RISKS
from experiments.paper.jobs.plan import Plan
from experiments.paper.pages.markdown import MEASURES
from squad.records import Record
from tests.paper.examples import PLAN_START

#: A plan with four rows.
ROWS = (
    PLAN_START
    + '[row.one]\nlabel = "One"\nmodel = "mlp"\nways = ["mean"]\n'
    + "paper = [[40.0, 4.0], [50.0], [0.0, 0.0], [0.408, 0.036], [87.7, 0.42]]\n"
    + "paper_ensemble = [41.0, 51.0, 61.0, 0.3, 88.0]\n"
    + '[row.two]\nlabel = "Two"\nmodel = "maxout-dropout"\nways = ["sample 32", "sample 32 by variance"]\n'
    + '[row.three]\nlabel = "Three"\nmodel = "squad"\npaper = [1, 2, 3, 4, 5]\n'
    + '[row.four]\nlabel = "Four"\ngroup = "further"\nmodel = "squad"\nways = ["relaxed 32"]\n'
)


def measures(base: float, seed: int | None = None, halves: bool = True) -> dict[str, Any]:
    """Return made-up measures of a predictor."""
    values: dict[str, Any] = {name: base + 0.1 * column for column, name in enumerate(MEASURES)} | {"aurc": base / 100}
    values |= {f"default@{risk}": base for risk in RISKS}
    if halves:
        half = {"coverage": base, "risk": 0.015, "violations": 0.25}
        values |= {f"halves@{risk}": {"sgr": half, DEFAULT_METHOD: {**half, "risk": None}} for risk in RISKS}
    return values if seed is None else {"seed": seed, **values}


def record_of(plan: Plan, name: str, bases: list[float], source: dict[str, Any] | None = None) -> Record:
    """Return a made-up record of a row; ``bases`` are the base values of its networks, 0.5 that of the ensemble."""
    row = next(row for row in plan.rows if row.name == f"small/{name}")
    modes = [
        {
            "sampling": mode.sampling,
            "samples": mode.samples,
            "confidence": mode.confidence,
            "each": [measures(base, seed) for seed, base in enumerate(bases)],
            "ensemble": measures(0.5),
        }
        for mode in row.modes
    ]
    settings = plan.job(row).to_dict()
    if source is not None:
        settings = {**settings, "source": source}
    members = [{"epochs": 10 * (place + 1)} for place in range(len(bases))]
    results = {"ways": modes, "members": members, "weights": 12345, "seconds": 61.5, "notes": []}
    return Record("experiment", row.name, settings, results, 0, machine={}, versions={})
