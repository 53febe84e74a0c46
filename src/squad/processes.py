"""Who a process is, so that another one can tell later whether it has ended.

A process id alone says little: it is used again, and means something else on another machine or in another container.
So a process is known by its place (machine and container), its id and its birth.
"""

import hashlib
import os
import platform
import sys
from functools import cache
from pathlib import Path

__all__ = ["birth_of", "has_ended", "place"]

#: The birth of a process of which the system says nothing.
UNKNOWN = "0" * 8


@cache
def place() -> str:
    """A short hash of the machine and the container: processes of one place can see each other."""
    parts = [platform.node()]
    for file in ("/etc/machine-id", "/proc/self/ns/pid"):
        try:
            parts.append(str(os.stat(file).st_ino) if "ns" in file else Path(file).read_text(encoding="ascii").strip())
        except (OSError, ValueError):
            parts.append("")
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:8]


def birth_of(pid: int) -> str:
    """When a process of this place was born: a short hash of the boot and the clock ticks since; zeros if unknown."""
    fields = _fields(pid)
    return hashlib.sha256(f"{_boot()}\n{fields[19]}".encode()).hexdigest()[:8] if len(fields) > 19 else UNKNOWN


def has_ended(where: str, pid: int, birth: str) -> bool | None:
    """Whether a process has ended for certain; None where nobody here can tell.

    Args:
        where: its :func:`place`.
        pid: its id.
        birth: its :func:`birth_of`.
    """
    if where != place() or sys.platform == "win32":  # where a process cannot be asked without ending it
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's, or none that there could be
        pass
    if next(iter(_fields(pid)), "") == "Z":  # it waits for its parent, and does nothing any more
        return True
    now = birth_of(pid)
    return UNKNOWN not in (now, birth) and now != birth  # else its id is another process's by now


def _fields(pid: int) -> list[str]:
    """What Linux tells of a process, from its state on; nothing elsewhere."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # its name, in brackets, may hold anything


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
