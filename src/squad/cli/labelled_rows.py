"""Labelled rows for a saved model, as certify, recalibrate, evaluate and report need them."""

from pathlib import Path
from typing import Any

from squad.cli.inputs import Format, Rows, is_named, read_rows
from squad.cli.terminal import warn
from squad.data.tables import Table, groups
from squad.errors import DataError

__all__ = ["check_table_or_array", "labelled_rows"]


def labelled_rows(
    predictor: Any,
    model: Path,
    data: str,
    target: str | None,
    group: str | None = None,
    data_dir: Path | None = None,
    format: Format = Format(),  # noqa: B008  # frozen
) -> Rows:
    """Read DATA with its labels, and its groups if a column of them is named.

    Args:
        predictor: The model.
        model: Folder of the model, used in error messages.
        data: A file, or the name of a data set.
        target: Column of labels; None: the one used for training.
        group: Column of groups; None: rows have no groups other than those that the model knows itself.
        data_dir: Folder searched first for data sets.
        format: Format of a CSV or TSV file.

    Returns:
        The rows.
    """
    if target is None and not is_named(data):
        target = getattr(predictor.transform, "target", None)
    rows = read_rows(data, "test", target=target, strict=False, data_dir=data_dir, format=format)
    check_table_or_array(predictor, rows.x, model, data)
    return Rows(rows.x, rows.labels, _groups(predictor, rows.x, group), rows.source)


def check_table_or_array(predictor: Any, x: Any, model: Path, data: str) -> None:
    """Check that a model of tables gets a table, and a model of arrays gets arrays; columns are checked elsewhere.

    Args:
        predictor: The model.
        x: The rows.
        model: Folder of the model, used in error messages.
        data: DATA as given on the command line, used in error messages.
    """
    shape = getattr(predictor.transform, "shape", None)
    if getattr(predictor.transform, "names", None) is not None and isinstance(x, Table):
        return
    if shape is None and not isinstance(x, Table):
        raise DataError(f"{model} was trained on a table, but {data} has no columns. Pass a CSV, TSV or Parquet file.")
    if shape is not None and isinstance(x, Table):
        expected = " x ".join(map(str, shape))
        raise DataError(
            f"{model} was trained on arrays with {expected} numbers per row, but {data} is a table. Pass an NPZ file."
        )


def _groups(predictor: Any, x: Any, group: str | None) -> Any:
    """Return the group of each row, "" for unreadable rows; None if no column is named.

    The model itself checks the column of groups that it was trained with; a warning says if that column is missing.
    """
    import numpy as np

    if not isinstance(x, Table):
        if group is not None:
            raise DataError(f"Arrays have no column {group!r} for --group. Omit it, or pass a table.")
        return None
    known = predictor.record.get("group")
    if known is not None and known not in x.columns:
        warn(f"{x.source} has no column {known!r}, the group column of training: groups cannot be checked.")
    if group is None:
        return None
    readable = np.array([row not in x.unreadable for row in range(len(x))])
    if readable.all():
        return groups(x, group)
    found = np.full(len(x), "", dtype=object)
    found[readable] = groups(Table(x.frame[readable].reset_index(drop=True), x.source), group)
    return found
