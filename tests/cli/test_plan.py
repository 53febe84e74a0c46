"""squad plan: how many labelled rows a certificate takes."""

import re
from pathlib import Path

import pandas as pd

import squad
from tests.cli.conftest import Run


class TestPlan:
    def test_a_number(self, run: Run) -> None:
        found = run("plan", "--risk", ".05", "--coverage", ".7", "--error", ".01")
        assert found.out == f"{squad.plan(0.05, 0.01, 0.7, 0.01, attempt=1)}\n"
        assert "risk 5 %" in found.err
        assert re.search(r"with probability 9[01] %", found.err)

    def test_another_method_and_attempt(self, run: Run) -> None:
        found = run("plan", "--risk", ".1", "--error", ".02", "--method", "sgr", "--attempt", "2")
        assert found.out == f"{squad.plan(0.1, 0.01, error=0.02, method='sgr', attempt=2)}\n"

    def test_from_a_pilot(self, run: Run, here: Path) -> None:
        table = pd.read_csv(here / "scores.csv")[:300]
        table.to_csv(here / "scores.csv", index=False)
        found = run("plan", "--risk", ".1", "--pilot", "scores.csv")
        assert found.out == f"{squad.plan(0.1, pilot=(table.confidence, table.correct), attempt=1)}\n"
        assert "300" in found.err
        assert "estimate" in found.err
        assert "error" in run("plan", "--risk", ".1", "--pilot", "scores.csv", "--error", ".01").refusal

    def test_errors_above_the_risk(self, run: Run) -> None:
        assert re.search(r"error.*0\.03|3 %", run("plan", "--risk", ".02", "--error", ".03").refusal)
