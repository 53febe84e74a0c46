"""Files that are read within bounds: plain ones, and no more of them than was expected.

Whether a path is a plain file is asked of what was opened, not before: it could be another by then.  What is refused is
an ``OSError`` whose ``strerror`` says why, as if the system had said it, for callers to put into their own words.
"""

import errno
import io
import os
import re
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["LIMIT", "Unpacking", "opened", "read_bytes", "read_text"]

#: The environment variable that allows more when something is unpacked: bytes, or 500M, 4G.
LIMIT = "SQUAD_MAX_UNPACKED"

#: What data may be when they are unpacked: so many bytes, or so many times what they were packed, if that is more.
#: Tables shrink to a tenth, rarely to a thirtieth; a bomb to a thousandth.
UNPACKED_BYTES, UNPACKED_TIMES = 64 << 20, 50

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@contextmanager
def opened(path: str | Path, *, pipes: bool = False) -> Iterator[BinaryIO]:
    """A plain file, open for reading; anything else is an error at once, and nothing is waited for.

    Args:
        path: the file, or a link to one.
        pipes: pipes are taken too, and waited for as other programs do.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    # Opening a pipe would wait for whoever writes to it.
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        mode = os.fstat(handle).st_mode
        if pipes and stat.S_ISFIFO(mode):
            handle = _waited_for(handle, path, flags)
            mode = os.fstat(handle).st_mode
        if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
            raise OSError(errno.EINVAL, f"it is no plain file, but {_kind(mode)}", str(path))
        file = os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
    with file:
        yield file


def _waited_for(handle: int, path: str | Path, flags: int) -> int:
    """A pipe that somebody writes to, or has written to: read before that, it would seem to be at its end.

    It must not be opened a second time for that: whoever writes a few rows is gone by then, and another one would be
    waited for in vain.  Linux tells whether somebody has come and gone since a pipe was opened; others do not.
    """
    if sys.platform != "linux":
        again = os.open(path, flags)
        os.close(handle)
        return again
    if os.path.exists(os.path.realpath(path)):  # one with a name; the other end of one without is open already
        waiting = select.poll()
        waiting.register(handle, select.POLLIN | select.POLLHUP)
        waiting.poll()
    os.set_blocking(handle, True)
    return handle


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """The content of a plain file; one of more than ``most`` bytes is an error, whatever its size was said to be."""
    with opened(path) as file:
        if most is None:
            return file.read()
        size = os.fstat(file.fileno()).st_size
        data = file.read(most + 1) if size <= most else b""
        if size > most or len(data) > most:
            raise OSError(errno.EFBIG, f"it has {max(size, len(data)):,} bytes, and must have {most:,} at the most")
        return data


def read_text(path: str | Path, most: int | None = None) -> str:
    """The content of a plain file in UTF-8."""
    return read_bytes(path, most).decode("utf-8")


@dataclass(frozen=True)
class Unpacking:
    """How large something may be when it is unpacked, from its size as it is packed.

    Attributes:
        packed: bytes on the disk.
        most: bytes that are allowed in memory.
    """

    packed: int
    most: int

    @classmethod
    def of(cls, packed: int) -> "Unpacking":
        """By the usual rule, or what the environment variable allows."""
        asked = os.environ.get(LIMIT, "").strip()
        if asked:
            found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*([KMGT]?)i?B?", asked, re.IGNORECASE)
            if found is None:
                raise OSError(errno.EINVAL, f"{LIMIT} must be a number of bytes, such as 4G, got {asked[:40]!r}")
            return cls(packed, int(float(found[1]) * _UNITS[found[2].upper()]))
        return cls(packed, max(UNPACKED_BYTES, UNPACKED_TIMES * packed))

    def check(self, size: int) -> None:
        """An error if ``size`` bytes are too many."""
        if size > self.most:
            raise OSError(
                errno.EFBIG,
                f"it unpacks to more than {self.most:,} bytes, from {self.packed:,}. If that is right, unpack it"
                f" yourself, or allow more: {LIMIT}=4G in the environment",
            )

    def read(self, file: io.BufferedIOBase) -> bytes:
        """All that a file gives while it is being unpacked."""
        parts, size = [], 0
        while part := file.read(1 << 20):
            size += len(part)
            self.check(size)
            parts.append(part)
        return b"".join(parts)


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")
