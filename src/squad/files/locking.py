"""A lock beside a target, which the system lets go when its holder dies."""

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

__all__ = ["locked"]

#: Seconds between two looks at a lock that another run holds.
POLL = 0.2


@contextmanager
def locked(target: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock of a target, whose folder must be there.  Gives False if this disk knows no locks.

    Args:
        target: what is to be made; the lock is a hidden file beside it.
        waiting: called again and again while another run has the lock; may raise, to wait no longer.

    Raises:
        OSError: the lock file cannot be made.
    """
    path = target.with_name(f".{target.name}.lock")
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            got = _lock(handle)
            # The last holder removed its lock file: a lock on a file that is no longer there keeps nobody out.
            if got is None or (got and _is_at(handle, path)):
                break
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if not got:  # else it was free, and its file removed in between
            waiting()
            time.sleep(POLL)
    try:
        yield bool(got)
    finally:
        with suppress(OSError):  # Windows removes no open file; the empty file then stays, and does no harm
            os.unlink(path)
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Whether the lock was free and is now ours; None where locks are unknown, as on some network disks."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as cause:
        return False if cause.errno in (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK) else None
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether the open file is the one that the path names."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
