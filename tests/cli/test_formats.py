"""Tables with other encodings and decimal signs, and pipes."""

import io
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import QUICK, Run


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def european(here: Path, name: str) -> str:
    """Write the same table with semicolons and decimal commas, in another encoding; returns its name."""
    text = (here / name).read_text(encoding="utf-8")
    (here / f"eu-{name}").write_bytes(text.replace(",", ";").replace(".", ",").replace("sex", "größe").encode("cp1252"))
    (here / name).write_text(text.replace("sex", "größe"), encoding="utf-8")
    return f"eu-{name}"


FORMAT = ("--encoding", "cp1252", "--decimal", ",")


def test_every_command_reads_other_formats(run: Run, here: Path) -> None:
    train, calibration, test = (european(here, name) for name in ("train.csv", "calibration.csv", "test.csv"))
    assert "--encoding" in run("fit", train, *QUICK, "--out", "eu").refusal
    assert run("fit", train, *QUICK, "--out", "eu", *FORMAT).code == 0
    assert run("fit", "train.csv", *QUICK, "--out", "plain").code == 0
    weights = [(here / name / "model.safetensors").read_bytes() for name in ("eu", "plain")]
    assert weights[0] == weights[1]
    # The format is not saved with the model: it belongs to each file.
    plain = run("predict", "eu", "test.csv")
    assert run("predict", "eu", test, *FORMAT) == plain
    assert (
        run("evaluate", "eu", test, "--json", *FORMAT).out.replace(test, "test.csv")
        == run("evaluate", "eu", "test.csv", "--json").out
    )
    assert run("certify", "eu", calibration, "--risk", ".3", "--delta", ".2", "--out", "safe", *FORMAT).code == 0
    assert run("split", test, "--target", "y", "--out", "parts", *FORMAT).code == 0
    assert "größe" in (here / "parts" / "train.csv").read_text(encoding="utf-8")
    assert run("inspect", "eu", test, *FORMAT).code == 0
    scores = (here / "scores.csv").read_text().replace(",", ";").replace(".", ",")
    (here / "eu-scores.csv").write_text(scores)
    found = run("certify", "--scores", "eu-scores.csv", "--risk", ".05", "--decimal", ",", "--json")
    assert found.code == 0
    assert found.out.replace("eu-scores.csv", "scores.csv") != ""


def test_format_options_that_do_not_apply(run: Run) -> None:
    assert "digits" in run("fit", "digits", "--out", "m", "--encoding", "cp1252").refusal
    assert "'klingon'" in run("fit", "train.csv", *QUICK, "--out", "m", "--encoding", "klingon").refusal
    assert "';'" in run("predict", "model", "new.csv", "--decimal", ";").refusal


def test_pipes(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def piped(name: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", Stdin((here / name).read_bytes()))
        found = run(*arguments)
        return found.code, found.out

    assert piped("new.csv", "predict", "model", "-") == (0, run("predict", "model", "new.csv").out)
    assert piped("test.csv", "evaluate", "model", "-")[0] == 0
    assert piped("train.csv", "fit", "-", *QUICK, "--out", "other")[0] == 0
    assert (here / "other" / "model.safetensors").read_bytes() == (here / "model" / "model.safetensors").read_bytes()
    assert piped("data.csv", "split", "-", "--target", "y", "--out", "parts")[0] == 0
    assert sorted(path.name for path in (here / "parts").iterdir()) == ["calibration.csv", "test.csv", "train.csv"]
    assert piped("data.csv", "split", "-", "--target", "y")[0] == 2
    assert piped("scores.csv", "certify", "--scores", "-", "--risk", ".05")[0] == 0
    monkeypatch.setattr(sys, "stdin", Stdin(b""))
    assert "empty" in run("predict", "model", "-").refusal
