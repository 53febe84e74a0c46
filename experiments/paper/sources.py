"""Access by name to the records and studies that pages and figures are made from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.paper.jobs.plan import Plan
from experiments.paper.jobs.plan_files import read_plan
from experiments.paper.row_results import RowResult, Variant, find_variant, load_results
from squad.records import Record
from squad.search.search_record import TRIALS, Search, read

__all__ = ["Sources"]


@dataclass(frozen=True)
class Sources:
    """Plans, records and studies; records are read once.

    Attributes:
        folder: Folder of the plans, with the studies in ``search``.
        results: Folder of the records.
        quick: Whether the records are those of --quick.
    """

    folder: Path
    results: Path
    quick: bool = False
    _cache: dict[str, list[RowResult]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def plan(self, name: str) -> Plan:
        """Read a plan by name, such as "table1"."""
        return read_plan(self.folder / f"{name}.toml", quick=self.quick)

    def row_results(self, plan: str) -> list[RowResult]:
        """Return the rows of a plan with their records."""
        if plan not in self._cache:
            self._cache[plan] = load_results(self.plan(plan), self.results)
        return self._cache[plan]

    def variant(self, name: str, mode: str | None = None) -> Variant | None:
        """Return a row such as "table1/squad" in a prediction mode (its first by default); None without a record."""
        plan, _, row = name.partition("/")
        return find_variant(self.row_results(plan), row, mode)

    def variants(self, plan: str, names: Sequence[str]) -> list[Variant] | None:
        """Return rows of a plan by name, each in its first mode; None unless all of them have a record."""
        results = self.row_results(plan)
        found = [find_variant(results, name) for name in names]
        existing = [variant for variant in found if variant is not None]
        return existing if len(existing) == len(found) else None

    def grid(self, plan: str, name: str) -> list[Variant] | None:
        """Return the points of a grid in the plan's order, each in its first mode; None unless all have a record."""
        points = [result for result in self.row_results(plan) if result.row.name.startswith(f"{plan}/{name}/")]
        variants = [variant for point in points for variant in point.variants()[:1]]
        return variants if variants and len(variants) == len(points) else None

    def record(self, name: str) -> Record | None:
        """Return a record by the name of its job, such as "figures/latents"; None if there is none."""
        results = self.row_results(name.partition("/")[0])
        return next((result.record for result in results if result.row.name == name), None)

    def search(self, name: str) -> Search | None:
        """Return a study by name, such as "fashion-mnist/squad"; None if there is none."""
        path = self.folder / "search" / name / TRIALS
        return read(path) if path.is_file() else None
