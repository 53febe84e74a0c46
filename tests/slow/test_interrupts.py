"""Ctrl-C and SIGTERM at many moments: one line, and the right exit code."""

import signal
from pathlib import Path

import pytest

from tests.cli.conftest import write_table
from tests.cli.interrupting import end, start

FIT = ["fit", "train.csv", "--target", "y", "--drop", "patient_id", "--max-epochs", "2000", "--quiet", "--out", "made"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", [0.0, 0.02, 0.1, 0.2, 0.4, 0.7, 1.0, 1.4, 1.8, 2.3, 3.0, 4.0])
def test_at_any_moment(tmp_path: Path, number: signal.Signals, after: float) -> None:
    write_table(tmp_path / "train.csv", 300, 0)
    ended = end(start([*FIT, "--set", "training.stop_patience=5000"], tmp_path), number, after)
    assert (ended.code, ended.out) == (128 + number, "")
    assert ended.err.startswith("squad: stopped")
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "made").exists()
    assert ("made.checkpoint" in ended.err) == (tmp_path / "made.checkpoint").exists()
