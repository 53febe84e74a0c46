"""Output of commands: existing files, terminals, spreadsheets, and progress."""

import io
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from squad.cli import main, terminal
from squad.cli.answer_files import spreadsheet_safe
from tests.cli.conftest import QUICK, Run, listing
from tests.cli.pseudo_terminal import on_pseudo_terminal
from tests.cli.test_main import COMMAND

#: Clears the screen, and reverses the direction of writing.
EVIL = "ill\x1b[2J\u202e"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["predict", "model", "new.csv"], "answers.csv"),
        (["report", "model", "test.csv"], "page.html"),
        (["inspect", "model", "test.csv", "--unit", "1"], "unit.png"),
        (["certify", "--scores", "scores.csv", "--risk", ".1"], "certificate.json"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_files_are_replaced_only_with_overwrite(run: Run, here: Path, arguments: list[str], name: str) -> None:
    (here / name).write_text("mine")
    before = listing(here)
    refusal = run(*arguments, "--out", name).refusal
    assert refusal.startswith(f"{name} exists")
    assert "--overwrite" in refusal
    assert listing(here) == before
    assert run(*arguments, "--out", name, "--overwrite").code == 0
    assert (here / name).read_bytes() != b"mine"


def test_a_fourth_part(run: Run, here: Path) -> None:
    done = run("split", "data.csv", "--target", "y", "--recalibration", ".25", "--out", "parts")
    assert done.code == 0
    assert done.out.splitlines()[-1] == "parts/recalibration.csv: 30 rows"
    names = ("train", "calibration", "test", "recalibration")
    parts = [(here / f"parts/{name}.csv").read_text().splitlines()[1:] for name in names]
    assert sorted(line for part in parts for line in part) == sorted((here / "data.csv").read_text().splitlines()[1:])
    assert [len(part) for part in parts] == [54, 18, 18, 30]
    assert run("recalibrate", "model", "parts/recalibration.csv", "--out", "better").code == 0
    for wrong in ("0", "1", "-.1", "nan"):
        refusal = run("split", "data.csv", "--target", "y", "--recalibration", wrong, "--out", "other").refusal
        assert "--recalibration" in refusal
    assert not (here / "other").exists()


def test_a_long_list_of_columns_is_cut(run: Run, here: Path) -> None:
    names = [f"column{number}" for number in range(40)]
    (here / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" * 40) + "\n")
    for command in ("fit", "split"):
        refusal = run(command, "wide.csv", "--out", "made").refusal
        assert "'column0'" in refusal
        assert " more" in refusal
        assert "'column39'" not in refusal


@pytest.fixture(scope="module")
def prepared_evil(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose classes and columns contain control characters, and tables for it."""
    folder = tmp_path_factory.mktemp("evil")
    table = pd.read_csv(prepared / "train.csv", dtype=str).rename(columns={"sex": "s\x1b[31mex"})
    table["y"] = table["y"].replace({"ill": EVIL})
    table.to_csv(folder / "evil.csv", index=False)
    table.drop(columns="y")[:20].to_csv(folder / "evil-new.csv", index=False)
    assert main(["fit", str(folder / "evil.csv"), *QUICK, "--out", str(folder / "evil")]) == 0
    return folder


@pytest.fixture
def evil(here: Path, prepared_evil: Path) -> Path:
    """A copy of these files in the working directory."""
    return Path(shutil.copytree(prepared_evil, here, dirs_exist_ok=True))


def test_control_characters_in_labels_are_escaped(run: Run, evil: Path) -> None:
    assert run("certify", "evil", "evil.csv", "--risk", ".4").code == 2  # training rows
    missed = f"wrong=.9,missed {EVIL}=.9"
    for arguments in (
        ["info", "evil"],
        ["info", "evil", "--settings"],
        ["evaluate", "evil", "evil.csv"],
        ["evaluate", "evil", "test.csv"],
        ["predict", "evil", "new.csv", "--keep", "a\x1b"],
        ["inspect", "evil", "evil.csv"],
        ["fit", "evil.csv", "--target", "\x1b[31m", "--out", "x"],
        ["certify", "evil", "evil-new.csv", "--risk", missed, "--target", "\x9b"],
    ):
        found = run(*arguments)
        for letter in ("\x1b", "\u202e", "\x9b"):
            assert letter not in found.out + found.err, arguments


def test_control_characters_in_groups_are_escaped(run: Run, here: Path) -> None:
    table = pd.read_csv(here / "scores.csv", dtype=str)
    table["site"] = table["site"].replace({"N": EVIL})
    table.to_csv(here / "scores.csv", index=False)
    found = run("certify", "--scores", "scores.csv", "--risk", ".2", "--by", "site")
    assert found.code == 0
    assert "ill\\x1b[2J" in found.out
    assert "\x1b" not in found.out
    as_json = run("certify", "--scores", "scores.csv", "--risk", ".2", "--by", "site", "--json")
    assert "\x1b" not in as_json.out
    assert EVIL in [rule["group"] for rule in json.loads(as_json.out)["rules"]]


def on_a_terminal(arguments: Sequence[str], folder: Path) -> str:
    """Run the command on a pseudo-terminal; returns what the terminal receives."""
    return on_pseudo_terminal([*COMMAND, *arguments], ("stdin", "stdout", "stderr"), cwd=folder)[1]


def test_answers_on_a_terminal_and_in_a_pipe(run: Run, evil: Path) -> None:
    piped = run("predict", "evil", "evil-new.csv").out
    assert EVIL in piped, "pipes get the data unchanged"
    assert "\x1b" in piped
    run("predict", "evil", "evil-new.csv", "--out", "answers.csv")
    assert (evil / "answers.csv").read_text(encoding="utf-8") == piped
    shown = on_a_terminal(["predict", "evil", "evil-new.csv"], evil)
    assert "ill\\x1b[2J\\u202e" in shown
    assert EVIL not in shown
    assert "\x1b" not in shown


def test_formulas() -> None:
    frame = pd.DataFrame(
        {
            "=name": ["=1+1", "+1", "-x", "@SUM(A1)"],
            "text": ["\ta", "\rb", "plain", None],
            "number": [-1.5, 2, np.nan, 0],
            "written": ["-1.5", "+2", "1e-3", "-inf"],
        }
    )
    safe = spreadsheet_safe(frame)
    assert safe.columns.tolist() == ["'=name", "text", "number", "written"]
    assert safe["'=name"].tolist() == ["'=1+1", "+1", "'-x", "'@SUM(A1)"]
    assert safe["text"].tolist()[:3] == ["'\ta", "'\rb", "plain"]
    assert safe["text"].isna().tolist() == [False, False, False, True]
    pd.testing.assert_series_equal(safe["number"], frame["number"])
    pd.testing.assert_series_equal(safe["written"], frame["written"])
    assert frame["=name"][0] == "=1+1"


def test_answers_for_a_spreadsheet(run: Run, here: Path) -> None:
    table = pd.read_csv(here / "new.csv", dtype=str)
    table["note"] = "=HYPERLINK(1)"
    table.to_csv(here / "new.csv", index=False)
    common = ["predict", "model", "new.csv", "--keep", "note", "--keep", "age"]
    assert "\n=HYPERLINK(1)," in run(*common).out
    safe = run(*common, "--spreadsheet-safe").out
    assert "\n'=HYPERLINK(1)," in safe
    assert pd.read_csv(io.StringIO(safe))["age"].tolist() == [float(age) for age in table["age"]]
    run(*common, "--spreadsheet-safe", "--out", "answers.csv")
    assert (here / "answers.csv").read_text() == safe


class TestRowProgress:
    def test_lines_without_a_terminal(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = iter([0.0, 1.0, 6.0, 7.0, 12.0, 13.0, 14.0, 20.0])
        monkeypatch.setattr(time, "monotonic", lambda: next(clock))
        with terminal.row_progress("predicting") as report:
            for done in (100, 200, 300, 400, 500):
                report(done, 500)
        lines = capsys.readouterr().err.splitlines()
        assert lines == ["predicting: 200 of 500 rows, about 9 s left", "predicting: 400 of 500 rows, about 3 s left"]

    def test_quick_passes_show_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        with terminal.row_progress() as report:
            report(500, 500)
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize("arguments", [["predict"], ["evaluate"], ["certify", "--risk", ".2"], ["report"]])
    def test_commands_show_it(self, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
        monkeypatch.setattr(terminal, "LINE_AFTER", 0.0)
        data = {"certify": "calibration.csv", "predict": "new.csv"}.get(arguments[0], "test.csv")
        monkeypatch.setattr("squad.predictor.row_pass.CHUNK", 10)
        found = run(arguments[0], "model", data, *arguments[1:])
        assert found.code == 0
        assert "predicting: 10 of " in found.err
        assert "rows, about " in found.err
