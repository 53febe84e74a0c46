"""squad predict, evaluate and info: a saved model on new rows."""

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from squad import load
from squad.data.transforms import TableTransform
from squad.models import Sampler
from tests.cli.conftest import Run, listing

COLUMNS = ["label", "confidence", "decision", "entropy", "mutual_information", "reason"]


def test_answers(run: Run, here: Path) -> None:
    done = run("predict", "model", "new.csv", "--out", "deep/answers.csv")
    assert (done.code, done.out, done.err) == (0, "", "20 rows: 20 uncertified\n")
    answers = pd.read_csv(here / "deep/answers.csv")
    assert list(answers.columns) == COLUMNS
    expected = load(here / "model").answer(pd.read_csv(here / "new.csv", dtype=str))
    assert answers["label"].tolist() == expected.label.tolist()
    np.testing.assert_allclose(answers["confidence"], expected.confidence, rtol=1e-12)
    assert set(answers["decision"]) == {"uncertified"}


def test_stdout_has_only_the_answers(run: Run, here: Path) -> None:
    printed = run("predict", "model", "new.csv")
    run("predict", "model", "new.csv", "--out", "answers.csv")
    assert printed.out == (here / "answers.csv").read_text()


def test_parquet_and_kept_columns(run: Run, here: Path) -> None:
    assert run("predict", "model", "new.csv", "--keep", "patient_id", "--keep", "age", "--out", "a.parquet").code == 0
    answers = pd.read_parquet(here / "a.parquet")
    assert list(answers.columns) == ["patient_id", "age", *COLUMNS]
    assert answers["patient_id"].tolist() == pd.read_csv(here / "new.csv")["patient_id"].tolist()


def test_rows_that_cannot_be_read_are_referred(run: Run, here: Path) -> None:
    good = run("predict", "model", "new.csv").out.splitlines()
    lines = (here / "new.csv").read_text().splitlines()
    wrong = {
        3: "p,1,2,f,too,many",
        6: "p,50.0,,f",
        9: "p,50.0,70.0,other",
        12: "p,inf,70.0,f",
        15: "p,old,70.0,f",
    }
    for number, line in wrong.items():
        lines[number] = line
    (here / "new.csv").write_text("\n".join(lines) + "\n")
    done = run("predict", "model", "new.csv")
    assert done.err == "20 rows: 15 uncertified, 5 referred (5 could not be used)\n"
    answers = done.out.splitlines()
    assert [line for number, line in enumerate(answers) if number not in wrong] == [
        line for number, line in enumerate(good) if number not in wrong
    ]
    found = pd.read_csv(io.StringIO(done.out))
    for number, word in {3: "6", 6: "weight", 9: "other", 12: "age", 15: "old"}.items():
        row = found.iloc[number - 1]
        assert row["decision"] == "referred"
        assert word in row["reason"]
        assert row[["label", "confidence", "entropy", "mutual_information"]].isna().all()


def test_a_certificate_can_be_required(run: Run, here: Path) -> None:
    before = listing(here)
    refusal = run("predict", "model", "new.csv", "--require-certificate", "--out", "answers.csv").refusal
    assert refusal.startswith("model has no certificate")
    assert listing(here) == before


@pytest.fixture
def damaged(here: Path) -> Path:
    for name in ("cut", "edited", "half"):
        shutil.copytree(here / "model", here / name)
    weights = here / "cut/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    config = here / "edited/config.json"
    config.write_text(config.read_text().replace('"ill"', '"sick"'))
    (here / "half/config.json").unlink()
    (here / "other.csv").write_text("a,b\n1,2\n")
    np.savez(here / "rows.npz", x=np.zeros((3, 4)), y=np.arange(3))
    return here


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing", "new.csv"], "missing .*does not exist"),
        (["new.csv", "model"], r"new\.csv .*is a file"),
        (["cut", "new.csv"], r"cut/model\.safetensors has 100 bytes"),
        (["edited", "new.csv"], r"edited/config\.json was changed"),
        (["half", "new.csv"], r"config\.json is missing"),
        (["model", "missing.csv"], r"missing\.csv does not exist"),
        (["model", "other.csv"], "'age', 'weight', 'sex'"),
        (["model", "rows.npz"], r"model .*table.*rows\.npz"),
        (["model", "new.csv", "--out", "answers.txt"], r"--out.*\.csv.*answers\.txt"),
        (["model", "new.csv", "--out", "new.csv"], r"new\.csv is DATA"),
        (["model", "new.csv", "--out", "new.csv/a.csv"], r"new\.csv is a file"),
        (["model", "new.csv", "--keep", "id"], r"new\.csv .*'id'"),
        (["model", "new.csv", "--keep", "label"], "--keep label"),
        (["model", "new.csv", "--keep", "age", "--keep", "age"], "--keep age .*twice"),
        (["model", "new.csv", "--num-samples", "0"], r"num_samples.*\b0\b"),
        (["model", "new.csv", "--sampling", "sample"], "sampling.*squad.*'sample'"),
        (["model", "new.csv", "--sampling", ""], "sampling.*''"),
        (["model", "new.csv", "--device", "cuda:99"], "device.*'cuda:99'"),
    ],
)
def test_what_predict_refuses(run: Run, damaged: Path, arguments: list[str], words: str) -> None:
    before = listing(damaged)
    assert re.search(words, run("predict", *arguments).refusal)
    assert listing(damaged) == before


def test_the_file_is_checked_before_the_work(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("loaded too early")

    monkeypatch.setattr("squad.predictor.load", never)
    assert run("predict", "model", "new.csv", "--out", "answers.xls").refusal
    assert run("predict", "model", "new.csv", "--keep", "label").refusal


def test_evaluate(run: Run, here: Path) -> None:
    shown = run("evaluate", "model", "test.csv")
    assert shown.code == 0
    found = json.loads(run("evaluate", "model", "test.csv", "--json").out)
    labels = pd.read_csv(here / "test.csv")["y"]
    accuracy = (load(here / "model").answer(pd.read_csv(here / "test.csv", dtype=str)).label == labels).mean()
    assert found["accuracy"] == pytest.approx(accuracy)
    assert found["rows"] == 60
    assert found["coverage@0.005"] <= found["coverage@0.05"]
    for text in (f"{100 * accuracy:.2f} %", f"{found['nll']:.4f}", "coverage at 5 % risk", "AURC"):
        assert text in shown.out
    other = json.loads(run("evaluate", "model", "test.csv", "--json", "--sampling", "relaxed").out)
    assert other["nll"] != found["nll"]


def test_evaluate_leaves_out_what_cannot_be_read(run: Run, here: Path) -> None:
    lines = (here / "test.csv").read_text().splitlines()
    (here / "broken.csv").write_text("\n".join([*lines, "p,1,2,f,ill,more", "p,inf,70,f,ill"]) + "\n")
    whole = json.loads(run("evaluate", "model", "test.csv", "--json").out)
    found = json.loads(run("evaluate", "model", "broken.csv", "--json").out)
    assert (found.pop("rows"), found.pop("unreadable")) == (62, 2)
    assert found.items() <= {**whole, "data": "broken.csv"}.items()
    assert "not usable, left out" in run("evaluate", "model", "broken.csv").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["new.csv"], r"new\.csv .*'y'"),
        (["test.csv", "--target", "sex"], r"labels.*\(ill, well\).*got f, m"),
        (["nolabel.csv"], r"nolabel\.csv.*label.*line 3\b"),
        (["unreadable.csv"], r"unreadable\.csv.*'weight'"),
        (["rows.npz"], r"model .*table.*rows\.npz"),
        (["test.csv", "--num-samples", "0"], r"num_samples.*\b0\b"),
    ],
)
def test_what_evaluate_refuses(run: Run, damaged: Path, arguments: list[str], words: str) -> None:
    (damaged / "nolabel.csv").write_text("age,weight,sex,y\n50,70,f,ill\n50,70,f,\n50,70,f,ill,3\n")
    (damaged / "unreadable.csv").write_text("age,weight,sex,y\n50,inf,f,ill\n")
    assert re.search(words, run("evaluate", "model", *arguments).refusal)


def test_models_of_arrays(run: Run, here: Path) -> None:
    random = np.random.default_rng(0)
    np.savez(here / "rows.npz", x=random.normal(size=(60, 4)), y=np.arange(60) % 2)
    np.savez(here / "wide.npz", x=random.normal(size=(5, 5)), y=np.arange(5) % 2)
    np.save(here / "rows.npy", random.normal(size=(7, 4)))
    assert run("fit", "rows.npz", "--max-epochs", "2", "--quiet", "--out", "arrays").code == 0
    assert run("predict", "arrays", "rows.npy").out.count("\n") == 8
    assert run("evaluate", "arrays", "rows.npz").code == 0
    assert re.search(r"4\).*\(5, 5\)", run("predict", "arrays", "wide.npz").refusal)
    assert re.search(r"arrays .*4 numbers.*new\.csv", run("predict", "arrays", "new.csv").refusal)
    assert re.search(r"rows\.npy .*--keep age", run("predict", "arrays", "rows.npy", "--keep", "age").refusal)


def test_info(run: Run) -> None:
    shown = run("info", "model")
    assert (shown.code, shown.err) == (0, "")
    for word in (
        "squad: hidden 32-32",
        "age (number), weight (number), sex (2 categories)",
        "ill, well",
        "certificate",
        "member 0",
    ):
        assert word in shown.out
    assert "train.csv" in "".join(shown.out.split())  # a long path is broken between lines
    assert "missing" in run("info", "missing").refusal


def test_evaluating_training_rows_is_warned_about(run: Run, here: Path) -> None:
    done = run("evaluate", "model", "train.csv")
    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if "training set" in line]
    assert "310 of 310 rows" in line
    assert json.loads(run("evaluate", "model", "train.csv", "--json").out)["seen"] == 310
    assert "training set" not in run("evaluate", "model", "test.csv").err


def test_a_column_in_another_unit_is_warned_about(run: Run, here: Path) -> None:
    header, *lines = (here / "new.csv").read_text().splitlines()
    weight = header.split(",").index("weight")
    grams = [line.split(",") for line in lines]
    for cells in grams:
        cells[weight] = str(float(cells[weight] or 70) * 1000)
    (here / "grams.csv").write_text("\n".join([header, *map(",".join, grams)]) + "\n")
    done = run("predict", "model", "grams.csv")
    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if "20 of 20 rows are unlike the training rows" in line]
    assert "'weight'" in line
    assert done.out.count(",referred,") == 20


def count_rows(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[int]:
    """Record the number of rows of every call of a method, without empty ones."""
    rows: list[int] = []
    method = getattr(owner, name)

    def call(instance: Any, x: Any, *more: Any, **named: Any) -> Any:
        if len(x):
            rows.append(len(x))
        return method(instance, x, *more, **named)

    monkeypatch.setattr(owner, name, call)
    return rows


@pytest.mark.parametrize("risks", [[".4"], [".4", ".45", ".4,missed ill=.4"]], ids=["one target", "three targets"])
def test_evaluate_encodes_and_predicts_every_row_once(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, risks: list[str]
) -> None:
    options = [option for risk in risks for option in ("--risk", risk)]
    done = run("certify", "model", "calibration.csv", *options, "--delta", ".2", "--all-rows", "--out", "certified")
    assert done.code == 0, done.err
    encoded = count_rows(monkeypatch, TableTransform, "apply")
    predicted = count_rows(monkeypatch, Sampler, "__call__")
    found = json.loads(run("evaluate", "certified", "test.csv", "--json").out)
    assert len(found["accepted"]) == len(risks)
    assert sum(encoded) == 60
    assert sum(predicted) == 60
