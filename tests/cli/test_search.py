"""squad search: results, errors, and resuming."""

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squad.cli import main
from squad.output_paths import exclusive_output
from tests.cli.conftest import Run, listing
from tests.cli.test_main import COMMAND
from tests.search.migrations import loaded_once

#: A study of few rows, small networks and few epochs.
QUICK = [
    *("search", "train.csv", "--target", "y", "--drop", "patient_id"),
    *("--hidden", "4", "--max-epochs", "3", "--out", "study"),
]
#: A study that takes long enough to be stopped: no trial stops early, and three train together.
LONG = [*QUICK, "--max-epochs", "30", "--set", "training.stop_patience=99", "--slots", "3", "--trials", "9"]
#: Pattern of the note about too few validation rows.
NOTE = "{} validation rows, .*3 times the 228 .*2 %.*99 %.*-AURC is maximized instead of coverage"


def trials(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "trials.json").read_text())["results"]["trials"]
    return found


def states(folder: Path) -> Counter[str]:
    return Counter(trial["state"] for trial in trials(folder))


def params(trial: dict[str, Any]) -> str:
    return json.dumps(trial["params"], sort_keys=True)


def check_whole(folder: Path, count: int) -> None:
    """Check that ``count`` trials are complete, with different settings, and none is left over."""
    assert states(folder).keys() <= {"complete", "failed"}
    done = [trial for trial in trials(folder) if trial["state"] == "complete"]
    assert len(done) == count
    assert len({params(trial) for trial in done}) == count
    for trial in done:
        assert trial["ended"] in ("at max_epochs", "stopped early")
        assert trial["value"] == -trial["details"]["aurc"]


def database(folder: Path) -> Counter[str]:
    """Number of trials by state in the study's file, which another process may be writing."""
    if not (folder / "study.db").exists():
        return Counter()
    connection = sqlite3.connect(folder / "study.db")
    try:
        return Counter(state for (state,) in connection.execute("SELECT state FROM trials"))
    except sqlite3.OperationalError:  # no such table yet
        return Counter()
    finally:
        connection.close()


def started(*arguments: str) -> "subprocess.Popen[str]":
    """Start the command in a separate process."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Processes in a shell's background ignore interrupts, and so do their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait(process: "subprocess.Popen[str]", folder: Path, complete: int) -> None:
    """Wait until ``complete`` trials are complete and others are running."""
    deadline = time.monotonic() + 60
    while not ((found := database(folder))["COMPLETE"] >= complete and found["RUNNING"]):
        assert process.poll() is None, f"it had ended: {process.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(scope="module", autouse=True)
def migrations() -> Iterator[None]:
    with loaded_once():
        yield


@pytest.fixture(scope="module")
def made(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of QUICK with two trials, to be copied."""
    folder = tmp_path_factory.mktemp("made") / "study"
    arguments = [str(prepared / "train.csv") if word == "train.csv" else word for word in QUICK]
    assert main([*arguments, "--trials", "2", "--out", str(folder), "--quiet"]) == 0
    return folder


@pytest.fixture
def study(made: Path, here: Path) -> Path:
    """A copy of that study in the working directory."""
    return Path(shutil.copytree(made, here / "study"))


def test_quiet(run: Run) -> None:
    done = run(*QUICK, "--trials", "1", "--quiet")
    [line] = done.err.splitlines()[:-1]
    assert re.search(NOTE.format(31), line)
    assert done.out.count("\n") == 1


@pytest.mark.parametrize(
    ("data", "options"),
    [
        # tests/slow has others
        ("train.csv", ["--target", "y", "--group", "patient_id", "--model", "maxout-dropout", "--set", "members=2"]),
    ],
)
def test_the_best_settings_train_the_best_network_again(run: Run, here: Path, data: str, options: list[str]) -> None:
    searched = run("search", data, *options, "--max-epochs", "5", "--trials", "4", "--slots", "2", "--out", "study")
    assert searched.code == 0
    best = max(trials(here / "study"), key=lambda trial: float(trial["value"]))
    assert f"in trial {best['number']};" in searched.out
    assert run("fit", data, "--config", "study/best.toml", "--out", "tuned", "--quiet").code == 0
    record = json.loads((here / "tuned/config.json").read_text())["record"]
    assert len(record["members"]) == (2 if "members=2" in options else 1)
    member, details = record["members"][0], best["details"]
    assert member["best_accuracy"] == pytest.approx(details["accuracy"], abs=1e-6)
    assert (member["epochs"], member["best_epoch"]) == (details["epochs"], details["best_epoch"])
    assert member["seed"] == (3 if "--seed" in options else 0)
    assert record["rows"]["validation"] == details["rows"]


@pytest.mark.parametrize("model", ["squad-factorized"])  # tests/slow has the others
def test_every_model(run: Run, here: Path, model: str) -> None:
    done = run(*QUICK, "--model", model, "--trials", "2")
    assert done.code == 0
    assert f"searching settings of {model}\n" in done.err
    check_whole(here / "study", 2)
    assert len({params(trial) for trial in trials(here / "study")}) == 2
    assert f'model = "{model}"' in (here / "study/best.toml").read_text()
    assert run("fit", "train.csv", "--config", "study/best.toml", "--out", "tuned", "--quiet").code == 0


def test_settings_that_are_set_are_not_searched(run: Run, here: Path) -> None:
    (here / "shared.toml").write_text("[network]\nhidden = [3]\n[training]\nbatch_size = 50\n", encoding="utf-8")
    options = ("--set", "network.bins=7", "--config", "shared.toml", "--trials", "3", "--quiet")
    assert run(*[word for word in QUICK if word not in ("--hidden", "4")], *options).code == 0
    record = json.loads((here / "study/trials.json").read_text())
    assert record["settings"]["base"]["network"] == {"hidden": [3], "bins": 7}
    assert "bins" not in record["settings"]["space"]["network"]
    assert record["settings"]["space"]["training"].keys() == {"lr", "kl_multiplier"}
    for trial in trials(here / "study"):
        assert not {"network.bins", "network.hidden", "training.batch_size"} & trial["settings"].keys()
    assert run("fit", "train.csv", "--config", "study/best.toml", "--out", "tuned", "--quiet").code == 0
    saved = json.loads((here / "tuned/config.json").read_text())
    assert (saved["network"]["bins"], saved["record"]["training"]["batch_size"]) == (7, 50)


def test_user_defined_space(run: Run, here: Path) -> None:
    (here / "space.toml").write_text(
        'model = "mlp"\n[network]\nhidden = {choices = [[3], [5, 5]]}\ndropout = 0.25\n'
        "[training]\nlr = {low = 1e-3, high = 1e-2, log = true}\n",
        encoding="utf-8",
    )
    options = ("--space", "space.toml", "--model", "mlp", "--trials", "6", "--quiet", "--no-defaults")
    assert run(*[word for word in QUICK if word not in ("--hidden", "4")], *options).code == 0
    found = [trial["settings"] for trial in trials(here / "study")]
    assert {tuple(settings["network.hidden"]) for settings in found} == {(3,), (5, 5)}
    assert {settings["network.dropout"] for settings in found} == {0.25}
    assert all(1e-3 <= settings["training.lr"] <= 1e-2 for settings in found)
    assert "dropout = 0.25" in (here / "study/best.toml").read_text()


def test_a_study_in_which_every_trial_diverges(run: Run, here: Path) -> None:
    (here / "space.toml").write_text("[training]\nlr = {low = 1e30, high = 1e31}\n", encoding="utf-8")
    done = run(*QUICK, "--space", "space.toml", "--trials", "2", "--quiet", "--no-defaults")
    assert (done.code, done.out[:21]) == (0, "study: 2 of 2 trials,")
    assert re.search("every trial diverged.*--space", done.err.splitlines()[-1])
    assert not (here / "study/best.toml").exists()
    assert re.search("no finished trial .*2 diverged", run("search", "show", "study").refusal)


def test_the_defaults_are_reported(run: Run, here: Path) -> None:
    """As trial 0, in the last line, in the summary, and in the record."""
    done = run(*QUICK, "--trials", "3", "--quiet")
    found = trials(here / "study")
    assert [trial.get("defaults") for trial in found] == [True, None, None]
    best = max(found, key=lambda trial: (trial["value"], trial.get("defaults", False)))
    assert ("; these are the defaults;" in done.out) == (best["number"] == 0)
    assert ("; defaults 0." in done.out) == (best["number"] != 0)
    [line] = [line for line in run("search", "show", "study", "--no-figures").out.splitlines() if "defaults" in line][
        :1
    ]
    assert line.split()[0] == "defaults"
    assert "in trial 0" in line
    # The settings of a plain fit.
    assert found[0]["settings"]["network.bins"] == 15
    assert found[0]["settings"]["network.dropout"] == 0
    assert run(*QUICK, "--trials", "2", "--out", "without", "--no-defaults", "--quiet").code == 0
    assert not [trial for trial in trials(here / "without") if "defaults" in trial]


def test_a_study_is_extended(run: Run, study: Path) -> None:
    before = trials(study)
    again = run(*QUICK, "--trials", "2")
    assert again.code == 0
    assert trials(study) == before
    more = run(*QUICK, "--trials", "4")
    assert more.out.startswith("study: 4 of 4 trials")
    assert trials(study)[:2] == before
    check_whole(study, 4)
    fewer = run(*QUICK, "--trials", "3")
    assert (fewer.code, fewer.out[:28]) == (0, "study: already has 4 trials,")
    assert len(trials(study)) == 4


def test_suggested_commands_are_quoted(run: Run, here: Path) -> None:
    shutil.copy(here / "train.csv", here / "my rows.csv")
    done = run("search", "my rows.csv", *QUICK[2:], "--trials", "1", "--out", "a study")
    line = done.err.splitlines()[-1]
    assert "squad search show 'a study' " in line
    assert "squad fit 'my rows.csv' --config 'a study/best.toml' " in line


def test_the_model_of_a_space(run: Run, here: Path) -> None:
    (here / "space.toml").write_text('model = "mlp"\n[training]\nlr = {low = 0.01, high = 0.1}\n', encoding="utf-8")
    assert run(*QUICK, "--trials", "1", "--space", "space.toml").code == 0
    assert 'model = "mlp"' in (here / "study/best.toml").read_text(encoding="utf-8")
    refusal = run(*QUICK, "--trials", "1", "--space", "space.toml", "--model", "squad").refusal
    assert "This space is for mlp" in refusal


def test_a_renamed_folder_is_resumed(run: Run, study: Path, here: Path) -> None:
    before = trials(study)
    study.rename(here / "elsewhere")
    assert run(*QUICK, "--trials", "3", "--out", "elsewhere").code == 0
    assert trials(here / "elsewhere")[:2] == before
    assert run("search", "show", "elsewhere", "--no-figures").code == 0
    assert "3 measured" in run("search", "show", "elsewhere", "--no-figures").out


def test_explicit_defaults_are_the_same_study(run: Run, study: Path) -> None:
    said = ("--model", "squad", "--seed", "0", "--set", "validation=0.1", "--set", "training.lr_patience=10")
    assert run(*QUICK, *said, "--trials", "2").code == 0
    assert len(trials(study)) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seed", "1"], "base.seed is not set there and 1 here"),
        (["--objective", "accuracy"], 'objective.used is "aurc" there and "accuracy" here'),
        (["--set", "network.bins=7"], "base.network.bins is not set there and 7 here"),
        (["--max-epochs", "4"], "base.training.max_epochs is 3 there and 4 here"),
        (["--model", "mlp"], 'model is "squad" there and "mlp" here'),
        (["--space", "space.toml"], "space.network.dropout.low is 0.0 there and not set here; "),
        (["--drop", "sex"], "data.features is 4 there and 2 here"),
        (["changed"], "data.sha256 is "),
    ],
)
def test_another_search_in_the_same_folder(run: Run, study: Path, here: Path, options: list[str], words: str) -> None:
    (here / "space.toml").write_text("[network]\nbins = {low = 5, high = 9, step = 2}\n", encoding="utf-8")
    if options == ["changed"]:  # a file of the same name and size, with one other number
        lines = (here / "train.csv").read_text().splitlines()
        lines[7] = ",".join([*lines[7].split(",")[:1], "51.00", *lines[7].split(",")[2:]])
        (here / "train.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        options = []
    before = listing(study)
    refusal = run(*QUICK, "--trials", "2", *options).refusal
    assert refusal.startswith("Study 'study' belongs to another search: ")
    assert words in refusal
    assert refusal.endswith("with --restart.")
    assert listing(study) == before


def test_restart(run: Run, study: Path) -> None:
    before = trials(study)
    assert run(*QUICK, "--trials", "3", "--seed", "1", "--restart").code == 0
    check_whole(study, 3)
    assert not {params(trial) for trial in before[1:]} & {params(trial) for trial in trials(study)[1:]}
    # Stopped before the first trial has ended: nothing of the old study is left.
    assert run(*QUICK, "--trials", "3", "--seed", "2", "--restart", "--minutes", "1e-9").code == 0
    assert trials(study) == []
    assert {path.name for path in study.iterdir()} == {"study.db", "trials.json", "trials.csv"}


#: Options, and a pattern of the error that is raised before rows are read.
EARLY = [
    (["--space", "unknown.toml"], r"unknown\.toml: network\.binz is not .*squad"),
    (["--space", "unknown.toml"], r"Did you mean bins\?"),
    (["--space", "empty.toml"], r"empty\.toml: network\.bins: low must be below high, 5, got 9\."),
    (["--space", "log.toml"], r"log\.toml: training\.lr: low must be above 0.*log.*got 0\."),
    (["--space", "wrong.toml"], r"wrong\.toml: network\.bins: bins must be .*2, got 1\."),
    (["--space", "missing.toml"], r"missing\.toml cannot be read: No such file or directory"),
    (["--space", "words.toml"], r"words\.toml is not TOML: "),
    (["--space", "bins.toml", "--set", "network.bins=5"], r"Nothing is left to search: network\.bins "),
    (["--space", "bins.toml", "--model", "mlp"], r"bins\.toml: network\.bins is not .*mlp"),
    (["--space", "anneal.toml"], r"training\.anneal_epochs: anneal_epochs .*max_epochs.*3.*5"),
    (["--objective", "cov"], "objective must be one of 'coverage', 'aurc', 'accuracy', got 'cov'"),
    (["--objective", "coverage@risk=2%"], r"risk .*2 % is \.02"),
    (["--objective", "coverage"], r"no risk.*coverage@risk=\.02"),
    (["--trials", "0"], "trials must be .*1, got 0"),
    (["--workers", "2"], "workers = 2 needs .*ray"),
    (["--ray", "local", "--workers", "0"], "workers must be .*1, got 0"),
    (["--ray", "nonsense"], "ray must be .*HOST:PORT, got 'nonsense'"),
    (["--slots", "0"], "slots must be .*1, got 0"),
    (["--minutes", "0"], r"minutes must be .*0, got 0\.0"),
    (["--minutes", "nan"], "minutes must be .*0, got nan"),
    (["--stale-after", "0"], r"stale_after must be .*1, got 0\.0"),
    (["--storage", "nonsense"], "storage must be sqlite:///FILE or postgresql://"),
    (["--storage", ""], "storage must be sqlite:///FILE or postgresql://"),
    (["--storage", "mysql://me:secret@there/x"], r"got mysql://\.\.\.@there/x"),
    (["--storage", "postgresql://me:secret@127.0.0.1:1/x"], r"postgresql://\.\.\.@127\.0\.0\.1:1/x cannot be used: "),
    (["--set", "network.binz=3"], r"binz is not .*squad.*Did you mean bins\?"),
    (["--set", "network.bins=1"], "bins must be .*2, got 1"),
    (["--set", "training.lr=[0.1]"], r"training\.lr must be one number.*got \[0\.1\]"),
    (["--set", "members=0"], "members must be .*1, got 0"),
    (["--model", "sqad"], r"Did you mean 'squad'\?"),
    (["--seed", "-1"], "seed must be .*0 .*got -1"),
    (["--hidden", "a"], "--hidden must be .*got '?a"),
    (["--device", "cuda:99"], "device must be .*got 'cuda:99'"),
    (["--device", "tpu"], "device must be .*got 'tpu'"),
    (["--config", "missing.toml"], r"missing\.toml cannot be read: No such file or directory"),
    (["--out", "train.csv"], r"train\.csv is a file"),
    (["--out", "train.csv/study"], r"train\.csv is a file"),
]


@pytest.mark.parametrize(("options", "pattern"), EARLY)
def test_errors_before_rows_are_read(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], pattern: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("read too early")

    spaces = {
        "unknown": "[network]\nbinz = {low = 5, high = 9}",
        "empty": "[network]\nbins = {low = 9, high = 5}",
        "log": "[training]\nlr = {low = 0, high = 0.1, log = true}",
        "wrong": "[network]\nbins = {low = 1, high = 9}",
        "words": "hello there",
        "bins": "[network]\nbins = {low = 5, high = 9}",
        "anneal": "[training]\nanneal_epochs = {choices = [1, 5]}",
    }
    for name, text in spaces.items():
        (here / f"{name}.toml").write_text(text + "\n", encoding="utf-8")
    monkeypatch.setattr("squad.cli.inputs.read", never)
    before = listing(here)
    refusal = run(*QUICK, "--out", "deep/er/study", *options).refusal
    assert re.search(pattern, refusal), refusal
    assert "secret" not in refusal
    assert listing(here) == before


@pytest.mark.parametrize(
    ("data", "options", "pattern"),
    [
        ("train.csv", [], r"train\.csv.* --target.*'patient_id', 'age"),
        ("train.csv", ["--target", "Y"], r"'Y'.*[Dd]id you mean 'y'\?"),
        ("train.csv", ["--target", "y", "--drop", "ag"], r"'ag'.*[Dd]id you mean 'age'\?"),
        ("train.csv", ["--target", "y", "--group", "patient"], r"[Dd]id you mean 'patient_id'\?"),
        ("missing.csv", ["--target", "y"], r"missing\.csv does not exist"),
        ("one.csv", ["--target", "y"], "two classes"),
        ("digit", [], r"Did you mean digits\?"),
    ],
)
def test_invalid_rows(run: Run, here: Path, data: str, options: list[str], pattern: str) -> None:
    (here / "one.csv").write_text("a,y\n1,p\n2,p\n", encoding="utf-8")
    before = listing(here)
    refusal = run("search", data, *options, "--out", "deep/study").refusal
    assert re.search(pattern, refusal), refusal
    assert listing(here) == before


def test_drop_needs_a_table(run: Run) -> None:
    done = run("search", "digits", "--drop", "x", "--trials", "1")
    assert done.code == 2
    assert re.search("^squad: --drop x .*digits", done.err.splitlines()[-1])


def test_two_searches_in_one_folder(run: Run, here: Path, study: Path) -> None:
    before = listing(study)
    with exclusive_output(here / "study"):
        assert run(*QUICK, "--trials", "3").refusal.startswith("Another process ")
    assert listing(study) == before


def test_killed_while_the_database_was_created(run: Run, here: Path) -> None:
    """SQLite creates a table and its indexes one after the other; in between, Optuna takes the table for complete."""
    assert run(*QUICK, "--trials", "1", "--minutes", "1e-9").code == 0
    connection = sqlite3.connect(here / "study/study.db")
    for table in ("study_user_attributes", "study_directions", "studies"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("DROP INDEX ix_studies_study_name")
    connection.commit()
    connection.close()
    for count in (1, 2):
        done = run(*QUICK, "--trials", str(count))
        assert done.code == 0, done.err
        check_whole(here / "study", count)


def test_a_file_that_is_not_a_database(run: Run, here: Path) -> None:
    (here / "study").mkdir()
    (here / "study/study.db").write_text("not a database\n" * 100, encoding="utf-8")
    refusal = run(*QUICK, "--trials", "1").refusal
    assert "study.db cannot be used: file is not a database" in refusal
    assert refusal.endswith("with --restart.")
    assert run(*QUICK, "--trials", "1", "--restart").code == 0
    check_whole(here / "study", 1)


def test_warning_about_a_password(capsys: pytest.CaptureFixture[str]) -> None:
    from squad.cli.search import warn_of_password

    for address in ("postgresql://me:secret@db/x", "postgresql://db/x?user=me&password=secret"):
        warn_of_password(address)
        said = capsys.readouterr().err
        assert said.startswith("warning: the password in --storage")
        assert "PGPASSWORD" in said
        assert "secret" not in said
    for other in (None, "postgresql://me@db/x", "postgresql://?service=mine", "sqlite:///x.db", "nonsense"):
        warn_of_password(other)
        assert capsys.readouterr().err == ""


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import json, sys\n"
        "from squad.cli import main\n"
        "assert main(['search', '--help']) == main(['search', 'show', '--help']) == 0\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "squad search show" in found.stdout
    loaded = set(json.loads(found.stdout.splitlines()[-1]))
    assert not loaded & {"optuna", "sqlalchemy", "ray", "matplotlib", "pandas", "sklearn", "scipy.stats"}
