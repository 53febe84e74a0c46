"""Atomic file writing.

Bytes go to a scratch file in the target's folder, which is flushed to disk and then renamed to the target; a failure
leaves the old file in place.  ``OSError`` is passed on unchanged: callers know what to advise.
"""

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from squad.files.scratch import remove_abandoned, scratch_path

__all__ = [
    "atomic_write",
    "atomic_write_all",
    "create_new",
    "make_folder",
    "move_into_place",
    "sync_folder",
    "write_bytes",
    "write_json",
    "write_text",
]

#: Mode of a new file, before the user's umask is applied.
NEW_FILE_MODE = 0o666


@contextmanager
def atomic_write(
    path: str | Path, *, like: Path | None = None, scratch_for: Path | None = None, follow_links: bool = True
) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` at the end of the ``with`` block, unless an exception ends it.

    Missing folders are created.  A new file has the permissions that the umask allows; a replaced one keeps its
    permissions and, where possible, its owner.  If ``path`` is a symbolic link, the file it points to is replaced.
    Special files (``/dev/null``, a pipe) are written to directly.

    Args:
        path: File to write.
        like: Existing file whose permissions a new one receives; ignored if missing.
        scratch_for: Path next to which the scratch file is created; by default ``path`` itself.
        follow_links: Replace what a link points to.  False replaces whatever is at ``path`` itself, be it a link or a
            pipe: for folders that come from somebody else.

    Yields:
        The open binary file.
    """
    target = (
        Path(os.path.realpath(path)) if follow_links else Path(os.path.realpath(Path(path).parent)) / Path(path).name
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    old = _status(target) if follow_links or (target.is_file() and not target.is_symlink()) else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        if stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        with open(target, "wb") as special:
            yield special
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "it is write-protected", str(path))
    scratch_for = target if scratch_for is None else scratch_for
    remove_abandoned(scratch_for)
    scratch = scratch_path(scratch_for)
    try:
        with _create(scratch, _status(like) if old is None and like is not None else old) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise a power failure could leave the new name with old or no content
        os.replace(scratch, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise
    sync_folder(target.parent)


@contextmanager
def atomic_write_all(paths: Iterable[str | Path]) -> Iterator[list[BinaryIO]]:
    """Open several files, none of which replaces its target before all are on disk; see :func:`atomic_write`."""
    with ExitStack() as stack:
        files = [stack.enter_context(atomic_write(path)) for path in paths]
        yield files
        for file in files:
            file.flush()
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # pipes cannot be synced
                os.fsync(file.fileno())


def write_bytes(
    path: str | Path,
    data: bytes,
    *,
    like: Path | None = None,
    scratch_for: Path | None = None,
    follow_links: bool = True,
) -> Path:
    """Write bytes atomically; the arguments are those of :func:`atomic_write`."""
    with atomic_write(path, like=like, scratch_for=scratch_for, follow_links=follow_links) as file:
        file.write(data)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write text atomically, in UTF-8, without converting line ends."""
    return write_bytes(path, text.encode("utf-8"))


def write_json(
    path: str | Path,
    data: Any,
    indent: int | None = 2,
    *,
    scratch_for: Path | None = None,
    follow_links: bool = True,
) -> Path:
    """Write plain data as JSON, atomically: in ASCII, so that any text survives, and without NaN, which JSON lacks.

    Args:
        path: File to write.
        data: Plain data.
        indent: Indentation; None writes one line.
        scratch_for: As in :func:`atomic_write`.
        follow_links: As in :func:`atomic_write`.

    Returns:
        The path.

    Raises:
        ValueError: ``data`` contains NaN or infinity.
    """
    text = json.dumps(data, indent=indent, allow_nan=False) + "\n"
    return write_bytes(path, text.encode("ascii"), scratch_for=scratch_for, follow_links=follow_links)


def move_into_place(scratch: Path, target: Path) -> None:
    """Give a finished file its name in one step; a file that was there is replaced.

    Args:
        scratch: The finished file, in the same folder.
        target: Its final path.
    """
    os.replace(scratch, target)
    sync_folder(target.parent)


def create_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not exist yet, with these permissions from the start: for keys.

    Args:
        path: The file.
        data: Its content.
        mode: Its permissions.

    Raises:
        FileExistsError: The file exists.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)


def make_folder(path: Path, like: Path) -> None:
    """Create a folder with the permissions of ``like`` if that exists, otherwise with those that the umask allows."""
    old = _status(like)
    if old is None:
        path.mkdir()
        return
    path.mkdir(mode=0o700)
    if hasattr(os, "fchown"):
        handle = os.open(path, os.O_RDONLY)
        try:
            _copy_owner_and_mode(handle, old)
        finally:
            os.close(handle)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk where the system can, so that renames survive a power failure."""
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


def _create(scratch: Path, old: os.stat_result | None) -> BinaryIO:
    """Create and open a scratch file; it is never readable by more users than ``old`` was, not even while written."""
    mode = NEW_FILE_MODE if old is None else stat.S_IMODE(old.st_mode) & 0o777
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    # This handle stays writable even if the mode is read-only.
    handle = os.open(scratch, flags, mode)
    try:
        if old is not None and hasattr(os, "fchown"):
            _copy_owner_and_mode(handle, old)
        return open(handle, "wb")
    except BaseException:
        os.close(handle)
        raise


def _copy_owner_and_mode(handle: int, old: os.stat_result) -> None:
    mode = stat.S_IMODE(old.st_mode) & 0o777
    now = os.fstat(handle)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(handle, old.st_uid if now.st_uid != old.st_uid else -1, old.st_gid)
        except OSError:
            mode &= ~0o070  # the new file has another group, whose members could not read the old one
            with suppress(OSError):
                os.fchown(handle, -1, old.st_gid)
                mode = stat.S_IMODE(old.st_mode) & 0o777
    with suppress(OSError):  # file systems without permissions
        os.fchmod(handle, mode)
