"""squad demo."""

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from squad import load
from squad.cli import demo
from squad.cli.demo_comparison import Comparison, comparisons, meaning
from tests.cli.conftest import Run, listing


def test_demo_in_few_epochs(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison after enough epochs is in tests/slow."""
    monkeypatch.setattr(demo, "MODELS", ("squad", "mlp"))
    done = run("demo", "--max-epochs", "1")
    assert done.code == 0
    assert [line.split("│")[1].strip() for line in done.out.splitlines() if line.startswith("│")] == ["squad", "mlp"]
    assert load(here / "demo/model").config.name == "squad"
    assert done.out.index("certify SQUAD at risk 2 %") < done.out.index("Comparison on all 1,797 digits")


def test_differences_are_judged_by_their_intervals() -> None:
    squad = Comparison("squad", 0.9, 0.1, 0.9)
    ahead = Comparison("a", 0.9, 0.1, 1, 0.1, 0.01, 0.2, "better")
    same = Comparison("b", 0.9, 0.1, 0.9, 0, -0.1, 0.1, "within chance")
    assert "fewer digits than a; its difference from b is within chance" in meaning([squad, ahead, same])
    rng = np.random.default_rng(0)
    right = [(rng.random(2000) + more).clip(0, 1) for more in (0.49, 0.1)]
    good, bad = (np.column_stack((p, 1 - p)) for p in right)
    labels = np.zeros(2000, dtype=int)
    assert [one.verdict for one in comparisons({"squad": good, "mlp": bad}, labels)] == ["", "worse"]
    assert [one.verdict for one in comparisons({"squad": bad, "mlp": good}, labels)] == ["", "better"]


def test_demo_refuses_before_training(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "train", None)
    before = listing(here)
    for wrong, words in (
        (["--max-epochs", "0"], "--max-epochs.*0"),
        (["--seed", "-1"], "--seed.*-1"),
        (["--out", "model"], "model .*--overwrite"),
        (["--out", "new.csv"], r"new\.csv.*is a file"),
    ):
        assert re.search(words, run("demo", *wrong).refusal)
    assert listing(here) == before


@pytest.mark.parametrize("out", ["report.html", "new/report.html", "new/../report.html", "link"])
def test_the_model_may_not_take_the_place_of_the_report(
    out: str, run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "train", None)
    (here / "link").symlink_to("report.html")
    before = listing(here)
    refusal = run("demo", "--out", out).refusal
    assert refusal == f"{Path(out)} is where the report is written. Name another folder with --out."
    assert listing(here) == before


def test_a_folder_in_place_of_the_report_is_refused(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even --overwrite cannot replace it."""
    monkeypatch.setattr(demo, "train", None)
    (here / "new" / "report.html").mkdir(parents=True)
    refusal = run("demo", "--out", "new/model", "--overwrite").refusal
    assert refusal == "new/report.html is a folder, where the report would be written. Name another folder with --out."


@pytest.mark.parametrize("out", [".", "..", "../empty", "../link", "/"])
def test_the_model_may_not_replace_the_working_directory(
    out: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "train", None)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    monkeypatch.chdir(tmp_path / "empty")
    refusal = run("demo", "--out", out).refusal
    assert refusal.startswith(f"{out} is the working directory or contains it")
    assert list((tmp_path / "empty").iterdir()) == []


def test_the_picture_on_a_terminal_without_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert demo._shades(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) == demo.SHADES
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert demo._shades(None) == demo.PLAIN_SHADES
