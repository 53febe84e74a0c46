"""squad fit, interrupted or killed: it resumes, and ends with the same weights."""

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import LONG, Run
from tests.cli.interrupting import end, start
from tests.cli.test_main import COMMAND


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_is_saved_at_once(run: Run, here: Path, uninterrupted: bytes, number: signal.Signals) -> None:
    """Interrupted in its first epochs, long before a checkpoint is due."""
    process = start([*LONG, "--checkpoint-seconds", "999"], here)
    assert process.stderr is not None
    while "epoch 1 of 120" not in (line := process.stderr.readline()):
        assert line, "it ended too early"
    ended = end(process, number, 0.05)  # the line is printed just before the epoch is complete
    assert ended.code == 128 + number
    assert ended.err.splitlines()[-1] == "squad: stopped; the same command resumes from long.checkpoint."
    resumed = run(*LONG)
    assert re.search(r"after epoch \d+", resumed.err)
    assert (here / "long/model.safetensors").read_bytes() == uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_resumes(run: Run, here: Path, uninterrupted: bytes, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, *LONG],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Background jobs of a shell ignore interrupts, and child processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    begun = time.monotonic()
    while not (here / "long.checkpoint").exists() and time.monotonic() - begun < 60 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(number)
    err = process.communicate(timeout=60)[1]
    assert not (here / "long").exists(), "it ended before the signal: train longer"
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert err.splitlines()[-1] == "squad: stopped; the same command resumes from long.checkpoint."
        assert "Traceback" not in err
    resumed = run(*LONG)
    assert resumed.code == 0
    assert re.search(r"after epoch \d+", resumed.err)
    assert (here / "long/model.safetensors").read_bytes() == uninterrupted
    assert not [path for path in here.iterdir() if "checkpoint" in path.name and not path.name.startswith(".")]
