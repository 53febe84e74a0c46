"""Scratch files and folders beside a target: their names say who made them, so that those of the dead can be removed.

A process that is killed while it writes leaves its scratch behind, and a folder that was exchanged for a new one may
hold what the user has just had removed.  The name of a scratch holds the machine, the process and when that process
was born (process ids are used again), and the next write to the same target removes those whose maker is gone.
"""

import hashlib
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

from squad.processes import birth_of, has_ended, place

__all__ = ["aside_of", "left_aside", "scratch_beside", "sweep"]

#: Nobody writes for so many seconds: a scratch of another machine, of which nobody here knows whether it lives, is
#: left alone until then.
FOREIGN_SECONDS = 24 * 3600

#: The end of a scratch's name: machine, process id, its birth, a random number.
_NAME = re.compile(r"\.(?P<place>[0-9a-f]{8})-(?P<pid>\d+)-(?P<birth>[0-9a-f]{8})-[0-9a-f]{8}\.(?P<end>scratch|aside)")


def scratch_beside(target: Path) -> Path:
    """A new name beside ``target``, hidden, for something that will be moved there."""
    pid = os.getpid()
    return target.with_name(f"{_front(target)}.{place()}-{pid}-{birth_of(pid)}-{secrets.token_hex(4)}.scratch")


def aside_of(scratch: Path) -> Path:
    """Where the old target waits while ``scratch`` takes its place, if the two cannot be exchanged in one step."""
    return scratch.with_suffix(".aside")


def sweep(target: Path) -> None:
    """Remove what processes that are gone have left beside ``target``; whatever cannot be removed stays.

    If one was killed after it had put the old target aside and before the new one was in its place, the old one is
    put back.
    """
    for path in left_aside(target):
        with suppress(OSError):
            if not os.path.lexists(target):
                os.rename(path, target)
            else:
                _remove(path)
    for path in _of_the_dead(target, "scratch"):
        with suppress(OSError):
            _remove(path)


def left_aside(target: Path) -> list[Path]:
    """What was put aside for a new ``target`` by processes that did not live to finish."""
    return _of_the_dead(target, "aside")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _of_the_dead(target: Path, end: str) -> list[Path]:
    front = _front(target)
    try:
        found = [(name, _NAME.fullmatch(name, len(front))) for name in os.listdir(target.parent)]
    except OSError:
        return []
    return [
        target.with_name(name)
        for name, match in found
        if match and name.startswith(front) and match["end"] == end and _is_dead(target.with_name(name), match)
    ]


def _is_dead(path: Path, found: re.Match[str]) -> bool:
    """Whether the maker of a scratch is gone."""
    ended = has_ended(found["place"], int(found["pid"]), found["birth"])
    if ended is not None:
        return ended
    try:
        return time.time() - os.lstat(path).st_mtime > FOREIGN_SECONDS
    except OSError:
        return False


def _front(target: Path) -> str:
    """How the name of a scratch begins: cut, for names have 255 bytes at the most, and then told apart by a hash."""
    name = target.name
    if len(os.fsencode(name)) > 100:
        name = name[:20] + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return f".{name}"
