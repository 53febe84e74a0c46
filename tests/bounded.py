"""Run code in a process with limited memory and time."""

import resource
import subprocess
import sys

__all__ = ["bounded"]


def bounded(code: str, *arguments: str, megabytes: int = 1000, seconds: int = 60) -> str:
    """Run Python code and return its output.

    Args:
        code: Python code.
        arguments: Command-line arguments.
        megabytes: Memory limit, in addition to what Python and the libraries take; a torch for GPUs maps gigabytes.
        seconds: Time limit.
    """
    lines = [
        "import resource, sys",
        "import numpy, pandas, torch",
        "from squad.errors import SquadError",
        "with open('/proc/self/statm') as file: used = int(file.read().split()[0]) * resource.getpagesize()",
        f"resource.setrlimit(resource.RLIMIT_AS, (used + ({megabytes} << 20),) * 2)",
    ]
    run = subprocess.run(
        [sys.executable, "-c", "\n".join([*lines, code]), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert resource.RLIMIT_AS  # the system supports this limit
    return run.stdout.strip()
