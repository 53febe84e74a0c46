"""Bounded reading: regular files only, and at most the expected number of bytes.

The file type is checked after opening, since a path may name another file by then.  Refusals are ``OSError`` with an
explanation in ``strerror``, like the operating system's own errors, so that callers can use one message for both.
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

__all__ = ["LIMIT", "Unpacking", "open_regular", "read_bytes", "read_text"]

#: Environment variable that raises the limit on decompressed sizes: a number of bytes, or such as 500M or 4G.
LIMIT = "SQUAD_MAX_UNPACKED"

#: Default limit on a decompressed size: the larger of this many bytes and this many times the compressed size.
#: Tables compress to a tenth, rarely to a thirtieth; a decompression bomb to a thousandth.
UNPACKED_BYTES, UNPACKED_TIMES = 64 << 20, 50

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

#: Bytes decompressed between two checks of the limit.
CHUNK_BYTES = 1 << 20


@contextmanager
def open_regular(path: str | Path, *, pipes: bool = False) -> Iterator[BinaryIO]:
    """Open a regular file for reading, without ever blocking; anything else is an error.

    Args:
        path: The file, or a symbolic link to it.
        pipes: Also accept named pipes, and wait for a writer as other programs do.

    Yields:
        The open binary file.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        mode = os.fstat(handle).st_mode
        if pipes and stat.S_ISFIFO(mode):
            handle = _wait_for_writer(handle, path, flags)
            mode = os.fstat(handle).st_mode
        if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
            raise OSError(errno.EINVAL, f"it is not a regular file but {_file_type(mode)}", str(path))
        file = os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
    with file:
        yield file


def _wait_for_writer(handle: int, path: str | Path, flags: int) -> int:
    """Wait until a pipe has, or has had, a writer: read before that, it would appear to be at its end.

    On Linux the pipe is not reopened: a writer of a few rows may be gone by then, and reopening would wait for another
    one forever.  Linux reports that a writer came and went since the pipe was opened; other systems do not.
    """
    if sys.platform != "linux":
        reopened = os.open(path, flags)
        os.close(handle)
        return reopened
    if os.path.exists(os.path.realpath(path)):  # a named pipe; the writer of an anonymous one is already connected
        poll = select.poll()
        poll.register(handle, select.POLLIN | select.POLLHUP)
        poll.poll()
    os.set_blocking(handle, True)
    return handle


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """Read a regular file.

    Args:
        path: The file.
        most: Maximum number of bytes, checked against the reported size and the bytes actually read; None for no limit.

    Returns:
        The content.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
    """
    with open_regular(path) as file:
        if most is None:
            return file.read()
        size = os.fstat(file.fileno()).st_size
        data = file.read(most + 1) if size <= most else b""
        if size > most or len(data) > most:
            raise OSError(errno.EFBIG, f"it has {max(size, len(data)):,} bytes, more than the allowed {most:,}")
        return data


def read_text(path: str | Path, most: int | None = None) -> str:
    """Read a regular file as UTF-8.

    Args:
        path: The file.
        most: Maximum number of bytes; None for no limit.

    Returns:
        The text.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
        UnicodeDecodeError: The file is not UTF-8.
    """
    return read_bytes(path, most).decode("utf-8")


@dataclass(frozen=True)
class Unpacking:
    """Limit on the decompressed size of a file.

    Attributes:
        packed: Compressed size in bytes.
        most: Maximum decompressed size in bytes.
    """

    packed: int
    most: int

    @classmethod
    def of(cls, packed: int) -> "Unpacking":
        """Return the limit for a compressed size: that of the environment variable if set, otherwise the default."""
        configured = os.environ.get(LIMIT, "").strip()
        if configured:
            match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*([KMGT]?)i?B?", configured, re.IGNORECASE)
            if match is None:
                raise OSError(errno.EINVAL, f"{LIMIT} must be a number of bytes, such as 4G, got {configured[:40]!r}")
            return cls(packed, int(float(match[1]) * _UNITS[match[2].upper()]))
        return cls(packed, max(UNPACKED_BYTES, UNPACKED_TIMES * packed))

    def check(self, size: int) -> None:
        """Raise an ``OSError`` (EFBIG) if ``size`` bytes exceed the limit."""
        if size > self.most:
            raise OSError(
                errno.EFBIG,
                f"it unpacks to more than {self.most:,} bytes, from {self.packed:,}. If this is expected, unpack it"
                f" yourself, or raise the limit with {LIMIT}=4G in the environment",
            )

    def read(self, file: io.BufferedIOBase) -> bytes:
        """Read a decompressing file to its end, checking the limit as it goes."""
        chunks, size = [], 0
        while chunk := file.read(CHUNK_BYTES):
            size += len(chunk)
            self.check(size)
            chunks.append(chunk)
        return b"".join(chunks)


def _file_type(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")
