"""Identify a process, so that another process can tell later whether it has ended.

A process id alone is not enough: ids are reused, and mean something else on another machine or in another container.
A process is therefore identified by its host (machine and container), its id and its start time.
"""

import hashlib
import os
import platform
import sys
from functools import cache
from pathlib import Path

__all__ = ["has_ended", "host_id", "start_time_of"]

#: Start time of a process about which the system reports nothing.
UNKNOWN = "0" * 8

#: Position of the start time, in clock ticks since boot, among the fields of ``/proc/PID/stat`` after the name.
START_TIME_FIELD = 19


@cache
def host_id() -> str:
    """Return a short hash of the machine and the container; processes with the same hash can see each other."""
    parts = [platform.node()]
    for file in ("/etc/machine-id", "/proc/self/ns/pid"):
        try:
            parts.append(str(os.stat(file).st_ino) if "ns" in file else Path(file).read_text(encoding="ascii").strip())
        except (OSError, ValueError):
            parts.append("")
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:8]


def start_time_of(pid: int) -> str:
    """Return a short hash of the boot id and the start time of a process on this host; zeros if unknown."""
    fields = _stat_fields(pid)
    if len(fields) <= START_TIME_FIELD:
        return UNKNOWN
    return hashlib.sha256(f"{_boot_id()}\n{fields[START_TIME_FIELD]}".encode()).hexdigest()[:8]


def has_ended(where: str, pid: int, birth: str) -> bool | None:
    """Tell whether a process has certainly ended.

    Args:
        where: Host of the process, as returned there by :func:`host_id`.
        pid: Process id.
        birth: Start time, as returned by :func:`start_time_of`.

    Returns:
        True if the process has ended, False if it may still run, None if this host cannot tell.
    """
    if where != host_id() or sys.platform == "win32":  # os.kill(pid, 0) would end the process on Windows
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's process, or an impossible id
        pass
    if next(iter(_stat_fields(pid)), "") == "Z":  # a zombie: it has ended, but its parent has not waited for it
        return True
    now = start_time_of(pid)
    return UNKNOWN not in (now, birth) and now != birth  # if they differ, the id was reused by another process


def _stat_fields(pid: int) -> list[str]:
    """Fields of ``/proc/PID/stat`` from the state on; empty on systems other than Linux."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name, in brackets, may contain any character


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
