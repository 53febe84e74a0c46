"""Benchmark records that docs/evidence/performance.md is generated from: paths, commands, ratios of times."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from squad.errors import SquadError
from squad.records import Record

#: Folder of the records.
RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"

#: Median, q25 and q75 of seconds, or of a ratio of them.
Spread = Mapping[str, float]

#: Command that writes each record, and its script.
COMMANDS = {
    "op_bins-cpu": ("make bench", "op_bins.py"),
    "op_cpu": ("make bench", "op_cpu.py"),
    "op_gpu": ("make bench-gpu", "op_gpu.py"),
    "step_cpu": ("make bench", "step_cpu.py"),
    "step_gpu": ("make bench-gpu", "step_gpu.py"),
    "predict_samples-cpu": ("make bench", "predict_samples.py"),
    "predict_samples-cuda": ("make bench-gpu", "predict_samples.py"),
    "svhn_epoch-cuda": ("make bench-gpu", "svhn_epoch.py"),
    "validation_look-cuda": ("make bench-gpu", "validation_look.py"),
    "busy_neighbour": ("make bench", "busy_neighbour.py"),
    "predict_precision": ("make bench", "predict_precision.py"),
    "fashion_mnist-cpu": ("make bench-fashion", "fashion_mnist.py"),
    "fashion_mnist-cuda": ("make bench-gpu", "fashion_mnist.py"),
    "side_by_side": ("make bench-others", "side_by_side"),
}

#: Size of the operation for which the claims are made.
BIG: dict[str, Any] = {"N": 8192, "C": 37, "K": 256, "dtype": "float32"}


class MissingRecordError(SquadError):
    """A record that has not been measured yet."""


def read(name: str, results: Path | None = None) -> Record:
    """Read the record called ``name``."""
    path = (results or RESULTS) / f"{name}.json"
    if not path.exists():
        raise MissingRecordError(
            f"docs/evidence/performance.md needs the record {name}.json, which is missing in benchmarks/results. "
            f"Run `{COMMANDS[name][0]}` (benchmarks/{COMMANDS[name][1]})."
        )
    return Record.load(path)


def where(record: Record) -> str:
    """Return the device on which a record was measured."""
    machine = record.machine
    if record.settings.get("device") == "cuda":
        return str(machine["gpu"])
    threads = machine["threads"]
    return f"{machine['cpu']}, {threads} thread{'' if threads == 1 else 's'}"


def ratio(above: Spread, below: Spread) -> Spread:
    """Return the ratio of two medians, and the widest quartiles that those of the two times allow."""
    return {
        "median": above["median"] / below["median"],
        "q25": above["q25"] / below["q75"],
        "q75": above["q75"] / below["q25"],
    }


def exactly(value: float) -> Spread:
    """Return a number that was measured once, as a spread of zero width."""
    return {"median": value, "q25": value, "q75": value}


def only(entries: Iterable[Mapping[str, Any]], **wanted: object) -> Spread:
    """Return the seconds of the only entry with the given values."""
    listed = list(entries)
    matching = [one for one in listed if all(one.get(name) == value for name, value in wanted.items())]
    if len(matching) != 1:
        raise SquadError(
            f"The record must have exactly one entry with {wanted}, but {len(matching)} of {len(listed)} match. "
            "Measure it again."
        )
    seconds: Spread = matching[0]["seconds"]
    return seconds


def sampling_key(entry: Mapping[str, Any]) -> tuple[str, int]:
    """Return sampling mode and T of an entry of fashion_mnist."""
    return entry["sampling"], entry["samples"]
