"""The summary of a search, and the command that shows it."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
import typer
from typer.testing import CliRunner

from squad.cli.search_show import show
from squad.errors import ArgumentError
from squad.records import Record
from squad.search.search_record import CSV, TRIALS, Search, TrialsError, read
from squad.search.space import Space
from squad.search.storage import SearchError, file_url, open_storage
from squad.search.study import open_study
from squad.search.study_folder import DATABASE
from squad.search.study_source import StudySource
from squad.search.summary import (
    axes,
    best_settings,
    best_toml,
    doubt,
    facts,
    rows,
    spread_heading,
    top,
    value_text,
    warning,
)
from squad.search.trial import Outcome
from squad.settings import fit_settings, read_toml
from tests.search.searches import BASE, COVERAGE, record, saved

SPACE: dict[str, Any] = {
    "network": {"dropout": {"low": 0.01, "high": 0.95}, "prior": {"choices": ["uniform", "gaussian"]}},
    "training": {"batch_size": {"low": 32, "high": 512, "octaves": 0.5}},
}


def of(search: Search, count: int) -> Search:
    return Search(search.record, search.trials[:count])


def test_best_toml_is_a_file_for_a_fit(tmp_path: Path) -> None:
    search = saved(tmp_path, count=120)
    best = search.best()
    assert best is not None
    path = tmp_path / "best.toml"
    path.write_text(best_toml(search, "study\nof [mine]"), encoding="utf-8")
    read_back = read_toml(path)
    assert read_back == best_settings(search)
    fitted = fit_settings(read_back)
    assert search.best_settings() == fitted
    assert fitted.network.hidden == (32, 32)  # shared by all trials
    assert fitted.training.max_epochs == 60
    assert fitted.seed == 3
    for name, value in best.settings.items():
        table, _, own = name.partition(".")
        assert getattr(getattr(fitted, table), own) == value  # to the last digit
    text = path.read_text(encoding="utf-8")
    assert text.startswith(
        f"# study of [mine]: the best of {len(search.measured)} measured trials, number {best.number}"
    )
    assert f"{COVERAGE}: coverage {100 * (best.value or 0):.2f} %" in text
    assert "2031-05-04 12:" in text
    assert "probably worse" in text


def test_the_seed_of_the_search_is_used_for_the_fit(tmp_path: Path) -> None:
    found = record(20)
    base = {name: value for name, value in BASE.items() if name != "seed"}
    replace(found, settings={**found.settings, "base": base}, seed=11).save(tmp_path / TRIALS)
    assert tomllib.loads(best_toml(read(tmp_path)))["seed"] == 11


def test_the_table_of_settings(tmp_path: Path) -> None:
    search = saved(tmp_path, count=700)
    best, leaders = search.best(), top(search)
    assert best is not None
    assert len(leaders) == 60
    assert spread_heading(search) == "80 % of the best 60"
    found = {row.name: row for row in rows(search)}
    assert set(found) == {axis.own for axis in axes(search)}
    ordered = sorted(trial.settings["training.lr"] for trial in leaders)
    # 48 of 60 trials are 80 %: 6 are left out on either side.
    assert found["lr"].top == f"{value_text(ordered[6])} to {value_text(ordered[-7])}"
    assert found["lr"].best == value_text(best.settings["training.lr"])
    assert found["lr"].searched == "0.0001 to 0.01, log"
    assert found["bins"].searched == "5 to 21, step 2"
    assert found["batch_size"].searched == "32 to 512, 0.5 octaves"
    assert found["kl_multiplier"].searched == "1e-6 to 0.01, log"
    assert found["learn_values"].searched.splitlines() == ["per_neuron", "per_layer", "fixed"]
    modes = [trial.settings["network.learn_values"] for trial in leaders]
    shares = [f"{100 * modes.count(mode) / 60:.0f} %" for mode in ("per_neuron", "per_layer", "fixed")]
    assert found["learn_values"].top.splitlines() == shares


def test_the_best_quarter_of_a_small_search(tmp_path: Path) -> None:
    search = saved(tmp_path, count=24)
    assert len(search.measured) == 22
    assert len(top(search)) == 5
    assert spread_heading(search) == "the best 5"
    rates = sorted(trial.settings["training.lr"] for trial in top(search))
    (row,) = [row for row in rows(search) if row.name == "lr"]
    assert row.top == f"{value_text(rates[0])} to {value_text(rates[-1])}"  # all of them
    assert len(top(of(search, 2))) == 1
    assert spread_heading(of(search, 2)) == ""


def test_ambiguous_names_keep_their_tables(tmp_path: Path) -> None:
    search = saved(tmp_path, count=5)
    entries = {name.replace("training.lr", "training.dropout"): entry for name, entry in search.space.entries.items()}
    object.__setattr__(search.space, "entries", entries)
    assert [axis.own for axis in axes(search) if "dropout" in axis.name] == ["network.dropout", "training.dropout"]


def test_facts(tmp_path: Path) -> None:
    search = saved(tmp_path, count=700)
    best = search.best()
    assert best is not None
    assert best.value is not None
    found = dict(facts(search))
    low, high = best.details["coverage_interval"]
    told = f"{100 * best.value:.2f} % (95 %: {100 * low:.1f} to {100 * high:.1f} %) in trial {best.number}"
    assert found["best coverage"] == told
    assert found["its accuracy"].startswith(f"{100 * best.details['accuracy']:.2f} % (95 %: ")
    assert found["trials"] == "626 measured, 58 pruned, 12 diverged, 4 failed"
    assert found["time"] == "18 min 16 s"
    assert "best of 626 trials" in warning(search)
    assert "6,000 validation rows" in warning(search)
    assert "probably worse" in warning(search)


def equal(search: Search, value: float) -> Search:
    """The same trials with one value for all; later trials have a smaller AURC."""
    trials = [
        replace(trial, value=value, details={**trial.details, "aurc": 1 / (1 + trial.number)})
        if trial.measured
        else trial
        for trial in search.trials
    ]
    return Search(search.record, tuple(trials))


def test_ties_are_reported(tmp_path: Path) -> None:
    search = saved(tmp_path, count=30)
    assert "ties" not in dict(facts(search))
    told = equal(search, 0.5)
    last = told.measured[-1]
    assert dict(facts(told))["ties"].startswith(f"{len(told.measured)} trials share this value")
    assert dict(facts(told))["best coverage"].endswith(f"in trial {last.number}")
    assert f"number {last.number}" in best_toml(told)
    assert best_settings(told)["training"]["lr"] == last.settings["training.lr"]
    assert doubt(told) is None


def test_zero_coverage_is_reported(tmp_path: Path) -> None:
    search = saved(tmp_path, count=30)
    assert doubt(search) is None
    said = doubt(equal(search, 0.0))
    assert said is not None
    assert f"for {COVERAGE}" in said
    assert "--objective aurc" in said
    assert dict(facts(equal(search, 0.0)))["note"] == said
    # An AURC of 0 is the best possible value.
    assert doubt(equal(saved(tmp_path, count=30, objective="aurc"), 0.0)) is None
    assert doubt(Search(search.record, ())) is None


def test_count_of_trials_by_state(tmp_path: Path) -> None:
    search = saved(tmp_path, count=30)
    trials = list(search.trials)
    for number in (3, 4, 5, 6):
        trials[number] = replace(trials[number], state="failed", value=None, ended=None)
    trials[20] = replace(trials[20], retried_from=3)
    trials[21] = replace(trials[21], retried_from=4)
    trials[28] = replace(trials[28], state="waiting", value=None, ended=None)
    trials[29] = replace(trials[29], state="running", value=None, ended=None)
    told = dict(facts(Search(search.record, tuple(trials))))["trials"]
    # After a kill, a running trial cannot be told from an interrupted one.
    counts = "22 measured, 2 pruned, 2 failed, 2 interrupted and tried again, 1 waiting, 1 running, or interrupted"
    assert told == counts


def test_a_changed_objective_is_reported(tmp_path: Path) -> None:
    found = record(30, objective="aurc")
    objective = {"asked": COVERAGE, "used": "aurc"}
    changed = replace(
        found,
        settings={**found.settings, "objective": objective},
        results={**found.results, "notes": ["There are few rows."]},
    )
    changed.save(tmp_path / TRIALS)
    told = dict(facts(read(tmp_path)))
    assert told["objective"] == f"aurc (requested: {COVERAGE})"
    assert told["note"] == "There are few rows."
    assert told["best AURC"].startswith("0.0")
    assert "(95 %" not in told["best AURC"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-6, "1e-6"), (0.00081234, "0.000812"), (15, "15"), (True, "true"), ([32, 32], "32-32"), (20.0, "20")],
)
def test_value_text(value: Any, text: str) -> None:
    assert value_text(value) == text


# --- the command

Shown = Callable[..., Any]


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """The command in an empty folder with 80 columns; errors are raised."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    app = typer.Typer()
    app.command()(show)

    def call(*arguments: str) -> Any:
        return CliRunner().invoke(app, list(arguments), catch_exceptions=False)

    return call


def test_the_command_prints_and_writes(shown: Shown) -> None:
    Path("study").mkdir()
    search = saved(Path("study"), count=60, space=Space.of("squad", SPACE))
    result = shown("study")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in result.stdout
    best = search.best()
    assert best is not None
    assert f"in trial {best.number}" in result.stdout
    assert "certify it on rows that" in " ".join(result.stdout.split())
    names = ["best.toml", CSV, "history.png", "importances.png", "pairwise.png"]
    assert lines[-5:] == [str(Path("study") / name) for name in names]
    assert sorted(path.name for path in Path("study").iterdir()) == sorted([*names, TRIALS])
    assert read_toml(Path("study/best.toml")) == best_settings(search)


def test_another_folder_without_figures(shown: Shown) -> None:
    Path("study").mkdir()
    saved(Path("study"), count=30)
    assert shown("study", "--out", "there/deep", "--no-figures").exit_code == 0
    assert sorted(path.name for path in Path("there/deep").iterdir()) == ["best.toml", CSV]
    assert [path.name for path in Path("study").iterdir()] == [TRIALS]


def test_the_whole_space_fits_into_80_columns(shown: Shown) -> None:
    Path("study").mkdir()
    for model in ("squad", "squad-factorized"):
        saved(Path("study"), count=300, model=model)
        result = shown("study", "--no-figures")
        lines = [line for line in result.stdout.splitlines() if line.startswith("│")]
        assert max(map(len, result.stdout.splitlines())) <= 80
        # No value is wrapped: one line per number, and one per choice.
        choices = [2, 2, 3] if model == "squad" else [2, 2, 3, 4, 2]
        numbers = 7
        assert len(lines) == sum(choices) + numbers


def test_too_few_trials_for_importances(shown: Shown) -> None:
    Path("study").mkdir()
    saved(Path("study"), count=8, space=Space.of("squad", SPACE))
    result = shown("study")
    assert result.exit_code == 0
    assert re.search("importances.png left out: .*16 .*8", result.stderr)
    assert Path("study/pairwise.png").exists()
    assert not Path("study/importances.png").exists()


def test_a_single_best_trial_has_no_spread_column(shown: Shown) -> None:
    Path("study").mkdir()
    saved(Path("study"), count=5)
    (header,) = [line for line in shown("study", "--no-figures").stdout.splitlines() if line.startswith("┃")]
    assert header.replace("┃", " ").split() == ["setting", "best", "searched"]


def test_folders_that_cannot_be_shown(shown: Shown) -> None:
    with pytest.raises(TrialsError, match=r"STUDY .*nowhere"):
        shown("nowhere")
    Path("empty").mkdir()
    with pytest.raises(TrialsError, match=r"empty .*trials\.json"):
        shown("empty")
    assert list(Path("empty").iterdir()) == []
    Path("study").mkdir()
    found = record(40)
    for trial in found.results["trials"]:
        trial.update(state="running", value=None, ended=None)
    found.results["trials"][3].update(state="failed")
    found.save("study/" + TRIALS)
    with pytest.raises(TrialsError, match=r"no finished trial .*1 failed, 39 running"):
        shown("study")
    found.results["trials"].clear()
    found.save("study/" + TRIALS)
    with pytest.raises(TrialsError, match=r"no finished trial .*no trials"):
        shown("study")
    assert [path.name for path in Path("study").iterdir()] == [TRIALS]


def begun(folder: Path, trials: int, finished: int, name: str = "mine") -> None:
    """A study in a file with ``finished`` finished trials and one running."""
    space = Space.of("squad", SPACE)
    meta = {**record(1, space=space).settings, "fingerprint": "a", "notes": ["a note"]}
    storage = open_storage(file_url(folder / DATABASE), stale_after=60)
    source = StudySource(open_study(storage, name, meta), space, trials, worker="w", seed=0, shared=False)
    for index in range(finished + 1):
        trial = source.ask()
        assert trial is not None
        if index < finished:
            value = 1 - float(trial.settings["network.dropout"])
            source.tell(trial, Outcome(value, "stopped early", {"rows": 100, "accuracy": value}))
    storage.remove_session()
    storage.engine.dispose()


def test_the_record_is_updated_from_the_study(shown: Shown) -> None:
    Path("study").mkdir()
    begun(Path("study"), 30, 12)
    result = shown("study")
    assert result.exit_code == 0
    assert "12 measured, 1 running, or interrupted" in result.stdout
    assert "a note" in result.stdout
    search = read("study")
    best = search.best()
    assert best is not None
    dropped = {trial.number: trial.settings["network.dropout"] for trial in search.measured}
    assert best.number == min(dropped, key=lambda number: (dropped[number], number))
    for trial in search.trials:
        assert search.space.settings(trial.params) == trial.settings
    first = Path("study", TRIALS).read_bytes()
    # Shown on another machine than that of the search.
    there = Record.load(Path("study", TRIALS))
    replace(there, machine={"gpu": "a large one"}).save(Path("study", TRIALS))
    shown("study", "--no-figures")
    assert read("study").record.machine == {"gpu": "a large one"}
    there.save(Path("study", TRIALS))
    shown("study", "--no-figures")
    assert Path("study", TRIALS).read_bytes() == first


def test_showing_takes_no_trials(shown: Shown) -> None:
    Path("study").mkdir()
    begun(Path("study"), 30, 5)
    shown("study", "--no-figures")
    study = optuna.load_study(study_name="mine", storage=open_storage(file_url("study/" + DATABASE), stale_after=60))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 5 + ["RUNNING"]
    study._storage.remove_session()


def test_a_broken_record_is_replaced(shown: Shown) -> None:
    Path("study").mkdir()
    begun(Path("study"), 30, 3)
    Path("study", TRIALS).write_text("{", encoding="utf-8")
    assert shown("study", "--no-figures").exit_code == 0
    assert len(read("study").measured) == 3


def test_a_damaged_database_shows_the_record(shown: Shown) -> None:
    Path("study").mkdir()
    saved(Path("study"), count=30)
    Path("study", DATABASE).write_bytes(b"no database" * 100)
    result = shown("study", "--no-figures")
    assert result.exit_code == 0
    assert "cannot be used" in result.stderr
    assert "study/trials.json of 20" in result.stderr
    assert "28 measured" in result.stdout


def test_a_named_database_must_exist(shown: Shown) -> None:
    Path("study").mkdir()
    saved(Path("study"), count=30)
    before = sorted(Path().rglob("*"))
    for file in ("nowhere/study.db", "study/other.db"):
        with pytest.raises(SearchError, match=f"no file {file}"):
            shown("study", "--storage", f"sqlite:///{file}", "--no-figures")
    with pytest.raises(SearchError, match=r"no study/study\.db .*'mine'.*--storage"):
        shown("study", "--study", "mine", "--no-figures")
    assert sorted(Path().rglob("*")) == before  # showing creates nothing
    with pytest.raises(ArgumentError, match="storage must be"):
        shown("study", "--storage", "nonsense", "--no-figures")
    # The record does not replace a study that was named.
    begun(Path("study"), 30, 3)
    with pytest.raises(SearchError, match="no study 'his'"):
        shown("study", "--study", "his", "--no-figures")


def test_old_figures_are_deleted(shown: Shown) -> None:
    Path("study").mkdir()
    saved(Path("study"), count=8, space=Space.of("squad", SPACE))
    Path("study/importances.png").write_bytes(b"old")
    assert shown("study").exit_code == 0
    assert not Path("study/importances.png").exists()
    assert Path("study/history.png").exists()


def test_the_hint_is_quoted_for_a_shell(shown: Shown) -> None:
    Path("my study").mkdir()
    saved(Path("my study"), count=8)
    assert "--config 'my study/best.toml'" in shown("my study", "--no-figures").stderr


def test_several_studies_in_one_database(shown: Shown) -> None:
    Path("study").mkdir()
    begun(Path("study"), 30, 3, "mine")
    begun(Path("study"), 30, 5, "yours")
    with pytest.raises(SearchError, match=r"mine, yours\. .*--study"):
        shown("study", "--no-figures")
    assert "5 measured" in shown("study", "--study", "yours", "--no-figures").stdout
    # Once shown, the record names the study.
    assert "5 measured" in shown("study", "--no-figures").stdout
    Path("study", TRIALS).unlink()
    with pytest.raises(SearchError, match="no study 'his'"):
        shown("study", "--study", "his", "--no-figures")
