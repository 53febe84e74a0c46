"""Child processes that are killed, or meet an error, at the n-th file operation."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

#: What Python tells an audit hook when it is about to do something with files.
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
        work: an error ends the process with the code 1, one of this library's with 3.
        at: the event, from 1, before which the process is killed, or before which ``error`` is raised.
        error: raised instead of killing.

    Returns:
        How the process ended (its exit code, or minus the signal), and how many events there were.
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
    with open(reading, "rb") as told:
        count = len(told.read())
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
