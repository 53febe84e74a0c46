"""squad info: the content of a saved model."""

from pathlib import Path

import numpy as np

from tests.cli.conftest import QUICK, Result, Run


def fact(done: Result, name: str) -> str | None:
    """Return the line of that name, or None."""
    assert done.code == 0
    lines = iter(done.out.splitlines())
    for line in lines:
        if line.strip().startswith(name + " "):
            return " ".join(line.split())
    return None


def test_columns_that_are_not_inputs(run: Run) -> None:
    options = ("--target", "y", "--max-epochs", "1", "--quiet", "--out", "made")
    assert run("fit", "train.csv", *options, "--group", "patient_id").code == 0
    done = run("info", "made")
    assert (fact(done, "target column") or "").endswith(" y")
    assert "patient_id" in (fact(done, "group column") or "")
    assert fact(run("info", "model"), "group column") is None


def test_the_novelty_check(run: Run, here: Path) -> None:
    assert "ranges of 2 inputs and the distance" in (fact(run("info", "model"), "novelty check") or "")
    assert run("fit", "train.csv", *QUICK, "--no-novelty-check", "--out", "made").code == 0
    assert "none" in (fact(run("info", "made"), "novelty check") or "")


def test_arrays_have_no_columns(run: Run, here: Path) -> None:
    random = np.random.default_rng(0)
    np.savez(here / "rows.npz", x=random.normal(size=(60, 4)), y=np.arange(60) % 2)
    assert run("fit", "rows.npz", "--max-epochs", "1", "--quiet", "--out", "arrays").code == 0
    done = run("info", "arrays")
    assert "ranges of 4 inputs" in (fact(done, "novelty check") or "")
    assert fact(done, "target column") is None
    assert fact(done, "group column") is None
