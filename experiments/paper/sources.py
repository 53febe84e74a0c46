"""Where figures take their numbers from: records and studies, by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.paper.jobs.plan import Plan
from experiments.paper.jobs.plan_files import read_plan
from experiments.paper.pages.result_tables import Measured, Variant, load, of_name
from squad.records import Record
from squad.search.search_record import TRIALS, Search, read

__all__ = ["Sources"]


@dataclass(frozen=True)
class Sources:
    """Records, as far as they are there.

    Attributes:
        folder: of the plans, with ``search`` beside them.
        results: of the records.
        quick: whether they are those of --quick.
    """

    folder: Path
    results: Path
    quick: bool = False
    _known: dict[str, list[Measured]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def plan(self, name: str) -> Plan:
        """Such as "table1"."""
        return read_plan(self.folder / f"{name}.toml", quick=self.quick)

    def measured(self, plan: str) -> list[Measured]:
        """The rows of a plan, with their records."""
        if plan not in self._known:
            self._known[plan] = load(self.plan(plan), self.results)
        return self._known[plan]

    def variant(self, name: str, way: str | None = None) -> Variant | None:
        """A row such as "table1/squad", asked in a way (its first by default)."""
        plan, _, row = name.partition("/")
        return of_name(self.measured(plan), row, way)

    def variants(self, plan: str, names: Sequence[str]) -> list[Variant] | None:
        """Rows of a plan by name, each asked in its first way; None unless all of them have a record."""
        measured = self.measured(plan)
        found = [of_name(measured, name) for name in names]
        there = [one for one in found if one is not None]
        return there if len(there) == len(found) else None

    def grid(self, plan: str, name: str) -> list[Variant] | None:
        """The points of a grid, in the plan's order, each asked in its first way; None unless all have a record."""
        points = [one for one in self.measured(plan) if one.row.name.startswith(f"{plan}/{name}/")]
        found = [variant for point in points for variant in point.variants()[:1]]
        return found if found and len(found) == len(points) else None

    def record(self, name: str) -> Record | None:
        """By the name of its job, such as "figures/latents"."""
        rows = self.measured(name.partition("/")[0])
        return next((one.record for one in rows if one.row.name == name), None)

    def search(self, name: str) -> Search | None:
        """A study, such as "fashion-mnist/squad"."""
        path = self.folder / "search" / name / TRIALS
        return read(path) if path.is_file() else None
