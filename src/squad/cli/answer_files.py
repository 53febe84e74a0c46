"""Files that commands write: what could stand in the way is found out before the work, not after."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from squad.errors import DataError
from squad.output_paths import OutputError, check_writable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Overwrite", "check_answers", "check_new", "print_answers", "spreadsheet_safe"]

#: What answers can be written as.
ANSWERS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
#: What a cell must not begin with where a spreadsheet opens it: it would be taken for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")]


def check_new(path: Path, overwrite: bool) -> None:
    """That nothing is replaced unasked: the rule of all commands."""
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists. Name another file with --out, or say --overwrite.")


def check_answers(path: Path, data: str, overwrite: bool = False) -> None:
    """That answers to the rows of ``data`` can be written to ``path``."""
    name = path.name.lower()
    if not name.endswith(ANSWERS):
        raise OutputError(f"--out must end in {', '.join(ANSWERS[:-1])} or {ANSWERS[-1]}, got {path}.")
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
    check_new(path, overwrite)
    check_writable(path)


def print_answers(frame: "pd.DataFrame") -> None:
    """Answers as CSV on stdout: as they are for a pipe; on a terminal without what it would obey."""
    from squad.printable import printable

    text = frame.to_csv(index=False, lineterminator="\n")
    if sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(printable(text))
    else:  # the same bytes as in a file
        sys.stdout.flush()
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        while left:  # an unbuffered stream (PYTHONUNBUFFERED) may take a part only
            left = left[sys.stdout.buffer.write(left) or 0 :]
    sys.stdout.flush()


def spreadsheet_safe(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A copy in which no text is a formula to a spreadsheet: an apostrophe stands before those that would be one.

    Numbers stay as they are, also those that are written as text: a spreadsheet takes -1.5 for the number it is.
    """
    import pandas as pd

    from squad.data.cells import parse_numbers

    def safe(cell: object) -> object:
        if not isinstance(cell, str) or not cell.startswith(FORMULA):
            return cell
        # nan: no number, so a formula
        return f"'{cell}" if pd.isna(parse_numbers([cell])[0]) else cell

    found = frame.rename(columns=safe)
    for place in range(frame.shape[1]):
        if not pd.api.types.is_numeric_dtype(frame.dtypes.iloc[place]):
            found.isetitem(place, frame.iloc[:, place].map(safe))
    return found
