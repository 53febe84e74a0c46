"""Where figures come from: settings, checksums and versions, as names and values."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from squad.data.tables import Table
from squad.predictor import Predictor
from squad.predictor.identity import identity
from squad.records import versions

__all__ = ["flat", "model_facts", "test_facts"]

#: Longer lists are cut.
LETTERS = 200


def model_facts(predictor: Predictor) -> list[tuple[str, str]]:
    """How it was made, as names and values."""
    record = {name: value for name, value in predictor.record.items() if name not in ("history", "members")}
    return [
        ("network", predictor.config.name),
        *flat(predictor.config.to_dict(), "network."),
        ("members", str(predictor.members)),
        ("sampling", f"{predictor.num_samples} {predictor.sampling}"),
        ("SHA-256 of its weights and settings", identity(predictor)),
        *flat({} if predictor.recalibration is None else predictor.recalibration.to_json(), "recalibration."),
        *flat(record),
    ]


def flat(data: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as names with dots and short texts."""
    found: list[tuple[str, str]] = []
    for name, value in data.items():
        if isinstance(value, Mapping):
            found += flat(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            text = ", ".join(map(str, value))
            found.append((prefix + name, text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"))
        elif value is not None:
            found.append((prefix + name, str(value)))
    return [(name, text) for name, text in found if text]


def test_facts(rows: Any, labels: list[Any], source: str, date: str) -> tuple[str, list[tuple[str, str]]]:
    """What the test is called; and what was tested, when, and with which versions."""
    called, digest = _digest(rows, labels, source)
    return called, [
        ("test", called),
        ("rows", f"{len(rows):,}"),
        digest,
        ("report made", date.replace("T", " ").replace("+00:00", " UTC")),
        *((f"version of {name}", text) for name, text in versions().items()),
    ]


def _digest(rows: Any, labels: list[Any], source: str) -> tuple[str, tuple[str, str]]:
    """What tells this test from another: of the file if it is one, otherwise of the rows and labels themselves.

    A file is called by its name alone: where it lies is nobody's business who gets the report.
    """
    path = Path(source)
    try:
        if path.is_file():
            with path.open("rb") as file:
                return path.name, ("SHA-256 of the test's file", hashlib.file_digest(file, "sha256").hexdigest())
    except (OSError, ValueError):
        pass
    digest = hashlib.sha256()
    if isinstance(rows, Table):
        digest.update(rows.frame.to_csv(index=False, lineterminator="\n").encode("utf-8", "surrogatepass"))
    else:
        digest.update(f"{rows.dtype.str} {rows.shape}".encode())
        digest.update(np.ascontiguousarray(rows).tobytes())
    digest.update("\n".join(map(str, labels)).encode("utf-8", "surrogatepass"))
    return source, ("SHA-256 of its rows and labels", digest.hexdigest())
