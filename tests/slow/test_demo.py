"""squad demo, with enough epochs to compare networks."""

import re
from pathlib import Path

import pytest

from squad import load
from squad.cli import demo
from tests.cli.conftest import Run


def test_demo_compares_and_saves(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "MODELS", ("squad", "squad-factorized", "mlp"))
    done = run("demo", "--max-epochs", "15", "--seed", "1")
    assert done.code == 0
    rows = {
        line.split("│")[1].strip(): [float(x) for x in re.findall(r"[\d.]+(?= [%│])", line)]
        for line in done.out.splitlines()
        if line.startswith("│")
    }
    assert list(rows) == ["squad", "squad-factorized", "mlp"]
    accuracy, nll, coverage = rows["squad"][:3]
    assert accuracy > 90
    assert nll < 0.5
    assert 0 <= coverage <= 100
    assert "In short: at 1 % risk, SQUAD" in done.out.replace("\n", " ")
    assert max(map(len, done.out.splitlines())) <= 80
    assert "lowest confidence" in done.out
    commands = re.findall(r"^  squad (.*)$", done.out, re.M)
    assert len(commands) == 2
    for command in commands:
        assert run(*command.split()).code == 0
    assert load(here / "demo/model").config.name == "squad"
    assert run("demo", "--max-epochs", "1").code == 0, "the next demo replaces its model"
