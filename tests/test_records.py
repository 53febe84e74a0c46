"""Result records: round trips, atomic writing, and refusal of other files."""

import json
import math
from pathlib import Path

import pytest

from squad.errors import SquadError
from squad.records import SCHEMA, Record, machine, versions


def record(**changes: object) -> Record:
    fields: dict[str, object] = {"kind": "benchmark", "name": "x", "settings": {"C": 5}, "results": [1.5]}
    return Record(**(fields | changes))  # type: ignore[arg-type]


def test_round_trip(tmp_path: Path) -> None:
    made = record(seed=3)
    assert Record.load(made.save(tmp_path / "deep" / "r.json")) == made
    assert made.schema == SCHEMA
    assert made.machine["cores"] >= 1
    assert made.versions["torch"]
    assert made.date.endswith("+00:00")


def test_saving_is_atomic(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    record().save(path)
    before = path.read_text()
    with pytest.raises(ValueError, match="JSON"):
        record(results=math.nan).save(path)
    with pytest.raises(TypeError):
        record(results=object()).save(path)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "r.json is not valid JSON"),
        ("[]", "r.json .*no 'schema'"),
        (json.dumps({"schema": SCHEMA + 1}), f"schema {SCHEMA}, got {SCHEMA + 1}. Upgrade"),
        (json.dumps({"schema": SCHEMA, "kind": "x"}), "r.json .*fields.*'name'"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(SquadError, match=words):
        Record.load(path)


def test_machine_does_not_include_its_name() -> None:
    assert set(machine()) <= {"system", "cpu", "cores", "threads", "gpu"}
    assert "python" in versions()
