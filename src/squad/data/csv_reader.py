"""Parse CSV as text: every cell exactly as written, and malformed lines reported by line number.

Two implementations give the same result.  :func:`_parse_fast` counts fields with numpy and lets pandas read the cells;
it declines anything irregular.  :func:`_parse_records` reads record by record, and is the reference.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from squad.data.column_names import format_names
from squad.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Parsed", "parse"]

#: Maximum number of characters in a cell; a longer one means a missing quote.  (Same as the csv module's limit.)
MAX_CELL = 131_072

#: A file with more lines of broken quotes than this is not CSV; each one may require reading far ahead.
MAX_BROKEN_QUOTES = 1000

#: Number of lines with an unexpected number of fields, above which :func:`_parse_fast` declines.
MAX_IRREGULAR_LINES = 10_000

_QUOTE, _NEWLINE, _RETURN = b'"\n\r'


@dataclass
class Parsed:
    """A parsed CSV file.

    Attributes:
        frame: The cells as text; all missing in malformed rows.
        lines: (N,), line of the file on which each row begins, counted from 1.
        unreadable: Why rows are malformed, by their position in ``frame``.
    """

    frame: "pd.DataFrame"
    lines: NDArray[np.int64]
    unreadable: dict[int, str] = field(default_factory=dict)


def parse(
    data: bytes, source: str, delimiter: str | None = None, encoding: str | None = None, marks: str = ",;\t"
) -> Parsed:
    r"""Parse the bytes of a CSV file.

    Blank lines are skipped.  Surrounding blanks are removed from column names, but not from cells.

    Args:
        data: Content of the file.
        source: Name of the file in error messages.
        delimiter: Delimiter between cells; None for the first of ``marks`` that occurs in the header.
        encoding: Encoding of the text, by its Python name; None for UTF-8.
        marks: Candidates for the delimiter.

    Returns:
        The columns and cells of the file.

    Raises:
        DataError: The file is not text in this encoding, or its header is invalid.

    Examples:
        >>> parse(b"age;sex\n31;f\n40;m\n", "people.csv").frame["age"].tolist()
        ['31', '40']
    """
    data = _normalize(data if encoding is None else _to_utf8(data, source, encoding), source)
    begin, end = _find_header(data)
    header = data[begin:end].decode()
    if not header.strip():
        raise DataError(f"{source} is empty. A table must begin with a line of column names.")
    if delimiter is None:
        unquoted = re.sub(r'"[^"]*"', "", header)
        delimiter = next((mark for mark in marks if mark in unquoted), ",")
    columns = _column_names(header, source, delimiter)
    line = 1 + data.count(b"\n", 0, end)
    body = data[end:]
    return _parse_fast(body, columns, delimiter, line) or _parse_records(body, columns, delimiter, line, source)


def _normalize(data: bytes, source: str) -> bytes:
    """Check that data are UTF-8; remove a byte order mark, and convert lone carriage returns to newlines."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{source} must be UTF-8 text, got UTF-16. Use --encoding utf-16 (encoding='utf-16').")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\n" not in data:  # line ends of classic Mac OS
        data = data.replace(b"\r", b"\n")
    try:
        data.decode()
    except UnicodeDecodeError as cause:
        line = 1 + data.count(b"\n", 0, cause.start)
        raise DataError(
            f"{source} must be UTF-8 text, got the byte 0x{data[cause.start]:02x} in line {line}"
            f" (offset {cause.start}). Save it as 'CSV UTF-8', or name its encoding, such as --encoding cp1252"
            " (encoding='cp1252')."
        ) from None
    if (null := data.find(b"\0")) >= 0:
        line = 1 + data.count(b"\n", 0, null)
        raise DataError(f"{source} must be text, got a null byte in line {line} (offset {null}). Is it a binary file?")
    return data


def _to_utf8(data: bytes, source: str, encoding: str) -> bytes:
    """Convert data from another encoding to UTF-8."""
    try:
        return data.decode(encoding).encode()
    except (LookupError, ValueError) as cause:
        if isinstance(cause, UnicodeDecodeError):
            raise DataError(
                f"{source} must be {encoding} text, got the byte 0x{data[cause.start]:02x} at offset {cause.start}"
                f" ({cause.reason}). Use another --encoding (encoding=...)."
            ) from None
        if isinstance(cause, UnicodeEncodeError):
            raise DataError(
                f"{source} has invalid characters when read as {encoding}. Use another --encoding (encoding=...)."
            ) from None
        raise DataError(
            f"encoding must be an encoding known to Python, such as utf-16 or cp1252, got {encoding!r}."
        ) from None


def _find_header(data: bytes) -> tuple[int, int]:
    """Return where the first non-blank line begins and ends; quoted newlines belong to it."""
    begin, end, quotes = 0, 0, 0
    while end < len(data):
        next_line = data.find(b"\n", end) + 1 or len(data)
        quotes += data.count(b'"', end, next_line)
        end = next_line
        if quotes % 2 == 0:
            if data[begin:end].strip():
                break
            begin = end
    return begin, end


def _column_names(header: str, source: str, delimiter: str) -> list[str]:
    """Parse the header; names must be unique and not empty."""
    try:
        (cells,) = csv.reader([header], delimiter=delimiter, strict=True)
    except (csv.Error, ValueError):
        raise DataError(
            f"{source} must begin with a line of column names, got {header[:60].strip()!r}. Is a quote not closed?"
        ) from None
    names = [cell.strip() for cell in cells]
    for position, name in enumerate(names, 1):
        if not name:
            raise DataError(
                f"{source} must have a name for every column, but column {position} of {len(names)} has none. Name or"
                " remove it (pandas writes such a column unless called with index=False)."
            )
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError(
            f"{source} must have unique column names, got {format_names(repeated)} several times. Rename them."
        )
    return names


def _parse_fast(body: bytes, columns: list[str], delimiter: str, line: int) -> Parsed | None:
    """Parse with pandas if every line has the right number of fields and well-formed quotes; otherwise None."""
    import pandas as pd

    lines = _row_lines(body, len(columns), delimiter)
    if lines is None or not len(lines):
        return None
    frame = pd.read_csv(
        io.BytesIO(body),
        sep=delimiter,
        header=None,
        names=columns,
        index_col=False,
        dtype=str,
        na_filter=False,
        encoding="utf-8",
        engine="c",
    )
    return Parsed(frame, lines + line) if len(frame) == len(lines) else None


def _row_lines(body: bytes, columns: int, delimiter: str) -> NDArray[np.int64] | None:
    """Return the number of newlines before each row; None if the file is irregular."""
    if columns == 1 or not body:  # there are no delimiters to count, and a blank line would be a cell
        return None
    mark = ord(delimiter)
    bytes_ = np.frombuffer(body, np.uint8)
    newlines = ends = np.flatnonzero(bytes_ == _NEWLINE)
    returns = np.flatnonzero(bytes_ == _RETURN)
    marks = bytes_ == mark
    quotes = np.flatnonzero(bytes_ == _QUOTE)
    if len(quotes):
        if len(quotes) % 2:
            return None
        # A byte is quoted if an odd number of quotes precede it.  This holds if each quote opens at the beginning of a
        # field and closes at its end; a doubled quote closes and reopens.
        before = bytes_[np.maximum(quotes[::2] - 1, 0)]
        after = bytes_[np.minimum(quotes[1::2] + 1, len(bytes_) - 1)]
        opens = np.isin(before, (mark, _NEWLINE, _QUOTE)) | (quotes[::2] == 0)
        closes = np.isin(after, (mark, _NEWLINE, _RETURN, _QUOTE))
        if not (opens.all() and closes.all()):
            return None
        inside = np.bitwise_xor.accumulate(bytes_ == _QUOTE)
        ends = ends[~inside[ends]]
        returns = returns[~inside[returns]]
        marks &= ~inside
    if len(returns) and (returns[-1] + 1 == len(bytes_) or (bytes_[returns + 1] != _NEWLINE).any()):
        return None
    if not len(ends) or ends[-1] != len(bytes_) - 1:
        ends = np.append(ends, len(bytes_))
    starts = np.append(0, ends[:-1] + 1)
    if (ends - starts).max() > MAX_CELL:  # only then locate all cells, which is slow
        edges = np.sort(np.concatenate([[-1], np.flatnonzero(marks), ends]))
        if np.diff(edges).max() > MAX_CELL:
            return None
    irregular = np.flatnonzero(np.add.reduceat(marks, starts, dtype=np.int64) != columns - 1)
    blanks = _blanks(delimiter).encode()
    if len(irregular) > MAX_IRREGULAR_LINES or any(body[starts[row] : ends[row]].strip(blanks) for row in irregular):
        return None
    return np.searchsorted(newlines, np.delete(starts, irregular)).astype(np.int64)


def _blanks(delimiter: str) -> str:
    """Characters that a blank line may consist of."""
    return " \t\r\n".replace(delimiter, "")


def _parse_records(body: bytes, columns: list[str], delimiter: str, line: int, source: str) -> Parsed:
    """Parse record by record.

    After a malformed record, parsing resumes at the next line: a stray quote costs one row, not the rest of the file.
    """
    import pandas as pd

    lines = list(io.TextIOWrapper(io.BytesIO(body), encoding="utf-8", newline=""))
    blanks = _blanks(delimiter)
    rows: list[list[str] | list[None]] = []
    row_lines: list[int] = []
    unreadable: dict[int, str] = {}
    broken = following = 0
    while following < len(lines):
        first, following = following, following + 1
        if not lines[first].strip(blanks):
            continue
        reader = csv.reader(_lines_from(lines, first), delimiter=delimiter, strict=True)
        reason = ""
        try:
            cells = next(reader)
            following = first + reader.line_num
            if len(cells) != len(columns):
                fields = "1 field" if len(cells) == 1 else f"{len(cells)} fields"
                reason = f"line {line + first} has {fields}, the header has {len(columns)}"
            elif max(map(len, cells)) > MAX_CELL:  # csv.field_size_limit may have been changed by another program
                reason = f"line {line + first} has a field of more than {MAX_CELL:,} characters"
        except csv.Error as cause:
            reason = f"line {line + first} has an unclosed quote, or one that closes within a field"
            if "larger than field limit" in str(cause):
                reason = f"line {line + first} has a field of more than {MAX_CELL:,} characters, or an unclosed quote"
            broken += 1
            if broken > MAX_BROKEN_QUOTES:
                raise DataError(
                    f"{source} cannot be read: {reason}, like {MAX_BROKEN_QUOTES} lines before it. Enclose fields that"
                    " contain quotes in quotes, and double the quotes inside."
                ) from None
        if reason:
            unreadable[len(rows)] = reason
        rows.append([None] * len(columns) if reason else cells)
        row_lines.append(line + first)
    text = pd.Series([""], dtype=str).dtype  # object before pandas 3, where str would turn None into "None"
    cells_ = np.empty((len(rows), len(columns)), dtype=object)
    for position, row in enumerate(rows):
        cells_[position] = row
    frame = pd.DataFrame(cells_, columns=columns).astype(text)
    return Parsed(frame, np.asarray(row_lines, dtype=np.int64), unreadable)


def _lines_from(lines: list[str], first: int) -> Iterator[str]:
    """Iterate over the lines from ``first`` on, without copying them."""
    for position in range(first, len(lines)):
        yield lines[position]
