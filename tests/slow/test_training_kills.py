"""Killed training runs resume from their last checkpoint."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.train.test_checkpoint import assert_same, train


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """SIGKILL never leaves a partly written checkpoint."""
    path = tmp_path / "run.checkpoint"
    code = f"from pathlib import Path; from tests.train.test_checkpoint import train; train(Path({str(path)!r}))"
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "1"})
        deadline = time.monotonic() + 60
        seen = path.stat().st_mtime_ns if path.exists() else 0
        while process.poll() is None and time.monotonic() < deadline:
            if path.exists() and path.stat().st_mtime_ns != seen:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert path.exists()
    assert_same(train(path), train(None))


def test_sigterm_ends_a_program_without_a_handler(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    code = (
        "import signal, sys; from pathlib import Path; from tests.train.test_save_on_interrupt import train, Listener\n"
        "class SendSignal(Listener):\n"
        "    def epoch(self, report):\n"
        "        super().epoch(report)\n"
        "        if report.epoch == 3: signal.raise_signal(signal.SIGTERM)\n"
        "train(Path(sys.argv[1]), SendSignal())"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGTERM, "")
    assert_same(train(path), train(None))
