"""Files of predictions: checked before the long work, printed and written without surprises."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from squad.errors import DataError
from squad.output_paths import OutputError, check_writable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_answers", "check_not_existing", "print_answers", "spreadsheet_safe"]

#: A spreadsheet takes a cell that begins with one of these for a formula.
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")


def check_not_existing(path: Path, overwrite: bool) -> None:
    """Raise an error if ``path`` exists and may not be replaced; all commands follow this rule.

    Args:
        path: The file or folder to write.
        overwrite: Whether it may be replaced.
    """
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists. Name another file with --out, or pass --overwrite.")


def check_answers(path: Path, data: str, overwrite: bool = False) -> None:
    """Check that the predictions for the rows of ``data`` can be written to ``path``.

    Args:
        path: The file to write.
        data: DATA as given on the command line.
        overwrite: Whether an existing file may be replaced.
    """
    from squad.data.tables import TABLE_SUFFIXES

    name = path.name.lower()
    if not name.endswith(TABLE_SUFFIXES):
        raise OutputError(f"--out must end in {', '.join(TABLE_SUFFIXES[:-1])} or {TABLE_SUFFIXES[-1]}, got {path}.")
    if path.is_dir():
        raise OutputError(f"--out must be a file, but {path} is a folder. Name a file.")
    if path.exists() and Path(data).exists() and path.samefile(data):
        raise OutputError(f"{path} is DATA itself and would be replaced. Name another file with --out.")
    if (path.parent / "model.safetensors").exists():
        raise OutputError(f"{path.parent} is the folder of a model and must not hold other files. Name another folder.")
    if name.endswith(".parquet") and find_spec("pyarrow") is None:
        raise DataError(f"Writing {path} needs pyarrow. Install it with: pip install 'squad-torch[parquet]'")
    check_not_existing(path, overwrite)
    check_writable(path)


def print_answers(frame: "pd.DataFrame") -> None:
    """Print predictions as CSV: unchanged into a pipe, with control characters escaped on a terminal."""
    from squad.printable import printable

    text = frame.to_csv(index=False, lineterminator="\n")
    if sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(printable(text))
    else:  # the same bytes as in a file
        sys.stdout.flush()
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        while left:  # an unbuffered stream (PYTHONUNBUFFERED) may write only a part
            left = left[sys.stdout.buffer.write(left) or 0 :]
    sys.stdout.flush()


def spreadsheet_safe(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a copy whose texts are not formulas to a spreadsheet: an apostrophe precedes those that would be.

    Numbers do not change, even those written as text: a spreadsheet reads -1.5 as the number that it is.

    Args:
        frame: Predictions, with copied columns.

    Returns:
        The copy, with safe column names and cells.
    """
    import pandas as pd

    from squad.data.cells import parse_numbers

    def safe(cell: object) -> object:
        if not isinstance(cell, str) or not cell.startswith(FORMULA_PREFIXES):
            return cell
        is_number = not pd.isna(parse_numbers([cell])[0])
        return cell if is_number else f"'{cell}"

    found = frame.rename(columns=safe)
    for position in range(frame.shape[1]):
        if not pd.api.types.is_numeric_dtype(frame.dtypes.iloc[position]):
            found.isetitem(position, frame.iloc[:, position].map(safe))
    return found
