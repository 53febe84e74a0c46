"""The command ``python -m experiments.paper``: what it runs, prints and refuses."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.paper import pipeline
from experiments.paper.__main__ import main
from experiments.paper.jobs import run as running
from experiments.paper.jobs.plan import PLANS
from experiments.paper.jobs.run import has_record
from squad.records import Record
from tests.paper.examples import TWO_ROWS, files, plan_of, refuse


@pytest.fixture
def command(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in a folder with the records of table 1, without writing pages and figures."""
    for name in PLANS:
        text = TWO_ROWS if name == "table1" else TWO_ROWS.replace("[row.", "[row.no-")
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    shutil.move(folder / "results" / "small", folder / "results" / "table1")
    monkeypatch.setattr(pipeline, "write_pages", lambda folder, out, **_: [out / "README.md"])
    capsys.readouterr()

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--folder", str(folder), "--device", "cpu"])
        return code, *capsys.readouterr()

    return call


def test_only_jobs_without_a_record_are_run(
    command: Callable[..., tuple[int, str, str]], folder: Path, jobs_run: list[str]
) -> None:
    assert command("table1")[0] == 0
    assert jobs_run == []
    (folder / "results" / "table1" / "squad.json").unlink()
    code, _, err = command("table1")
    assert (code, jobs_run) == (0, ["table1/squad"])
    assert "table1: 1 of 2 records" in err
    assert "table1/squad: coverage at 2 %" in err
    assert "quick" not in err
    plan = plan_of(folder, TWO_ROWS, name="table1")
    assert has_record(plan.job(plan.rows[1]), folder / "results")


def test_quick_prints_a_notice_and_uses_its_own_folder(
    command: Callable[..., tuple[int, str, str]], folder: Path, jobs_run: list[str]
) -> None:
    before = files(folder / "results")
    code, _, err = command("table1", "--quick")
    assert (code, jobs_run) == (0, ["table1/mlp", "table1/squad"])
    assert err.startswith("quick: ")
    assert "not comparable" in err.splitlines()[0]
    assert files(folder / "results") == before
    assert files(folder / "quick" / "results").keys() == {"table1/mlp.json", "table1/squad.json"}
    rows = Record.load(folder / "quick" / "results" / "table1" / "mlp.json").results["rows"]
    assert rows == {"training": 113, "validation": 37, "test": 90}
    elsewhere = folder / "elsewhere"
    assert command("table1", "--quick", "--out", str(elsewhere))[0] == 0
    assert files(elsewhere / "results").keys() == {"table1/mlp.json", "table1/squad.json"}


def test_from_records_runs_nothing(
    command: Callable[..., tuple[int, str, str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "results" / "table1" / "squad.json").unlink()
    monkeypatch.setattr(running, "run_job", refuse)
    monkeypatch.setattr("squad.search.tuning.tune", refuse)
    before = files(folder)
    code, out, _ = command("table1", "--from-records")
    assert code == 0
    assert "README.md" in out
    assert files(folder) == before


@pytest.mark.usefixtures("command")
def test_from_records_checks_the_other_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table1", "--from-records", "--folder", str(folder), "--device", "tpu"]) == 2
    assert re.search("device .*got 'tpu'", " ".join(capsys.readouterr().err.split()))


def test_from_records_without_records_is_refused(command: Callable[..., tuple[int, str, str]], folder: Path) -> None:
    before = files(folder)
    code, _, err = command("table1", "--quick", "--from-records")
    assert code == 2
    assert "no records in" in err
    assert files(folder) == before


def test_errors_in_other_plans_are_found_before_training(
    command: Callable[..., tuple[int, str, str]], folder: Path, jobs_run: list[str]
) -> None:
    (folder / "results" / "table1" / "squad.json").unlink()
    (folder / "table3.toml").write_text("data = digits", encoding="utf-8")
    code, _, err = command("table1")
    assert (code, jobs_run) == (2, [])
    assert "table3.toml" in err
    assert "TOML" in err


def test_exit_status_75_if_the_time_limit_is_reached(
    command: Callable[..., tuple[int, str, str]], folder: Path
) -> None:
    (folder / "results" / "table1" / "squad.json").unlink()
    code, _, err = command("table1", "--minutes", "0")
    assert code == 75
    assert "time limit reached" in err
    code, _, err = command("table1")
    assert code == 0
    assert "time limit reached" not in err


def test_an_interrupted_command_can_be_resumed(
    command: Callable[..., tuple[int, str, str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "results" / "table1" / "squad.json").unlink()

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_job", stopped)
    code, _, err = command("table1")
    assert code == 130
    assert err.splitlines()[-1].startswith("squad: stopped;")
    assert "resume" in err.splitlines()[-1]


def test_unknown_plans_and_folders(
    command: Callable[..., tuple[int, str, str]], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = command("table9")
    assert (code, out) == (2, "")
    assert "table9" in err
    assert "figures" in err
    assert command()[0] == 2
    (folder / "table2.toml").unlink()
    code, _, err = command("table2")
    assert code == 2
    assert "table2.toml cannot be read: No such file or directory" in err
    assert "--folder" in err
    assert main(["all", "--folder", str(folder / "nowhere")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "table1.toml cannot be read" in err


def test_a_missing_data_set(
    command: Callable[..., tuple[int, str, str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.delenv("SQUAD_DATA", raising=False)
    monkeypatch.chdir(folder)
    (folder / "table1.toml").write_text(TWO_ROWS.replace('"digits"', '"svhn"'), encoding="utf-8")
    code, _, err = command("table1", "--data-dir", str(folder))
    assert code == 2
    assert "svhn" in err
    assert "--data-dir" in err
