"""Complete searches with the command: reproducible, pruned, stopped, and for every model."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli import test_search as fast
from tests.cli.conftest import Run
from tests.cli.test_search import LONG, NOTE, QUICK, check_whole, params, states, trials


def test_the_command_of_the_documentation(run: Run, here: Path) -> None:
    command = ("search", "digits", "--model", "squad", "--trials", "4", "--objective", "coverage@risk=.02")
    done = run(*command, "--out", "study/", "--hidden", "8", "--max-epochs", "3")
    assert done.code == 0
    note = NOTE.format(120)
    lines = done.err.splitlines()[1:]  # the first is about digits itself
    assert lines[0] == "search: 1,198 rows of digits (training set); searching settings of squad"
    assert re.match(f"search: There are {note}", lines[1])
    assert re.search("squad search show study .*squad fit digits --config study/best.toml", lines[-1])
    assert done.out.startswith("study: 4 of 4 trials, best AURC 0.")
    assert done.out.endswith("; study/best.toml\n")
    files = {"study.db", "trials.json", "trials.csv", "best.toml"}
    assert {path.name for path in (here / "study").iterdir()} == files
    assert not [path for path in here.iterdir() if "lock" in path.name]
    record = json.loads((here / "study/trials.json").read_text())
    assert record["settings"]["objective"] == {"asked": "coverage@risk=0.02,delta=0.01", "used": "aurc"}
    assert len(record["results"]["notes"]) == 1
    assert re.search(note, record["results"]["notes"][0])
    check_whole(here / "study", 4)
    best = (here / "study/best.toml").read_text()
    assert best.startswith("# study: the best of ")
    # Whatever path is used for the study, showing it again does not change its files.
    shown = run("search", "show", str(here / "study"))
    assert (here / "study/best.toml").read_text() == best
    assert shown.code == 0
    assert "aurc (requested: coverage@risk=0.02,delta=0.01)" in shown.out
    assert re.search(note, " ".join(shown.out.split()))
    assert {path.name for path in (here / "study").iterdir()} == files | {"history.png", "pairwise.png"}


def test_coverage_with_enough_rows(run: Run, here: Path) -> None:
    """With 719 validation rows, of which 684 are needed, the value is SGR's coverage, without a note."""
    done = run(
        *("search", "digits", "--set", "validation=0.6", "--hidden", "16", "--max-epochs", "12", "--trials", "2"),
        *("--set", "training.batch_size=32", "--set", "training.lr=0.01", "--set", "network.dropout=0", "--quiet"),
    )
    assert done.code == 0
    assert done.out.startswith("study: 2 of 2 trials, best coverage ")
    assert "fewer than" not in done.err
    values = [(trial["value"], trial["details"]) for trial in trials(here / "study")]
    assert all(value == details["coverage"] == details["accepted"] / 719 for value, details in values)
    assert max(values, key=lambda one: one[0])[0] > 0


def test_equal_seeds_give_equal_studies(run: Run, here: Path) -> None:
    """Twelve trials, of which TPE proposes the last two."""

    def found(out: str, *options: str) -> list[Any]:
        assert run(*QUICK, "--trials", "12", "--slots", "3", "--quiet", "--out", out, *options).code == 0
        kept = ("number", "state", "value", "settings", "params", "ended", "details", "retried_from", "worker")
        rows = [{name: trial[name] for name in kept} for trial in trials(here / out)]
        for row in rows:
            row["details"].pop("seconds")
        return rows

    first = found("a")
    assert found("b") == first
    assert [row["number"] for row in first] == list(range(12))
    other = found("c", "--seed", "1")
    assert not {params(row) for row in other[1:]} & {params(row) for row in first[1:]}  # trial 0 has the defaults
    assert params(other[0]) == params(first[0])


def test_pruning(run: Run, here: Path) -> None:
    (here / "space.toml").write_text("[training]\nlr = {low = 1e-6, high = 1e-1, log = true}\n", encoding="utf-8")
    long = ("--model", "mlp", "--max-epochs", "30", "--set", "training.stop_patience=99", "--space", "space.toml")
    done = run(*QUICK, *long, "--trials", "24", "--slots", "4", "--prune", "--quiet", "--no-defaults")
    assert done.out.startswith("study: 24 of 24 trials")
    found = states(here / "study")
    assert found.keys() == {"complete", "pruned"}
    assert found.total() == 24
    assert found["complete"] >= 10
    for trial in trials(here / "study"):
        pruned = trial["state"] == "pruned"
        assert (trial["ended"] == "pruned") == pruned == (trial["value"] is None)
        assert trial["details"]["epochs"] in ((20, 25) if pruned else (30,))


def test_unusual_folder_names(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "my study?x=1 #%20{é}"
    assert run(*QUICK, "--trials", "1", "--out", f"{odd}/deep").code == 0
    assert sorted(path.name for path in (here / odd).iterdir()) == ["deep"]
    check_whole(here / odd / "deep", 1)
    before = set(here.iterdir())
    (here / "inside").mkdir()
    monkeypatch.chdir(here / "inside")
    assert (
        run(*["../train.csv" if word == "train.csv" else word for word in QUICK], "--trials", "1", "--out", ".").code
        == 0
    )
    check_whole(here / "inside", 1)
    assert set(here.iterdir()) == {*before, here / "inside"}


def test_time_limit(run: Run, here: Path) -> None:
    stopped = run(*LONG, "--max-epochs", "400", "--minutes", "0.01")
    assert stopped.code == 0
    assert " of 9 trials" in stopped.out
    assert stopped.err.splitlines()[-1] == "the same command resumes study"
    found = states(here / "study")
    assert found["complete"] < 9
    assert (found["running"], found["waiting"]) == (0, 3)  # running trials are queued again
    assert found["failed"] == 3
    again = run(*LONG, "--max-epochs", "400", "--minutes", "0.01")
    assert again.code == 0
    assert states(here / "study")["waiting"] == 3


def test_interrupted_and_resumed(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished trials stay unchanged, and running ones are trained from the beginning."""
    from squad.search.population import Population

    finish = Population._finish
    epochs = 0

    def counted(self: Population, group: Any) -> None:
        nonlocal epochs
        finish(self, group)
        epochs += 1
        if epochs == 80:
            raise KeyboardInterrupt

    monkeypatch.setattr(Population, "_finish", counted)
    stopped = run(*LONG)
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err.splitlines()[-1] == "squad: stopped; the same command resumes study."
    before = [trial for trial in trials(here / "study") if trial["state"] == "complete"]
    waiting = {params(trial) for trial in trials(here / "study") if trial["state"] == "waiting"}
    assert 0 < len(before) < 9
    assert len(waiting) == 3
    assert run(*LONG).code == 0
    check_whole(here / "study", 9)
    after = {trial["number"]: trial for trial in trials(here / "study")}
    assert all(after[trial["number"]] == trial for trial in before)
    assert waiting <= {params(trial) for trial in after.values() if trial["state"] == "complete"}
    assert all(trial["details"]["epochs"] == 30 for trial in after.values() if trial["state"] == "complete")


@pytest.mark.parametrize("model", ["squad", "maxout-dropout", "relu-dropout", "dlgm", "mlp"])
def test_every_model(run: Run, here: Path, model: str) -> None:
    fast.test_every_model(run, here, model)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("digits", ["--hidden", "8"]),
        ("train.csv", ["--target", "y", "--drop", "patient_id", "--hidden", "5,4", "--seed", "3"]),
    ],
)
def test_the_best_settings_train_the_best_network_again(run: Run, here: Path, data: str, options: list[str]) -> None:
    fast.test_the_best_settings_train_the_best_network_again(run, here, data, options)
