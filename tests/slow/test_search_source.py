"""Proposals over many trials, and what a killed worker loses."""

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import optuna

from squad.search.study import load_study
from squad.search.tpe import Proposals
from squad.search.trial import Outcome, Trial
from tests.search import test_many_workers
from tests.search.test_study_source import params
from tests.search.workers import (
    SPACE,
    check_complete,
    must,
    outcome,
    process,
    source,
    states,
    storage,
    work,
)


class TestProposals:
    def test_resumed_proposals_are_equal(self, new: Callable[[], str]) -> None:
        """One trial at a time, so that none is running at the stop: proposals depend only on the study."""
        whole, parts = source(new(), 40), new()
        work(whole, 1)
        for _ in range(3):
            mine = source(parts, 40)
            for _ in range(13):
                trial = must(mine.ask())
                mine.tell(trial, outcome(trial))
        work(source(parts, 40), 1)
        assert params(load_study(storage(parts), "study")[0]) == params(whole.study)

    def test_an_updated_copy_proposes_the_same_as_a_new_one(self, url: str) -> None:
        """With trials that end, fail, are pruned or continue between proposals."""
        mine = source(url, 60, prune=True)
        followed = Proposals(SPACE.distributions(), 60, 1)
        running: list[Trial] = []
        for turn in range(50):
            running.append(must(mine.ask()))
            if turn % 3 == 2:
                trial = running.pop(0)
                mine.prunes(trial, 5, 0.5)
                mine.tell(trial, Outcome(None, "pruned") if turn % 4 == 0 else outcome(trial))
            if turn % 10 == 9:
                mine.give_back([running.pop()])
            trials = mine.study.get_trials(deepcopy=False)
            expected, _ = Proposals(SPACE.distributions(), 60, 1).propose(trials)
            found, place = followed.propose(trials)
            followed._copy.tell(place, state=optuna.trial.TrialState.FAIL)
            assert found == expected

    def test_tpe_finds_better_settings_than_chance(self, url: str) -> None:
        mine = source(url, 80)
        work(mine, 4)
        values = [trial.values[0] for trial in mine.study.get_trials()]
        assert sum(values[-20:]) > sum(values[:20]) + 5  # means differ by more than 0.25 of about 1


class TestInterruptions:
    def test_a_killed_study_is_resumed_without_loss(self, url: str, tmp_path: Path) -> None:
        mark = tmp_path / "mark"
        context = multiprocessing.get_context("spawn")
        worker = context.Process(target=process, args=(url, 12, "study", "w", mark, 4, 0.05, False))
        worker.start()
        deadline = time.monotonic() + 60
        while not mark.exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        worker.kill()
        worker.join()
        assert worker.exitcode == -9

        mine = source(url, 12)
        before = states(mine.study)
        assert before["RUNNING"] >= 2
        lost = [trial for trial in mine.study.get_trials() if trial.state.name == "RUNNING"]
        assert mine.reclaim() == len(lost)
        assert mine.reclaim() == 0
        assert {"COMPLETE": before["COMPLETE"], "FAIL": len(lost)}.items() <= states(mine.study).items()
        queued = [trial for trial in mine.study.get_trials() if trial.state.name == "WAITING"]
        assert {tuple(trial.user_attrs) for trial in queued} == {("settings",)}  # no worker yet
        again = [must(mine.ask()) for _ in lost]
        assert [trial.settings for trial in again] == [trial.user_attrs["settings"] for trial in lost]
        for trial in again:
            mine.tell(trial, outcome(trial))
        work(mine)
        check_complete(mine.study, 12)
        retried = [trial.system_attrs.get("failed_trial") for trial in mine.study.get_trials()]
        assert [number for number in retried if number is not None] == [trial.number for trial in lost]


def test_many_workers_make_the_exact_number_of_trials(nothing: str) -> None:
    test_many_workers.TestManyWorkers().test_many_workers_make_the_exact_number_of_trials(nothing, 23)
