"""Labelled rows for a model: those that certify, recalibrate, evaluate and report take."""

from pathlib import Path
from typing import Any

import numpy as np

from squad.cli.inputs import Format, Rows, is_named, read_rows
from squad.cli.terminal import warn
from squad.data.tables import Table, groups
from squad.errors import DataError

__all__ = ["check_kind", "labelled_rows"]


def labelled_rows(
    predictor: Any,
    model: Path,
    data: str,
    target: str | None,
    group: str | None = None,
    data_dir: Path | None = None,
    format: Format = Format(),  # noqa: B008  # frozen
) -> Rows:
    """DATA with its labels, as the model takes it; groups by the column of training, if it is there.

    Args:
        predictor: the model.
        model: what messages call it.
        data: a file, or the name of a data set.
        target: the column of labels; None is that of training.
        group: the column of groups; None is that of training.
        data_dir: where data sets are looked for first.
        format: of a CSV or TSV file.
    """
    if target is None and not is_named(data):
        target = getattr(predictor.transform, "target", None)
    rows = read_rows(data, "test", target=target, strict=False, data_dir=data_dir, format=format)
    check_kind(predictor, rows.x, model, data)
    found = _groups(predictor, rows.x, group)
    return Rows(rows.x, rows.labels, found, rows.source)


def check_kind(predictor: Any, x: Any, model: Path, data: str) -> None:
    """That a model of a table gets a table, and one of arrays without names arrays; columns are checked by name."""
    shape = getattr(predictor.transform, "shape", None)
    if getattr(predictor.transform, "names", None) is not None and isinstance(x, Table):
        return
    if shape is None and not isinstance(x, Table):
        raise DataError(f"{model} was trained on a table; {data} has no columns. Give a CSV, TSV or Parquet file.")
    if shape is not None and isinstance(x, Table):
        wanted = " x ".join(map(str, shape))
        raise DataError(
            f"{model} was trained on arrays of {wanted} numbers a row; {data} is a table. Give an NPZ file."
        )


def _groups(predictor: Any, x: Any, group: str | None) -> Any:
    """The group of each row; the column that fit was told of is looked for without being named."""
    if not isinstance(x, Table):
        if group is not None:
            raise DataError(f"Rows of arrays have no columns, so no group {group!r}: write a table.")
        return None
    known = predictor.record.get("group")
    if known is not None and known not in x.columns:
        warn(f"{x.source} has no column {known!r}, by which the model was fitted: groups cannot be checked")
    if group is None:  # that of training is looked at in any case
        return None
    readable = np.array([row not in x.unreadable for row in range(len(x))])
    if readable.all():
        return groups(x, group)
    found = np.full(len(x), "", dtype=object)
    found[readable] = groups(Table(x.frame[readable].reset_index(drop=True), x.source), group)
    return found
