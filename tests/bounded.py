"""Work in a process of its own that may take so much memory and time, and no more."""

import resource
import subprocess
import sys

__all__ = ["bounded"]


def bounded(code: str, *arguments: str, megabytes: int = 1000, seconds: int = 60) -> str:
    """Run Python code that prints something; memory above what Python, numpy and pandas take is an error."""
    lines = [
        "import resource, sys",
        "import numpy, pandas",
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
    assert resource.RLIMIT_AS  # there is such a limit here
    return run.stdout.strip()
