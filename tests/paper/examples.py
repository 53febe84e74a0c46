"""Small plans, studies and records for the tests of experiments.paper."""

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
#: The experiments of the repository.
PAPER = Path(__file__).parents[2] / "experiments" / "paper"
#: Start of a plan whose training takes an instant.
PLAN_START = 'data = "digits"\nvalidation = 0.25\ntrain_rows = 150\n'
#: A row of such a plan.
MLP = '[row.mlp]\nmodel = "mlp"\n'
#: A plan with two rows.
TWO_ROWS = (
    PLAN_START
    + "members = 2\nhalves = 2\nnetwork = {hidden = [4]}\ntraining = {max_epochs = 3, lr = 0.03}\n"
    + '[quick]\nmembers = 1\ntest_rows = 90\n[row.mlp]\nmodel = "mlp"\nways = ["mean"]\nprobes = ["curves", "spread"]\n'
    + '[row.squad]\nmodel = "squad"\nways = ["relaxed 2", "relaxed 2 by variance"]\n'
    + 'probes = ["curves", "information"]\n'
)


def plan_of(folder: Path, text: str, *, name: str = "small", quick: bool = False) -> Plan:
    """Write a plan to a file and read it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return read_plan(path, quick=quick)


def trial(number: int, value: float | None = None, settings: Mapping[str, Any] | None = None, **own: Any) -> Any:
    """Return a trial as a search records it; complete by default."""
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
    """Write a made-up study below the folder of the plans."""
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
    """Return the contents of all records below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.json")}


def refuse(*_: Any, **__: Any) -> None:
    """Stand in for a function that must not be called."""
    raise AssertionError("this must not be called")


def run(plan: Plan, results: Path, time_limit: TimeLimit = NO_LIMIT, lines: list[str] | None = None) -> bool:
    """Run the jobs of a plan without progress displays; log lines are appended to ``lines``."""
    log = ([] if lines is None else lines).append
    return run_plan(plan, results, CPU, time_limit, log, lambda _: SilentProgress())
