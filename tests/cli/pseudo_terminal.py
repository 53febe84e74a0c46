"""Run a process on a pseudo-terminal."""

import os
import pty
import subprocess
from collections.abc import Sequence
from typing import Any


def on_pseudo_terminal(command: Sequence[str], streams: Sequence[str], **options: Any) -> tuple[int, str]:
    """Run a command whose streams ("stdin", "stdout", "stderr") are a terminal; returns exit code and output."""
    main, other = pty.openpty()
    settings: dict[str, Any] = {**dict.fromkeys(streams, other), **options}
    process = subprocess.Popen(command, **settings)
    os.close(other)
    sent = b""
    try:
        while chunk := os.read(main, 1 << 16):
            sent += chunk
    except OSError:  # Linux ends the stream with an error
        pass
    finally:
        code = process.wait(timeout=60)
        os.close(main)
    return code, sent.decode()
