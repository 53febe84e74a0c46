"""Downloads from a local server that breaks connections, stalls and sends wrong data."""

import gzip
import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squad.data import download as module
from squad.data.download import DownloadError, download, fingerprint
from squad.errors import ArgumentError, DataError
from squad.files import locking
from tests.data.site import Site, serve
from tests.needs import need

BODY = bytes(range(256)) * 400 + b"the end"
SUM = "sha256:" + hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(locking, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "CHUNK", 1 << 12)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(Site(files={"data.bin": BODY})) as running:
        yield running


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "new" / "data.bin"


def only(target: Path) -> bool:
    """Tell whether the target is complete and no other file is left."""
    return target.read_bytes() == BODY and os.listdir(target.parent) == [target.name]


def test_a_complete_file(site: Site, target: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    assert download(site.url("data.bin"), target, SUM, progress=lambda *now: seen.append(now)) == target
    assert only(target)
    assert seen[0] == ("data.bin", 0, len(BODY))
    assert seen[-1] == ("data.bin", len(BODY), len(BODY))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_an_existing_file_is_not_downloaded_again(site: Site, target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(b"mine")
    download(site.url("data.bin"), target, SUM)
    assert target.read_bytes() == b"mine"
    assert not site.requests


def test_without_a_length_the_size_is_the_total(site: Site, target: Path) -> None:
    site.lengths = False
    totals: set[int | None] = set()
    download(site.url("data.bin"), target, SUM, size=100_000, progress=lambda name, done, total: totals.add(total))
    assert only(target)
    assert totals == {100_000}


def test_a_broken_connection_is_resumed(site: Site, target: Path) -> None:
    site.cuts = [1000, 0, 50_000]
    download(site.url("data.bin"), target, SUM)
    assert only(target)
    assert [wanted for _, wanted in site.requests] == [None, "bytes=1000-", "bytes=1000-", "bytes=51000-"]


def test_a_server_without_ranges_starts_over(site: Site, target: Path) -> None:
    site.cuts, site.ranges = [60_000], False
    done: list[int] = []
    download(site.url("data.bin"), target, SUM, progress=lambda name, now, total: done.append(now))
    assert only(target)
    assert done.count(0) == 2


def test_a_range_that_begins_elsewhere_starts_over(site: Site, target: Path) -> None:
    site.cuts, site.shift = [1000], 5
    download(site.url("data.bin"), target, SUM)
    assert only(target)
    assert [wanted for _, wanted in site.requests] == [None, "bytes=1000-", None]


def test_the_partial_file_is_kept_after_the_last_retry(site: Site, target: Path) -> None:
    site.cuts = [1000] * 10
    with pytest.raises(
        DownloadError, match=r"broke off 5 times \(after 5,000 of 102,407 bytes; 5,000 bytes were kept, run again"
    ):
        download(site.url("data.bin"), target, SUM)
    assert os.listdir(target.parent) == ["data.bin.part"]
    site.cuts = []
    download(site.url("data.bin"), target, SUM)
    assert only(target)
    assert site.requests[-1][1] == "bytes=5000-"


def test_a_silent_connection_counts_as_broken(site: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    monkeypatch.setattr(module, "RETRIES", 1)
    site.stall = 7000
    with pytest.raises(DownloadError, match=r"broke off 2 times \(no response for 0.1 s; 7,000 bytes"):
        download(site.url("data.bin"), target, SUM)
    site.stall = None
    download(site.url("data.bin"), target, SUM)
    assert only(target)


@pytest.mark.parametrize("garbage", [b"", b"x" * 50])
def test_a_complete_partial_file_is_used(site: Site, target: Path, garbage: bytes) -> None:
    """A download killed between the last byte and the rename; with appended garbage it starts over."""
    target.parent.mkdir()
    target.with_name("data.bin.part").write_bytes(BODY + garbage)
    download(site.url("data.bin"), target, SUM)
    assert only(target)
    assert len(site.requests) == (2 if garbage else 1)


@pytest.mark.parametrize("start", [b"", b"not what the publisher has"])
def test_wrong_content_is_removed(site: Site, target: Path, start: bytes) -> None:
    """Wrong data from the server, or a partial file of another file."""
    target.parent.mkdir()
    if start:
        target.with_name("data.bin.part").write_bytes(start)
    else:
        site.files["data.bin"] = BODY[:-1] + b"?"
    with pytest.raises(DownloadError, match=rf"sent the wrong data \(102,407 bytes, .* instead of {SUM}\).* removed"):
        download(site.url("data.bin"), target, SUM)
    assert os.listdir(target.parent) == []


def test_the_checksum_of_a_gzip_file_is_that_of_its_content(site: Site, target: Path) -> None:
    packed = gzip.compress(BODY, mtime=1), gzip.compress(BODY, compresslevel=1, mtime=2)
    for number, body in enumerate(packed):
        site.files["data.gz"] = body
        download(site.url("data.gz"), target.with_name(f"{number}.gz"), SUM, "gzip")
    site.files["data.gz"] = packed[0][:-9]
    with pytest.raises(DownloadError, match=r"of the unpacked content damaged: .* instead of sha256"):
        download(site.url("data.gz"), target.with_name("short.gz"), SUM, "gzip")
    assert sorted(os.listdir(target.parent)) == ["0.gz", "1.gz"]


def test_fingerprints(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert fingerprint(path, "md5:" + "0" * 32) == "md5:900150983cd24fb0d6963f7d28e17f72"
    assert fingerprint(path, SUM, "gzip").startswith("damaged: Not a gzipped file")


def test_several_checksums_must_all_match(site: Site, target: Path) -> None:
    md5 = "md5:" + hashlib.md5(BODY).hexdigest()
    download(site.url("data.bin"), target, f"{md5} {SUM}")
    assert only(target)
    target.unlink()
    with pytest.raises(DownloadError, match="sent the wrong data"):
        download(site.url("data.bin"), target, f"{md5} sha256:{'0' * 64}")
    with pytest.raises(ArgumentError, match="checksum must be"):
        download(site.url("data.bin"), target, f"{md5} sha256:12")


@pytest.mark.parametrize("lengths", [True, False])
def test_a_body_much_larger_than_expected_is_refused(site: Site, target: Path, lengths: bool) -> None:
    """Before the download if the length is known, otherwise at the first excess byte."""
    site.files["data.bin"] = bytes(10_000_000)
    site.lengths = lengths
    seen: list[int] = []
    with pytest.raises(DownloadError, match=r"sends more than .* 170,536 bytes"):
        download(site.url("data.bin"), target, SUM, size=100_000, progress=lambda name, done, total: seen.append(done))
    assert os.listdir(target.parent) == []
    assert max(seen, default=0) <= (0 if lengths else 170_536 + module.CHUNK)
    assert len(site.requests) == 1


def test_an_endless_body(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 50_000)
    with serve(Site(endless=True)) as site, pytest.raises(DownloadError, match=r"sends more than .* 50,000 bytes"):
        download(site.url("data.bin"), target, SUM)
    assert os.listdir(target.parent) == []


def test_a_slow_connection_counts_as_broken(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that sends a few bytes at a time without end."""
    for name, value in (("RATE_WINDOW", 0.2), ("RETRIES", 1)):
        monkeypatch.setattr(module, name, value)
    with serve(Site(files={"data.bin": BODY}, drip=0.01)) as site:
        began = time.monotonic()
        with pytest.raises(DownloadError, match=r"broke off 2 times \([0-9]+ bytes in 0 s; .* bytes were kept"):
            download(site.url("data.bin"), target, SUM)
        assert time.monotonic() - began < 5
        site.drip = None
        download(site.url("data.bin"), target, SUM)
    assert only(target)


def test_slow_headers(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HEADER_TIMEOUT", 0.2), ("RETRIES", 1)):
        monkeypatch.setattr(module, name, value)
    with serve(Site(files={"data.bin": BODY}, slow_headers=True)) as site:
        began = time.monotonic()
        with pytest.raises(DownloadError, match=r"broke off 2 times \(no complete response in 0.2 s"):
            download(site.url("data.bin"), target, SUM)
        assert time.monotonic() - began < 5


def test_a_decompression_bomb_is_refused(site: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUAD_MAX_UNPACKED", "1M")
    site.files["data.gz"] = gzip.compress(bytes(2 << 20))
    with pytest.raises(DownloadError, match="damaged: it unpacks to more than 1,048,576 bytes"):
        download(site.url("data.gz"), target, SUM, "gzip")
    assert os.listdir(target.parent) == []


def test_404_is_not_retried(site: Site, target: Path) -> None:
    with pytest.raises(DownloadError, match=r"/nothing cannot be downloaded \(HTTP 404 Not Found\)\.$"):
        download(site.url("nothing"), target, SUM)
    assert len(site.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_retried(site: Site, target: Path, status: int) -> None:
    site.statuses = [status, status]
    download(site.url("data.bin"), target, SUM)
    assert only(target)


def test_an_unreachable_server_is_reported_at_once(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 60)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound but not listening: refused, and nobody else can take the port
        url = f"http://127.0.0.1:{free.getsockname()[1]}/data.bin"
        with pytest.raises(DownloadError, match=re.escape(f"{url} cannot be reached (Connection refused).")):
            download(url, target, SUM)
    assert os.listdir(target.parent) == []


def test_only_http_and_https(site: Site, target: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(BODY)
    with pytest.raises(ArgumentError, match="url must be an http or https address, got 'file:"):
        download(secret.as_uri(), target, SUM)
    for elsewhere, why in (
        (secret.as_uri(), r"cannot be downloaded \(HTTP 302 .* is not allowed\)"),
        ("ftp://127.0.0.1/data.bin", r"cannot be reached \(unknown url type: ftp\)"),
    ):
        site.redirect = elsewhere
        with pytest.raises(DownloadError, match=why):
            download(site.url("data.bin"), target, SUM)
    assert not target.exists()


@pytest.mark.parametrize("checksum", ["", "md5:", "md5:12", SUM[7:], "crc:12345678"])
def test_a_checksum_is_needed(checksum: str, target: Path) -> None:
    with pytest.raises(ArgumentError, match="checksum must be 'md5:' or 'sha256:'"):
        download("http://127.0.0.1/", target, checksum)


def test_a_folder_that_cannot_be_made(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file/new cannot be written \(Not a directory\). .* --data-dir or SQUAD_DATA"):
        download(site.url("data.bin"), tmp_path / "file" / "new" / "data.bin", SUM)


def test_a_full_disk(site: Site, target: Path) -> None:
    need(os.path.exists("/dev/full"), "/dev/full")
    target.parent.mkdir()
    target.with_name("data.bin.part").symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"part cannot be written \(No space left on device\). Free some space, or"):
        download(site.url("data.bin"), target, SUM)
    assert not target.exists()


def together(site: Site, target: Path, count: int) -> list[BaseException]:
    """Several simultaneous downloads of one file; the server waits until all have begun."""
    errors: list[BaseException] = []
    waiting = threading.Barrier(count + 1)

    def one() -> None:
        waiting.wait(10)
        try:
            download(site.url("data.bin"), target, SUM)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    site.stall = 10_000
    waiting.wait(10)
    time.sleep(0.1)
    site.go.set()
    for thread in threads:
        thread.join(20)
    return errors


def test_simultaneous_downloads_share_one_transfer(site: Site, target: Path) -> None:
    assert together(site, target, 4) == []
    assert only(target)
    assert len(site.requests) == 1


def test_simultaneous_downloads_without_file_locks(site: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "_try_lock", lambda handle: None)
    assert together(site, target, 3) == []
    assert only(target)
    assert len(site.requests) == 3


def test_resuming_after_a_killed_process(site: Site, target: Path) -> None:
    """After SIGKILL, the lock is released, and the partial file is resumed."""
    site.stall = 10_000
    code = "import sys, pathlib; from squad.data.download import download; "
    code += "download(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])"
    run = subprocess.Popen([sys.executable, "-c", code, site.url("data.bin"), str(target), SUM])
    part = target.with_name("data.bin.part")
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size == 10_000) and time.monotonic() < deadline:
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert sorted(os.listdir(target.parent)) == [".data.bin.lock", "data.bin.part"]
    site.stall = None
    download(site.url("data.bin"), target, SUM)
    assert only(target)
    assert [wanted for _, wanted in site.requests] == [None, "bytes=10000-"]


def test_a_file_has_a_deadline_over_all_connections(site: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate window has not passed yet, but the file as a whole takes too long."""
    monkeypatch.setattr(module, "MIN_RATE", 2000)
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)
    site.files["data.bin"] = BODY[:400]
    site.drip, site.cuts = 0.005, [10, 10, 10]
    checksum = "sha256:" + hashlib.sha256(BODY[:400]).hexdigest()
    began = time.monotonic()
    with pytest.raises(DownloadError, match=r"longer than 0 s.* bytes were kept") as error:
        download(site.url("data.bin"), target, checksum, size=400)
    assert time.monotonic() - began < 1.5
    assert not error.value.unreachable
    kept = target.with_name("data.bin.part").stat().st_size
    assert 0 < kept < 400
    site.drip = None
    download(site.url("data.bin"), target, checksum, size=400)
    assert target.read_bytes() == BODY[:400]
    assert site.requests[-1] == ("data.bin", f"bytes={kept}-")


@pytest.mark.parametrize("size", [None, 182_040_794])
def test_the_deadline_allows_the_minimum_rate(
    site: Site, target: Path, monkeypatch: pytest.MonkeyPatch, size: int | None
) -> None:
    seconds: list[float] = []
    load = module._load

    def noted(*all_of: Any) -> None:
        seconds.append(all_of[3])
        load(*all_of)

    monkeypatch.setattr(module, "_load", noted)
    download(site.url("data.bin"), target, SUM, size=size)
    assert seconds == [86_400 if size is None else pytest.approx(600 + size / 2048)]


def test_a_server_that_sends_other_ranges(site: Site, target: Path) -> None:
    """The server responds to every request with another range."""
    site.partial = True
    with pytest.raises(DownloadError, match="broke off 5 times"):
        download(site.url("data.bin"), target, SUM)
    assert len(site.requests) == 5
    assert not target.exists()
