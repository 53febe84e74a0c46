"""The default settings as trial 0, the baseline of tuning."""

import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from squad.files.plain import plain_json
from squad.fitting import fit_predictor
from squad.search import study_figures, summary
from squad.search.defaults import Defaults, default_trial
from squad.search.objective import Objective
from squad.search.request import build_problem
from squad.search.search_record import Search, TrialRecord, read
from squad.search.storage import quiet_optuna
from squad.search.study import standing
from squad.search.trial import Outcome, Trial
from squad.settings import fit_settings
from tests.search.test_tuning import SMALL, RecordedProgress, rows, tune
from tests.search.workers import SPACE, check_complete, must, source, states, work

#: A point of the squad's space for sources that train nothing.
ENDS = plain_json({name: entry.ends[0] for name, entry in SPACE.entries.items()})
FIRST = Defaults(ENDS, SPACE.params(ENDS))
#: The same where it is none.
OUTSIDE = Defaults({**FIRST.settings, "training.lr": 7.0}, {}, ("training.lr",))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "study"


def first(found: Search) -> Any:
    defaults = found.defaults()
    assert defaults is not None
    return defaults


@pytest.mark.parametrize("model", ["squad", "squad-factorized", "maxout-dropout", "relu-dropout", "dlgm", "mlp"])
@pytest.mark.parametrize("settings", [{}, {"network": {"hidden": [4], "dropout": 0.2}, "seed": 3}])
def test_defaults_are_the_settings_of_a_plain_fit(model: str, settings: dict[str, Any]) -> None:
    """With shared settings as for a fit; settings that depend on the rows are resolved."""
    given = {**settings, "model": model}
    problem = build_problem(*rows(800), given, None, "aurc")
    trial = default_trial(problem)
    assert trial.outside == ()
    assert trial.settings.keys() == problem.space.entries.keys()
    fitted = fit_settings(given)
    alone = fitted.training.resolved(fitted.network, problem.data.train.shape[1])
    shape, run = problem.run(trial.settings)
    assert (run.network, run.config, run.seed) == (fitted.network, alone, fitted.seed)
    assert problem.run({})[0] == shape


def test_trial_0_trains_the_network_of_a_plain_fit(out: Path) -> None:
    found = tune(out, trials=3, settings={"training": {"max_epochs": 4}})
    assert first(found).number == 0
    member = fit_predictor(*rows(), fit_settings({"training": {"max_epochs": 4}})).record["members"][0]
    details = first(found).details
    assert member["best_accuracy"] == pytest.approx(details["accuracy"], abs=1e-6)
    assert (member["epochs"], member["best_epoch"]) == (details["epochs"], details["best_epoch"])
    # It is one of the trials that were asked for, and the only one that says so in the record.
    assert len(found.trials) == 3
    held = json.loads((out / "trials.json").read_text())["results"]["trials"]
    assert [trial.get("defaults") for trial in held] == [True, None, None]
    assert list(found.table()["defaults"]) == [True, False, False]
    # Called again, and extended, there is no second.
    assert [trial.defaults for trial in tune(out, trials=4, settings={"training": {"max_epochs": 4}}).trials] == [
        True,
        *[False] * 3,
    ]


def value_of(found: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give trials these values, in the order in which they end."""
    left = list(found)
    measure = Objective.measure

    def given(self: Any, confidence: Any, correct: Any) -> tuple[float, dict[str, Any]]:
        _, details = measure(self, confidence, correct)
        value = left.pop(0)
        return value, {**details, "aurc": -value}

    monkeypatch.setattr("squad.search.objective.Objective.measure", given)


@pytest.mark.parametrize(
    ("values", "best"),
    [
        ([-0.2, -0.3, -0.4], 0),
        ([-0.2, -0.1, -0.4], 1),
        ([-0.2, -0.2, -0.2], 0),
    ],
)
def test_the_best_is_never_worse_than_the_defaults(
    out: Path, monkeypatch: pytest.MonkeyPatch, values: list[float], best: int
) -> None:
    value_of(values, monkeypatch)
    found = tune(out, trials=3, slots=1)
    chosen = found.best()
    assert chosen is not None
    assert chosen.number == best
    assert (out / "best.toml").read_text().count(f"number {best},") == 1
    assert found.best_settings().network.to_dict()["bins"] == (15 if best == 0 else chosen.settings["network.bins"])


def test_defaults_win_ties() -> None:
    """For example if no trial has any coverage; after a retry they are not the first trial, either."""
    base: dict[str, Any] = {"settings": {}, "params": {}, "ended": "", "started": None, "finished": None}
    trials = [
        {**base, "number": 0, "state": "complete", "value": 0.5, "details": {"aurc": 0.1, "nll": 0.1}},
        {
            **base,
            "number": 1,
            "state": "complete",
            "value": 0.5,
            "details": {"aurc": 0.3, "nll": 0.3},
            "defaults": True,
        },
    ]
    made = tuple(TrialRecord(**{"retried_from": None, "worker": None, **trial}) for trial in trials)
    assert [trial.number for trial in Search(None, made).top(2)] == [1, 0]  # type: ignore[arg-type]


def test_defaults_win_ties_in_the_standing(url: str) -> None:
    mine = source(url, 3, defaults=FIRST)
    running = [must(mine.ask()) for _ in range(3)]
    for trial in running[1:]:
        mine.tell(trial, Outcome(0.5, "stopped early"))
    assert standing(mine.study).best_trial == 1
    mine.tell(running[0], Outcome(0.5, "stopped early"))
    assert standing(mine.study).best_trial == 0


def test_defaults_outside_the_space_are_tried_with_a_note(out: Path) -> None:
    space = {"network": {"bins": {"low": 5, "high": 9, "step": 2}}, "training": {"lr": {"low": 0.1, "high": 0.2}}}
    told = RecordedProgress()
    found = tune(out, space=space, trials=5, progress=told, objective="aurc")
    [text] = [text for name, text in told.calls if name == "message"]
    assert "network.bins = 15, training.lr = 0.003" in text
    assert "--no-defaults" in text
    assert first(found).settings == {"network.bins": 15, "training.lr": 0.003}
    assert first(found).params == {}
    assert all(trial.settings["network.bins"] <= 9 for trial in found.trials[1:])
    # Figures are of the space.
    assert [trial.number for trial in found.measured if not trial.inside] == [0]
    study_figures.pairwise(found)
    study_figures.history(found)
    # The record is enough to go on from, as they were.
    (out / "study.db").unlink()
    again = tune(out, space=space, trials=6, objective="aurc")
    assert again.trials[:5] == found.trials
    assert [trial.defaults for trial in again.trials] == [True, *[False] * 5]


def test_no_defaults(out: Path) -> None:
    found = tune(out, trials=3, defaults=False)
    assert found.defaults() is None
    assert "defaults" not in found.table().columns
    # A study that began without the defaults gets none.
    assert tune(out, trials=4).defaults() is None
    (out / "study.db").unlink()
    assert tune(out, trials=5).defaults() is None
    assert not [name for name, _ in summary.facts(read(out)) if name == "defaults"]


def test_defaults_in_the_summary(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value_of([-0.0034, -0.0031, -0.5, -0.001], monkeypatch)
    found = tune(out, trials=2, slots=1, objective="aurc")
    facts = dict(summary.facts(found))
    assert facts["best AURC"] == "0.003100 in trial 1"
    assert facts["defaults"] == "0.003400 in trial 0"
    other = tune(out.with_name("other"), trials=1, objective="aurc")
    assert dict(summary.facts(other))["defaults"] == "0.5000 in trial 0: no trial was better"


class TestSource:
    def test_defaults_come_first(self, url: str) -> None:
        mine = source(url, 4, defaults=FIRST)
        asked = [must(mine.ask()) for _ in range(4)]
        assert [trial.settings == FIRST.settings for trial in asked] == [True, False, False, False]
        assert [bool(trial.user_attrs.get("defaults")) for trial in mine.study.get_trials()] == [True, *[False] * 3]

    @pytest.mark.parametrize("given", [FIRST, OUTSIDE])
    @pytest.mark.parametrize("lost", [False, True])
    def test_defaults_are_retried_unchanged(self, url: str, given: Defaults, lost: bool) -> None:
        mine = source(url, 2, defaults=given)
        for _ in range(2):
            mine.give_back([must(mine.ask())], lost=lost)
        again = must(mine.ask())
        assert again.settings == given.settings
        mine.tell(again, Outcome(0.5, "stopped early"))
        assert [trial.user_attrs.get("defaults") for trial in mine.study.get_trials()] == [True] * 3
        assert must(mine.ask()).settings != given.settings

    def test_defaults_are_not_pruned(self, url: str) -> None:
        mine = source(url, 30, defaults=FIRST, prune=True)
        plain = must(mine.ask())
        for _ in range(12):
            trial = must(mine.ask())
            for epoch in range(5, 45, 5):
                mine.prunes(trial, epoch, 0.9)
            mine.tell(trial, Outcome(0.9, "stopped early"))
        other = must(mine.ask())
        pruned = [[mine.prunes(trial, epoch, 0.1) for epoch in range(5, 45, 5)] for trial in (plain, other)]
        assert not any(pruned[0])
        assert any(pruned[1])

    def test_tpe_learns_from_defaults_inside_the_space(self, url: str, new: Any) -> None:
        for address, given, kept in ((url, FIRST, 1), (new(), OUTSIDE, 0)):
            mine = source(address, 40, defaults=given)
            work(mine, 1, most=12)
            below = [trial for trial in mine._proposals._copy.get_trials() if trial.number == 0]
            assert bool(below[0].params) == bool(kept)
            assert states(mine.study)["COMPLETE"] == 12

    def test_only_one_of_several_workers_gets_the_defaults(self, nothing: str) -> None:
        def one(n: int) -> list[Trial]:
            mine = source(nothing, 9, worker=f"w{n}", shared=True, defaults=FIRST)
            work(mine, 2)
            return []

        with ThreadPoolExecutor(6) as pool, quiet_optuna():
            list(pool.map(one, range(6)))
        mine = source(nothing, 9)
        check_complete(mine.study, 9)
        plain = [trial for trial in mine.study.get_trials() if trial.user_attrs.get("defaults")]
        assert [trial.number for trial in plain if trial.state.name == "COMPLETE"] == [0]

    def test_two_workers_on_an_empty_study(self, url: str) -> None:
        """The second worker reads before the first has written, and writes after it."""
        mine, other = (source(url, 3, worker=name, shared=True, defaults=FIRST) for name in ("a", "b"))
        begin, found = mine._propose_defaults, list[Trial]()

        def late() -> Any:
            found.append(must(other.ask()))
            return begin()

        mine._propose_defaults = late  # type: ignore[method-assign]
        assert mine.ask() is None  # one too many, which the next attempt finds done
        assert found[0].settings == FIRST.settings
        assert must(mine.ask()).settings != FIRST.settings
        assert states(mine.study) == {"RUNNING": 2, "FAIL": 1}


def test_small_tables(out: Path) -> None:
    """With fewer rows than the smallest batch of the space."""
    found = tune(out, *rows(12, 2), trials=2, settings=SMALL)
    assert first(found).settings["training.batch_size"] < 16
    assert math.isfinite(first(found).value)
    assert np.isfinite(found.table()["value"].astype(float)).all()
