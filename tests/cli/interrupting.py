"""The command as a process that is sent a signal at a moment of the test's choice."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: Says when it listens, and runs: before that, Python itself is still starting.
LISTENING = """
import os, signal, sys
from squad.cli import main

listen = signal.signal

def tell(number, handler):
    found = listen(number, handler)
    if number == signal.SIGTERM:
        signal.signal = listen
        os.write(1, b".")
    return found

signal.signal = tell
sys.exit(main())
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def start(arguments: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """The command in ``folder``, once it has begun."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENING, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        # What a shell runs in the background does not listen to interrupts, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == "."
    return process


def end(process: subprocess.Popen[str], blow: signal.Signals, after: float) -> Ended:
    """What it says when it is sent a signal after so many seconds."""
    time.sleep(after)
    process.send_signal(blow)
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out, err)
