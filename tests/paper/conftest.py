"""Fixtures: a plan that was run, and a spy on the jobs that are run."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments.paper.jobs import run as running
from experiments.paper.jobs.plan import Job, Plan
from experiments.paper.jobs.run import record_path, run_job
from experiments.paper.row_results import RowResult, load_results
from squad.records import Record
from tests.paper.examples import TWO_ROWS, plan_of, run
from tests.paper.table_examples import ROWS, record_of


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan and the records of its run."""
    folder = tmp_path_factory.mktemp("finished")
    assert run(plan_of(folder, TWO_ROWS), folder / "results")
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of that folder, which a test may change."""
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def jobs_run(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs that are run, in order."""
    names: list[str] = []

    def spy(job: Job, *others: Any) -> Record:
        names.append(job.name)
        return run_job(job, *others)

    monkeypatch.setattr(running, "run_job", spy)
    return names


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A plan with four rows."""
    return plan_of(tmp_path, ROWS)


@pytest.fixture
def results(plan: Plan, tmp_path: Path) -> list[RowResult]:
    """Its rows; all but the third have a record."""
    for name, bases in (("one", [0.2, 0.4]), ("two", [0.3, 0.3, 0.6]), ("four", [0.1])):
        record_of(plan, name, bases).save(record_path(tmp_path / "results", f"small/{name}"))
    return load_results(plan, tmp_path / "results")
