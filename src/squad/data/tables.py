"""A user's own data: tables from CSV, TSV and Parquet, arrays from NPZ and NPY; and the way back to a file."""

import csv
import errno
import gzip
import io
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from squad.data import csv_reader
from squad.data.arrays import Arrays, read_npy, read_npz
from squad.data.cells import MISSING, cell_text, text_cells
from squad.data.column_names import check_texts, listed, missing_name
from squad.data.decimals import DECIMALS, to_points
from squad.errors import ArgumentError, DataError
from squad.files import Unpacking, opened, replacing_all
from squad.files.reading import LIMIT

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Arrays", "Table", "groups", "labels", "read", "write", "write_all"]

#: The kinds of file there are, by the end of their names.
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".npz", ".npy")

#: So many bad lines are named in a message.
SHOWN = 3

#: How standard input is named.
STDIN = ("-", "/dev/stdin")

#: So many bytes may come through a pipe, unless the environment allows more.
STREAM_BYTES = 1 << 30

#: Rows of a Parquet file that are unpacked at a time, to notice in between what there is too much of.
BATCH_ROWS = 1 << 14


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
        check_texts("The name of a column", frame.columns)
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


def read(
    path: str | Path,
    *,
    target: str | None = None,
    strict: bool = True,
    encoding: str | None = None,
    decimal: str = ".",
) -> Table | Arrays:
    """A file, by the end of its name: .csv, .tsv (both also .gz), .parquet, .npz or .npy.

    Args:
        path: the file; "-" is standard input.  That, and a pipe without such an end, is read as CSV.
        target: the column (in NPZ the array) of labels, which must then be there.
        strict: lines that cannot be read are an error.  If not, each is a row in ``Table.unreadable``.
        encoding: of a CSV or TSV file, by Python's names, such as "cp1252"; None is UTF-8.
        decimal: the decimal sign of a CSV or TSV file, "." or ",".
    """
    if decimal not in DECIMALS:
        raise ArgumentError.of("decimal", repr(decimal), "'.' or ','")
    source = "standard input" if str(path) in STDIN else str(path)
    kind = _kind(path)
    if kind in (".npz", ".npy", ".parquet"):
        for name, value, usual in (("encoding", encoding, None), ("decimal", decimal, ".")):
            if value != usual:
                raise ArgumentError.of(name, repr(value), f"left out for {source}: only CSV and TSV files have one")
    path = Path(path)
    try:
        if kind == ".npz":
            return read_npz(path, target)
        if kind == ".npy":
            return read_npy(path, target)
        table = _read_parquet(path) if kind == ".parquet" else _read_csv(path, kind, source, encoding, decimal)
    except MemoryError as cause:
        raise DataError(f"{source} cannot be read: it is larger than the memory.") from cause
    except OSError as cause:
        raise DataError(f"{source} cannot be read: {cause.strerror or cause}.") from cause
    if target is not None:
        table.column(target)
    if not len(table):
        raise DataError(f"{source} has a header and no rows.")
    if strict and table.unreadable:
        reasons = list(table.unreadable.values())
        count = "a line" if len(reasons) == 1 else f"{len(reasons)} lines"
        more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
        raise DataError(
            f"{source} has {count} that cannot be read: {'; '.join(reasons[:SHOWN])}{more}. Correct or delete them."
        )
    return table


def _kind(path: str | Path) -> str:
    """How a file is to be read, by the end of its name; an error if there is no such file, or no such kind."""
    if str(path) in STDIN:
        return ".csv"
    path = Path(path)
    kind = next((suffix for suffix in SUFFIXES[::-1] if path.name.lower().endswith(suffix)), None)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError) as cause:
        raise DataError(f"{path} does not exist{_neighbour(path)}") from cause
    except OSError as cause:
        raise DataError(f"{path} cannot be read: {cause.strerror or cause}.") from cause
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} must be a file; it is a folder.")
    if kind is None and stat.S_ISFIFO(mode):  # as the shell's <(...) gives it
        return ".csv"
    if kind is None:
        raise DataError(f"{path} must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}: that says how to read it.")
    return kind


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

    Text cells are written so that :func:`read` finds them as they were: in UTF-8, with a decimal point.
    """
    write_all({Path(path): frame})
    return Path(path)


def write_all(contents: "Mapping[Path, pd.DataFrame | Arrays]") -> None:
    """Several files, by the ends of their names; none of them takes its place before all are whole."""
    for path, content in contents.items():
        _check_written(path, content)
    now = next(iter(contents))
    try:
        with replacing_all(contents) as files:
            for file, (now, content) in zip(files, contents.items(), strict=True):  # for the messages
                if isinstance(content, Arrays):
                    content.save(file)
                elif now.name.lower().endswith(".parquet"):
                    _write_parquet(content, file, now)
                else:
                    _write_csv(content, file, now.name.lower())
    except UnicodeEncodeError as cause:
        text = cause.object[max(0, cause.start - 20) : cause.end + 20]
        raise DataError(
            f"{now} cannot be written: {text!r} has a character that UTF-8 has not. Correct it where it comes from."
        ) from cause
    except OSError as cause:
        raise DataError(f"{now} cannot be written: {cause.strerror or cause}.") from cause


def _check_written(path: Path, content: "pd.DataFrame | Arrays") -> None:
    name = path.name.lower()
    kinds = (".npz",) if isinstance(content, Arrays) else SUFFIXES[:5]
    if not name.endswith(kinds):
        raise DataError(f"{path} must end in {' or '.join(kinds)}: that says how to write it.")
    if name.endswith(".parquet"):
        _need_pyarrow(path, "written")


def _write_parquet(frame: "pd.DataFrame", file: Any, path: Path) -> None:
    import pyarrow

    try:
        frame.to_parquet(file, index=False, engine="pyarrow")
    except pyarrow.ArrowException as cause:
        reason = str(cause).splitlines()[0][:120] if str(cause) else type(cause).__name__
        raise DataError(f"{path} cannot be written: Parquet has no place for some cells ({reason}).") from cause


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


def _read_csv(path: Path, kind: str, source: str, encoding: str | None, decimal: str) -> Table:
    data = _content(path, kind, source)
    if not data:
        raise DataError(f"{source} is empty: it has 0 bytes.")
    # Between numbers with a comma there is something else, whatever commas the names of the columns have.
    marks = ",;\t" if decimal == "." else ";\t,"
    parsed = csv_reader.parse(data, source, "\t" if kind.startswith(".tsv") else None, encoding, marks)
    frame = parsed.frame if decimal == "." else to_points(parsed.frame, source)
    return Table(frame, source, parsed.unreadable, parsed.lines)


def _content(path: Path, kind: str, source: str) -> bytes:
    """The bytes of a file, unpacked; of a pipe or what is unpacked, not more than was to be expected."""
    if str(path) in STDIN:
        data = _stream(sys.stdin.buffer)
    else:
        with opened(path, pipes=True) as file:
            data = file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else _stream(file)
    if not kind.endswith(".gz") and not (str(path) in STDIN and data.startswith(b"\x1f\x8b")):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            return Unpacking.of(len(data)).read(packed)
    except OSError as cause:
        if cause.errno is not None:  # ours, or the system's
            raise
        raise _not_gzip(source, cause) from cause
    except Exception as cause:  # whatever else damage leads to
        raise _not_gzip(source, cause) from cause


def _not_gzip(source: str, cause: Exception) -> DataError:
    return DataError(f"{source} must be compressed with gzip; it is not, or is cut off ({cause}).")


def _stream(file: Any) -> bytes:
    """What a pipe gives, to its end."""
    most = Unpacking.of(0).most if os.environ.get(LIMIT) else STREAM_BYTES
    data = file.read(most + 1)
    if len(data) > most:
        raise OSError(
            errno.EFBIG,
            f"more than {most:,} bytes came. Give it as a file, or allow more: {LIMIT}=4G in the environment",
        )
    return bytes(data)


def _need_pyarrow(path: Path, done: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise DataError(
            f"{path} cannot be {done}: Parquet needs pyarrow. Install it with: pip install 'squad-torch[parquet]'"
        ) from None


def _read_parquet(path: Path) -> Table:
    _need_pyarrow(path, "read")
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise DataError(f"{path} is empty: it has 0 bytes.")
        try:
            frame = _parquet_frame(file, Unpacking.of(size))
        except Exception as cause:  # whatever damage leads to, in a parser that is not ours
            if isinstance(cause, OSError) and cause.errno == errno.EFBIG:
                raise
            reason = str(cause).splitlines()[0][:120] if str(cause) else type(cause).__name__
            raise DataError(f"{path} must be a Parquet file; it is none, or damaged: {reason}") from cause
    if not len(frame.columns):
        raise DataError(f"{path} has no columns.")
    return Table.of(frame, str(path))


def _parquet_frame(file: Any, unpacking: Unpacking) -> "pd.DataFrame":
    import pyarrow
    from pyarrow import parquet

    stored = parquet.ParquetFile(file)
    facts = stored.metadata
    groups = (facts.row_group(place).total_byte_size for place in range(facts.num_row_groups))
    # A column of one value takes hardly a byte in the file, however many rows it has.
    unpacking.check(max(sum(groups), facts.num_rows * facts.num_columns))
    batches, size = [], 0
    for batch in stored.iter_batches(BATCH_ROWS):
        size += batch.nbytes
        unpacking.check(size)
        batches.append(batch)
    whole = pyarrow.Table.from_batches(batches, stored.schema_arrow).unify_dictionaries()
    # pandas' own index, which it hides in such columns: no data.
    hidden = [name for name in whole.column_names if re.fullmatch(r"__index_level_\d+__", name)]
    return whole.drop_columns(hidden).to_pandas(ignore_metadata=True)
