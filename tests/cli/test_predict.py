"""squad predict, evaluate and info: a saved model on new rows."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from squad import load
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


def test_stdout_has_the_answers_and_nothing_else(run: Run, here: Path) -> None:
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
    for place, line in wrong.items():
        lines[place] = line
    (here / "new.csv").write_text("\n".join(lines) + "\n")
    done = run("predict", "model", "new.csv")
    assert done.err == "20 rows: 15 uncertified, 5 referred (5 could not be used)\n"
    answers = done.out.splitlines()
    assert [line for place, line in enumerate(answers) if place not in wrong] == [
        line for place, line in enumerate(good) if place not in wrong
    ]
    found = pd.read_csv(io.StringIO(done.out))
    for place, word in {3: "6", 6: "weight", 9: "other", 12: "age", 15: "old"}.items():
        row = found.iloc[place - 1]
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
        (["missing", "new.csv"], "missing must be a folder with a saved model; it does not exist"),
        (["new.csv", "model"], "new.csv must be a folder with a saved model; it is a file"),
        (["cut", "new.csv"], "cut/model.safetensors has 100 bytes of"),
        (["edited", "new.csv"], "edited/config.json was changed"),
        (["half", "new.csv"], "config.json"),
        (["model", "missing.csv"], "missing.csv does not exist"),
        (["model", "other.csv"], "it lacks 'age', 'weight', 'sex'"),
        (["model", "rows.npz"], "model was trained on a table; rows.npz has no columns"),
        (["model", "new.csv", "--out", "answers.txt"], "--out must end in .csv"),
        (["model", "new.csv", "--out", "new.csv"], "holds the rows to answer"),
        (["model", "new.csv", "--out", "new.csv/a.csv"], "new.csv is a file"),
        (["model", "new.csv", "--keep", "id"], "has no column 'id'"),
        (["model", "new.csv", "--keep", "label"], "not one of the answers' own"),
        (["model", "new.csv", "--keep", "age", "--keep", "age"], "'age' twice"),
        (["model", "new.csv", "--num-samples", "0"], "num_samples must be"),
        (["model", "new.csv", "--sampling", "sample"], "for the network squad, got 'sample'"),
        (["model", "new.csv", "--sampling", ""], "sampling must be one of"),
        (["model", "new.csv", "--device", "cuda:99"], "device must be"),
    ],
)
def test_what_predict_refuses(run: Run, damaged: Path, arguments: list[str], words: str) -> None:
    before = listing(damaged)
    assert words in run("predict", *arguments).refusal
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
        (["new.csv"], "new.csv has no column 'y'"),
        (["test.csv", "--target", "sex"], "among the classes of training (ill, well), got f, m"),
        (["nolabel.csv"], "Every row of nolabel.csv must have a label; there is none in line 3."),
        (["unreadable.csv"], "unreadable.csv has no row that can be used; the first: column 'weight'"),
        (["rows.npz"], "was trained on a table"),
        (["test.csv", "--num-samples", "0"], "num_samples must be"),
    ],
)
def test_what_evaluate_refuses(run: Run, damaged: Path, arguments: list[str], words: str) -> None:
    (damaged / "nolabel.csv").write_text("age,weight,sex,y\n50,70,f,ill\n50,70,f,\n50,70,f,ill,3\n")
    (damaged / "unreadable.csv").write_text("age,weight,sex,y\n50,inf,f,ill\n")
    assert words in run("evaluate", "model", *arguments).refusal


def test_models_of_arrays(run: Run, here: Path) -> None:
    random = np.random.default_rng(0)
    np.savez(here / "rows.npz", x=random.normal(size=(60, 4)), y=np.arange(60) % 2)
    np.savez(here / "wide.npz", x=random.normal(size=(5, 5)), y=np.arange(5) % 2)
    np.save(here / "rows.npy", random.normal(size=(7, 4)))
    assert run("fit", "rows.npz", "--max-epochs", "2", "--quiet", "--out", "arrays").code == 0
    assert run("predict", "arrays", "rows.npy").out.count("\n") == 8
    assert run("evaluate", "arrays", "rows.npz").code == 0
    assert "x must have the shape (rows, 4), got (" in run("predict", "arrays", "wide.npz").refusal
    assert "was trained on arrays of 4 numbers" in run("predict", "arrays", "new.csv").refusal
    assert "has no columns" in run("predict", "arrays", "rows.npy", "--keep", "age").refusal


def test_info(run: Run) -> None:
    shown = run("info", "model")
    assert (shown.code, shown.err) == (0, "")
    for word in (
        "squad: hidden 32-32",
        "age (number), weight (number), sex (2 categories)",
        "ill, well",
        "certificate",
        "train.csv",
        "member 0",
    ):
        assert word in shown.out
    assert "must be a folder with a saved model" in run("info", "missing").refusal


def test_figures_of_training_rows_are_warned_of(run: Run, here: Path) -> None:
    done = run("evaluate", "model", "train.csv")
    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if "training set" in line]
    assert "310 of 310 rows" in line
    assert json.loads(run("evaluate", "model", "train.csv", "--json").out)["seen"] == 310
    assert "training set" not in run("evaluate", "model", "test.csv").err


def test_a_column_in_another_unit_is_warned_of(run: Run, here: Path) -> None:
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
