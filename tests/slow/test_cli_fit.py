"""Fits by the command that are interrupted or killed: they go on, to the same weights."""

import signal
from pathlib import Path

import pytest

from tests.cli import test_fit
from tests.cli.conftest import LONG, Run
from tests.cli.interrupting import end, start


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM])
def test_a_run_is_saved_at_once(run: Run, here: Path, uninterrupted: bytes, blow: signal.Signals) -> None:
    """In its first epochs, long before a checkpoint is due."""
    process = start([*LONG, "--checkpoint-seconds", "999"], here)
    assert process.stderr is not None
    while "epoch 1 of 120" not in (line := process.stderr.readline()):
        assert line, "it ended too early"
    ended = end(process, blow, 0.05)  # the line comes a moment before the epoch is whole
    assert ended.code == 128 + blow
    assert ended.err.splitlines()[-1] == "squad: stopped; the same command goes on from long.checkpoint."
    resumed = run(*LONG)
    assert "going on after epoch " in resumed.err
    assert (here / "long/model.safetensors").read_bytes() == uninterrupted


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_goes_on(run: Run, here: Path, uninterrupted: bytes, blow: signal.Signals) -> None:
    test_fit.test_an_interrupted_run_goes_on(run, here, uninterrupted, blow)
