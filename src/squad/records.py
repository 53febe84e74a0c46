"""Result records: settings, results, machine and versions of one run, as a JSON file with a schema version.

Tables, figures and numbers in the documentation are generated from records, never typed by hand.
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

#: Version of the file layout; incremented with every incompatible change.
SCHEMA = 1

#: Advice for a file that cannot be used.
REMEDY = "Delete it and run the experiment that wrote it again."


class RecordError(SquadError):
    """A file that is not a record, or not one that this version can read."""


def machine() -> dict[str, Any]:
    """Return processor, number of cores and threads, and GPU of this machine; nothing that names or locates it.

    Returns:
        Plain data.  Threads and GPU are reported only if torch is already imported.

    Examples:
        >>> sorted(machine())[:3]
        ['cores', 'cpu', 'system']
    """
    description: dict[str, Any] = {"system": platform.system(), "cpu": _cpu_name(), "cores": os.cpu_count()}
    # Importing torch takes seconds; a record must not cause that.
    torch = sys.modules.get("torch")
    if torch is not None:
        description["threads"] = torch.get_num_threads()
        if torch.cuda.is_available():
            description["gpu"] = torch.cuda.get_device_name()
    return description


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that results depend on, by package name.

    Examples:
        >>> "numpy" in versions()
        True
    """
    installed = {"python": platform.python_version()}
    for name in ("squad-torch", "torch", "numpy", "scipy", "scikit-learn", "triton"):
        try:
            installed[name] = version(name)
        except (PackageNotFoundError, OSError):  # OSError: its folder cannot be read
            continue
    return installed


def _cpu_name() -> str:
    """Model name of the processor on Linux; elsewhere what :mod:`platform` reports."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@dataclass(frozen=True)
class Record:
    """Result of one run.

    Attributes:
        kind: Kind of run, such as "benchmark".
        name: Name of the run.
        settings: Settings of the run.
        results: Measured results, as plain data.
        seed: Seed of the random numbers; None if the run used none.
        date: End of the run, UTC, ISO 8601.
        machine: Hardware, as returned by :func:`machine`.
        versions: Package versions, as returned by :func:`versions`.
        schema: Version of the file layout.

    Examples:
        >>> record = Record("benchmark", "addition", settings={"rows": 10}, results={"seconds": 0.1})
        >>> from tempfile import mkdtemp
        >>> path = record.save(Path(mkdtemp()) / "record.json")
        >>> Record.load(path).results
        {'seconds': 0.1}
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
        """Write the record as JSON, atomically.

        Args:
            path: File to write; an existing one is replaced.

        Returns:
            The path.
        """
        return write_json(path, asdict(self))

    @classmethod
    def load(cls, path: str | Path) -> "Record":
        """Read a record.

        Args:
            path: File written by :meth:`save`.

        Returns:
            The record.

        Raises:
            RecordError: The file is not a JSON record, or has another schema.
            FileNotFoundError: There is no such file.
        """
        try:
            data = json.loads(read_text(path))
        except FileNotFoundError:
            raise
        except OSError as cause:
            raise RecordError(f"{path} cannot be read: {cause.strerror}.") from cause
        except (ValueError, RecursionError) as cause:
            raise RecordError(f"{path} is not valid JSON: {cause}. {REMEDY}") from cause
        if not isinstance(data, dict) or "schema" not in data:
            raise RecordError(f"{path} is not a result record: it has no 'schema'. {REMEDY}")
        schema = data["schema"]
        if schema != SCHEMA:
            raise RecordError(
                f"{path} must have schema {SCHEMA}, got {schema}. Upgrade squad-torch, or run the experiment again."
            )
        try:
            return cls(**data)
        except TypeError as cause:
            raise RecordError(f"{path} does not have the fields of a result record: {cause}. {REMEDY}") from cause
