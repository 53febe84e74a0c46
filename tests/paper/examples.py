"""Small plans, studies and records for the tests of squad.reproduce."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.paper.jobs.plan import Plan
from experiments.paper.jobs.plan_files import read_plan
from experiments.paper.jobs.run import TimeLimit, run_plan
from squad.records import Record
from squad.search.search_record import TRIALS
from squad.train import SilentProgress

CPU = torch.device("cpu")
NO_LIMIT = TimeLimit(None)
#: The repository's own experiments.
PAPER = Path(__file__).parents[2] / "experiments" / "paper"
#: The start of a plan that trains for an instant.
PLAN_START = 'data = "digits"\nvalidation = 0.25\ntrain_rows = 150\n'
#: And a row of one.
MLP = '[row.mlp]\nmodel = "mlp"\n'
#: Two rows that take an instant.
TWO_ROWS = (
    PLAN_START
    + "members = 2\nhalves = 2\nnetwork = {hidden = [4]}\ntraining = {max_epochs = 3, lr = 0.03}\n"
    + '[quick]\nmembers = 1\ntest_rows = 90\n[row.mlp]\nmodel = "mlp"\nways = ["mean"]\nprobes = ["curves", "spread"]\n'
    + '[row.squad]\nmodel = "squad"\nways = ["relaxed 2", "relaxed 2 by variance"]\n'
    + 'probes = ["curves", "information"]\n'
)
#: Settings of such a training.
TINY = {"network": {"hidden": [4]}, "training": {"max_epochs": 2}}


def plan_of(folder: Path, text: str, *, name: str = "small", quick: bool = False) -> Plan:
    """The plan of a text, written to a file first."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return read_plan(path, quick=quick)


def trial(number: int, value: float | None = None, settings: Mapping[str, Any] | None = None, **own: Any) -> Any:
    """As a search records it: complete, unless it is told otherwise."""
    return {
        "number": number,
        "state": "complete",
        "value": value,
        "settings": dict(settings or {}),
        "params": {},
        "ended": "stopped early",
        "details": {},
        "started": None,
        "finished": None,
        "retried_from": None,
        "worker": None,
        **own,
    }


def study_of(
    folder: Path, trials: Sequence[Any], *, name: str = "digits/mlp", base: Mapping[str, Any] | None = None
) -> Path:
    """A study that nobody ran, below the folder of the plans."""
    model = name.rpartition("/")[2]
    objective = "coverage@risk=0.02,delta=0.01"
    settings = {
        "model": model,
        "objective": {"asked": objective, "used": objective},
        "base": dict(base or {}),
        "space": {},
        "seed": 0,
        "slots": 1,
        "data": {},
    }
    record = Record("search", model, settings, {"notes": [], "trials": list(trials)}, 0, machine={}, versions={})
    return record.save(folder / "search" / name / TRIALS)


def files(folder: Path) -> dict[str, bytes]:
    """All records below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.json")}


def refuse(*_: Any, **__: Any) -> None:
    """In the place of what must not be called."""
    raise AssertionError("nothing must be run")


def run(plan: Plan, results: Path, clock: TimeLimit = NO_LIMIT, told: list[str] | None = None) -> bool:
    """A plan's jobs, in silence."""
    return run_plan(plan, results, CPU, clock, ([] if told is None else told).append, lambda _: SilentProgress())
