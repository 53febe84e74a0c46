"""DATA on the command line: a file of the user's, or the name of a data set."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from squad.cli.terminal import download_bar, say
from squad.data.column_names import listed
from squad.data.registry import DATASETS
from squad.data.tables import STDIN, Arrays, Table, groups, labels, read
from squad.errors import ArgumentError, DataError

__all__ = ["Format", "Rows", "halves", "is_named", "named_labels", "read_rows"]


@dataclass(frozen=True)
class Format:
    """How a CSV or TSV file is written.

    Each file is read by what is said of it, and nothing of this is kept with a model: files of training and files of
    later may come from different programs.

    Attributes:
        encoding: by Python's names; None is UTF-8.
        decimal: the sign in numbers.
    """

    encoding: str | None = None
    decimal: str = "."


@dataclass(frozen=True)
class Rows:
    """What a command works on.

    Attributes:
        x: a table, or an array.
        labels: (N,), or None if they were not asked for; "" for a line that cannot be read, if that was allowed.
        groups: (N,), or None.
        source: what messages call it.
    """

    x: Table | NDArray[Any]
    labels: NDArray[Any] | None
    groups: NDArray[Any] | None
    source: str

    def __len__(self) -> int:
        return len(self.x)


#: Parts of a data set that can be named, after a colon: the test part is halved, to certify on one half and look at the
#: other.
PARTS = ("train", "calibration", "test")


def is_named(data: str) -> bool:
    """Whether DATA is the name of a data set, or NAME:PART; a file of that name comes first."""
    return data.partition(":")[0] in DATASETS and not Path(data).is_file()


def read_rows(
    data: str,
    part: Literal["train", "test"],
    *,
    target: str | None,
    group: str | None = None,
    data_dir: Path | None = None,
    need_labels: bool = True,
    strict: bool = True,
    format: Format = Format(),  # noqa: B008  # frozen
) -> Rows:
    """Rows and labels.

    Args:
        data: a file, - for standard input, or the name of a data set.
        part: of a data set; a file is read as a whole.
        target: the column of labels; a data set and an NPZ file need none.
        group: the column that says which rows belong together.
        data_dir: where data sets are looked for first.
        need_labels: labels must be there.
        strict: unreadable lines are an error.
        format: of a file.
    """
    if is_named(data):
        if format != Format():
            raise ArgumentError.of("--encoding and --decimal", repr(data), "given for a CSV or TSV file")
        return _named(data, part, target, group, data_dir)
    if data not in STDIN and not Path(data).exists() and "." not in Path(data).name:
        near = difflib.get_close_matches(data.lower(), DATASETS, 1)
        hint = f"Did you mean {near[0]}?" if near else ""
        raise ArgumentError.of("DATA", repr(data), f"a file, or the name of a data set ({', '.join(DATASETS)})", hint)
    found = read(
        data, target=target if need_labels else None, strict=strict, encoding=format.encoding, decimal=format.decimal
    )
    if isinstance(found, Arrays):
        if group is not None:
            raise DataError(f"{data} has no columns, so no group {group!r}: write a table.")
        return Rows(found.x, labels(found, target) if need_labels else None, None, found.source)
    if need_labels and target is None:
        raise DataError(f"Say with --target which column of {data} holds the labels: {listed(found.columns)}.")
    return Rows(
        found,
        _labels(found, target, strict) if need_labels else None,
        None if group is None else groups(found, group),
        found.source,
    )


def _labels(table: Table, target: str | None, strict: bool) -> NDArray[Any]:
    """The labels; a line that cannot be read has none, which is an error only if ``strict``."""
    found = labels(table, target, strict=strict)
    missing = [row for row in np.flatnonzero(found == "").tolist() if row not in table.unreadable]
    if missing:
        where = ", ".join(table.where(row) for row in missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise DataError(f"Every row of {table.source} must have a label; there is none in {where}.")
    return found


def _named(
    data: str, part: Literal["train", "test"], target: str | None, group: str | None, data_dir: Path | None
) -> Rows:
    from squad.data.images import load_images

    name, colon, asked = data.partition(":")
    if colon and asked not in PARTS:
        raise ArgumentError.of("DATA", repr(data), f"{name}, or one of {', '.join(f'{name}:{one}' for one in PARTS)}")
    for option, value in (("--target", target), ("--group", group)):
        if value is not None:
            raise ArgumentError.of(option, repr(value), f"left out for the data set {name}, which has no columns")
    with download_bar() as progress:
        images = load_images(name, data_dir, progress)
    train = (asked or part) == "train"
    for note in images.notes if train else ():
        say(f"{name}: {note}")
    x, y = (images.x_train, images.y_train) if train else (images.x_test, images.y_test)
    if asked in ("calibration", "test"):
        rows = halves(y)[asked]
        return Rows(x[rows], named_labels(images.classes, y[rows]), None, f"{name} ({asked} half of the test part)")
    return Rows(x, named_labels(images.classes, y), None, f"{name} ({'train' if train else 'test'} part)")


def halves(y: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """The rows of a test part that certify, and those that are looked at afterwards."""
    from squad.data.splits import split_rows

    return split_rows(y.tolist(), {"calibration": 0.5, "test": 0.5}, 0).parts


def named_labels(classes: Sequence[str], y: NDArray[np.int64]) -> NDArray[Any]:
    """Numbers as the names of their classes."""
    return np.array(classes, dtype=object)[y]
