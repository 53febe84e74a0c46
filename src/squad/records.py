"""The result record: what was run, with what, where, and what came out; one JSON file, with a schema version.

Tables, figures and the numbers in the documentation are written from records, never from memory.
"""

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from squad.errors import SquadError
from squad.files import read_text, write_json

__all__ = ["SCHEMA", "Record", "RecordError", "machine", "versions"]

#: Raised with every change that a reader of old files would misread.
SCHEMA = 1


class RecordError(SquadError):
    """A file that is not a record this version can read."""


def machine() -> dict[str, Any]:
    """Processor, cores, memory and GPU of this machine; nothing that names or locates it."""
    found: dict[str, Any] = {"system": platform.system(), "cpu": _cpu(), "cores": os.cpu_count()}
    # Only where torch is in use already: a record must not be what starts it.
    torch = sys.modules.get("torch")
    if torch is not None:
        found["threads"] = torch.get_num_threads()
        if torch.cuda.is_available():
            found["gpu"] = torch.cuda.get_device_name()
    return found


def versions() -> dict[str, str]:
    """Versions of Python and of the packages a result depends on, those that are installed."""
    found = {"python": platform.python_version()}
    for name in ("squad-torch", "torch", "numpy", "scipy", "scikit-learn", "triton"):
        try:
            found[name] = version(name)
        except (PackageNotFoundError, OSError):  # or one whose folder cannot be read
            continue
    return found


def _cpu() -> str:
    """The processor's own name on Linux, what Python knows elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@dataclass(frozen=True)
class Record:
    """One result.

    Attributes:
        kind: what sort of run, such as "benchmark".
        name: which one.
        settings: what it was asked to do.
        results: what it measured.
        seed: of its random numbers, if it used any.
        date: when it ended, UTC, ISO 8601.
        machine, versions: where and with what.
        schema: version of this layout.
    """

    kind: str
    name: str
    settings: Mapping[str, Any]
    results: Any
    seed: int | None = None
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    machine: Mapping[str, Any] = field(default_factory=machine)
    versions: Mapping[str, str] = field(default_factory=versions)
    schema: int = SCHEMA

    def save(self, path: str | Path) -> Path:
        """Write the record as JSON, whole or not at all."""
        return write_json(path, asdict(self))

    @classmethod
    def load(cls, path: str | Path) -> "Record":
        """Read a record; a newer schema, another layout or no JSON at all is a :class:`RecordError`."""
        try:
            data = json.loads(read_text(path))
        except FileNotFoundError:
            raise
        except OSError as cause:
            raise RecordError(f"{path} must be a JSON record; it cannot be read: {cause.strerror}.") from cause
        except (ValueError, RecursionError) as cause:
            hint = "Delete it, and run again what made it."
            raise RecordError(f"{path} must be a JSON record; it does not parse: {cause}. {hint}") from cause
        if not isinstance(data, dict) or "schema" not in data:
            raise RecordError(f"{path} must be a record, with a schema. Delete it, and run again what made it.")
        schema = data["schema"]
        if schema != SCHEMA:
            raise RecordError(
                f"{path} must be a record of schema {SCHEMA}, got {schema}. Upgrade squad-torch, or run again."
            )
        try:
            return cls(**data)
        except TypeError as cause:
            raise RecordError(f"{path} must have the fields of a record: {cause}.") from cause
