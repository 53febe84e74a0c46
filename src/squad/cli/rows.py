"""Labelled rows for a model: those that certify, recalibrate, evaluate and report take."""

from pathlib import Path
from typing import Any

import numpy as np

from squad.cli.inputs import Rows, is_named, read_rows
from squad.cli.screen import say
from squad.data.problems import DataError
from squad.data.tables import Table, groups

__all__ = ["check_kind", "labelled_rows"]


def labelled_rows(
    predictor: Any,
    model: Path,
    data: str,
    target: str | None,
    group: str | None = None,
    data_dir: Path | None = None,
    one_per_group: bool = False,
) -> Rows:
    """DATA with its labels, as the model takes it; groups by the column of training, if it is there.

    Args:
        predictor: the model.
        model: what messages call it.
        data: a file, or the name of a data set.
        target: the column of labels; None is that of training.
        group: the column of groups; None is that of training.
        data_dir: where data sets are looked for first.
        one_per_group: keep only one row of each group.
    """
    if target is None and not is_named(data):
        target = getattr(predictor.transform, "target", None)
    rows = read_rows(data, "test", target=target, strict=False, data_dir=data_dir)
    check_kind(predictor, rows.x, model, data)
    found = _groups(predictor, rows.x, group)
    if one_per_group:
        if found is None:
            raise DataError(f"--one-per-group needs groups: name their column in {data} with --group.")
        return _one_each(rows, found)
    return Rows(rows.x, rows.labels, found, rows.source)


def check_kind(predictor: Any, x: Any, model: Path, data: str) -> None:
    """That a model of a table is asked with a table, and one of arrays with arrays."""
    shape = getattr(predictor.transform, "shape", None)
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
    known = predictor.record.get("settings", {}).get("group")
    if group is None and known is not None:
        if known not in x.columns:
            say(f"{x.source} has no column {known!r}, by which the model was fitted: groups cannot be checked")
            return None
        group = known
    if group is None:
        return None
    readable = np.array([row not in x.unreadable for row in range(len(x))])
    if readable.all():
        return groups(x, group)
    found = np.full(len(x), "", dtype=object)
    found[readable] = groups(Table(x.frame[readable].reset_index(drop=True), x.source), group)
    return found


def _one_each(rows: Rows, found: Any) -> Rows:
    """One row of each group, chosen by a hash: not the first, which may be special."""
    from squad.data.splits import row_order

    order = row_order(len(rows))
    _, first = np.unique(found[order].astype(str), return_index=True)
    kept = np.sort(order[first])
    assert isinstance(rows.x, Table)
    assert rows.labels is not None
    lines = None if rows.x.lines is None else rows.x.lines[kept]
    places = {int(old): new for new, old in enumerate(kept)}
    unreadable = {places[row]: reason for row, reason in rows.x.unreadable.items() if row in places}
    table = Table(rows.x.frame.iloc[kept].reset_index(drop=True), rows.x.source, unreadable, lines)
    return Rows(table, rows.labels[kept], found[kept], f"{rows.source} (one row a group)")
