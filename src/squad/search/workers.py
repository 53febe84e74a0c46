"""Names of workers: who has a trial, and whether that process is gone for certain."""

import os
import socket

from squad.processes import birth_of, has_ended, place

__all__ = ["is_gone", "worker_name"]


def worker_name() -> str:
    """HOST-PLACE-PID-BIRTH of this process: its own for ever (:mod:`squad.processes`)."""
    return f"{socket.gethostname()}-{place()}-{os.getpid()}-{birth_of(os.getpid())}"


def is_gone(name: str) -> bool:
    """Whether the worker of this name was a process of this machine which has ended; False where nobody can tell."""
    parts = name.rsplit("-", 3)
    if len(parts) != 4 or parts[0] != socket.gethostname() or not parts[2].isdecimal():
        return False
    return bool(has_ended(parts[1], int(parts[2]), parts[3]))
