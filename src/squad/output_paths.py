"""Output paths: checked, and locked against other processes, before the long work starts."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from squad.errors import SquadError
from squad.files import file_lock

__all__ = ["OutputError", "check_writable", "exclusive_output"]


class OutputError(SquadError):
    """An output path that cannot be written."""


def check_writable(path: Path) -> None:
    """Check that a file can be created at ``path`` by creating one next to it; nothing is left behind."""
    for folder in path.parents:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{path} cannot be written: {folder} is a file. Choose another path.")
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as cause:
        raise OutputError(f"{path} cannot be written: {cause.strerror or cause}. Choose another path.") from cause
    finally:
        _remove_empty(made)


@contextlib.contextmanager
def exclusive_output(path: Path) -> Iterator[None]:
    """Hold a lock on ``path``: of two fits into one folder, one would train in vain."""

    def busy() -> None:
        raise OutputError(f"Another process is writing {path}. Wait for it, or name another folder with --out.")

    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    with contextlib.ExitStack() as stack:
        stack.callback(_remove_empty, made)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(file_lock(path, busy))
        except OSError as cause:
            raise OutputError(f"{path} cannot be written: {cause.strerror or cause}. Choose another path.") from cause
        yield


def _remove_empty(folders: list[Path]) -> None:
    """Remove those folders that are empty, innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
