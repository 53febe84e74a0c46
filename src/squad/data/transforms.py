"""From rows to the network's inputs: learned from the training rows, saved with the model as plain JSON.

A row's encoding depends on that row alone, to the bit, whatever else is in the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from squad.data.array_transform import ArrayTransform
from squad.data.column_names import check_names, listed
from squad.data.columns import CategoryColumn, NumberColumn, column_from_json, fit_column
from squad.data.encoding import Encoded, Reasons, saved
from squad.data.tables import Table
from squad.errors import DataError

__all__ = ["ArrayTransform", "Encoded", "TableTransform", "from_json"]


@dataclass(frozen=True)
class TableTransform:
    """A table's columns as features.

    Attributes:
        target: the column of labels; it may be missing when the transform is applied.
        columns: what is done with each column that is used, in their order in training.
        constant: columns that were the same in all rows of training: not used, and not needed.
        dropped: columns left out on request, the group among them.
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
        """Learn the columns from the rows of training.

        Args:
            table: the rows, each of which must be readable.
            target: the column of labels, which is no feature.
            drop: columns to leave out.
            group: the column that says which rows belong together; left out as well.
            ranges: learn the range of every number, outside of which a row is novel.
        """
        dropped = [drop] if isinstance(drop, str) else list(drop)
        dropped += [group] if group is not None and group not in dropped else []
        for name in (target, *dropped):
            table.column(name)
        if target in dropped:
            role = "the group" if target == group else "dropped"
            raise DataError(f"The target {target!r} cannot be {role} as well: choose another column.")
        if not len(table):
            raise DataError(f"{table.source} must have at least one row to learn from; it has none.")
        if table.unreadable:
            row = min(table.unreadable)
            raise DataError(f"{table.source} must be readable to learn from it; {table.unreadable[row]}.")
        used = [name for name in table.columns if name != target and name not in dropped]
        fitted = {name: fit_column(table, name, len(used) if ranges else None) for name in used}
        columns = tuple(column for column in fitted.values() if column is not None)
        constant = tuple(name for name, column in fitted.items() if column is None)
        if not columns:
            left = f"{listed(constant)}: the same in every row" if constant else "no column is left"
            raise DataError(f"{table.source} must have a column to learn from besides the target; {left}.")
        return cls(target, columns, constant, tuple(dropped))

    @cached_property
    def features(self) -> int:
        """How many inputs the network has."""
        return sum(column.features for column in self.columns)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should be told."""
        if not self.constant:
            return ()
        word = "Column" if len(self.constant) == 1 else "Columns"
        return (f"{word} {listed(self.constant)} never changed in training and will not be used.",)

    def apply(self, table: Table) -> Encoded:
        """Encode rows.  Columns may come in any order, and more of them; rows that cannot be are problems."""
        check_names(table.columns, (column.name for column in self.columns), table.source)
        x = np.zeros((len(table), self.features), dtype=np.float32)
        found, novel = Reasons(), Reasons()
        start = 0
        for column in self.columns:
            end = start + column.features
            column.encode(table, x[:, start:end], found.add, novel.add)
            start = end
        problems = {**found.told(), **{int(row): reason for row, reason in table.unreadable.items()}}
        x[list(problems)] = 0.0
        return Encoded(x, dict(sorted(problems.items())), novel.told(without=problems))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kind": "table",
            "target": self.target,
            "columns": [column.to_json() for column in self.columns],
            "constant": list(self.constant),
            "dropped": list(self.dropped),
        }

    @classmethod
    def from_json(cls, data: object) -> "TableTransform":
        """What :meth:`to_json` made, checked."""
        what = "table transform"
        target = saved(data, "target", str, what)
        columns = tuple(column_from_json(entry) for entry in saved(data, "columns", list, what))
        constant, dropped = (tuple(saved(data, entry, list, what)) for entry in ("constant", "dropped"))
        names = [target, *(column.name for column in columns), *constant, *dropped]
        if not columns or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise DataError(
                f"A saved {what} must have columns, and each name once, be it target, column, constant or dropped."
            )
        return cls(target, columns, constant, dropped)


def from_json(data: object) -> TableTransform | ArrayTransform:
    """A transform from what its ``to_json`` made; no code runs, and nonsense is a :class:`DataError`."""
    kind = saved(data, "kind", str, "transform")
    if kind == "table":
        return TableTransform.from_json(data)
    if kind == "array":
        return ArrayTransform.from_json(data)
    raise DataError(f"'kind' of a saved transform must be 'table' or 'array', got {kind!r}.")
