"""A user's own data: tables from CSV, TSV and Parquet, arrays from NPZ and NPY; and the way back to a file."""

import csv
import gzip
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squad.data import csvs
from squad.data.arrays import Arrays, read_npy, read_npz
from squad.data.cells import MISSING, cell_text, text_cells
from squad.data.names import listed, missing_name
from squad.data.problems import DataError
from squad.errors import ArgumentError
from squad.files import replacing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Arrays", "Table", "groups", "labels", "read", "write"]

#: The kinds of file there are, by the end of their names.
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".npz", ".npy")

#: So many bad lines are named in a message.
SHOWN = 3


@dataclass(frozen=True)
class Table:
    """Rows and named columns.

    Attributes:
        frame: the cells; of CSV each as text, exactly as written, of Parquet in their own types.
        source: what messages call it, such as the file's path.
        unreadable: why a row cannot be read, by its position; such a row stays in place, all its cells missing.
        lines: the line of the file on which each row begins, where it has lines.
    """

    frame: "pd.DataFrame"
    source: str = "table"
    unreadable: Mapping[int, str] = field(default_factory=dict)
    lines: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, frame: "pd.DataFrame", source: str = "table") -> "Table":
        """A data frame as a table: its index is left out, its column names are text, each once."""
        frame = frame.reset_index(drop=True)
        frame.columns = [str(name) for name in frame.columns]
        if twice := sorted(set(frame.columns[frame.columns.duplicated()])):
            raise DataError(f"{source} must have every column once; it has {listed(twice)} several times. Rename them.")
        return cls(frame, source)

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, rows: slice) -> "Table":
        """Some of the rows, one after the other."""
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ArgumentError.of("rows", rows, "a slice without a step")
        return Table(
            self.frame.iloc[start:stop].reset_index(drop=True),
            self.source,
            {row - start: reason for row, reason in self.unreadable.items() if start <= row < stop},
            None if self.lines is None else self.lines[start:stop],
        )

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    def where(self, row: int) -> str:
        """How a message calls a row: by its line in the file, or by its number, from 1."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def column(self, name: str) -> "pd.Series[Any]":
        """One column; an error with the nearest name if there is none."""
        if name not in self.frame.columns:
            raise DataError(f"{self.source} has {missing_name(name, self.columns)}")
        return self.frame[name]


def read(path: str | Path, *, target: str | None = None, strict: bool = True) -> Table | Arrays:
    """A file, by the end of its name: .csv, .tsv (both also .gz), .parquet, .npz or .npy.

    Args:
        path: the file.
        target: the column (in NPZ the array) of labels, which must then be there.
        strict: lines that cannot be read are an error.  If not, each is a row in ``Table.unreadable``.
    """
    path = Path(path)
    kind = next((suffix for suffix in SUFFIXES[::-1] if path.name.lower().endswith(suffix)), None)
    if path.is_dir():
        raise DataError(f"{path} must be a file; it is a folder.")
    if not path.exists():
        raise DataError(f"{path} does not exist{_neighbour(path)}")
    if kind is None:
        raise DataError(f"{path} must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}: that says how to read it.")
    try:
        if not path.stat().st_size:
            raise DataError(f"{path} is empty: it has 0 bytes.")
        if kind == ".npz":
            return read_npz(path, target)
        if kind == ".npy":
            return read_npy(path, target)
        table = _read_parquet(path) if kind == ".parquet" else _read_csv(path, kind)
    except OSError as cause:
        raise DataError(f"{path} cannot be read: {cause.strerror or cause}.") from cause
    if target is not None:
        table.column(target)
    if not len(table):
        raise DataError(f"{path} has a header and no rows.")
    if strict and table.unreadable:
        reasons = list(table.unreadable.values())
        count = "a line" if len(reasons) == 1 else f"{len(reasons)} lines"
        more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
        raise DataError(
            f"{path} has {count} that cannot be read: {'; '.join(reasons[:SHOWN])}{more}. Correct or delete them."
        )
    return table


def labels(data: Table | Arrays, target: str | None = None, *, strict: bool = True) -> NDArray[np.object_]:
    """The labels as text (N,): as written, without surrounding blanks; 5 and 5.0 of typed columns are both "5".

    A missing label is an error, or "" if not ``strict``.
    """
    if isinstance(data, Table):
        if target is None:
            raise DataError(f"A target must be named for {data.source}: {listed(data.columns)}.")
        found = _texts(data.column(target))
    elif data.y is None:
        raise DataError(f"{data.source} has no labels. Write an NPZ file with the arrays x and y.")
    else:
        found = np.asarray([cell_text(value) or "" for value in data.y], dtype=object)
    missing = np.flatnonzero(found == "")
    if strict and len(missing):
        rows = "A label is" if len(missing) == 1 else f"{len(missing)} labels are"
        raise DataError(
            f"{rows} missing in {data.source}, the first in {data.where(missing[0])}. Delete such rows, or name the"
            f" class if it is one; missing is what is empty or reads {listed(sorted(MISSING - {''}))}."
        )
    return found


def groups(table: Table, column: str) -> NDArray[np.object_]:
    """The group of each row as text (N,), by the rules of :func:`labels`; a missing one is an error."""
    found = _texts(table.column(column))
    missing = np.flatnonzero(found == "")
    if len(missing):
        raise DataError(
            f"Every row must have a group; column {column!r} of {table.source} is empty in {len(missing)} of"
            f" {len(found)}, the first in {table.where(missing[0])}. Fill it in, or delete such rows."
        )
    return found


def write(frame: "pd.DataFrame", path: str | Path) -> Path:
    """A data frame as CSV, TSV (both also .gz) or Parquet, by the end of the name; whole or not at all.

    Text cells are written so that :func:`read` finds them as they were.
    """
    path = Path(path)
    name = path.name.lower()
    if not name.endswith(SUFFIXES[:5]):
        raise DataError(f"{path} must end in {', '.join(SUFFIXES[:4])} or {SUFFIXES[4]}: that says how to write it.")
    if name.endswith(".parquet"):
        _need_pyarrow(path, "written")
    try:
        with replacing(path) as file:
            if name.endswith(".parquet"):
                frame.to_parquet(file, index=False, engine="pyarrow")
            else:
                _write_csv(frame, file, name)
    except OSError as cause:
        raise DataError(f"{path} cannot be written: {cause.strerror or cause}.") from cause
    return path


def _write_csv(frame: "pd.DataFrame", file: Any, name: str) -> None:
    # Python's writer leaves a lone carriage return bare, and a blank line would be no row: quotes around everything.
    texts = (frame[column] for column in frame.columns if frame[column].dtype.kind == "O")
    returns = any(text.astype(str).str.contains("\r", regex=False).any() for text in texts)
    everything = returns or len(frame.columns) == 1
    frame.to_csv(
        file,
        index=False,
        sep="\t" if ".tsv" in name[-7:] else ",",
        lineterminator="\n",
        encoding="utf-8",
        quoting=csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL,
        # No time in the file: the same cells are the same bytes.
        compression={"method": "gzip", "mtime": 0} if name.endswith(".gz") else None,
    )


def _texts(column: "pd.Series[Any]") -> NDArray[np.object_]:
    """A column as text, "" where missing."""
    cells = text_cells(column)
    return np.asarray([*cells.values, ""], dtype=object)[cells.codes]


def _neighbour(path: Path) -> str:
    """What could be read in the same folder."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.name.lower().endswith(SUFFIXES)]
    except OSError:
        return f": there is no folder {path.parent}."
    return f". Its folder has {listed(sorted(names), 5)}." if names else "."


def _read_csv(path: Path, kind: str) -> Table:
    try:
        data = gzip.decompress(path.read_bytes()) if kind.endswith(".gz") else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as cause:
        raise DataError(f"{path} must be compressed with gzip; it is not, or is cut off ({cause}).") from cause
    parsed = csvs.parse(data, str(path), "\t" if kind.startswith(".tsv") else None)
    return Table(parsed.frame, str(path), parsed.unreadable, parsed.lines)


def _need_pyarrow(path: Path, done: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise DataError(
            f"{path} cannot be {done}: Parquet needs pyarrow. Install it with: pip install 'squad-torch[parquet]'"
        ) from None


def _read_parquet(path: Path) -> Table:
    _need_pyarrow(path, "read")
    import pyarrow
    from pyarrow import parquet

    try:
        stored = parquet.ParquetFile(path).read()
    except (pyarrow.ArrowException, OSError, ValueError) as cause:
        reason = str(cause).splitlines()[0][:120] if str(cause) else type(cause).__name__
        raise DataError(f"{path} must be a Parquet file; it is none, or damaged: {reason}") from cause
    if not stored.column_names:
        raise DataError(f"{path} has no columns.")
    # pandas' own index, which it hides in such columns: no data.
    hidden = [name for name in stored.column_names if re.fullmatch(r"__index_level_\d+__", name)]
    return Table.of(stored.drop_columns(hidden).to_pandas(ignore_metadata=True), str(path))
