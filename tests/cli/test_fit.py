"""squad fit: what it saves, what it refuses, and how it resumes after an interruption."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from squad import load, train
from squad.output_paths import exclusive_output
from squad.train.progress import EpochReport
from tests.cli.conftest import LONG, QUICK, Result, Run, listing


def test_fit_shows_progress_and_saves(run: Run, here: Path) -> None:
    done = run("fit", "train.csv", *QUICK[:-1], "--members", "2", "--out", "made")
    assert done.code == 0
    lines = done.err.splitlines()
    assert lines[0] == "310 rows of train.csv; training squad on cpu"
    assert "epoch 1 of 3" in lines[1]
    for word in ("loss ", "KL ", "accuracy ", "2 of 2 members"):
        assert word in lines[1]
    assert done.out.startswith("made: squad, 2 members, mean validation accuracy ")
    assert "of only 31 rows" in done.out
    assert "3 epochs" in done.out
    assert load(here / "made").members == 2
    assert sorted(path.name for path in here.iterdir() if "made" in path.name) == ["made"]


def test_quiet_prints_one_line(run: Run) -> None:
    done = run("fit", "train.csv", *QUICK, "--out", "made")
    assert done.err == ""
    assert done.out.count("\n") == 1


def test_constant_columns_are_named(run: Run, here: Path) -> None:
    text = (here / "train.csv").read_text().splitlines()
    (here / "train.csv").write_text("\n".join(["same," + text[0], *("1," + line for line in text[1:])]) + "\n")
    assert "'same'" in run("fit", "train.csv", *QUICK, "--out", "made").err


def test_groups_stay_together(run: Run, here: Path) -> None:
    options = ("--target", "y", "--max-epochs", "2", "--group", "patient_id", "--quiet", "--out", "made")
    assert run("fit", "train.csv", *options).code == 0
    saved = json.loads((here / "made/config.json").read_text())
    assert saved["transform"]["dropped"] == ["patient_id"]
    assert saved["record"]["rows"]["validation"] % 3 in (0, 1)  # whole groups of three; the last one has one row


def test_arrays_and_data_sets(run: Run, here: Path) -> None:
    random = np.random.default_rng(0)
    np.savez(here / "rows.npz", x=random.normal(size=(60, 4)), y=np.arange(60) % 2)
    assert run("fit", "rows.npz", "--max-epochs", "2", "--quiet", "--out", "arrays").code == 0
    assert "4" in run("info", "arrays").out
    assert re.search(r"--drop a.*rows\.npz", run("fit", "rows.npz", "--drop", "a", "--out", "other").refusal)
    assert re.search(r"rows\.npz.*--group a", run("fit", "rows.npz", "--group", "a", "--out", "other").refusal)
    assert re.search("--target y.*digits", run("fit", "digits", "--target", "y", "--out", "other").refusal)


def test_a_folder_does_not_hide_a_data_set(run: Run, here: Path) -> None:
    (here / "digits").mkdir()
    assert run("fit", "digits", "--max-epochs", "1", "--quiet", "--out", "other").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.csv", "--target", "y"], r"missing\.csv does not exist"),
        (["model", "--target", "y"], r"\bmodel\b.*folder"),
        (["empty.csv", "--target", "y"], r"empty\.csv is empty"),
        (["header.csv", "--target", "y"], r"header\.csv.*no rows"),
        (["settings.toml", "--target", "y"], r"settings\.toml.*\.csv|\.csv.*settings\.toml"),
        (["one.csv", "--target", "y"], r"one\.csv.*class|two classes|2 labels"),
        (["broken.csv", "--target", "y"], r"broken\.csv.*line"),
        (["digit"], "'digit'.*Did you mean digits"),
        (["train.csv"], r"train\.csv.*--target.*'patient_id', 'age'"),
        (["train.csv", "--target", "Y"], "'Y'.*[Dd]id you mean 'y'"),
        (["train.csv", "--target", "y"], "--drop patient_id"),
        (["train.csv", "--target", "y", "--group", "patient"], "'patient'.*[Dd]id you mean 'patient_id'"),
        (["train.csv", "--target", "y", "--drop", "ag"], "'ag'.*[Dd]id you mean 'age'"),
        (["train.csv", "--target", "y", "--hidden", "a"], "--hidden.*'a'"),
        (["train.csv", "--target", "y", "--hidden", "0"], r"hidden.*\b0\b"),
        (["train.csv", "--target", "y", "--members", "0"], r"members.*\b0\b"),
        (["train.csv", "--target", "y", "--members", "-1"], "members.*-1"),
        (["train.csv", "--target", "y", "--num-samples", "0"], r"num_samples.*\b0\b"),
        (["train.csv", "--target", "y", "--sampling", "sample"], "sampling.*squad.*'sample'"),
        (["train.csv", "--target", "y", "--model", "sqad"], "'sqad'.*Did you mean 'squad'"),
        (["train.csv", "--target", "y", "--device", "cuda:99"], "device.*'cuda:99'"),
        (["train.csv", "--target", "y", "--checkpoint-seconds", "nan"], "--checkpoint-seconds.*nan"),
        (["train.csv", "--target", "y", "--out", "model"], "model .*--overwrite"),
        (["train.csv", "--target", "y", "--out", "train.csv"], r"train\.csv.*is a file"),
        (["train.csv", "--target", "y", "--out", "train.csv/model"], r"train\.csv is a file"),
        (["train.csv", "--target", "y", "--out", "."], r"here .*\(broken\.csv"),
    ],
)
def test_what_fit_refuses(run: Run, here: Path, arguments: list[str], words: str) -> None:
    (here / "empty.csv").touch()
    (here / "header.csv").write_text("a,y\n")
    (here / "one.csv").write_text("a,y\n1,b\n2,b\n")
    (here / "broken.csv").write_text("a,y\n1,b\n1,2,3\n2,c\n")
    before = listing(here)
    out = [] if "--out" in arguments else ["--out", "deep/er/new"]
    assert re.search(words, run("fit", *arguments, *out).refusal)
    assert listing(here) == before


def test_an_offline_data_set_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from squad.data import registry
    from squad.data.download import DownloadError

    def offline(url: str, *_: object, **__: object) -> None:
        raise DownloadError(url, "cannot be reached")

    monkeypatch.setattr(registry, "download_file", offline)
    refusal = run("fit", "notmnist", "--out", "new", "--data-dir", "sets").refusal
    assert re.search("notMNIST_small.tar.gz.*sets/notmnist", refusal)


def test_cheap_checks_come_before_reading(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("read too early")

    monkeypatch.setattr("squad.cli.inputs.read", never)
    for wrong in (["--out", "model"], ["--set", "x=1"], ["--device", "no"], ["--members", "0"]):
        assert run("fit", "train.csv", *QUICK, "--out", "new", *wrong).refusal


def test_the_checkpoint_of_another_run(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = interrupt(run, here, monkeypatch)
    assert (stopped.code, stopped.out, stopped.err.count("\n")) == (130, "", 1)
    assert stopped.err.startswith("squad: stopped; the same command resumes from long.checkpoint")
    other = [*LONG, "--seed", "7", "--max-epochs", "3", "--quiet"]
    refusal = run(*other).refusal
    assert "long.checkpoint" in refusal
    assert "--restart" in refusal
    assert (here / "long.checkpoint").exists()
    assert run(*other, "--restart").code == 0
    assert not (here / "long.checkpoint").exists()


def interrupt(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, epoch: int = 2) -> Result:
    """Run LONG, and stop it in the given epoch."""

    class Stop:
        def start(self, epoch: int, epochs: int) -> None: ...
        def message(self, text: str) -> None: ...
        def close(self) -> None: ...
        def epoch(self, report: EpochReport) -> None:
            if report.epoch == epoch:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train, "make_progress", lambda **_: Stop())
        return run(*LONG)


def test_stopped_before_the_first_checkpoint_is_due(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = [*LONG, "--max-epochs", "8", "--checkpoint-seconds", "99"]
    assert run(*short, "--out", "uninterrupted").code == 0
    uninterrupted = (here / "uninterrupted/model.safetensors").read_bytes()
    monkeypatch.setattr(sys.modules[__name__], "LONG", short)
    before = listing(here)
    assert interrupt(run, here, monkeypatch, epoch=1) == (130, "", "squad: stopped; nothing was saved yet.\n")
    assert listing(here) == before, "no epoch was complete"
    assert interrupt(run, here, monkeypatch).code == 130
    assert "after epoch 1" in run(*LONG).err
    assert (here / "long/model.safetensors").read_bytes() == uninterrupted


def test_a_full_disk_is_a_warning(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from squad.train import checkpoint

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "made.checkpoint")

    monkeypatch.setattr(checkpoint, "write", full)
    done = run("fit", "train.csv", *QUICK, "--checkpoint-seconds", "0", "--out", "made")
    assert done.code == 0
    lines = done.err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("warning: ") and "made.checkpoint" in line for line in lines)
    assert "No space left" in lines[0]


@pytest.mark.parametrize(
    "setting", ["network.bins=9223372036854775807", "network.bins=9223372036854775808", "network.hidden=[1000001]"]
)
def test_sizes_that_overflow(run: Run, setting: str) -> None:
    refusal = run("fit", "train.csv", *QUICK, "--set", setting, "--out", "made").refusal
    name, value = setting.partition(".")[2].split("=")
    assert re.search(f"{name}.*{value.strip('[]')}", refusal)


def test_members_that_overflow(run: Run) -> None:
    assert "members" in run("fit", "train.csv", *QUICK, "--members", str(2**63 - 1), "--out", "made").refusal


def test_the_root_folder_is_refused(run: Run) -> None:
    assert run("fit", "train.csv", *QUICK, "--out", "/").refusal.startswith("/ ")


def test_an_identifier_is_warned_about(run: Run, here: Path) -> None:
    lines = (here / "train.csv").read_text().splitlines()
    numbered = ["number," + lines[0], *(f"{place},{line}" for place, line in enumerate(lines[1:], 1000))]
    (here / "train.csv").write_text("\n".join(numbered) + "\n")
    (warning,) = run("fit", "train.csv", *QUICK, "--out", "made").err.splitlines()
    assert warning.startswith("warning: ")
    assert "'number'" in warning
    assert "--drop number" in warning
    assert "--drop number" in " ".join(run("info", "made").out.split())
    assert run("fit", "train.csv", *QUICK, "--drop", "number", "--out", "other").err == ""


def test_accuracy_of_few_rows_says_so(run: Run, here: Path) -> None:
    (here / "few.csv").write_text("a,y\n" + "".join(f"{row / 3},{'pq'[row % 2]}\n" for row in range(20)))
    done = run("fit", "few.csv", "--target", "y", "--max-epochs", "1", "--quiet", "--out", "made")
    assert " of only 2 rows (95 % interval: " in done.out
    assert "of only 2 rows" in " ".join(run("info", "made").out.split())


def test_two_fits_into_one_folder(run: Run, here: Path) -> None:
    """The second is refused before its training."""
    with exclusive_output(here / "model2"):
        result = run("fit", "train.csv", *QUICK, "--out", "model2")
    assert "Another process" in result.refusal
    assert "model2" in result.refusal
    assert run("fit", "train.csv", *QUICK, "--out", "model2").code == 0
    assert not (here / ".model2.lock").exists()


def test_folders_of_a_failed_fit_are_removed(run: Run, here: Path) -> None:
    (here / "one.csv").write_text("a,y\n1,p\n2,p\n3,p\n", encoding="utf-8")
    before = listing(here)
    assert run("fit", "one.csv", "--target", "y", "--out", "new/deep/model").refusal
    assert listing(here) == before
