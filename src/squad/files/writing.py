"""Files that are written whole or not at all.

The bytes go to a scratch file beside the target, are on the disk before it takes the target's name, and a failure on
the way leaves what was there.  Errors of the system are raised as they are: callers know what to advise.
"""

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from squad.files.scratch import scratch_beside, sweep

__all__ = ["make_folder", "replacing", "replacing_all", "sync_folder", "write_bytes", "write_json", "write_text"]

#: What a new file may be, before the user's umask takes from it.
MODE = 0o666


@contextmanager
def replacing(path: str | Path, *, like: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` at the end of the block, unless an error ends it.

    Folders are made.  A new file has the permissions that the umask leaves it; one that is replaced keeps its own, and
    its owner where that can be.  Of a link, the file it points to is replaced.  What is no plain file (``/dev/null``, a
    pipe) is written to directly.

    Args:
        path: the file.
        like: another file, whose permissions a new one is to have if it is there.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    old = _status(target)
    if old is not None and not stat.S_ISREG(old.st_mode):
        if stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        with open(target, "wb") as special:
            yield special
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "it is write-protected", str(path))
    sweep(target)
    scratch = scratch_beside(target)
    try:
        with _created(scratch, _status(like) if old is None and like is not None else old) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave the new name on old, or no, content
        os.replace(scratch, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise
    sync_folder(target.parent)


@contextmanager
def replacing_all(paths: Iterable[str | Path]) -> Iterator[list[BinaryIO]]:
    """Several files to write to, none of which takes its place before all are on the disk."""
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(path)) for path in paths]
        yield files
        for file in files:
            file.flush()
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe has no disk behind it
                os.fsync(file.fileno())


def write_bytes(path: str | Path, data: bytes, *, like: Path | None = None) -> Path:
    """Write a file of these bytes; ``like`` as in :func:`replacing`."""
    with replacing(path, like=like) as file:
        file.write(data)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write a file of this text, in UTF-8, its ends of lines as they are."""
    return write_bytes(path, text.encode("utf-8"))


def write_json(path: str | Path, data: Any, indent: int | None = 2) -> Path:
    """Write plain data as JSON: ASCII, so that any text comes back as it was; no NaN, which JSON has not."""
    return write_text(path, json.dumps(data, indent=indent, allow_nan=False) + "\n")


def make_folder(path: Path, like: Path) -> None:
    """Make one folder, with the permissions of another if that is there, else those that the umask leaves it."""
    old = _status(like)
    if old is None:
        path.mkdir()
        return
    path.mkdir(mode=0o700)
    if hasattr(os, "fchown"):
        handle = os.open(path, os.O_RDONLY)
        try:
            _keep_owner(handle, old)
        finally:
            os.close(handle)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder written as well, where the system can: a power cut must not leave half of them."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _created(scratch: Path, old: os.stat_result | None) -> BinaryIO:
    """The scratch, open; never readable to more people than ``old`` was, not even before it is whole."""
    mode = MODE if old is None else stat.S_IMODE(old.st_mode) & 0o777
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    # What cannot be written to again by its owner still is by this handle.
    handle = os.open(scratch, flags, mode)
    try:
        if old is not None and hasattr(os, "fchown"):
            _keep_owner(handle, old)
        return open(handle, "wb")
    except BaseException:
        os.close(handle)
        raise


def _keep_owner(handle: int, old: os.stat_result) -> None:
    mode = stat.S_IMODE(old.st_mode) & 0o777
    now = os.fstat(handle)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(handle, old.st_uid if now.st_uid != old.st_uid else -1, old.st_gid)
        except OSError:
            mode &= ~0o070  # of another group, whose members could not read the old one
            with suppress(OSError):
                os.fchown(handle, -1, old.st_gid)
                mode = stat.S_IMODE(old.st_mode) & 0o777
    with suppress(OSError):  # disks without permissions
        os.fchmod(handle, mode)
