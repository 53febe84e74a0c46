"""Files of a user, a small model trained on them, and the command as a function."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from squad.cli import main

#: Few epochs, and only columns that can be learned from.
QUICK = ["--target", "y", "--drop", "patient_id", "--max-epochs", "3", "--quiet"]
#: A fit that is long enough to be interrupted: no early stopping, a checkpoint every epoch.
LONG = [
    *("fit", "train.csv", "--target", "y", "--drop", "patient_id", "--hidden", "8", "--max-epochs", "120"),
    *("--set", "training.stop_patience=500", "--checkpoint-seconds", "0", "--out", "long"),
]


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The one line on stderr of a command that failed with exit code 2, without its prefix."""
        assert self.code == 2
        assert self.out == ""
        assert self.err.startswith("squad: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("squad: ").rstrip()


Run = Callable[..., Result]


def write_table(path: Path, rows: int, seed: int, labels: bool = True) -> None:
    """Write a table of patients, three rows each; age and weight determine the label."""
    random = np.random.default_rng(seed)
    lines = ["patient_id,age,weight,sex" + (",y" if labels else "")]
    for row in range(rows):
        age, weight = random.normal(50, 10), random.normal(70, 10)
        label = "ill" if age + weight > 120 else "well"
        lines.append(f"p{row // 3},{age:.2f},{weight:.2f},{'fm'[row % 2]}" + (f",{label}" if labels else ""))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_scores(path: Path, rows: int) -> None:
    """Write confidences of some model, whether its predictions are correct, a site and a harm."""
    random = np.random.default_rng(6)
    lines = ["confidence,correct,site,harm"]
    for confidence in random.random(rows):
        correct = random.random() > 0.3 * (1 - confidence) ** 2
        lines.append(f"{confidence:.6f},{int(correct)},{'NS'[random.integers(2)]},{int(not correct)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables (train, calibration, recalibration, test, new, data and scores.csv), settings.toml and model/."""
    folder = tmp_path_factory.mktemp("prepared")
    write_table(folder / "train.csv", 310, 0)
    write_table(folder / "test.csv", 60, 1)
    write_table(folder / "new.csv", 20, 2, labels=False)
    write_table(folder / "data.csv", 120, 3)
    write_table(folder / "calibration.csv", 900, 4)
    write_table(folder / "recalibration.csv", 200, 5)
    write_scores(folder / "scores.csv", 1200)
    (folder / "settings.toml").write_text(
        'target = "y"\ndrop = ["patient_id"]\n[network]\nhidden = [8]\n[training]\nmax_epochs = 3\n', encoding="utf-8"
    )
    assert main(["fit", str(folder / "train.csv"), *QUICK, "--out", str(folder / "model")]) == 0
    return folder


@pytest.fixture
def here(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the files to a new working directory."""
    shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SQUAD_DATA", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path / "here"


@pytest.fixture(scope="session")
def better(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A better model than that of the other tests, trained for a few more epochs."""
    out = tmp_path_factory.mktemp("better") / "model"
    options = [*QUICK, "--max-epochs", "20", "--out", str(out)]
    assert main(["fit", str(prepared / "train.csv"), *options]) == 0
    return out


@pytest.fixture
def model(here: Path, better: Path) -> Path:
    """The better model, as model/."""
    shutil.rmtree(here / "model")
    return Path(shutil.copytree(better, here / "model"))


@pytest.fixture
def run(here: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command as a function, run in the folder of files."""

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = main(arguments)
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def uninterrupted(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The weights that LONG ends with if it is not interrupted."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    arguments = [str(prepared / "train.csv") if word == "train.csv" else word for word in LONG]
    assert main([*arguments[:-1], str(folder / "long"), "--quiet"]) == 0
    return (folder / "long/model.safetensors").read_bytes()


def listing(folder: Path) -> dict[str, bytes | None]:
    """Return the content of all files in a folder, by path."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
