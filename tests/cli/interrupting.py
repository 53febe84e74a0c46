"""Run the command as a process, and send it a signal at a given moment."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: Runs the command, and prints a dot when its signal handlers are installed.
LISTENING = """
import os, signal, sys
from squad.cli import main

original = signal.signal

def install(number, handler):
    found = original(number, handler)
    if number == signal.SIGTERM:
        signal.signal = original
        os.write(1, b".")
    return found

signal.signal = install
sys.exit(main())
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def start(arguments: Sequence[str], folder: Path) -> subprocess.Popen[str]:
    """Start the command in ``folder``; returns when its signal handlers are installed."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENING, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        # Background jobs of a shell ignore interrupts, and child processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == "."
    return process


def end(process: subprocess.Popen[str], number: signal.Signals, after: float) -> Ended:
    """Send a signal after some seconds; returns how the process ends."""
    time.sleep(after)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out, err)
