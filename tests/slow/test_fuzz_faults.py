"""A full or failing disk at each file operation leaves the old or the new file complete, and raises a SquadError."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from squad import artifact
from squad.data import tables
from squad.errors import SquadError
from squad.selective.certificate import Certificate
from squad.selective.certify import certify
from tests.files.faults import in_child


def model(path: Path, version: int) -> None:
    artifact.save(path, {"a": torch.full((3,), float(version))}, {"x": version}, overwrite=True, extras={"rows": {}})


def read_model(path: Path) -> int:
    tensors, config = artifact.load(path)
    assert tensors["a"].tolist() == [config["x"]] * 3
    assert artifact.load_extra(path, "rows", config) is not None
    return int(config["x"])


def table(path: Path, version: int) -> None:
    tables.write(pd.DataFrame({"a": [str(version)] * 1000, "b": "x"}), path)


def read_table(path: Path) -> int:
    found = tables.read(path)
    assert isinstance(found, tables.Table)
    assert len(found) == 1000
    return int(found.frame["a"].iloc[-1])


def certificate(path: Path, version: int) -> None:
    certify(np.linspace(0, 1, 200 + version), np.ones(200 + version, dtype=bool), risk=0.05).save(path)


def read_certificate(path: Path) -> int:
    return Certificate.load(path).m - 200


CASES: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], int]]] = {
    "model": (model, read_model),
    "t.csv": (table, read_table),
    "c.json": (certificate, read_certificate),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_an_error_at_each_file_operation(name: str, number: int, tmp_path: Path) -> None:
    write, load = CASES[name]
    path = tmp_path / name
    write(path, 1)
    code, events = in_child(lambda: write(path, 2))
    assert (code, load(path)) == (0, 2)
    for at in range(1, events + 1):
        write(path, 1)
        code, _ = in_child(lambda: write(path, 2), at, OSError(number, "as if it were so"))
        assert code in (0, 3), f"event {at} of {events}"
        found = load(path)
        assert found in (1, 2)
        assert code != 0 or found == 2, f"event {at} of {events}"
    write(path, 3)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert load(path) == 3


def test_several_files_are_written_together(tmp_path: Path) -> None:
    """All parts of a split are written, or none."""
    paths = [tmp_path / name for name in ("train.csv", "calibration.csv", "test.csv")]

    def write(version: str) -> Any:
        tables.write_all({path: pd.DataFrame({"a": [version] * 100, "b": "x"}) for path in paths})

    write("1")
    full = tmp_path / "test.csv"
    broken = {path: pd.DataFrame({"a": ["2"] * 100, "b": "x"}) for path in paths}
    broken[full] = pd.DataFrame({"a": pd.Series(["caf\udce9"], dtype=object), "b": "x"})
    with pytest.raises(SquadError, match=r"test\.csv cannot be written"):
        tables.write_all(broken)
    assert all("1,x" in path.read_text() for path in paths)
    assert len(list(tmp_path.iterdir())) == 3
