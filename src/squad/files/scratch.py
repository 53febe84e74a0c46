"""Scratch files and folders next to a target, named after the process that made them.

A process killed while writing leaves its scratch file behind, and a folder moved aside for a new one may contain data
that the user has just asked to remove.  The name of a scratch file holds the host, the process id and the start time of
the process (ids are reused); the next write to the same target removes scratch files of processes that have ended.
"""

import hashlib
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

from squad.processes import has_ended, host_id, start_time_of

__all__ = ["abandoned_backups", "backup_path", "remove_abandoned", "scratch_path"]

#: Age in seconds after which scratch files of another host are removed: whether their process runs cannot be checked
#: from here, and no write takes that long.
FOREIGN_SECONDS = 24 * 3600

#: Longest target name, in bytes, that is used in full in a scratch name; file names have at most 255 bytes.
MAX_NAME_BYTES = 100

#: End of a scratch name: host, process id, start time of the process, a random number.
_NAME = re.compile(r"\.(?P<place>[0-9a-f]{8})-(?P<pid>\d+)-(?P<birth>[0-9a-f]{8})-[0-9a-f]{8}\.(?P<end>scratch|aside)")


def scratch_path(target: Path) -> Path:
    """Return a new hidden path in the folder of ``target``, for a file or folder to be renamed to ``target``."""
    pid = os.getpid()
    return target.with_name(f"{_prefix(target)}.{host_id()}-{pid}-{start_time_of(pid)}-{secrets.token_hex(4)}.scratch")


def backup_path(scratch: Path) -> Path:
    """Return the path to which the old target is moved while ``scratch`` replaces it, if one atomic step cannot."""
    return scratch.with_suffix(".aside")


def remove_abandoned(target: Path) -> None:
    """Remove scratch files that ended processes left next to ``target``; ignore those that cannot be removed.

    If a process was killed after it had moved the old target aside and before the new one was in place, the old target
    is restored.
    """
    for path in abandoned_backups(target):
        with suppress(OSError):
            if not os.path.lexists(target):
                os.rename(path, target)
            else:
                _remove(path)
    for path in _abandoned(target, "scratch"):
        with suppress(OSError):
            _remove(path)


def abandoned_backups(target: Path) -> list[Path]:
    """Return old versions of ``target`` that were moved aside by processes which ended before they finished."""
    return _abandoned(target, "aside")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _abandoned(target: Path, end: str) -> list[Path]:
    prefix = _prefix(target)
    try:
        matches = [(name, _NAME.fullmatch(name, len(prefix))) for name in os.listdir(target.parent)]
    except OSError:
        return []
    return [
        target.with_name(name)
        for name, match in matches
        if match and name.startswith(prefix) and match["end"] == end and _is_abandoned(target.with_name(name), match)
    ]


def _is_abandoned(path: Path, match: re.Match[str]) -> bool:
    """Return whether the process that made a scratch file has ended."""
    ended = has_ended(match["place"], int(match["pid"]), match["birth"])
    if ended is not None:
        return ended
    try:
        return time.time() - os.lstat(path).st_mtime > FOREIGN_SECONDS
    except OSError:
        return False


def _prefix(target: Path) -> str:
    """Beginning of a scratch name; long target names are cut and made unique by a hash."""
    name = target.name
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        name = name[:20] + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return f".{name}"
