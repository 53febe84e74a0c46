"""Atomic writing: complete or unchanged files, with the permissions that the umask allows."""

import errno
import gzip
import json
import os
import resource
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from squad import artifact
from squad.data import tables
from squad.data.arrays import Arrays
from squad.errors import DataError
from squad.files import atomic_write, write_bytes, write_json, write_text
from squad.records import Record
from squad.selective.certificate import Certificate, CertificateError
from squad.selective.certify import certify
from squad.train import checkpoint
from tests.files.faults import in_child

FRAME = pd.DataFrame({"id": ["a", "b"], "y": [1, 2]})


def certificate() -> Certificate:
    return certify(np.linspace(0, 1, 200), np.zeros(200, dtype=bool), risk=0.05)


#: All functions that write files, by the name of a file they write.
WRITERS: dict[str, Callable[[Path], Any]] = {
    "record.json": lambda path: Record("test", "one", {}, 1).save(path),
    "table.csv": lambda path: tables.write(FRAME, path),
    "table.tsv.gz": lambda path: tables.write(FRAME, path),
    "table.parquet": lambda path: tables.write(FRAME, path),
    "arrays.npz": lambda path: tables.write_all({path: Arrays(np.zeros((2, 2)), None)}),
    "run.ckpt": lambda path: checkpoint.write(path, {"a": torch.zeros(2)}, {}, "f"),
    "certificate.json": lambda path: certificate().save(path),
    "trials.csv": lambda path: write_text(path, "number\n"),
    "model": lambda path: artifact.save(path, {"a": torch.zeros(2)}, {}, overwrite=True, extras={"rows": {}}),
}


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)

    def change(mask: int) -> None:
        os.umask(mask)

    yield change
    os.umask(before)


def modes(path: Path) -> set[int]:
    inside = sorted(path.rglob("*")) if path.is_dir() else []
    return {stat.S_IMODE(one.stat().st_mode) for one in (inside or [path])}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o027, 0o640), (0o002, 0o664)])
def test_new_files_respect_the_umask(
    name: str, mask: int, mode: int, tmp_path: Path, umask: Callable[[int], None]
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    umask(mask)
    WRITERS[name](tmp_path / name)
    assert modes(tmp_path / name) == {mode}


@pytest.mark.parametrize("name", WRITERS)
def test_replaced_files_keep_their_permissions(name: str, tmp_path: Path, umask: Callable[[int], None]) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    WRITERS[name](path)
    for file in path.iterdir() if path.is_dir() else [path]:
        file.chmod(0o600)
    if path.is_dir():
        path.chmod(0o2750)
    WRITERS[name](path)
    assert modes(path) == {0o600}
    assert not path.is_dir() or stat.S_IMODE(path.stat().st_mode) & 0o777 == 0o750
    assert os.listdir(tmp_path) == [name]


def test_scratch_files_are_as_private_as_the_target(tmp_path: Path, umask: Callable[[int], None]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("old")
    path.chmod(0o600)
    with atomic_write(path) as file:
        (scratch,) = set(tmp_path.iterdir()) - {path}
        assert modes(scratch) == {0o600}
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_an_exception_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def interrupted() -> None:
        with atomic_write(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def full_disk(work: Callable[[], Any], most: int) -> tuple[int, int]:
    """Run ``work`` in a process that may write at most ``most`` bytes to a file, like on a full disk."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        work()

    return in_child(limited)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file(name: str, tmp_path: Path) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    WRITERS[name](path)

    def content() -> dict[str, bytes]:
        return {str(file): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    before = content()
    code, _ = full_disk(lambda: WRITERS[name](path), 3)
    assert code in (3, 4)
    assert content() == before
    code, _ = full_disk(lambda: WRITERS[name](path), 1 << 20)
    assert code == 0


def test_a_full_disk_while_saving_a_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.json"
    made = certificate()
    made.save(path)
    with monkeypatch.context() as patch:

        def full(handle: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(os, "fsync", full)
        with pytest.raises(CertificateError, match=r"c\.json cannot be written: No space left"):
            made.save(path)
    assert Certificate.load(path) == made
    assert os.listdir(tmp_path) == ["c.json"]


def test_the_target_of_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "real.txt"
    real.write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    write_text(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_devices_and_pipes_are_written_to_directly(tmp_path: Path) -> None:
    write_text("/dev/null", "anything")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_text(pipe, "through")
    reader.join(10)
    assert found == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path, "x")
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        tables.write(FRAME, tmp_path / "x.csv")


def test_long_names(tmp_path: Path) -> None:
    for name in ("n" * 255, "é" * 120):
        write_bytes(tmp_path / name, b"1")
        write_bytes(tmp_path / name, b"2")
        assert (tmp_path / name).read_bytes() == b"2"
    assert len(os.listdir(tmp_path)) == 2


def test_json_preserves_any_text(tmp_path: Path) -> None:
    data = {"label": "caf\udce9", "é": [1.5, None, True]}
    path = write_json(tmp_path / "a.json", data)
    assert path.read_bytes().isascii()
    assert json.loads(path.read_text()) == data
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, float("nan"))
    assert json.loads(path.read_text()) == data


def test_gzip_output_is_reproducible(tmp_path: Path) -> None:
    path = tables.write(FRAME, tmp_path / "a.csv.gz")
    first = path.read_bytes()
    assert tables.write(FRAME, path).read_bytes() == first
    assert gzip.decompress(first) == b"id,y\na,1\nb,2\n"
