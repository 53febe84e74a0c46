"""Download a file: resumable, verified by checksum, and atomic.

Bytes go to ``NAME.part`` next to the target, which is renamed only after its checksum was verified.  An interrupted or
killed download leaves the partial file, and the next one resumes it.

Two processes may download the same file at once.  The second waits for the first, with a lock that the system releases
if its holder dies.  Partial files with unique names would also be safe, but the file would be downloaded twice, and a
killed download could not be resumed.

Every download ends: a body may not be much larger than expected, a connection slower than a minimum rate counts as
broken, and there is a deadline per file, over all connections.
"""

import errno
import gzip
import hashlib
import http.client
import io
import os
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from squad.errors import ArgumentError, DataError
from squad.files import Unpacking, file_lock, move_into_place

__all__ = ["Content", "DownloadError", "Progress", "download", "fingerprint"]

#: What a checksum refers to: the file itself, or its decompressed content (distributors compress it differently).
Content = Literal["raw", "gzip"]

#: Called with the file's name, the bytes so far and the total bytes (None if unknown).
Progress = Callable[[str, int, int | None], None]

#: Seconds of silence after which a connection counts as broken.
TIMEOUT = 30.0
#: Number of retries after a broken connection, and seconds before the first one; each pause is twice the previous one.
RETRIES = 4
FIRST_PAUSE = 0.5
#: Minimum rate of a body in bytes per second, measured over this many seconds; a slower connection counts as broken.
MIN_RATE, RATE_WINDOW = 2048, 60.0
#: Seconds until all headers of a response must have arrived.
HEADER_TIMEOUT = 60.0
#: Deadline of a file in seconds, in addition to the time its expected size takes at the minimum rate; and deadline of a
#: file of unknown size.
GRACE_SECONDS, UNKNOWN_SIZE_SECONDS = 600.0, 86_400.0
#: A file may exceed its expected size by a twentieth plus this many bytes, since publishers recompress their files.
SIZE_SLACK = 1 << 16
#: Maximum size of a file of unknown size.
MAX_BYTES = 16 << 30
#: Bytes read at a time.
CHUNK = 1 << 18
#: Supported checksum algorithms.
ALGORITHMS = ("md5", "sha256")


class DownloadError(DataError):
    """A file that could not be downloaded.

    Attributes:
        url: Address of the file.
        problem: Problem, phrased as a predicate of the address: "cannot be reached (...)".
        unreachable: Whether the server did not respond or does not have the file, so that another address may be tried;
            a wrong or interrupted response is not a reason to try another address.
    """

    def __init__(self, url: str, problem: str, unreachable: bool = False) -> None:
        super().__init__(f"{url} {problem}.")
        self.url = url
        self.problem = problem
        self.unreachable = unreachable


class _BrokenConnectionError(Exception):
    """A connection that broke, or was never established; the text says why."""

    def __init__(self, cause: BaseException | str, answered: bool = True) -> None:
        super().__init__(cause if isinstance(cause, str) else _reason(cause))
        self.answered = answered


class _DeadlineError(Exception):
    """The deadline of a file has passed."""


def download(
    url: str,
    target: Path,
    checksum: str,
    content: Content = "raw",
    *,
    size: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Download ``url`` to ``target``, unless that file exists.

    Args:
        url: An http or https address.
        target: File to write; its folder is created.
        checksum: "md5:..." or "sha256:..." of the content; several, separated by blanks, must all match.
        content: What the checksum refers to: "raw" for the file itself, "gzip" for its decompressed content.
        size: Expected number of bytes.  Much larger files are refused, and the deadline is the time this size takes at
            the minimum rate plus ten minutes (a day if the size is unknown).
        progress: Called as bytes arrive.

    Returns:
        The target.

    Raises:
        DownloadError: The address cannot be reached, breaks off repeatedly, takes too long, or sends wrong data.
        DataError: The target cannot be written.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ArgumentError.of("url", repr(url), "an http or https address")
    _parse(checksum)
    if target.is_file():
        return target

    def report(done: int, total: int | None) -> None:
        if progress is not None:
            progress(target.name, done, size if total is None else total)

    part = target.with_name(target.name + ".part")
    with _writing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _file_lock(target, lambda: report(_size(part), None)) as is_locked:
        if target.is_file():  # another process has downloaded it meanwhile
            return target
        if not is_locked:
            part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
        try:
            most = MAX_BYTES if size is None else size + size // 20 + SIZE_SLACK
            seconds = UNKNOWN_SIZE_SECONDS if size is None else GRACE_SECONDS + size / MIN_RATE
            _load(url, part, most, seconds, lambda: fingerprint(part, checksum, content) == checksum, report)
            _verify(url, part, checksum, content)
            with _writing(part):
                move_into_place(part, target)
        finally:
            if not is_locked:
                part.unlink(missing_ok=True)
    return target


def fingerprint(path: Path, like: str, content: Content = "raw") -> str:
    """Compute checksums of a file.

    Args:
        path: The file.
        like: Checksums whose algorithms are used.
        content: What the checksums refer to.

    Returns:
        The checksums, in the format of ``like``; "damaged: ..." if decompression fails.
    """
    digests = [hashlib.new(algorithm, usedforsecurity=False) for algorithm in _parse(like)]
    unpacking, size = Unpacking.of(_size(path)), 0
    with gzip.open(path) if content == "gzip" else open(path, "rb") as file:
        try:
            while chunk := file.read(CHUNK):
                size += len(chunk)
                if content == "gzip":
                    unpacking.check(size)
                for digest in digests:
                    digest.update(chunk)
        except (EOFError, zlib.error, gzip.BadGzipFile) as cause:
            return f"damaged: {cause}"
        except OSError as cause:
            if cause.errno != errno.EFBIG:
                raise
            return f"damaged: {cause.strerror}"
    return " ".join(f"{digest.name}:{digest.hexdigest()}" for digest in digests)


def _parse(checksum: str) -> list[str]:
    """Return the algorithms of checksums."""
    algorithms = []
    for one in checksum.split() or [""]:
        algorithm, _, digits = one.partition(":")
        if algorithm not in ALGORITHMS or len(digits) != 2 * hashlib.new(algorithm, usedforsecurity=False).digest_size:
            raise ArgumentError.of(
                "checksum", repr(checksum), "'md5:' or 'sha256:' followed by the right number of hexadecimal digits"
            )
        algorithms.append(algorithm)
    return algorithms


def _verify(url: str, part: Path, checksum: str, content: Content) -> None:
    """Verify the content; remove a wrong file, since resuming could not correct it."""
    with _writing(part):
        # Flush to disk before renaming: otherwise a crash could leave the final name on partial content.
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        found = fingerprint(part, checksum, content)
        if found == checksum:
            return
        length = _size(part)
        part.unlink()
    of = " of the unpacked content" if content == "gzip" else ""
    raise DownloadError(
        url, f"sent the wrong data ({length:,} bytes, checksum{of} {found} instead of {checksum}), which was removed"
    )


def _load(
    url: str,
    part: Path,
    most: int,
    seconds: float,
    whole: Callable[[], bool],
    report: Callable[[int, int | None], None],
) -> None:
    """Complete the partial file, with as many connections as needed.

    Args:
        url: The address.
        part: The partial file.
        most: Maximum number of bytes.
        seconds: Deadline.
        whole: Tells whether the partial file is complete.
        report: Called with the bytes so far and the total bytes.
    """
    failures = 0
    deadline = time.monotonic() + seconds

    def in_time(done: int, total: int | None) -> None:
        report(done, total)
        if (total is None or done < total) and time.monotonic() >= deadline:
            raise _DeadlineError

    while True:
        try:
            if failures:
                in_time(_size(part), None)
            if _attempt(url, part, most, whole, in_time):
                return
            broken = _BrokenConnectionError("it did not resume where the download stopped")
        except _DeadlineError:
            raise DownloadError(url, f"took longer than {seconds:,.0f} s{_resume_hint(part)}") from None
        except _BrokenConnectionError as problem:
            broken = problem
            # No server at all: report being offline at once, not after several pauses.
            if failures == 0 and not broken.answered:
                raise DownloadError(url, f"cannot be reached ({broken})", unreachable=True) from broken
        failures += 1
        if failures > RETRIES:
            raise DownloadError(url, f"broke off {failures} times ({broken}{_resume_hint(part)})") from broken
        time.sleep(min(FIRST_PAUSE * 2 ** (failures - 1), max(deadline - time.monotonic(), 0.0)))


def _resume_hint(part: Path) -> str:
    """End of an error message about a partial file."""
    return f"; {_size(part):,} bytes were kept, run again to resume" if _size(part) else ""


def _attempt(
    url: str, part: Path, most: int, whole: Callable[[], bool], report: Callable[[int, int | None], None]
) -> bool:
    """Download over one connection.

    Returns:
        True if the partial file is now complete, False if it was removed and must be downloaded from the start.
    """
    have = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "squad-torch"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with ExitStack() as stack:
            with _header_deadline() as sockets:
                response = stack.enter_context(_opener(sockets).open(request, timeout=TIMEOUT))
            stack.pop_all()  # keep the response open for the body
    except urllib.error.HTTPError as answer:
        with answer:
            if answer.code == 416 and have:  # there is no more: the file is complete, or another one
                if whole():
                    return True
                part.unlink(missing_ok=True)
                return False
            if answer.code == 429 or answer.code >= 500:
                raise _BrokenConnectionError(f"HTTP {answer.code} {answer.reason}") from answer
            absent = answer.code in (403, 404, 410)
            raise DownloadError(url, f"cannot be downloaded (HTTP {answer.code} {answer.reason})", absent) from answer
    except urllib.error.URLError as cause:
        raise _BrokenConnectionError(cause, answered=False) from cause
    except (OSError, http.client.HTTPException) as cause:
        raise _BrokenConnectionError(cause) from cause
    with response:
        total = None if response.length is None else int(response.length)
        if response.status == 206:
            if _range_start(response.headers.get("Content-Range", "")) != have:
                part.unlink(missing_ok=True)
                return False
            total = None if total is None else have + total
        else:  # the server does not support ranges, and sends the whole file
            have = 0
        try:
            _check_size(url, max(have, total or 0), most)
            with _opened(part, "ab" if have else "wb") as file:
                for now in _copy(response, file, part, have, total, report):
                    _check_size(url, now, most)
        except DownloadError:
            part.unlink(missing_ok=True)
            raise
    return True


def _check_size(url: str, size: int, most: int) -> None:
    if size > most:
        raise DownloadError(url, f"sends more than the expected size (at most {most:,} bytes); nothing was kept")


def _copy(
    response: http.client.HTTPResponse,
    file: io.FileIO,
    part: Path,
    have: int,
    total: int | None,
    report: Callable[[int, int | None], None],
) -> Iterator[int]:
    """Append the body to the file; yield the number of bytes so far."""
    report(have, total)
    began, then = time.monotonic(), have
    while total is None or have < total:
        try:
            # read1 returns what has arrived; read would lose it if the connection broke before the chunk was full.
            chunk = response.read1(CHUNK if total is None else min(CHUNK, total - have))
        except (OSError, http.client.HTTPException) as cause:
            raise _BrokenConnectionError(cause) from cause
        if not chunk:
            break
        with _writing(part):
            rest = memoryview(chunk)
            while rest:
                rest = rest[file.write(rest) :]
        have += len(chunk)
        report(have, total)
        yield have
        if (seconds := time.monotonic() - began) >= RATE_WINDOW:
            if have - then < MIN_RATE * seconds:
                raise _BrokenConnectionError(f"{have - then:,} bytes in {seconds:.0f} s")
            began, then = time.monotonic(), have
    if total is not None and have < total:
        raise _BrokenConnectionError(f"after {have:,} of {total:,} bytes")


def _opened(part: Path, mode: Literal["ab", "wb"]) -> io.FileIO:
    """Open the partial file without a buffer, so that a full disk is noticed when writing, not when closing."""
    with _writing(part):
        return open(part, mode, buffering=0)


@contextmanager
def _header_deadline() -> Iterator[list[socket.socket]]:
    """Close the connections added to the yielded list if the headers have not arrived in time.

    The timeout of a socket applies to each read; a server could send headers byte by byte, each just in time.
    """
    sockets: list[socket.socket] = []
    late = threading.Event()

    def end() -> None:
        late.set()
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(HEADER_TIMEOUT, end)
    timer.daemon = True
    timer.start()
    try:
        yield sockets
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():  # truncated headers can look complete
        raise _BrokenConnectionError(f"no complete response in {HEADER_TIMEOUT:g} s")


def _opener(sockets: list[socket.socket]) -> urllib.request.OpenerDirector:
    """Create an opener for http and https only, even after redirects, that uses the proxies of the environment.

    Args:
        sockets: List to which the sockets of all connections are added.
    """

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            sockets.append(self.sock)

    class Secure(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            sockets.append(self.sock)

    class Http(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class Https(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
            return self.do_open(Secure, req)

    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        Http,
        Https,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _range_start(content_range: str) -> int | None:
    """First byte of the response to a Range request."""
    match = re.match(r"\s*bytes\s+(\d+)-", content_range)
    return int(match[1]) if match else None


def _size(path: Path) -> int:
    """Size of a file in bytes; 0 if it does not exist."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _reason(cause: BaseException) -> str:
    """Describe why a connection failed, in one line."""
    if isinstance(cause, urllib.error.URLError):
        return _reason(cause.reason) if isinstance(cause.reason, BaseException) else cause.reason
    if isinstance(cause, TimeoutError):
        return f"no response for {TIMEOUT:g} s"
    text = (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
    return " ".join(text.split())


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Convert an ``OSError`` to a :class:`DataError` that names the path and says what to do."""
    try:
        yield
    except OSError as cause:
        hint = "Free some space" if cause.errno in (errno.ENOSPC, errno.EDQUOT) else "Make it writable"
        hint += ", or name another folder with --data-dir or SQUAD_DATA."
        raise DataError(f"{path} cannot be written ({_reason(cause)}). {hint}") from cause


@contextmanager
def _file_lock(target: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock of a target, as :func:`squad.files.file_lock`, with errors as :class:`DataError`."""
    with ExitStack() as stack:
        with _writing(target):
            lock = stack.enter_context(file_lock(target, waiting))
        yield lock
