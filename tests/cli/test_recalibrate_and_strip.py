"""squad recalibrate and squad strip."""

import io
import re
import sys
from pathlib import Path

import pytest

import squad
from tests.cli.conftest import QUICK, Run, listing

CERTIFY = ("certify", "model", "calibration.csv", "--risk", ".2", "--delta", ".05")


class TestRecalibrate:
    @pytest.mark.parametrize("method", ["temperature", "isotonic"])
    def test_it_is_saved(self, run: Run, model: Path, here: Path, method: str) -> None:
        found = run("recalibrate", "model", "recalibration.csv", "--method", method, "--out", "other")
        assert found.code == 0, found.err
        assert "200 rows" in found.out
        other = squad.load(here / "other")
        assert str(other.recalibration) == found.out.strip()
        assert re.search(r"\b200 of .*\b200 rows", run("certify", "other", "recalibration.csv", "--risk", ".3").refusal)
        assert run("certify", "other", "calibration.csv", "--risk", ".2").code == 0
        assert "recalibration" in run("info", "other").out

    def test_a_certificate_is_lost_only_with_overwrite(self, run: Run, model: Path) -> None:
        assert run(*CERTIFY).code == 0
        assert "certificate, which would be lost" in run("recalibrate", "model", "recalibration.csv").refusal
        assert run("recalibrate", "model", "recalibration.csv", "--overwrite").code == 0
        assert squad.load(model).certificate is None


class TestStrip:
    def test_hashes_and_scores_are_removed(self, run: Run, model: Path) -> None:
        assert run(*CERTIFY).code == 0
        certificate = squad.load(model).certificate
        assert "hashes of 310 rows" in run("info", "model").out
        stripped = run("strip", "model", "--yes")
        assert stripped.out == "model: removed 310 hashes of rows and 0 of groups\n"
        assert stripped.err.startswith("warning: model can no longer refuse")
        assert stripped.err.count("\n") == 1
        assert not (model / "rows.safetensors").exists()
        assert (model / "calibration.safetensors").exists()
        removed = "900 calibration scores and 31 validation scores"
        assert run("strip", "model", "--scores", "--yes") == (0, f"model: removed {removed}\n", "")
        again = (
            "certify",
            "model",
            "recalibration.csv",
            "--risk",
            ".3",
            "--delta",
            ".05",
            "--method",
            "pareto",
            "--out",
            "b",
        )
        assert "pilot" in run(*again).refusal
        assert not (model / "calibration.safetensors").exists()
        assert run("strip", "model", "--scores").out == "model: there was nothing to remove\n"
        assert squad.load(model).certificate == certificate
        assert re.search(r"stored about rows +nothing", run("info", "model").out)

    def test_without_out_or_yes_nothing_is_removed(self, run: Run, model: Path, here: Path) -> None:
        before = listing(here)
        refusal = run("strip", "model").refusal
        assert "310 hashes of rows" in refusal
        assert "--out" in refusal
        assert "--yes" in refusal
        assert listing(here) == before
        found = run("strip", "model", "--out", "bare")
        assert (found.code, found.err.partition(":")[0]) == (0, "warning")
        assert listing(here).items() >= before.items()

    @pytest.mark.parametrize(("answer", "kept"), [("n\n", True), ("\n", True), ("y\n", False)])
    def test_a_terminal_asks_for_confirmation(
        self, run: Run, model: Path, monkeypatch: pytest.MonkeyPatch, answer: str, kept: bool
    ) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        found = run("strip", "model")
        assert "310 hashes" in found.err
        assert found.code == (2 if kept else 0)
        assert (model / "rows.safetensors").exists() == kept

    def test_fit_without_hashes(self, run: Run, here: Path) -> None:
        assert run("fit", "train.csv", *QUICK, "--no-row-hashes", "--out", "blind").code == 0
        assert not (here / "blind" / "rows.safetensors").exists()
        found = run("certify", "blind", "train.csv", "--risk", ".45", "--delta", ".3")
        assert "not checked" in found.out
