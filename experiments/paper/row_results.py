"""Rows of a plan with their records, checked on reading."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.paper.jobs.measure import DEFAULT_METHOD, RISKS
from experiments.paper.jobs.plan import MissingStudyError, Plan, PredictionMode, Row
from experiments.paper.jobs.run import record_path
from experiments.paper.pages.markdown import MEASURES
from squad.records import Record, RecordError

__all__ = ["RowResult", "Variant", "find_variant", "load_results"]


@dataclass(frozen=True)
class RowResult:
    """A row and its record.

    Attributes:
        row: The row.
        record: Its record; None if it was not run yet.
        outdated: Whether there is a record with other settings, which is not used.
    """

    row: Row
    record: Record | None
    outdated: bool = False

    def variants(self) -> list["Variant"]:
        """Return one variant per prediction mode; none without a record."""
        if self.record is None:
            return []
        return [Variant(self.row, content, self.record) for content in self.record.results["ways"]]


@dataclass(frozen=True)
class Variant:
    """The results of a row in one prediction mode.

    Attributes:
        row: The row.
        content: The mode's entry in the record.
        record: The record.
    """

    row: Row
    content: Mapping[str, Any]
    record: Record

    @property
    def mode(self) -> PredictionMode:
        """The prediction mode."""
        return PredictionMode(self.content["sampling"], self.content["samples"], self.content["confidence"])

    @property
    def networks(self) -> list[dict[str, Any]]:
        """Measures of each network."""
        return list(self.content["each"])

    @property
    def ensemble(self) -> dict[str, Any]:
        """Measures of the ensemble."""
        return dict(self.content["ensemble"])

    def values(self, measure: str) -> list[float]:
        """Return a measure of each network."""
        return [network[measure] for network in self.networks]

    def paired_differences(self, other: "Variant", measure: str) -> list[float]:
        """Return the differences between networks with the same seed and split."""
        by_seed = {network["seed"]: network[measure] for network in other.networks}
        return [network[measure] - by_seed[network["seed"]] for network in self.networks if network["seed"] in by_seed]

    @property
    def label(self) -> str:
        """Label of the row, with the prediction mode unless it is the usual one of such networks."""
        usual = self.mode in (PredictionMode("mean", 1), PredictionMode("sample", 32))
        return self.row.label if usual else f"{self.row.label}, {self.mode.text}"


def load_results(plan: Plan, results: Path) -> list[RowResult]:
    """Return the rows of a plan with their records; a record with other settings is not used.

    Raises:
        PlanError: If a row of the plan is invalid.
        RecordError: If a record is damaged.
    """
    return [_load_row(plan, row, record_path(results, row.name)) for row in plan.rows]


def find_variant(results: Sequence[RowResult], name: str, mode: str | None = None) -> Variant | None:
    """Find a row by the last part of its name, in a prediction mode (its first by default)."""
    for result in results:
        if result.row.name.partition("/")[2] == name:
            for variant in result.variants():
                if mode is None or variant.mode == PredictionMode.parse(mode):
                    return variant
    return None


def _load_row(plan: Plan, row: Row, path: Path) -> RowResult:
    try:
        settings = plan.job(row).to_dict()  # without a record as well: errors in the plan must be reported
    except MissingStudyError:
        settings = None  # no record can match
    if not path.exists():
        return RowResult(row, None)
    record = Record.load(path)
    if record.settings != settings:
        return RowResult(row, None, outdated=True)
    problem = _find_problem(record, row)
    if problem:
        raise RecordError(f"{path} is not a valid record of an experiment: {problem}. Delete it and run it again.")
    return RowResult(row, record)


def _find_problem(record: Record, row: Row) -> str:
    """Describe what is wrong with a record; "" if it has everything the pages need."""
    results = record.results if isinstance(record.results, Mapping) else {}
    types: dict[str, Any] = {
        "ways": list, "members": list, "notes": list, "weights": int, "seconds": (int, float),
    }  # fmt: skip
    for name, kind in types.items():
        if not isinstance(results.get(name), kind):
            return f"{name} is {results.get(name)!r}"
    probes = results.get("probes") or {}  # may be missing if the row has none
    missing = [name for name in record.settings["probes"] if name not in (*probes, "curves")]
    if missing:
        return f"the probe {missing[0]} is missing"
    expected = [[mode.sampling, mode.samples, mode.confidence] for mode in row.modes]
    modes = [[mode.get(key) for key in ("sampling", "samples", "confidence")] for mode in results["ways"]]
    if modes != expected:
        return f"ways is {modes}, not {expected}"
    for index, mode in enumerate(results["ways"], 1):
        networks = mode.get("each")
        if not isinstance(networks, list) or not networks:
            return f"way {index} has no networks"
        named = [
            *((f"network {count}", one) for count, one in enumerate(networks, 1)),
            ("ensemble", mode.get("ensemble")),
        ]
        for name, measures in named:
            if problem := _find_bad_measure(measures, bool(record.settings["halves"]), name != "ensemble"):
                return f"{problem} of {name} in way {index}"
    return ""


def _find_bad_measure(measures: Any, halves: bool, seeded: bool) -> str:
    """Describe what is wrong with the measures of one predictor; "" if nothing is."""
    if not isinstance(measures, Mapping):
        return f"{measures!r} instead of the measures"
    names = [*MEASURES, "aurc", *(f"default@{risk}" for risk in RISKS), *(["seed"] if seeded else [])]
    for name in names:
        value = measures.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return f"{value!r} as {name}"
    if halves:
        for risk in RISKS:
            value = measures.get(f"halves@{risk}")
            if not isinstance(value, Mapping) or not {"sgr", DEFAULT_METHOD} <= value.keys():
                return f"{value!r} as halves@{risk}"
    return ""
