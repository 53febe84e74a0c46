"""squad split and squad data."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Run, listing

PARTS = ("train", "calibration", "test")


def test_parts(run: Run, here: Path) -> None:
    done = run("split", "data.csv", "--target", "y", "--out", "parts")
    assert done.code == 0
    assert done.out == "parts/train.csv: 72 rows\nparts/calibration.csv: 24 rows\nparts/test.csv: 24 rows\n"
    lines = (here / "data.csv").read_text().splitlines()
    parts = [(here / "parts" / f"{name}.csv").read_text().splitlines() for name in PARTS]
    assert all(part[0] == lines[0] for part in parts)
    assert sorted(line for part in parts for line in part[1:]) == sorted(lines[1:])
    fractions = [np.mean([line.endswith("ill") for line in part[1:]]) for part in parts]
    assert max(fractions) - min(fractions) < 0.05


def test_the_split_is_the_same_every_time(run: Run, here: Path) -> None:
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        run("split", "data.csv", "--target", "y", "--seed", seed, "--out", name)
    a, b, c = ((here / name / "train.csv").read_bytes() for name in "abc")
    assert a == b != c
    # The same on every machine: these rows, for these data and this seed.
    assert (here / "a/test.csv").read_text().splitlines()[1].startswith("p")


def test_groups_are_not_split(run: Run, here: Path) -> None:
    assert run("split", "data.csv", "--target", "y", "--group", "patient_id", "--out", "parts").code == 0
    groups = [set(pd.read_csv(here / f"parts/{name}.csv")["patient_id"]) for name in PARTS]
    assert not groups[0] & groups[1]
    assert not groups[0] & groups[2]
    assert not groups[1] & groups[2]


def test_other_files(run: Run, here: Path) -> None:
    pd.read_csv(here / "data.csv").to_parquet(here / "data.parquet")
    np.savez(here / "rows.npz", x=np.zeros((20, 2)), y=np.arange(20) % 2)
    assert run("split", "data.parquet", "--target", "y", "--out", "parquet").code == 0
    assert len(pd.read_parquet(here / "parquet/train.parquet")) == 72
    assert run("split", "rows.npz", "--out", "arrays").code == 0
    with np.load(here / "arrays/train.npz") as found:
        assert found["x"].shape == (12, 2)


def test_files_are_replaced_only_with_overwrite(run: Run, here: Path) -> None:
    before = listing(here)
    assert run("split", "data.csv", "--target", "y").refusal.startswith("train.csv, calibration.csv, test.csv ")
    assert run("split", "train.csv", "--target", "y", "--overwrite").refusal.startswith("train.csv would be replaced")
    assert listing(here) == before
    assert run("split", "data.csv", "--target", "y", "--overwrite").code == 0
    assert len(pd.read_csv(here / "train.csv")) == 72


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.csv", "--target", "y"], r"missing\.csv does not exist"),
        (["model", "--target", "y"], r"\bmodel\b.*folder"),
        (["digits"], "digits is a data set"),
        (["data.csv"], r"data\.csv.*--target.*'patient_id'"),
        (["data.csv", "--target", "z"], r"data\.csv.*'z'"),
        (["data.csv", "--target", "y", "--group", "patient"], "'patient'.*[Dd]id you mean 'patient_id'"),
        (["data.csv", "--target", "y", "--group", "y"], "'y' is the target"),
        (["data.csv", "--target", "y", "--fractions", "a"], "--fractions.*'a'"),
        (["data.csv", "--target", "y", "--fractions", "0.5,0.5"], "--fractions.*'0.5,0.5'"),
        (["data.csv", "--target", "y", "--fractions", "0.5,0.5,0"], "--fractions.*'0.5,0.5,0'"),
        (["data.csv", "--target", "y", "--fractions", "nan,nan,nan"], "--fractions.*'nan,nan,nan'"),
        (["data.csv", "--target", "y", "--seed", "-1"], "--seed.*-1"),
        (["data.csv", "--target", "y", "--out", "new.csv"], r"new\.csv is a file"),
        (["rows.npy"], r"rows\.npy.*label"),
    ],
)
def test_what_split_refuses(run: Run, here: Path, arguments: list[str], words: str) -> None:
    np.save(here / "rows.npy", np.zeros((4, 2)))
    before = listing(here)
    out = [] if "--out" in arguments else ["--out", "parts"]
    assert re.search(words, run("split", *arguments, *out).refusal)
    assert listing(here) == before


def test_if_one_part_cannot_be_written_none_is(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from squad.data import tables

    write, written = tables._write_csv, []

    def full(frame: pd.DataFrame, file: Any, name: str) -> None:
        written.append(name)
        if "test" in name:
            raise OSError(28, "No space left on device")
        write(frame, file, name)

    (here / "parts").mkdir()
    before = listing(here)
    monkeypatch.setattr(tables, "_write_csv", full)
    assert "No space left" in run("split", "data.csv", "--target", "y", "--out", "parts").refusal
    assert written == ["train.csv", "calibration.csv", "test.csv"]
    assert listing(here) == before


def test_data_list(run: Run, here: Path) -> None:
    shown = run("data", "list")
    assert shown.code == 0
    for name in ("digits", "fashion-mnist", "notmnist", "svhn", "in scikit-learn", "not here yet"):
        assert name in shown.out
    (here / "sets/notmnist").mkdir(parents=True)
    (here / "sets/notmnist/notMNIST_small.tar.gz").touch()
    assert "sets/notmnist" in run("data", "list", "--data-dir", "sets").out.replace("\n", "")


def test_data_fetch(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from squad.data import registry
    from squad.data.download import Progress

    def download(url: str, path: Path, *_: object, progress: Progress | None, **__: object) -> None:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"data")
        assert progress is not None
        progress(path.name, 4, 4)

    monkeypatch.setattr(registry, "download_file", download)
    done = run("data", "fetch", "notmnist", "--data-dir", "sets")
    assert done == (0, "notmnist: sets/notmnist\n", "downloading notMNIST_small.tar.gz (0.0 MB)\n")
    assert run("data", "fetch", "notmnist", "--data-dir", "sets") == (0, "notmnist: sets/notmnist\n", "")
    assert "nothing to fetch" in run("data", "fetch", "digits").out
    assert "Did you mean 'svhn'?" in run("data", "fetch", "svnh").refusal


def test_a_part_without_rows_is_refused(run: Run, here: Path) -> None:
    (here / "tiny.csv").write_text("a,y\n1,p\n2,q\n", encoding="utf-8")
    before = listing(here)
    assert re.search(r"tiny\.csv.*would be empty", run("split", "tiny.csv", "--target", "y", "--out", "parts").refusal)
    assert listing(here) == before
