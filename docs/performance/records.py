"""Records that the page is written from: where they are, what makes them, and what their numbers are to each other."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from squad.errors import SquadError
from squad.records import Record

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"

#: Of seconds, or of a ratio of them: median, q25 and q75.
Spread = Mapping[str, float]

#: What writes each record, and its script.
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

#: The size at which the operation is judged.
BIG: dict[str, Any] = {"N": 8192, "C": 37, "K": 256, "dtype": "float32"}


class MissingRecordError(SquadError):
    """A record that has not been made yet."""


def read(name: str, results: Path | None = None) -> Record:
    """The record called ``name``."""
    path = (results or RESULTS) / f"{name}.json"
    if not path.exists():
        raise MissingRecordError(
            f"docs/performance.md needs the record {name}.json in benchmarks/results; there is none. "
            f"Run `{COMMANDS[name][0]}` (benchmarks/{COMMANDS[name][1]})."
        )
    return Record.load(path)


def where(record: Record) -> str:
    """The device a record was made on."""
    machine = record.machine
    if record.settings.get("device") == "cuda":
        return str(machine["gpu"])
    return f"{machine['cpu']}, {machine['threads']} threads"


def ratio(above: Spread, below: Spread) -> Spread:
    """Of two times: of their medians, and as far as their quartiles allow it to be off."""
    return {
        "median": above["median"] / below["median"],
        "q25": above["q25"] / below["q75"],
        "q75": above["q75"] / below["q25"],
    }


def exactly(value: float) -> Spread:
    """A number that was measured once."""
    return {"median": value, "q25": value, "q75": value}


def only(entries: Iterable[Mapping[str, Any]], **asked: object) -> Spread:
    """Seconds of the one entry that has all that is asked for."""
    listed = list(entries)
    found = [one for one in listed if all(one.get(name) == value for name, value in asked.items())]
    if len(found) != 1:
        raise SquadError(f"the record must have one entry with {asked}; it has {len(found)} among {len(listed)}.")
    seconds: Spread = found[0]["seconds"]
    return seconds


def sampling_way(way: Mapping[str, Any]) -> tuple[str, int]:
    """How a line of fashion_mnist sampled, and T."""
    return way["sampling"], way["samples"]
