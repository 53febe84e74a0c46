"""Fits by the command that are interrupted or killed: they go on, to the same weights."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import LONG, Run
from tests.cli.interrupting import end, start
from tests.cli.test_main import COMMAND


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


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_goes_on(run: Run, here: Path, uninterrupted: bytes, blow: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, *LONG],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What a shell runs in the background does not listen to interrupts, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    begun = time.monotonic()
    while not (here / "long.checkpoint").exists() and time.monotonic() - begun < 60 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(blow)
    err = process.communicate(timeout=60)[1]
    assert not (here / "long").exists(), "it had ended: let it run longer"
    if blow != signal.SIGKILL:
        assert process.returncode == 128 + blow
        assert err.splitlines()[-1] == "squad: stopped; the same command goes on from long.checkpoint."
        assert "Traceback" not in err
    resumed = run(*LONG)
    assert resumed.code == 0
    assert "going on after epoch " in resumed.err
    assert (here / "long/model.safetensors").read_bytes() == uninterrupted
    assert not [path for path in here.iterdir() if "checkpoint" in path.name and not path.name.startswith(".")]
