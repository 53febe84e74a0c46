"""An exclusive lock on a file or folder to be written, released by the system if its holder dies."""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["file_lock"]

#: Seconds between two attempts to acquire a lock that another process holds.
POLL_SECONDS = 0.2


@contextmanager
def file_lock(target: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold an exclusive lock for ``target`` during the ``with`` block.

    Args:
        target: File or folder to be written.  Its parent folder must exist; the lock is a hidden file there.
        waiting: Called before each new attempt while another process holds the lock; raise an exception in it to stop
            waiting.

    Yields:
        True if the lock is held, False if the file system does not support locks.

    Raises:
        OSError: The lock file cannot be created.
    """
    path = target.with_name(f".{target.name}.lock")
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            acquired = _try_lock(handle)
            # The previous holder removes its lock file: a lock on a removed file excludes nobody.
            if acquired is None or (acquired and _is_same_file(handle, path)):
                break
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if not acquired:  # otherwise the lock was free, but its file was removed in between: try again at once
            waiting()
            time.sleep(POLL_SECONDS)
    try:
        yield bool(acquired)
    finally:
        with suppress(OSError):  # Windows cannot remove an open file; the empty file remains, which is harmless
            os.unlink(path)
        os.close(handle)


def _try_lock(handle: int) -> bool | None:
    """Try to lock an open file; None if locks are not supported, as on some network file systems."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as cause:
        return False if cause.errno in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK) else None
    return True


def _is_same_file(handle: int, path: Path) -> bool:
    """Return whether ``path`` still names the open file."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
