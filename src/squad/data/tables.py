"""Read tables (CSV, TSV, Parquet) and arrays (NPZ, NPY), and write them."""

import csv
import errno
import gzip
import io
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squad.data import csv_reader, parquet
from squad.data.arrays import Arrays, read_npy, read_npz
from squad.data.cells import MISSING, cell_text, text_cells
from squad.data.column_names import check_texts, format_names, unknown_name_message
from squad.data.decimals import DECIMALS, to_points
from squad.errors import ArgumentError, DataError
from squad.files import Unpacking, atomic_write_all, open_regular
from squad.files.reading import LIMIT

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Arrays", "Table", "groups", "labels", "read", "write", "write_all"]

#: File name endings of text tables, of all tables (read and written), and of everything that is read.
TEXT_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TABLE_SUFFIXES = (*TEXT_SUFFIXES, ".parquet")
SUFFIXES = (*TABLE_SUFFIXES, ".npz", ".npy")

#: Maximum number of malformed lines described in an error message.
MAX_LINES_SHOWN = 3

#: Names of standard input.
STDIN_NAMES = ("-", "/dev/stdin")

#: Maximum number of bytes read from a pipe, unless the environment variable raises the limit.
MAX_STREAM_BYTES = 1 << 30


@dataclass(frozen=True)
class Table:
    """Rows and named columns.

    Attributes:
        frame: The cells: from CSV as text, exactly as written; from Parquet with their own types.
        source: Name in messages, such as the file's path.
        unreadable: Why rows are malformed, by position; such a row stays in place with all cells missing.
        lines: (N,), line of the file on which each row begins, counted from 1; None for files without lines.

    Examples:
        >>> import pandas as pd
        >>> table = Table.of(pd.DataFrame({"age": [20, 40], "ill": ["no", "yes"]}))
        >>> len(table), table.columns
        (2, ['age', 'ill'])
    """

    frame: "pd.DataFrame"
    source: str = "table"
    unreadable: Mapping[int, str] = field(default_factory=dict)
    lines: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, frame: "pd.DataFrame", source: str = "table") -> "Table":
        """Convert a data frame to a table; its index is dropped, and its column names are converted to text.

        Args:
            frame: The data frame.
            source: Name in messages.

        Returns:
            The table.

        Raises:
            DataError: Column names are not unique as text.
        """
        frame = frame.reset_index(drop=True)
        check_texts("Column names", frame.columns)
        frame.columns = [str(name) for name in frame.columns]
        if repeated := sorted(set(frame.columns[frame.columns.duplicated()])):
            raise DataError(
                f"{source} must have unique column names, got {format_names(repeated)} several times. Rename them."
            )
        return cls(frame, source)

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, rows: slice) -> "Table":
        """Return a slice of the rows, without a step."""
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
        """Names of the columns."""
        return list(self.frame.columns)

    def where(self, row: int) -> str:
        """Name of a row in messages: its line in the file, or its number, counted from 1."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def column(self, name: str) -> "pd.Series[Any]":
        """Return a column.

        Raises:
            DataError: There is no such column; the message suggests the closest name.
        """
        if name not in self.frame.columns:
            raise DataError(f"{self.source} has {unknown_name_message(name, self.columns)}")
        return self.frame[name]


def read(
    path: str | Path,
    *,
    target: str | None = None,
    strict: bool = True,
    encoding: str | None = None,
    decimal: str = ".",
) -> Table | Arrays:
    r"""Read a file, in the format given by its name: .csv, .tsv (both also .gz), .parquet, .npz or .npy.

    Args:
        path: The file; "-" is standard input.  Standard input, and a pipe with another name, is read as CSV.
        target: Column (in NPZ the array) of labels, which must then be present.
        strict: Raise an error if lines are malformed.  Otherwise they are reported in ``Table.unreadable``.
        encoding: Encoding of a CSV or TSV file, by its Python name, such as "cp1252"; None for UTF-8.
        decimal: Decimal separator of a CSV or TSV file, "." or ",".

    Returns:
        A table, or arrays for NPZ and NPY files.

    Raises:
        DataError: The file cannot be read, or has no rows.

    Examples:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "patients.csv"
        >>> _ = path.write_text("age,ill\n20,no\n40,yes\n")
        >>> read(path, target="ill").columns
        ['age', 'ill']
    """
    if decimal not in DECIMALS:
        raise ArgumentError.of("decimal", repr(decimal), "'.' or ','")
    source = "standard input" if str(path) in STDIN_NAMES else str(path)
    suffix = _suffix(path)
    if suffix not in TEXT_SUFFIXES:
        for name, value, default in (("encoding", encoding, None), ("decimal", decimal, ".")):
            if value != default:
                raise ArgumentError(f"{name} applies to CSV and TSV files only, got {value!r} for {source}. Omit it.")
    path = Path(path)
    try:
        if suffix == ".npz":
            return read_npz(path, target)
        if suffix == ".npy":
            return read_npy(path, target)
        table = (
            Table.of(parquet.read_frame(path), source)
            if suffix == ".parquet"
            else _read_csv(path, suffix, source, encoding, decimal)
        )
    except MemoryError as cause:
        raise DataError(f"{source} cannot be read: it is larger than the available memory.") from cause
    except OSError as cause:
        raise DataError(f"{source} cannot be read: {cause.strerror or cause}.") from cause
    if target is not None:
        table.column(target)
    if not len(table):
        raise DataError(f"{source} has a header but no rows.")
    if strict and table.unreadable:
        reasons = list(table.unreadable.values())
        count = "a malformed line" if len(reasons) == 1 else f"{len(reasons)} malformed lines"
        more = f"; and {len(reasons) - MAX_LINES_SHOWN} more" if len(reasons) > MAX_LINES_SHOWN else ""
        raise DataError(f"{source} has {count}: {'; '.join(reasons[:MAX_LINES_SHOWN])}{more}. Correct or delete them.")
    return table


def _suffix(path: str | Path) -> str:
    """Return the suffix that determines a file's format.

    Raises:
        DataError: There is no such file, or its format is not supported.
    """
    if str(path) in STDIN_NAMES:
        return ".csv"
    path = Path(path)
    known = next((suffix for suffix in SUFFIXES[::-1] if path.name.lower().endswith(suffix)), None)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError) as cause:
        raise DataError(f"{path} does not exist{_available_files(path)}") from cause
    except OSError as cause:
        raise DataError(f"{path} cannot be read: {cause.strerror or cause}.") from cause
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} must be a file, got a folder.")
    if known is None and stat.S_ISFIFO(mode):  # the shell's <(...)
        return ".csv"
    if known is None:
        raise DataError(
            f"{path} has an unknown format. Its name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
        )
    return known


def labels(data: Table | Arrays, target: str | None = None, *, strict: bool = True) -> NDArray[np.object_]:
    """Return the labels as text (N,), without surrounding blanks; 5 and 5.0 of typed columns are both "5".

    Args:
        data: Table or arrays.
        target: Column of labels; required for a table.
        strict: Raise an error if labels are missing; otherwise they are "".

    Raises:
        DataError: There are no labels, or labels are missing.
    """
    if isinstance(data, Table):
        if target is None:
            raise DataError(f"{data.source} needs a target column. Its columns are {format_names(data.columns)}.")
        texts = _texts(data.column(target))
    elif data.y is None:
        raise DataError(f"{data.source} has no labels. Write an NPZ file with the arrays x and y.")
    else:
        texts = np.asarray([cell_text(value) or "" for value in data.y], dtype=object)
    missing = np.flatnonzero(texts == "")
    if strict and len(missing):
        subject = "A label is" if len(missing) == 1 else f"{len(missing)} labels are"
        raise DataError(
            f"{subject} missing in {data.source}, the first in {data.where(missing[0])}. Delete these rows, or rename"
            f" the class: empty cells and {format_names(sorted(MISSING - {''}))} mean a missing value."
        )
    return texts


def groups(table: Table, column: str) -> NDArray[np.object_]:
    """Return the group of each row as text (N,), converted as in :func:`labels`.

    Raises:
        DataError: Groups are missing.
    """
    texts = _texts(table.column(column))
    missing = np.flatnonzero(texts == "")
    if len(missing):
        raise DataError(
            f"Every row must have a group, but column {column!r} of {table.source} is empty in {len(missing)} of"
            f" {len(texts)} rows, the first in {table.where(missing[0])}. Fill it in, or delete these rows."
        )
    return texts


def write(frame: "pd.DataFrame", path: str | Path) -> Path:
    """Write a data frame atomically, in the format given by the name: CSV, TSV (both also .gz) or Parquet.

    Text is written so that :func:`read` restores it exactly: in UTF-8, with a decimal point.

    Args:
        frame: The data frame; its index is not written.
        path: File to write.

    Returns:
        The path.

    Raises:
        DataError: The file cannot be written, or its format is not supported.
    """
    write_all({Path(path): frame})
    return Path(path)


def write_all(contents: "Mapping[Path, pd.DataFrame | Arrays]") -> None:
    """Write several files, in the formats given by their names; none replaces its target before all are complete.

    Args:
        contents: Data frames or arrays, by file.

    Raises:
        DataError: A file cannot be written, or its format is not supported.
    """
    for path, content in contents.items():
        _check_writable(path, content)
    current = next(iter(contents))  # for error messages
    try:
        with atomic_write_all(contents) as files:
            for file, (current, content) in zip(files, contents.items(), strict=True):
                if isinstance(content, Arrays):
                    content.save(file)
                elif current.name.lower().endswith(".parquet"):
                    parquet.write_frame(content, file, current)
                else:
                    _write_csv(content, file, current.name.lower())
    except UnicodeEncodeError as cause:
        text = cause.object[max(0, cause.start - 20) : cause.end + 20]
        raise DataError(
            f"{current} cannot be written: {text!r} has a character that UTF-8 cannot encode. Correct it in the input."
        ) from cause
    except OSError as cause:
        raise DataError(f"{current} cannot be written: {cause.strerror or cause}.") from cause


def _check_writable(path: Path, content: "pd.DataFrame | Arrays") -> None:
    name = path.name.lower()
    suffixes = (".npz",) if isinstance(content, Arrays) else TABLE_SUFFIXES
    if not name.endswith(suffixes):
        raise DataError(f"{path} has an unknown format. Its name must end in {' or '.join(suffixes)}.")
    if name.endswith(".parquet"):
        parquet.require_pyarrow(path, "written")


def _write_csv(frame: "pd.DataFrame", file: Any, name: str) -> None:
    # Quote all cells if one has a lone carriage return, which csv does not quote, or if there is a single column, where
    # an empty cell would be a blank line.
    texts = (frame[column] for column in frame.columns if frame[column].dtype.kind == "O")
    has_return = any(text.astype(str).str.contains("\r", regex=False).any() for text in texts)
    quote_all = has_return or len(frame.columns) == 1
    frame.to_csv(
        file,
        index=False,
        sep="\t" if ".tsv" in name[-7:] else ",",
        lineterminator="\n",
        encoding="utf-8",
        quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL,
        # No timestamp, so that equal cells give equal bytes.
        compression={"method": "gzip", "mtime": 0} if name.endswith(".gz") else None,
    )


def _texts(column: "pd.Series[Any]") -> NDArray[np.object_]:
    """Return a column as text, "" where missing."""
    cells = text_cells(column)
    return np.asarray([*cells.values, ""], dtype=object)[cells.codes]


def _available_files(path: Path) -> str:
    """End of an error message: which files in the same folder could be read."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.name.lower().endswith(SUFFIXES)]
    except OSError:
        return f": there is no folder {path.parent}."
    return f". Its folder has {format_names(sorted(names), 5)}." if names else "."


def _read_csv(path: Path, suffix: str, source: str, encoding: str | None, decimal: str) -> Table:
    data = _read_bytes(path, suffix, source)
    if not data:
        raise DataError(f"{source} is empty: it has 0 bytes.")
    # With decimal commas, a comma is the least likely delimiter, even if column names contain commas.
    marks = ",;\t" if decimal == "." else ";\t,"
    parsed = csv_reader.parse(data, source, "\t" if suffix.startswith(".tsv") else None, encoding, marks)
    frame = parsed.frame if decimal == "." else to_points(parsed.frame, source)
    return Table(frame, source, parsed.unreadable, parsed.lines)


def _read_bytes(path: Path, suffix: str, source: str) -> bytes:
    """Read a file and decompress it, within limits on pipes and on decompressed sizes."""
    if str(path) in STDIN_NAMES:
        data = _read_stream(sys.stdin.buffer)
    else:
        with open_regular(path, pipes=True) as file:
            data = file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else _read_stream(file)
    if not suffix.endswith(".gz") and not (str(path) in STDIN_NAMES and data.startswith(b"\x1f\x8b")):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            return Unpacking.of(len(data)).read(packed)
    except OSError as cause:
        if cause.errno is not None:  # raised by Unpacking or the system, not by gzip
            raise
        raise _not_gzip(source, cause) from cause
    except Exception as cause:  # damaged data raise various exceptions
        raise _not_gzip(source, cause) from cause


def _not_gzip(source: str, cause: Exception) -> DataError:
    return DataError(f"{source} is not a gzip file, or is truncated ({cause}).")


def _read_stream(file: Any) -> bytes:
    """Read a pipe to its end, within a limit."""
    most = Unpacking.of(0).most if os.environ.get(LIMIT) else MAX_STREAM_BYTES
    data = file.read(most + 1)
    if len(data) > most:
        raise OSError(
            errno.EFBIG,
            f"it has more than {most:,} bytes. Pass a file, or raise the limit with {LIMIT}=4G in the environment",
        )
    return bytes(data)
