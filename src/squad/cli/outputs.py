"""Files of answers: what could stand in the way of writing them is found out before the work, not after."""

from importlib.util import find_spec
from pathlib import Path

from squad.data.problems import DataError
from squad.outputs import OutputError, check_writable

__all__ = ["check_answers"]

#: What answers can be written as.
ANSWERS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


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
