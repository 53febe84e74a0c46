"""A plan that was run, and what is run from then on."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments.paper.jobs import run as running
from experiments.paper.jobs.plan import Job
from experiments.paper.jobs.run import run_job
from squad.records import Record
from tests.paper.examples import TWO_ROWS, plan_of, run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plan, and a run of it."""
    folder = tmp_path_factory.mktemp("made")
    assert run(plan_of(folder, TWO_ROWS), folder / "results")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def jobs_run(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs that are run."""
    names: list[str] = []

    def spied(job: Job, *others: Any) -> Record:
        names.append(job.name)
        return run_job(job, *others)

    monkeypatch.setattr(running, "run_job", spied)
    return names
