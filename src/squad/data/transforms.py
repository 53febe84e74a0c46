"""Encode rows as network inputs; transforms are learned from the training rows and saved with the model as JSON.

The encoding of a row depends on that row alone, bit for bit, whatever else is in the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from squad.data.array_transform import ArrayTransform
from squad.data.column_names import check_names, format_names
from squad.data.columns import CategoryColumn, NumberColumn, column_from_json, fit_column
from squad.data.encoding import Encoded, Reasons, saved_entry
from squad.data.tables import Table
from squad.errors import DataError

__all__ = ["ArrayTransform", "Encoded", "TableTransform", "from_json"]


@dataclass(frozen=True)
class TableTransform:
    """Encoding of a table's columns as features.

    Attributes:
        target: Column of labels; need not be present when the transform is applied.
        columns: Encodings of the columns that are used, in training order.
        constant: Columns that were constant in training; neither used nor needed.
        dropped: Columns excluded on request, including the group column.

    Examples:
        >>> import pandas as pd
        >>> table = Table.of(pd.DataFrame({"age": [20, 40], "sex": ["f", "m"], "ill": ["no", "yes"]}))
        >>> TableTransform.fit(table, "ill").apply(table).x
        array([[-1.,  1.,  0.],
               [ 1.,  0.,  1.]], dtype=float32)
    """

    target: str
    columns: tuple[NumberColumn | CategoryColumn, ...]
    constant: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        table: Table,
        target: str,
        drop: Sequence[str] = (),
        group: str | None = None,
        ranges: bool = True,
    ) -> "TableTransform":
        """Learn the encoding from the training rows.

        Args:
            table: Training rows; all must be readable.
            target: Column of labels, not used as a feature.
            drop: Columns to exclude.
            group: Column that says which rows belong together; excluded as well.
            ranges: Learn the range of every number, outside of which a row is novel.

        Returns:
            The fitted transform.

        Raises:
            DataError: A column is unknown or unusable, or no column is left.
        """
        dropped = [drop] if isinstance(drop, str) else list(drop)
        dropped += [group] if group is not None and group not in dropped else []
        for name in (target, *dropped):
            table.column(name)
        if target in dropped:
            role = "the group" if target == group else "dropped"
            raise DataError(f"The target {target!r} cannot be {role} as well. Choose another column.")
        if not len(table):
            raise DataError(f"{table.source} must have at least one row to fit on, got none.")
        if table.unreadable:
            row = min(table.unreadable)
            raise DataError(f"{table.source} has an unreadable row: {table.unreadable[row]}. Correct or delete it.")
        used = [name for name in table.columns if name != target and name not in dropped]
        fitted = {name: fit_column(table, name, len(used) if ranges else None) for name in used}
        columns = tuple(column for column in fitted.values() if column is not None)
        constant = tuple(name for name, column in fitted.items() if column is None)
        if not columns:
            left = f"only constant columns ({format_names(constant)})" if constant else "no other column"
            raise DataError(f"{table.source} must have a usable column besides the target, got {left}.")
        return cls(target, columns, constant, tuple(dropped))

    @cached_property
    def features(self) -> int:
        """Number of features: inputs of the network."""
        return sum(column.features for column in self.columns)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, as sentences."""
        if not self.constant:
            return ()
        subject, verb = ("Column", "is") if len(self.constant) == 1 else ("Columns", "are")
        return (f"{subject} {format_names(self.constant)} {verb} constant in the training set and will not be used.",)

    def apply(self, table: Table) -> Encoded:
        """Encode rows.

        Args:
            table: The rows; columns may be in any order, and additional ones are ignored.

        Returns:
            The encoded rows; rows that cannot be encoded are problems.

        Raises:
            DataError: A column is missing or holds dates or objects.
        """
        check_names(table.columns, (column.name for column in self.columns), table.source)
        x = np.zeros((len(table), self.features), dtype=np.float32)
        invalid, novel = Reasons(), Reasons()
        start = 0
        for column in self.columns:
            end = start + column.features
            column.encode(table, x[:, start:end], invalid.add, novel.add)
            start = end
        problems = {**invalid.messages(), **{int(row): reason for row, reason in table.unreadable.items()}}
        x[list(problems)] = 0.0
        return Encoded(x, dict(sorted(problems.items())), novel.messages(without=problems))

    def to_json(self) -> dict[str, Any]:
        """Return the transform as plain data."""
        return {
            "kind": "table",
            "target": self.target,
            "columns": [column.to_json() for column in self.columns],
            "constant": list(self.constant),
            "dropped": list(self.dropped),
        }

    @classmethod
    def from_json(cls, data: object) -> "TableTransform":
        """Restore a transform from the output of :meth:`to_json`.

        Raises:
            DataError: ``data`` is not a valid transform.
        """
        what = "table transform"
        target = saved_entry(data, "target", str, what)
        columns = tuple(column_from_json(entry) for entry in saved_entry(data, "columns", list, what))
        constant, dropped = (tuple(saved_entry(data, entry, list, what)) for entry in ("constant", "dropped"))
        names = [target, *(column.name for column in columns), *constant, *dropped]
        if not columns or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise DataError(
                f"A saved {what} must have columns, and names that are unique among target, columns, constant and"
                " dropped."
            )
        return cls(target, columns, constant, dropped)


def from_json(data: object) -> TableTransform | ArrayTransform:
    """Restore a transform from the output of its ``to_json``, without executing code.

    Raises:
        DataError: ``data`` is not a valid transform.
    """
    kind = saved_entry(data, "kind", str, "transform")
    if kind == "table":
        return TableTransform.from_json(data)
    if kind == "array":
        return ArrayTransform.from_json(data)
    raise DataError(f"'kind' of a saved transform must be 'table' or 'array', got {kind!r}.")
