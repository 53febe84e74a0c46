"""Exclusive locks on output files and folders."""

import errno
import os
import stat
from pathlib import Path

import pytest

from squad.files import file_lock, locking
from squad.output_paths import OutputError, exclusive_output


def test_a_lock_on_a_removed_file_is_acquired_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The previous holder removes its lock file just before we lock it; another process would create a new one."""
    monkeypatch.setattr(locking, "POLL_SECONDS", 0.01)
    target = tmp_path / "data.bin"
    path, lock, tries = target.with_name(".data.bin.lock"), locking._try_lock, []

    def removed_before_the_first(handle: int) -> bool | None:
        tries.append(handle)
        if len(tries) == 1:
            path.unlink()
        return lock(handle)

    monkeypatch.setattr(locking, "_try_lock", removed_before_the_first)
    with file_lock(target, lambda: None), open(path, "rb") as other:
        assert lock(other.fileno()) is False
    assert len(tries) == 2


def test_waiting_can_be_stopped(tmp_path: Path) -> None:
    def give_up() -> None:
        raise KeyError("busy")

    with file_lock(tmp_path / "a", lambda: None):
        with pytest.raises(KeyError, match="busy"), file_lock(tmp_path / "a", give_up):
            pass
        assert stat.S_IMODE((tmp_path / ".a.lock").stat().st_mode) == 0o666 & ~current_umask()
    assert os.listdir(tmp_path) == []


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_an_unwritable_output_has_its_own_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of a dataset: --data-dir does not help users of --out."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with (
            pytest.raises(OutputError, match="m cannot be written: Permission denied") as caught,
            exclusive_output(tmp_path / "m"),
        ):
            pass
    assert "data-dir" not in str(caught.value)
    with pytest.raises(OutputError, match="cannot be written"), exclusive_output(Path("/sys/kernel/new/m")):
        pass


def test_errors_inside_the_block_are_passed_on(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), exclusive_output(tmp_path / "new" / "m"):
        raise FileNotFoundError("something else")
    assert os.listdir(tmp_path) == []
