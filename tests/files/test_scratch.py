"""Scratch files of killed processes are removed by the next write."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from squad.files import scratch, write_text
from squad.files.scratch import backup_path, remove_abandoned, scratch_path
from squad.processes import host_id, start_time_of
from tests.files.faults import in_child

ROWS = {"rows": {"rows": torch.arange(5)}}


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_scratch_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    """Killed with SIGKILL while it writes."""
    target = tmp_path / "rows.csv"
    write_text(target, "old")
    code = """
import sys, time
from squad.files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"patients")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"writing\n"
        assert len(names(tmp_path)) == 2
        write_text(target, "while it lives")
        assert len(names(tmp_path)) == 2  # scratch of a running process stays
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert len(names(tmp_path)) == 2
    assert target.read_text() == "while it lives"
    write_text(target, "new")
    assert names(tmp_path) == ["rows.csv"]


def test_killed_at_every_event_of_a_write(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")
    code, events = in_child(lambda: write_text(target, "new"))
    assert (code, target.read_text()) == (0, "new")
    assert events >= 4
    for at in range(1, events + 1):
        write_text(target, "old")
        assert names(tmp_path) == ["a.txt"]
        code, _ = in_child(lambda: write_text(target, "new"), at)
        assert code == -signal.SIGKILL
        assert target.read_text() in ("old", "new")
    write_text(target, "last")
    assert names(tmp_path) == ["a.txt"]


def test_only_scratch_of_ended_processes_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.csv"
    pid = os.getpid()
    mine = scratch_path(target)
    host, birth = host_id(), start_time_of(pid)
    assert mine.name.startswith(f".a.csv.{host}-{pid}-{birth}-")
    stays = [
        mine,
        tmp_path / f".a.csv.{'0' * 8}-{pid}-{birth}-00000000.scratch",  # another machine
        tmp_path / f".a.csv.{host}-1-{start_time_of(1)}-00000000.scratch",  # a running process
        scratch_path(tmp_path / "b.csv"),
        tmp_path / f".a.csvx.{host}-999999999-{birth}-00000000.scratch",
        tmp_path / ".a.csv.lock",
        tmp_path / f"a.csv.{host}-999999999-{birth}-00000000.scratch",
    ]
    goes = [
        tmp_path / f".a.csv.{host}-999999999-{birth}-00000000.scratch",  # no process has this id
        tmp_path / f".a.csv.{host}-{pid}-ffffffff-00000000.scratch",  # an earlier process had this id
    ]
    for path in stays + goes:
        path.write_text("x")
    remove_abandoned(target)
    assert names(tmp_path) == sorted(path.name for path in stays)
    # No write takes a day.
    past = time.time() - 2 * scratch.FOREIGN_SECONDS
    os.utime(stays[1], (past, past))
    remove_abandoned(target)
    assert names(tmp_path) == sorted(path.name for path in stays if path != stays[1])


def test_a_symbolic_link_is_removed_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    link = tmp_path / f".a.{host_id()}-999999999-{'0' * 8}-00000000.scratch"
    link.symlink_to(tmp_path / "precious")
    remove_abandoned(tmp_path / "a")
    assert not link.is_symlink()
    assert (tmp_path / "precious" / "file").exists()


def test_a_target_moved_aside_is_restored(tmp_path: Path) -> None:
    target = tmp_path / "model"
    dead = tmp_path / f".model.{host_id()}-999999999-{'0' * 8}-00000000.scratch"
    aside = backup_path(dead)
    aside.mkdir()
    (aside / "old").write_text("x")
    dead.mkdir()
    remove_abandoned(target)
    assert names(tmp_path) == ["model"]
    assert names(target) == ["old"]
    aside.mkdir()
    remove_abandoned(target)  # removed, since the target exists
    assert names(tmp_path) == ["model"]


def test_a_missing_folder_is_ignored(tmp_path: Path) -> None:
    remove_abandoned(tmp_path / "no" / "such")
