"""Names of workers, and whether the process behind a name has ended."""

import os
import socket

from squad.processes import has_ended, host_id, start_time_of

__all__ = ["has_ended_here", "worker_name"]


def worker_name() -> str:
    """Return a name for this process that no other process ever has: HOST-PLACE-PID-BIRTH (:mod:`squad.processes`)."""
    return f"{socket.gethostname()}-{host_id()}-{os.getpid()}-{start_time_of(os.getpid())}"


def has_ended_here(name: str) -> bool:
    """Return whether the named worker was a process of this machine that has ended; False if that is unknown.

    Examples:
        >>> has_ended_here(worker_name())
        False
    """
    parts = name.rsplit("-", 3)
    if len(parts) != 4 or parts[0] != socket.gethostname() or not parts[2].isdecimal():
        return False
    return bool(has_ended(parts[1], int(parts[2]), parts[3]))
