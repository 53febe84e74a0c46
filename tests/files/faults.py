"""Child processes that are killed, or meet an error, at the n-th file operation."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

#: Audit events of file operations.
EVENTS = frozenset(
    {
        "open",
        "os.chmod",
        "os.chown",
        "os.link",
        "os.listdir",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.scandir",
        "os.truncate",
        "shutil.rmtree",
        "ctypes.dlsym",
    }
)


def in_child(work: Callable[[], object], at: int | None = None, error: OSError | None = None) -> tuple[int, int]:
    """Run ``work`` in a child process.

    Args:
        work: Function to run; an exception ends the process with exit code 1, a SquadError with 3.
        at: Number of the event, from 1, before which the process is killed or ``error`` is raised.
        error: Raised instead of killing the process.

    Returns:
        The exit code (or minus the signal), and the number of events.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _run(work, at, error, writing)
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        count = len(pipe.read())
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), count


def _run(work: Callable[[], object], at: int | None, error: OSError | None, writing: int) -> int:
    from squad.errors import SquadError

    seen, on = 0, False

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        if not on or event not in EVENTS:
            return
        seen += 1
        os.write(writing, b".")
        if seen == at:
            if error is not None:
                if event == "shutil.rmtree":  # an announcement; what fails are the steps that follow
                    return
                raise error
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    on = True
    try:
        work()
    except SquadError:
        return 3
    except OSError:
        return 4
    finally:
        on = False
    return 0
