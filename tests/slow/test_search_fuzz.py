"""Mutated study.db, trials.json and space files: the command either works or ends with a one-line error.

Seeded, so that a failure comes again: each case is a function of its number.
"""

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from squad.cli import main
from squad.errors import SquadError
from squad.search.search_record import read
from squad.search.space import Space
from tests.cli.test_search import QUICK

#: How many mutants of each kind; a session of hours may take more.
CASES = 150
#: Values that a cell or a field is not made for.
ODD: tuple[Any, ...] = (
    None, "", "x", "null", "NaN", "[", "{}", "[]", '"', "\x00", "é\ud7ff", -1, 0, 1, 2**31, 2**63 - 1, -(2**63), 1e308,
    float("inf"), float("nan"), b"\xff\xfe", b"", "COMPLETE", "RUNNING", "9" * 5000, "[" * 2000, "2026-13-45", True,
)  # fmt: skip


@pytest.fixture(scope="module")
def made(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study with two trials, and one that was stopped."""
    folder = tmp_path_factory.mktemp("made")
    for name, more in (("done", ()), ("half", ("--minutes", "1e-9"))):
        arguments = [str(prepared / "train.csv") if word == "train.csv" else word for word in QUICK]
        assert main([*arguments, "--trials", "2", "--quiet", *more, "--out", str(folder / name)]) == 0
    for path in folder.glob("*/study.db"):  # all of it in one file
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.close()
    return folder


def check(code: int, text: str, what: str) -> None:
    """Check the exit code and that an error is one line; other exceptions would be raised by main."""
    assert code in (0, 2), what
    last = text.splitlines()[-1] if text else ""
    assert code == 0 or last.startswith("squad: "), f"{what}: {text}"
    assert "Traceback" not in text, f"{what}: {text}"


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Change, cut off, insert or zero bytes."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 4, 64))):
        at = chance.randrange(len(found))
        match chance.randrange(5):
            case 0:
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                found[at : at + 8] = chance.randbytes(8)
            case 2:
                page = at // 4096 * 4096
                found[page : page + 4096] = bytes(len(found[page : page + 4096]))
            case 3:
                found = found[: max(1, at)]
            case _:
                other = chance.randrange(len(found))
                found[at : at + 64] = found[other : other + 64]
    return bytes(found)


def edited(path: Path, chance: random.Random) -> str:
    """Change cells, rows or tables of a database; return what was done."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = OFF")
    tables = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    done = []
    for _ in range(chance.choice((1, 1, 2, 5))):
        table = chance.choice(tables)
        rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {table}")]
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        kind, value = chance.randrange(8), chance.choice(ODD)
        try:
            if kind == 0:
                connection.execute(f"DROP TABLE {table}")
                tables.remove(table)
                done.append(f"DROP {table}")
            elif kind == 1 and rows:
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", [chance.choice(rows)])
                done.append(f"DELETE {table}")
            elif rows:
                column = chance.choice(columns)
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", [value, chance.choice(rows)])
                done.append(f"{table}.{column} = {value!r:.40}")
        except (sqlite3.Error, OverflowError, UnicodeError):
            continue
    connection.close()
    return "; ".join(done)


@pytest.mark.parametrize("kind", ["bytes", "cells"])
@pytest.mark.parametrize("command", ["show", "search"])
def test_study_db(
    made: Path, prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, command: str
) -> None:
    refused = 0
    arguments = [str(prepared / "train.csv") if word == "train.csv" else word for word in QUICK]
    cases = CASES if command == "show" else CASES // 5  # which trains
    for case in range(cases):
        chance = random.Random(f"{kind}/{command}/{case}")
        study = Path(shutil.copytree(made / chance.choice(("done", "half")), tmp_path / f"s{case}"))
        if chance.random() < 0.7:  # or the record takes the database's place
            (study / "trials.json").unlink()
        if kind == "bytes":
            (study / "study.db").write_bytes(flipped((study / "study.db").read_bytes(), chance))
            what = f"case {case}"
        else:
            what = f"case {case}: {edited(study / 'study.db', chance)}"
        capsys.readouterr()
        try:
            if command == "show":
                code = main(["search", "show", str(study), "--no-figures"])
            else:
                code = main([*arguments, "--trials", "2", "--quiet", "--out", str(study)])
        except BaseException as escaped:
            raise AssertionError(f"{what}: {type(escaped).__name__} escaped: {escaped}") from escaped
        check(code, capsys.readouterr().err, what)
        refused += code == 2
        shutil.rmtree(study)
    assert refused > cases // 10  # they were mutants


def nodes(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all parts of plain data."""
    found = [path] if path else []
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        found += nodes(each, (*path, key))
    return found


def changed(data: Any, chance: random.Random) -> str:
    """Return plain data as JSON, with some parts replaced or left out."""
    plain = [value for value in ODD if not isinstance(value, bytes)]
    for _ in range(chance.choice((1, 1, 3))):
        path = chance.choice(nodes(data))
        place = data
        for key in path[:-1]:
            place = place[key]
        if chance.random() < 0.25:
            del place[path[-1]]
        else:
            place[path[-1]] = chance.choice([*plain, [], {}, [[]], {"a": 1}])
        if not nodes(data):
            break
    return json.dumps(data)


@pytest.mark.parametrize("command", ["show", "search"])
def test_trials_json(
    made: Path, prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    refused = 0
    arguments = [str(prepared / "train.csv") if word == "train.csv" else word for word in QUICK]
    cases = CASES if command == "show" else CASES // 5
    for case in range(cases):
        chance = random.Random(f"json/{command}/{case}")
        study = Path(shutil.copytree(made / "done", tmp_path / f"s{case}"))
        (study / "study.db").unlink()
        text = (study / "trials.json").read_text()
        if chance.random() < 0.3:
            (study / "trials.json").write_bytes(flipped(text.encode(), chance))
        else:
            (study / "trials.json").write_text(changed(json.loads(text), chance))
        capsys.readouterr()
        try:
            if command == "show":
                code = main(["search", "show", str(study), "--no-figures"])
            else:
                code = main([*arguments, "--trials", "2", "--quiet", "--out", str(study)])
        except BaseException as escaped:
            raise AssertionError(f"case {case}: {type(escaped).__name__} escaped: {escaped}") from escaped
        check(code, capsys.readouterr().err, f"case {case}")
        refused += code == 2
        shutil.rmtree(study)
    assert refused > cases // 10


SPACE = """model = "squad"
[network]
bins = {low = 5, high = 21, step = 2}
dropout = {low = 0.0, high = 0.5}
hidden = {choices = [[32], [8, 8]]}
prior = {choices = ["uniform", "gaussian"]}
shared = true
[training]
lr = {low = 1e-4, high = 1e-2, log = true}
batch_size = {low = 16, high = 512, octaves = 0.5}
max_epochs = 30
"""
TOKENS = ("0", "-1", "1e309", "nan", "inf", "true", "[]", "{}", '""', "[[1]]", "99999999999999999999", "{low = 1}",
          "2020-01-01", "low", "high", "step", "octaves", "log", "choices", "=", "[network]", "\n",
          "[" * 3000)  # fmt: skip


def test_space_files(tmp_path: Path) -> None:
    refused = 0
    path = tmp_path / "space.toml"
    for case in range(20 * CASES):
        chance = random.Random(f"toml/{case}")
        words = SPACE.replace("shared = true\n", "").replace(" ", "\x1f \x1f").split("\x1f")
        for _ in range(chance.choice((1, 1, 2, 4))):
            words[chance.randrange(len(words))] = chance.choice(TOKENS)
        data = "".join(words).encode()
        path.write_bytes(flipped(data, chance) if chance.random() < 0.3 else data)
        try:
            Space.read(path, "squad").distributions()
        except SquadError:
            refused += 1
        except BaseException as escaped:
            raise AssertionError(f"case {case}: {type(escaped).__name__} escaped: {escaped}") from escaped
    assert refused > CASES


def test_records_alone(made: Path, tmp_path: Path) -> None:
    """More records, read without the command."""
    text = (made / "done" / "trials.json").read_text()
    path = tmp_path / "trials.json"
    readers: list[Callable[[Any], Any]] = [
        lambda s: s.best(),
        lambda s: s.space,
        lambda s: s.table(),
        lambda s: s.seconds(),
    ]
    for case in range(10 * CASES):
        chance = random.Random(f"record/{case}")
        path.write_text(changed(json.loads(text), chance))
        try:
            found = read(path)
            for reader in readers:
                reader(found)
        except SquadError:
            continue
        except BaseException as escaped:
            raise AssertionError(f"case {case}: {type(escaped).__name__} escaped: {escaped}") from escaped
