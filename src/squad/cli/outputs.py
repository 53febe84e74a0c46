"""Files that commands write: what could stand in the way is found out before the work, not after."""

import contextlib
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from squad.data.problems import DataError
from squad.errors import SquadError

__all__ = ["OutputError", "check_answers", "check_writable", "claimed"]

#: What answers can be written as.
ANSWERS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


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
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Be the only one who makes ``path``: two fits into one folder would train, and one of them in vain."""
    from squad.data.download import alone

    def busy() -> None:
        raise OutputError(f"Another command is making {path}. Wait for it, or name another folder with --out.")

    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with alone(path, busy):
            yield
    finally:
        for folder in made:  # those that stayed empty
            with contextlib.suppress(OSError):
                folder.rmdir()


def check_answers(path: Path, data: str) -> None:
    """That answers to the rows of ``data`` can be written to ``path``."""
    name = path.name.lower()
    if not name.endswith(ANSWERS):
        raise OutputError(f"--out must end in {', '.join(ANSWERS[:-1])} or {ANSWERS[-1]}; got {path}.")
    if path.is_dir():
        raise OutputError(f"--out must be a file; {path} is a folder.")
    if path.exists() and Path(data).exists() and path.samefile(data):
        raise OutputError(f"{path} holds the rows to answer, and would be replaced. Name another file.")
    if (path.parent / "model.safetensors").exists():
        raise OutputError(f"{path.parent} is the folder of a model, which holds nothing else. Name another folder.")
    if name.endswith(".parquet") and find_spec("pyarrow") is None:
        raise DataError(
            f"{path} cannot be written: Parquet needs pyarrow. Install it with: pip install 'squad-torch[parquet]'"
        )
    check_writable(path)
