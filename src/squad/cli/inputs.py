"""DATA on the command line: a file of the user, or the name of a data set."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from squad.cli.terminal import download_bar, print_message
from squad.data.column_names import format_names
from squad.data.registry import DATASETS
from squad.data.tables import STDIN_NAMES, Arrays, Table, groups, labels, read
from squad.errors import ArgumentError, DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Format", "Rows", "halves", "is_named", "named_labels", "read_rows"]


@dataclass(frozen=True)
class Format:
    """Format of a CSV or TSV file.

    It belongs to one file and is not saved with a model: later files may come from other programs.

    Attributes:
        encoding: Name of a Python codec; None: UTF-8.
        decimal: Decimal sign of numbers.

    Examples:
        >>> Format(decimal=",")
        Format(encoding=None, decimal=',')
    """

    encoding: str | None = None
    decimal: str = "."


@dataclass(frozen=True)
class Rows:
    """The rows of DATA.

    Attributes:
        x: A table, or an array (N, ...).
        labels: (N,), or None if they are not needed; "" for a line that cannot be read, where such lines are allowed.
        groups: (N,), or None.
        source: Name of the data in messages.
    """

    x: "Table | NDArray[Any]"
    labels: "NDArray[Any] | None"
    groups: "NDArray[Any] | None"
    source: str

    def __len__(self) -> int:
        return len(self.x)


#: Parts of a data set, named after a colon.  The publisher's test set is halved: one half to certify, one to evaluate.
PARTS = ("train", "calibration", "test")


def is_named(data: str) -> bool:
    """Return whether DATA is the name of a data set, or NAME:PART; a file of that name takes precedence.

    Examples:
        >>> is_named("digits:test"), is_named("train.csv")
        (True, False)
    """
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
    """Read rows and labels.

    Args:
        data: A file, - for standard input, or the name of a data set.
        part: Part of a data set, if DATA does not name one; files are read as a whole.
        target: Column of labels; data sets and NPZ files need none.
        group: Column of groups.
        data_dir: Folder searched first for data sets.
        need_labels: Whether labels are needed.
        strict: Whether a line that cannot be read is an error.
        format: Format of a CSV or TSV file.

    Returns:
        The rows, with labels and groups where these were requested.
    """
    if is_named(data):
        if format != Format():
            raise ArgumentError(f"--encoding and --decimal are for CSV and TSV files, but {data} is a data set.")
        return _read_dataset(data, part, target, group, data_dir)
    if data not in STDIN_NAMES and not Path(data).exists() and "." not in Path(data).name:
        near = difflib.get_close_matches(data.lower(), DATASETS, 1)
        hint = f"Did you mean {near[0]}?" if near else ""
        raise ArgumentError.of("DATA", repr(data), f"a file, or the name of a data set ({', '.join(DATASETS)})", hint)
    found = read(
        data, target=target if need_labels else None, strict=strict, encoding=format.encoding, decimal=format.decimal
    )
    if isinstance(found, Arrays):
        if group is not None:
            raise DataError(f"{data} has no columns, so --group {group} is impossible. Omit it, or pass a table.")
        return Rows(found.x, labels(found, target) if need_labels else None, None, found.source)
    if need_labels and target is None:
        raise DataError(
            f"Name the label column of {data} with --target; its columns are {format_names(found.columns)}."
        )
    return Rows(
        found,
        _labels(found, target, strict) if need_labels else None,
        None if group is None else groups(found, group),
        found.source,
    )


def _labels(table: Table, target: str | None, strict: bool) -> "NDArray[Any]":
    """Return the labels; a line that cannot be read has none, which is an error only if ``strict``."""
    import numpy as np

    found = labels(table, target, strict=strict)
    missing = [row for row in np.flatnonzero(found == "").tolist() if row not in table.unreadable]
    if missing:
        where = ", ".join(table.where(row) for row in missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise DataError(
            f"Every row of {table.source} needs a label, but there is none in {where}. Leave such rows out."
        )
    return found


def _read_dataset(
    data: str, part: Literal["train", "test"], target: str | None, group: str | None, data_dir: Path | None
) -> Rows:
    """Read a part of an image data set; the arguments are those of :func:`read_rows`."""
    from squad.data.images import load_images

    name, colon, named_part = data.partition(":")
    if colon and named_part not in PARTS:
        raise ArgumentError.of("DATA", repr(data), f"{name}, or one of {', '.join(f'{name}:{one}' for one in PARTS)}")
    for option, value in (("--target", target), ("--group", group)):
        if value is not None:
            raise ArgumentError(f"{option} {value} names a column, but the data set {name} has none. Omit it.")
    with download_bar() as progress:
        images = load_images(name, data_dir, progress)
    train = (named_part or part) == "train"
    for note in images.notes if train else ():
        print_message(f"{name}: {note}")
    x, y = (images.x_train, images.y_train) if train else (images.x_test, images.y_test)
    if named_part in ("calibration", "test"):
        rows = halves(y)[named_part]
        return Rows(x[rows], named_labels(images.classes, y[rows]), None, f"{name} ({named_part} half of the test set)")
    return Rows(x, named_labels(images.classes, y), None, f"{name} ({'training' if train else 'test'} set)")


def halves(y: "NDArray[np.int64]") -> "dict[str, NDArray[np.int64]]":
    """Split a test set into "calibration" rows, which certify, and "test" rows, which evaluate.

    Args:
        y: (N,), classes of the rows; the halves are stratified by class.

    Returns:
        Positions of the rows of each half, by its name.

    Examples:
        >>> import numpy as np
        >>> {name: len(rows) for name, rows in halves(np.array([0, 0, 1, 1])).items()}
        {'calibration': 2, 'test': 2}
    """
    from squad.data.splits import split_rows

    return split_rows(y.tolist(), {"calibration": 0.5, "test": 0.5}, 0).parts


def named_labels(classes: Sequence[str], y: "NDArray[np.int64]") -> "NDArray[Any]":
    """Return the name of each class number, (N,).

    Args:
        classes: Names of the classes.
        y: (N,), class numbers.

    Returns:
        (N,), names, of dtype object.

    Examples:
        >>> import numpy as np
        >>> named_labels(["cat", "dog"], np.array([1, 0])).tolist()
        ['dog', 'cat']
    """
    import numpy as np

    return np.array(classes, dtype=object)[y]
