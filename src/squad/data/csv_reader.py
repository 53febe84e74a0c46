"""CSV as text: every cell as it was written, and every line that cannot be read by its number.

Two ways lead to the same result.  :func:`_quick` counts fields with numpy and leaves the cells to pandas; it declines
whatever is not in perfect order.  :func:`_careful` reads record by record, and is the definition.
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

from squad.data.column_names import listed
from squad.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Parsed", "parse"]

#: A cell of more characters is none: somewhere a quote is missing.  (So much is Python's own limit.)
CELL = 131_072

#: A file with more lines of broken quotes than this is not CSV; each costs a look at what follows.
BROKEN_QUOTES = 1000

_QUOTE, _NEWLINE, _RETURN = b'"\n\r'


@dataclass
class Parsed:
    """A CSV file.

    Attributes:
        frame: the cells as text, missing (all of them) in rows that cannot be read.
        lines: the line of the file, from 1, on which each row begins.
        unreadable: the reason why a row cannot be read, by its position in ``frame``.
    """

    frame: "pd.DataFrame"
    lines: NDArray[np.int64]
    unreadable: dict[int, str] = field(default_factory=dict)


def parse(
    data: bytes, source: str, delimiter: str | None = None, encoding: str | None = None, marks: str = ",;\t"
) -> Parsed:
    """CSV from its bytes.

    Lines of blanks only are skipped.  Column names lose their surrounding blanks; cells keep them.

    Args:
        data: the file.
        source: what messages call it.
        delimiter: between cells; None for the first of ``marks`` that the header has.
        encoding: of the text, by Python's names; None is UTF-8.
        marks: what may be a delimiter.
    """
    data = _checked(data if encoding is None else _recoded(data, source, encoding), source)
    begin, end = _header(data)
    header = data[begin:end].decode()
    if not header.strip():
        raise DataError(f"{source} is empty. A table begins with a line of column names.")
    if delimiter is None:
        bare = re.sub(r'"[^"]*"', "", header)
        delimiter = next((mark for mark in marks if mark in bare), ",")
    columns = _columns(header, source, delimiter)
    line = 1 + data.count(b"\n", 0, end)
    body = data[end:]
    return _quick(body, columns, delimiter, line) or _careful(body, columns, delimiter, line, source)


def _checked(data: bytes, source: str) -> bytes:
    """UTF-8 without a byte order mark, its lines ended by newlines; else an error that says where it is not."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{source} must be text in UTF-8; it is in UTF-16. Say --encoding utf-16 (encoding='utf-16').")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\n" not in data:  # as the first Macs wrote it
        data = data.replace(b"\r", b"\n")
    try:
        data.decode()
    except UnicodeDecodeError as cause:
        line = 1 + data.count(b"\n", 0, cause.start)
        raise DataError(
            f"{source} must be text in UTF-8; line {line} has the byte 0x{data[cause.start]:02x}"
            f" (offset {cause.start}). Save it as 'CSV UTF-8', or say its encoding, such as --encoding cp1252"
            " (encoding='cp1252')."
        ) from None
    if (null := data.find(b"\0")) >= 0:
        line = 1 + data.count(b"\n", 0, null)
        raise DataError(f"{source} must be text; line {line} has a null byte (offset {null}). Is it a binary file?")
    return data


def _recoded(data: bytes, source: str, encoding: str) -> bytes:
    """UTF-8 from another encoding."""
    try:
        return data.decode(encoding).encode()
    except (LookupError, ValueError) as cause:
        if isinstance(cause, UnicodeDecodeError):
            raise DataError(
                f"{source} must be text in {encoding}; the byte 0x{data[cause.start]:02x} at offset {cause.start} is"
                f" none ({cause.reason}). Say another --encoding (encoding=...)."
            ) from None
        if isinstance(cause, UnicodeEncodeError):
            raise DataError(f"{source} has characters in {encoding} that are none. Say another --encoding.") from None
        raise DataError(
            f"encoding must be one that Python knows, such as utf-16 or cp1252, got {encoding!r}."
        ) from None


def _header(data: bytes) -> tuple[int, int]:
    """Where the first line that is not blank begins and ends, quoted newlines being part of it."""
    begin, end, quotes = 0, 0, 0
    while end < len(data):
        found = data.find(b"\n", end) + 1 or len(data)
        quotes += data.count(b'"', end, found)
        end = found
        if quotes % 2 == 0:
            if data[begin:end].strip():
                break
            begin = end
    return begin, end


def _columns(header: str, source: str, delimiter: str) -> list[str]:
    """The column names: each there, and there once."""
    try:
        (cells,) = csv.reader([header], delimiter=delimiter, strict=True)
    except (csv.Error, ValueError):
        raise DataError(
            f"{source} must begin with a line of column names; it cannot be read, perhaps for a quote that is not"
            f" closed: {header[:60].strip()!r}."
        ) from None
    names = [cell.strip() for cell in cells]
    for place, name in enumerate(names, 1):
        if not name:
            raise DataError(
                f"{source} must have a name for every column; column {place} of {len(names)} has none. Name it, or"
                " take it out (pandas writes such a column unless it is told index=False)."
            )
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError(f"{source} must have every column once; it has {listed(twice)} several times. Rename them.")
    return names


def _quick(body: bytes, columns: list[str], delimiter: str, line: int) -> Parsed | None:
    """By pandas, where every line has its number of fields and every quote stands where it belongs; else None."""
    import pandas as pd

    lines = _rows(body, len(columns), delimiter)
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


def _rows(body: bytes, columns: int, delimiter: str) -> NDArray[np.int64] | None:
    """How many newlines stand before each row, or None where the careful way must look."""
    if columns == 1 or not body:  # nothing to count: a blank line would be a cell
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
        # Inside of quotes is where an odd number of them came before.  That holds if each opens at the beginning of a
        # field and closes at its end; a doubled quote closes and opens again.
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
    if (ends - starts).max() > CELL:  # rarely, so that the places of all cells are not always looked for
        edges = np.sort(np.concatenate([[-1], np.flatnonzero(marks), ends]))
        if np.diff(edges).max() > CELL:
            return None
    odd = np.flatnonzero(np.add.reduceat(marks, starts, dtype=np.int64) != columns - 1)
    blanks = _blanks(delimiter).encode()
    if len(odd) > 10_000 or any(body[starts[row] : ends[row]].strip(blanks) for row in odd):
        return None
    return np.searchsorted(newlines, np.delete(starts, odd)).astype(np.int64)


def _blanks(delimiter: str) -> str:
    """What a blank line is made of."""
    return " \t\r\n".replace(delimiter, "")


def _careful(body: bytes, columns: list[str], delimiter: str, line: int, source: str) -> Parsed:
    """Record by record.  After one that cannot be read, on with the next line: a quote costs one row, not the rest."""
    import pandas as pd

    lines = list(io.TextIOWrapper(io.BytesIO(body), encoding="utf-8", newline=""))
    blanks = _blanks(delimiter)
    rows: list[list[str] | list[None]] = []
    where: list[int] = []
    unreadable: dict[int, str] = {}
    broken = at = 0
    while at < len(lines):
        first, at = at, at + 1
        if not lines[first].strip(blanks):
            continue
        reader = csv.reader(_from(lines, first), delimiter=delimiter, strict=True)
        reason = ""
        try:
            cells = next(reader)
            at = first + reader.line_num
            if len(cells) != len(columns):
                fields = "1 field" if len(cells) == 1 else f"{len(cells)} fields"
                reason = f"line {line + first} has {fields}, the header has {len(columns)}"
            elif max(map(len, cells)) > CELL:  # whatever the limit is that others have set for Python's reader
                reason = f"line {line + first} has a field of more than {CELL:,} characters"
        except csv.Error as cause:
            reason = f"line {line + first} has a quote that does not close, or closes within a field"
            if "larger than field limit" in str(cause):
                reason = f"line {line + first} has a field of more than {CELL:,} characters, or a quote does not close"
            broken += 1
            if broken > BROKEN_QUOTES:
                raise DataError(
                    f"{source} cannot be read: {reason}, and so have {BROKEN_QUOTES} lines before it. A field with a"
                    " quote in it is written in quotes, with the quote doubled."
                ) from None
        if reason:
            unreadable[len(rows)] = reason
        rows.append([None] * len(columns) if reason else cells)
        where.append(line + first)
    text = pd.Series([""], dtype=str).dtype  # object before pandas 3, where str would turn None into "None"
    cells_ = np.empty((len(rows), len(columns)), dtype=object)
    for place, row in enumerate(rows):
        cells_[place] = row
    frame = pd.DataFrame(cells_, columns=columns).astype(text)
    return Parsed(frame, np.asarray(where, dtype=np.int64), unreadable)


def _from(lines: list[str], first: int) -> Iterator[str]:
    """The lines from one on, without a copy."""
    for place in range(first, len(lines)):
        yield lines[place]
