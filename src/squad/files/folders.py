"""Replace a folder by another one, so that there is a complete one at any time."""

import ctypes
import os
import shutil
import sys
from pathlib import Path

from squad.files.scratch import backup_path

__all__ = ["StrandedError", "replace_folder"]

#: Arguments of Linux's renameat2: relative to the working directory; exchange the two paths.
AT_FDCWD, RENAME_EXCHANGE = -100, 2


class StrandedError(OSError):
    """A folder could neither be replaced nor be moved back; ``aside`` is where it is now."""

    def __init__(self, aside: Path) -> None:
        super().__init__(f"the folder that was there is now {aside}")
        self.aside = aside


def replace_folder(scratch: Path, target: Path) -> None:
    """Move a finished folder to ``target``; a folder that was there ends up in ``scratch``, or is removed.

    Args:
        scratch: The finished folder, next to the target.
        target: Where it goes.

    Raises:
        StrandedError: The old folder was moved aside, and could not be moved back.
        OSError: The folder cannot be moved; nothing has changed.
    """
    if not target.exists():
        os.rename(scratch, target)
        return
    if _exchange(scratch, target):
        return
    # In two steps: for a moment there is no folder.  If the second fails, the first is undone.
    aside = backup_path(scratch)
    os.rename(target, aside)
    try:
        os.rename(scratch, target)
    except BaseException:
        try:
            os.rename(aside, target)
        except OSError as cause:
            raise StrandedError(aside) from cause
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; returns False if the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    return swap is not None and swap(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0
