"""Names of workers: who has a trial, and whether that process is gone for certain."""

import hashlib
import os
import socket
import uuid
from pathlib import Path

__all__ = ["is_gone", "worker_name"]


def worker_name() -> str:
    """HOST-MACHINE-PID-START of this process: its own for ever, since a number of a process comes again.

    MACHINE tells machines, their boots and containers apart: two containers may both call themselves "worker", and a
    process of one is not to be seen from the other.
    """
    return f"{socket.gethostname()}-{_machine()}-{os.getpid()}-{_start(os.getpid()) or 0}"


def is_gone(name: str) -> bool:
    """Whether the worker of this name was a process of this machine which has ended; False where nobody can tell."""
    parts = name.rsplit("-", 3)
    if len(parts) != 4 or parts[0] != socket.gethostname() or parts[1] != _machine():
        return False
    pid, start = parts[2:]
    if not (pid.isdecimal() and start.isdecimal()):
        return False
    if not _alive(int(pid)):
        return True
    # Its number may be another process's by now.
    now = _start(int(pid))
    return now is not None and int(start) != 0 and now != int(start)


def _machine() -> str:
    """A short hash of what processes that can see each other have in common."""
    try:
        known = [Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"), os.readlink("/proc/self/ns/pid")]
    except OSError:  # not Linux
        known = [str(uuid.getnode())]
    return hashlib.sha256("/".join(known).encode()).hexdigest()[:8]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return _state(pid) != "Z"  # one that has ended and waits for its parent trains nothing


def _stat(pid: int) -> list[str]:
    """What Linux tells of a process, from its state on; nothing elsewhere."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # its name, in brackets, may hold anything


def _state(pid: int) -> str:
    return next(iter(_stat(pid)), "")


def _start(pid: int) -> int | None:
    """When a process was started, in ticks since the machine was; None where that is not known."""
    fields = _stat(pid)
    return int(fields[19]) if len(fields) > 19 else None
