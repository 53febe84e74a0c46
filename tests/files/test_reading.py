"""Bounded reading of regular files."""

import errno
import io
import os
import threading
from pathlib import Path

import pytest

from squad.files import Unpacking, open_regular, read_bytes, read_text
from squad.files.reading import LIMIT, UNPACKED_BYTES, UNPACKED_TIMES


def test_regular_files(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("é")
    assert read_text(path) == "é"
    assert read_bytes(path, 2) == b"\xc3\xa9"
    with pytest.raises(OSError, match=r"has 2 bytes, .* 1$"):
        read_bytes(path, 1)
    (tmp_path / "link").symlink_to(path)
    assert read_text(tmp_path / "link") == "é"


@pytest.mark.parametrize("what", ["pipe", "device", "folder", "link"])
def test_other_files_are_refused_at_once(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a"
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to("/dev/zero")
    else:
        path = Path("/dev/zero")
    with pytest.raises(OSError, match="not a regular file but a") as caught:
        read_bytes(path)
    assert caught.value.errno == errno.EINVAL
    assert "not a regular file" in (caught.value.strerror or "")


def test_a_file_with_a_reported_size_of_zero() -> None:
    """Files of /proc report 0 bytes: the limit applies to the bytes read."""
    with pytest.raises(OSError, match=r"11 bytes, more than .* 10$"):
        read_bytes("/proc/self/status", 10)


def test_pipes_are_read_on_request(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Timer(0.05, lambda: path.write_bytes(b"later"))
    writer.start()
    with open_regular(path, pipes=True) as file:
        assert file.read() == b"later"
    writer.join()
    with pytest.raises(OSError, match="a device"), open_regular("/dev/zero", pipes=True):
        pass


def test_limits_on_decompressed_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LIMIT, raising=False)
    assert Unpacking.of(10).most == UNPACKED_BYTES
    assert Unpacking.of(10**9).most == UNPACKED_TIMES * 10**9
    for text, most in [("1000", 1000), ("2K", 2048), ("1.5 m", 3 << 19), ("4GiB", 4 << 30), ("1TB", 1 << 40)]:
        monkeypatch.setenv(LIMIT, text)
        assert Unpacking.of(10).most == most
    for text in ("much", "-1", "1e9", "9" * 40):
        monkeypatch.setenv(LIMIT, text)
        with pytest.raises(OSError, match=f"{LIMIT} must be a number"):
            Unpacking.of(10)
    monkeypatch.setenv(LIMIT, "100")
    assert Unpacking.of(3).read(io.BytesIO(b"x" * 100)) == b"x" * 100
    with pytest.raises(OSError, match=f"more than 100 bytes, from 3.*{LIMIT}"):
        Unpacking.of(3).read(io.BytesIO(b"x" * 101))
