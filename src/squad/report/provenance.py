"""Provenance of a report: settings, checksums and versions, as pairs of names and values."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from squad.data.tables import Table
from squad.predictor import Predictor
from squad.predictor.certification import identity
from squad.records import versions

__all__ = ["flatten", "model_facts", "test_facts"]

#: Maximum number of characters of a list; longer ones are cut.
MAX_LIST_LENGTH = 200


def model_facts(predictor: Predictor) -> list[tuple[str, str]]:
    """Return how a model was built and trained."""
    record = {name: value for name, value in predictor.record.items() if name not in ("history", "members")}
    return [
        ("network", predictor.config.name),
        *flatten(predictor.config.to_dict(), "network."),
        ("members", str(predictor.members)),
        ("sampling", f"{predictor.num_samples} {predictor.sampling}"),
        ("SHA-256 of weights and settings", identity(predictor)),
        *flatten({} if predictor.recalibration is None else predictor.recalibration.to_json(), "recalibration."),
        *flatten(record),
    ]


def flatten(data: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten nested settings into dotted names and short texts.

    Empty values are dropped, and the mappings in a list are numbered from 1.

    Args:
        data: Settings, possibly nested.
        prefix: Prefix of every name.

    Returns:
        Pairs of dotted name and text.

    Examples:
        >>> flatten({"a": {"b": 1, "c": None}, "d": [2, 3]})
        [('a.b', '1'), ('d', '2, 3')]
        >>> flatten({"attempts": [{"m": 300}, {"m": 400}]})
        [('attempts.1.m', '300'), ('attempts.2.m', '400')]
    """
    pairs: list[tuple[str, str]] = []
    for name, value in data.items():
        if isinstance(value, Mapping):
            pairs += flatten(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)) and value and all(isinstance(one, Mapping) for one in value):
            pairs += flatten({str(number): one for number, one in enumerate(value, 1)}, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            text = ", ".join(map(str, value))
            pairs.append((prefix + name, text if len(text) <= MAX_LIST_LENGTH else text[: MAX_LIST_LENGTH - 1] + "…"))
        elif value is not None:
            pairs.append((prefix + name, str(value)))
    return [(name, text) for name, text in pairs if text]


def test_facts(rows: Any, labels: list[Any], source: str, date: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the name of the test set, and what was tested, when, and with which versions.

    Args:
        rows: Table or array of the test set.
        labels: True labels.
        source: Name of the test set, such as that of its file.
        date: Time of the report in ISO format, in UTC.

    Returns:
        Name of the test set, and pairs of name and text.
    """
    name, checksum = _checksum(rows, labels, source)
    return name, [
        ("test set", name),
        ("rows", f"{len(rows):,}"),
        checksum,
        ("report created", date.replace("T", " ").replace("+00:00", " UTC")),
        *((f"version of {package}", text) for package, text in versions().items()),
    ]


def _checksum(rows: Any, labels: list[Any], source: str) -> tuple[str, tuple[str, str]]:
    """Return the name of the test set and its checksum: of the file if there is one, else of rows and labels.

    Only the name of a file is shown: its folder should not be disclosed to readers of the report.
    """
    path = Path(source)
    try:
        if path.is_file():
            with path.open("rb") as file:
                return path.name, ("SHA-256 of the test file", hashlib.file_digest(file, "sha256").hexdigest())
    except (OSError, ValueError):
        pass
    digest = hashlib.sha256()
    if isinstance(rows, Table):
        digest.update(rows.frame.to_csv(index=False, lineterminator="\n").encode("utf-8", "surrogatepass"))
    else:
        digest.update(f"{rows.dtype.str} {rows.shape}".encode())
        digest.update(np.ascontiguousarray(rows).tobytes())
    digest.update("\n".join(map(str, labels)).encode("utf-8", "surrogatepass"))
    return source, ("SHA-256 of rows and labels", digest.hexdigest())
