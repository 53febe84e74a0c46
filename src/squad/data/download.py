"""One file from the publisher: resumed when cut, checked by its content, and there whole or not at all.

Bytes go to ``NAME.part`` beside the target, which takes its final name only after its checksum was right.  A run that
was cut or killed leaves the part behind, and the next one goes on from there.

Two runs may want the same file at once.  The second waits for the first, by a lock that the system lets go when its
holder dies: with part names of their own they could not corrupt each other either, but would load the file twice and
could not resume what a killed run had left.

Nothing goes on for ever: a body ends near the size that was expected of it, a connection that sends less than a trickle
counts as cut, and a file that is not there by a deadline, however many connections it took, is given up.
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
from squad.files import Unpacking, locked

__all__ = ["Content", "DownloadError", "Progress", "download", "fingerprint"]

#: What a checksum is of: the file as it is, or what is inside its gzip wrapper (wrappers differ between distributors).
Content = Literal["raw", "gzip"]

#: Called with the file's name, the bytes so far and the bytes in all (None where the server does not say).
Progress = Callable[[str, int, int | None], None]

#: Seconds of silence after which a connection counts as cut.
TIMEOUT = 30.0
#: How often a cut connection is taken up again, and the seconds before the first time; each pause is twice the last.
RETRIES = 4
PAUSE = 0.5
#: The slowest that a body may come, in bytes per second, measured over so many seconds; slower counts as cut.
SLOWEST, WINDOW = 2048, 60.0
#: Seconds for an answer to begin, all its headers included.
BEGIN = 60.0
#: Seconds for a file, beyond those that its expected size takes at the slowest rate; and for one of unknown size.
GRACE, UNKNOWN = 600.0, 86_400.0
#: A file may be larger than expected by a twentieth and so many bytes: publishers pack their files anew.
SLACK = 1 << 16
#: Of a file of which nothing is known.
MOST = 16 << 30
CHUNK = 1 << 18
ALGORITHMS = ("md5", "sha256")


class DownloadError(DataError):
    """A file that could not be had from its address.

    Attributes:
        url: the address.
        problem: what went wrong, a predicate of the address: "cannot be reached (...)".
        unreachable: whether nobody answered there, or the file is not there, so that another address may be tried;
            what an answer was like, or how it ended, is no reason to look elsewhere.
    """

    def __init__(self, url: str, problem: str, unreachable: bool = False) -> None:
        super().__init__(f"{url} {problem}.")
        self.url = url
        self.problem = problem
        self.unreachable = unreachable


class _CutError(Exception):
    """A connection that broke off, or was never made; its text says why."""

    def __init__(self, cause: BaseException | str, answered: bool = True) -> None:
        super().__init__(cause if isinstance(cause, str) else _reason(cause))
        self.answered = answered


class _LateError(Exception):
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
    """Load ``url`` into the file ``target``; a target that is there already is left as it is.

    Args:
        url: http or https.
        target: the file to write; its folder is made.
        checksum: "md5:..." or "sha256:..." of the content, or several with blanks between them, which must all hold.
        content: what the checksum is of.
        size: bytes to expect; what is much larger is refused, and what takes longer than so many bytes at the slowest
            rate and ten minutes is given up (a day where the size is unknown).
        progress: called as bytes come in.

    Raises:
        DownloadError: the address cannot be reached, breaks off again and again, takes too long, or sends other data.
        DataError: the target's folder or disk does not take the file.
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
    with _alone(target, lambda: report(_size(part), None)) as alone:
        if target.is_file():  # the run that we waited for has loaded it
            return target
        if not alone:
            part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
        try:
            most = MOST if size is None else size + size // 20 + SLACK
            seconds = UNKNOWN if size is None else GRACE + size / SLOWEST
            _load(url, part, most, seconds, lambda: fingerprint(part, checksum, content) == checksum, report)
            _verify(url, part, checksum, content)
            with _writing(part):
                os.replace(part, target)
        finally:
            if not alone:
                part.unlink(missing_ok=True)
    return target


def fingerprint(path: Path, like: str, content: Content = "raw") -> str:
    """The checksums of a file's content, by the algorithms of ``like``; "damaged: ..." for a broken gzip wrapper."""
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
    """The algorithms of checksums."""
    found = []
    for one in checksum.split() or [""]:
        algorithm, _, digits = one.partition(":")
        if algorithm not in ALGORITHMS or len(digits) != 2 * hashlib.new(algorithm, usedforsecurity=False).digest_size:
            raise ArgumentError.of(
                "checksum", repr(checksum), "'md5:' or 'sha256:' and as many hexadecimal digits as it has"
            )
        found.append(algorithm)
    return found


def _verify(url: str, part: Path, checksum: str, content: Content) -> None:
    """Check the content, and remove what is wrong: no later run could make it right by going on from there."""
    with _writing(part):
        # On the disk before it has its name: else a crash could leave a whole name with half a content.
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
    """Fill the part to its end, over as many connections as it takes, in so many seconds at the most."""
    failures = 0
    deadline = time.monotonic() + seconds

    def in_time(done: int, total: int | None) -> None:
        report(done, total)
        if (total is None or done < total) and time.monotonic() >= deadline:
            raise _LateError

    while True:
        try:
            if failures:
                in_time(_size(part), None)
            if _attempt(url, part, most, whole, in_time):
                return
            cut = _CutError("asked for the rest, it sent something else")
        except _LateError:
            raise DownloadError(url, f"took longer than {seconds:,.0f} s{_kept(part)}") from None
        except _CutError as problem:
            cut = problem
            # Nobody there at all: being offline should be said at once, not after several pauses.
            if failures == 0 and not cut.answered:
                raise DownloadError(url, f"cannot be reached ({cut})", unreachable=True) from cut
        failures += 1
        if failures > RETRIES:
            raise DownloadError(url, f"broke off {failures} times ({cut}{_kept(part)})") from cut
        time.sleep(min(PAUSE * 2 ** (failures - 1), max(deadline - time.monotonic(), 0.0)))


def _kept(part: Path) -> str:
    """What is said of the bytes that came."""
    return f"; the {_size(part):,} bytes that came are kept, run again to resume" if _size(part) else ""


def _attempt(
    url: str, part: Path, most: int, whole: Callable[[], bool], report: Callable[[int, int | None], None]
) -> bool:
    """One connection.  True if the part is now complete, False if it has to be begun again without what was there."""
    have = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "squad-torch"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with ExitStack() as stack:
            with _hurried() as sockets:
                response = stack.enter_context(_opener(sockets).open(request, timeout=TIMEOUT))
            stack.pop_all()  # closed at the end of the body
    except urllib.error.HTTPError as answer:
        with answer:
            if answer.code == 416 and have:  # nothing beyond what we have: it is all, or it is of another file
                if whole():
                    return True
                part.unlink(missing_ok=True)
                return False
            if answer.code == 429 or answer.code >= 500:
                raise _CutError(f"HTTP {answer.code} {answer.reason}") from answer
            absent = answer.code in (403, 404, 410)
            raise DownloadError(url, f"cannot be had (HTTP {answer.code} {answer.reason})", absent) from answer
    except urllib.error.URLError as cause:
        raise _CutError(cause, answered=False) from cause
    except (OSError, http.client.HTTPException) as cause:
        raise _CutError(cause) from cause
    with response:
        total = None if response.length is None else int(response.length)
        if response.status == 206:
            if _start(response.headers.get("Content-Range", "")) != have:
                part.unlink(missing_ok=True)
                return False
            total = None if total is None else have + total
        else:  # the server knows no ranges, and sends all of it
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
        raise DownloadError(url, f"sends more than the {most:,} bytes that the file may have; what came was removed")


def _copy(
    response: http.client.HTTPResponse,
    file: io.FileIO,
    part: Path,
    have: int,
    total: int | None,
    report: Callable[[int, int | None], None],
) -> Iterator[int]:
    """Append what comes to the file, to the end; gives the bytes that it has so far."""
    report(have, total)
    began, then = time.monotonic(), have
    while total is None or have < total:
        try:
            # read1 gives what has arrived; read would lose it if the connection broke before the chunk was full.
            chunk = response.read1(CHUNK if total is None else min(CHUNK, total - have))
        except (OSError, http.client.HTTPException) as cause:
            raise _CutError(cause) from cause
        if not chunk:
            break
        with _writing(part):
            rest = memoryview(chunk)
            while rest:
                rest = rest[file.write(rest) :]
        have += len(chunk)
        report(have, total)
        yield have
        if (seconds := time.monotonic() - began) >= WINDOW:
            if have - then < SLOWEST * seconds:
                raise _CutError(f"{have - then:,} bytes in {seconds:.0f} s")
            began, then = time.monotonic(), have
    if total is not None and have < total:
        raise _CutError(f"after {have:,} of {total:,} bytes")


def _opened(part: Path, mode: Literal["ab", "wb"]) -> io.FileIO:
    """The part, without a buffer: a full disk is to be noticed at the write, not on closing."""
    with _writing(part):
        return open(part, mode, buffering=0)


@contextmanager
def _hurried() -> Iterator[list[socket.socket]]:
    """Close the connections that are put into the list if an answer has not begun in time.

    The timeout of a socket is of its silence; headers could come byte by byte, each just in time.
    """
    sockets: list[socket.socket] = []
    late = threading.Event()

    def end() -> None:
        late.set()
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(BEGIN, end)
    timer.daemon = True
    timer.start()
    try:
        yield sockets
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():  # headers that were cut off can look like whole ones
        raise _CutError(f"no whole answer in {BEGIN:g} s")


def _opener(sockets: list[socket.socket]) -> urllib.request.OpenerDirector:
    """What opens http and https, through the proxies of the environment, and nothing else even if redirected to it."""

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


def _start(content_range: str) -> int | None:
    """The first byte of an answer to a Range request."""
    found = re.match(r"\s*bytes\s+(\d+)-", content_range)
    return int(found[1]) if found else None


def _size(path: Path) -> int:
    """Bytes of a file, 0 without one."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _reason(cause: BaseException) -> str:
    """Why a connection failed, in one line and without Python's names."""
    if isinstance(cause, urllib.error.URLError):
        return _reason(cause.reason) if isinstance(cause.reason, BaseException) else cause.reason
    if isinstance(cause, TimeoutError):
        return f"no answer for {TIMEOUT:g} s"
    text = (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
    return " ".join(text.split())


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say which file or folder could not be written, and what to do."""
    try:
        yield
    except OSError as cause:
        hint = "Free some space" if cause.errno in (errno.ENOSPC, errno.EDQUOT) else "Make it writable"
        hint += ", or name another folder with --data-dir or SQUAD_DATA."
        raise DataError(f"{path} cannot be written ({_reason(cause)}). {hint}") from cause


@contextmanager
def _alone(target: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock of a target; False where the disk knows no locks."""
    with ExitStack() as stack:
        with _writing(target):
            lock = stack.enter_context(locked(target, waiting))
        yield lock
