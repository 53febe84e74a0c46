"""Places where something is to be written: what could stand in the way is found out before the work, not after."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from squad.errors import SquadError
from squad.files import locked

__all__ = ["OutputError", "check_writable", "exclusive_output"]


class OutputError(SquadError):
    """A place where nothing can be written."""


def check_writable(path: Path) -> None:
    """That something can be made at ``path``: it is tried beside it, and nothing is left behind."""
    for folder in path.parents:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{path} cannot be written: {folder} is a file. Name another place.")
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as cause:
        raise OutputError(f"{path} cannot be written: {cause.strerror or cause}. Name another place.") from cause
    finally:
        _remove_empty(made)


@contextlib.contextmanager
def exclusive_output(path: Path) -> Iterator[None]:
    """Be the only one who makes ``path``: two fits into one folder would train, and one of them in vain."""

    def busy() -> None:
        raise OutputError(f"Another command is making {path}. Wait for it, or name another folder with --out.")

    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    with contextlib.ExitStack() as stack:
        stack.callback(_remove_empty, made)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(path, busy))
        except OSError as cause:
            raise OutputError(f"{path} cannot be written: {cause.strerror or cause}. Name another place.") from cause
        yield


def _remove_empty(folders: list[Path]) -> None:
    """Those that nothing was put into, innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
