"""A training that is killed: it goes on from its last checkpoint."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.train.test_checkpoint import assert_same, train


def test_killed_while_it_works(tmp_path: Path) -> None:
    """SIGKILL at whatever moment: no half-written file is ever read."""
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
