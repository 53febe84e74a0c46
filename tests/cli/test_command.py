"""The command as a person runs it."""

import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

import squad
from squad import cli
from squad.errors import ArgumentError


def test_version() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert result.output == f"squad-torch {squad.__version__}\n"
    assert result.exit_code == 0


def test_help_names_the_commands() -> None:
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


def test_demo_learns_and_knows_what_it_does_not_know() -> None:
    result = subprocess.run(
        [sys.executable, "-c", "from squad.cli import main; main()", "demo", "--epochs", "30", "--seed", "1"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "100", "PYTHONIOENCODING": "utf-8", "PATH": ""},
    )  # fmt: skip
    accuracy = float(re.search(r"accuracy on the test digits: ([\d.]+) %", result.stdout)[1])  # type: ignore[index]
    assert accuracy >= 95
    wrong = [float(share) for share in re.findall(r"of \d+ \(([\d.]+) %\)", result.stdout)]
    assert len(wrong) == 4
    assert wrong[0] == pytest.approx(100 - accuracy, abs=0.11)
    assert wrong[-1] <= wrong[0] / 2
    assert result.stderr == ""


def test_demo_refuses_what_it_cannot_do() -> None:
    for wrong in (["--epochs", "0"], ["--seed", "-1"], ["--seed", "5000000000"]):
        result = CliRunner().invoke(cli.app, ["demo", *wrong])
        assert result.exit_code == 2
        assert "Traceback" not in result.output


def test_our_errors_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    broken = typer.Typer()

    @broken.command()
    def fail() -> None:
        raise ArgumentError.of("bins", 1, "a whole number of at least 2")

    monkeypatch.setattr(cli, "app", lambda: broken([], standalone_mode=True))
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == "squad: bins must be a whole number of at least 2; got 1.\n"
