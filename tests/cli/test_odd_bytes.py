"""Bytes that are not UTF-8: kept and escaped in paths, refused in labels and names before training."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from squad.data.tables import Table
from squad.errors import DataError
from squad.fitting import FitSettings, fit_predictor, prepare
from tests.cli.conftest import QUICK, Run

ODD = os.fsdecode(b"odd\xff")


@pytest.fixture(autouse=True)
def paths_of_any_bytes(tmp_path: Path) -> None:
    try:
        (tmp_path / ODD).touch()
    except OSError:
        pytest.skip("this file system refuses such names")


def test_paths(run: Run, here: Path) -> None:
    for name in ("train.csv", "new.csv", "test.csv", "calibration.csv", "data.csv"):
        (here / name).rename(here / f"{ODD}-{name}")
    made = run("fit", f"{ODD}-train.csv", *QUICK, "--out", ODD)
    assert made.code == 0
    assert made.out.startswith("odd\\udcff: squad, ")
    assert run("predict", ODD, f"{ODD}-new.csv", "--out", f"{ODD}.csv").code == 0
    assert len((here / f"{ODD}.csv").read_text().splitlines()) == 21
    for arguments in (
        ["info", ODD],
        ["info", ODD, "--settings"],
        ["evaluate", ODD, f"{ODD}-test.csv"],
        ["evaluate", ODD, f"{ODD}-test.csv", "--json"],
        ["certify", ODD, f"{ODD}-calibration.csv", "--risk", ".45"],
        ["predict", ODD, f"{ODD}-new.csv"],
        ["split", f"{ODD}-data.csv", "--target", "y", "--out", f"{ODD}-parts"],
        ["strip", ODD, "--out", f"{ODD}-bare"],
    ):
        found = run(*arguments)
        assert found.code == 0, (arguments, found.err)
        found.out.encode()
    assert "odd\\udcff" in run("info", f"{ODD}-none").refusal


def test_labels_and_names_are_refused(here: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(DataError, match=r"[Ll]abel.*'p\\udc80'"):
        fit_predictor(x, ["p\udc80", "q"] * 10, FitSettings())
    b = pd.Series(["r", "s\udcff"] * 10, dtype=object)  # the string type of newer versions of pandas refuses surrogates
    frame = pd.DataFrame({"a": x[:, 0], "b": b, "y": ["p", "q"] * 10})
    with pytest.raises(DataError, match=r"'b' .*'s\\udcff'"):
        prepare(Table.of(frame), frame["y"].to_numpy(), FitSettings(), target="y")
    renamed = frame.set_axis(pd.Index(["a\udcff", "b", "y"], dtype=object), axis=1)
    with pytest.raises(DataError, match=r"column.*'a\\udcff'|Column.*'a\\udcff'"):
        prepare(Table.of(renamed), frame["y"].to_numpy(), FitSettings(), target="y", drop=["b"])
    with pytest.raises(DataError, match=r"[Gg]roup.*'s\\udcff'"):
        prepare(x, frame["y"].to_numpy(), FitSettings(), groups=frame["b"].to_numpy())


def test_a_file_in_another_encoding(run: Run, here: Path) -> None:
    text = (here / "train.csv").read_text().replace("ill", "kränk")
    (here / "latin.csv").write_bytes(text.encode("latin-1"))
    assert "latin.csv" in run("fit", "latin.csv", *QUICK, "--out", "made").refusal
