"""Studies: how many trials there are whoever is killed when, what is proposed, and what is said of bad storages."""

import logging
import math
import multiprocessing
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy

from squad.errors import ArgumentError, SquadError
from squad.search import proposals
from squad.search.proposals import Proposals
from squad.search.storage import RETRIES, ask_anew, calmly, file_url, open_storage
from squad.search.study import (
    SearchError,
    Standing,
    StudySource,
    at_work,
    close_storage,
    delete_study,
    load_study,
    open_study,
    standing,
)
from squad.search.trial import Outcome, Trial
from tests.search.workers import (
    META,
    SPACE,
    check_complete,
    close_all,
    let_pass,
    outcome,
    process,
    source,
    states,
    storage,
    work,
)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage without studies: its tables take a third of a second to make."""
    path = tmp_path_factory.mktemp("storage") / "study.db"
    close_storage(open_storage(file_url(path), stale_after=60))
    return path


@pytest.fixture
def new(tmp_path: Path, empty: Path) -> Callable[[], str]:
    """The address of another storage at every call."""
    numbers = count()

    def make() -> str:
        path = tmp_path / f"{next(numbers)}.db"
        shutil.copy(empty, path)
        return file_url(path)

    return make


@pytest.fixture
def url(new: Callable[[], str]) -> str:
    return new()


@pytest.fixture
def nothing(tmp_path: Path) -> str:
    """Where there is no storage yet."""
    return file_url(tmp_path / "nothing.db")


@contextmanager
def statements(source: StudySource) -> Iterator[list[str]]:
    """What a source sends to its database inside."""
    engine = source._storage._backend.engine
    seen: list[str] = []

    def executed(conn: object, cursor: object, statement: str, *rest: object) -> None:
        seen.append(statement)

    sqlalchemy.event.listen(engine, "before_cursor_execute", executed)
    try:
        yield seen
    finally:
        sqlalchemy.event.remove(engine, "before_cursor_execute", executed)


def must(trial: Trial | None) -> Trial:
    assert trial is not None
    return trial


def params(study: optuna.Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.get_trials(deepcopy=False)]


class TestCounts:
    @pytest.mark.parametrize("slots", [1, 4, 40])
    def test_exactly_as_many_trials_as_were_asked_for(self, url: str, slots: int) -> None:
        mine = source(url, 15)
        work(mine, slots)
        check_complete(mine.study, 15)
        assert mine.over()
        assert mine.ask() is None

    def test_more_can_be_asked_for_later(self, url: str) -> None:
        work(source(url, 5))
        mine = source(url, 9)
        assert not mine.over()
        work(mine)
        check_complete(mine.study, 9)

    def test_settings_are_those_of_the_space_and_kept_with_the_trial(self, url: str) -> None:
        mine = source(url, 1)
        trial = must(mine.ask())
        stored = mine.study.get_trials()[0]
        assert trial.settings == SPACE.settings(stored.params) == stored.user_attrs["settings"]
        assert set(trial.settings) == set(SPACE.entries)
        assert stored.user_attrs["worker"] == "w"

    def test_pruned_ones_count_and_have_no_value(self, url: str) -> None:
        mine = source(url, 2)
        mine.tell(must(mine.ask()), Outcome(None, "pruned", {"epochs": 5}))
        mine.tell(must(mine.ask()), Outcome(0.5, "diverged"))
        assert mine.over()
        pruned = mine.study.get_trials()[0]
        assert (pruned.state.name, pruned.value, pruned.user_attrs["ended"]) == ("PRUNED", None, "pruned")

    def test_where_it_stands(self, url: str) -> None:
        mine = source(url, 6)
        assert mine.standing() == Standing()
        for told in (Outcome(-0.5, "stopped early"), Outcome(9.0, "diverged"), Outcome(None, "pruned")):
            mine.tell(must(mine.ask()), told)
        mine.tell(must(mine.ask()), Outcome(-0.25, "at max_epochs"))
        kept = must(mine.ask())
        mine.give_back([must(mine.ask())])
        found = mine.standing()
        assert found == Standing(complete=3, pruned=1, running=1, waiting=1, failed=1, best=-0.25, best_trial=3)
        assert (found.done, found.counted) == (4, 6)
        assert standing(load_study(storage(url), "study")[0]) == found
        assert kept.number == 4

    @pytest.mark.parametrize("bad", [math.nan, math.inf, None])
    def test_a_value_that_is_no_number_is_a_fault(self, url: str, bad: float | None) -> None:
        mine = source(url, 2)
        trial = must(mine.ask())
        with pytest.raises(SearchError, match="trial 0 must be a number"):
            mine.tell(trial, Outcome(bad, "stopped early"))
        mine.tell(trial, outcome(trial))
        assert mine.standing().complete == 1

    def test_an_outcome_is_told_once_and_by_whom_it_was_asked(self, url: str) -> None:
        mine = source(url, 3)
        trial = must(mine.ask())
        mine.tell(trial, outcome(trial))
        with pytest.raises(ArgumentError, match="number 0"):
            mine.beat([trial])
        mine.give_back([trial])  # it is done: whoever stops need not know
        assert (mine.standing().complete, mine.standing().failed, mine.standing().waiting) == (1, 0, 0)
        with pytest.raises(ArgumentError, match="number 7"):
            mine.tell(Trial(7, {}), outcome(trial))
        with pytest.raises(ArgumentError, match="trials must be 1 or more"):
            source(url, 0)


class TestProposals:
    def run(self, url: str, **options: Any) -> list[dict[str, Any]]:
        mine = source(url, 40, **options)
        work(mine, 5)
        return params(mine.study)

    def test_equal_seeds_give_equal_studies(self, new: Callable[[], str]) -> None:
        runs = [self.run(new(), seed=seed) for seed in (1, 1, 2)]
        assert runs[0] == runs[1]
        assert runs[0] != runs[2]

    def test_workers_at_one_study_draw_for_themselves(self, new: Callable[[], str]) -> None:
        drawn = [must(source(new(), 40, shared=True).ask()).settings for _ in range(2)]
        assert drawn[0] != drawn[1]

    def test_stopped_and_resumed_they_are_equal(self, new: Callable[[], str]) -> None:
        """One at a time, so that nothing is running when it is stopped: what was drawn is a function of the study."""
        whole, parts = source(new(), 40), new()
        work(whole, 1)
        for _ in range(3):
            mine = source(parts, 40)
            for _ in range(13):
                trial = must(mine.ask())
                mine.tell(trial, outcome(trial))
        work(source(parts, 40), 1)
        assert params(load_study(storage(parts), "study")[0]) == params(whole.study)

    def test_a_copy_that_followed_and_one_that_is_new_propose_the_same(self, url: str) -> None:
        """With trials that end, fail, are pruned and go on between one proposal and the next."""
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

    def test_they_are_those_of_optunas_own_ask(self, new: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
        found = self.run(new())

        def plain_sampler(searched: object, startup: int, seed: int) -> optuna.samplers.TPESampler:
            return optuna.samplers.TPESampler(
                n_startup_trials=startup, multivariate=True, constant_liar=True, seed=seed
            )

        monkeypatch.setattr(proposals, "_sampler", plain_sampler)
        assert self.run(new()) == found

    def test_tpe_finds_better_settings_than_chance(self, url: str) -> None:
        mine = source(url, 80)
        work(mine, 4)
        values = [trial.values[0] for trial in mine.study.get_trials()]
        assert sum(values[-20:]) > sum(values[:20]) + 5  # means differ by more than 0.25 of about 1


class TestInterruptions:
    def test_killed_at_work_a_study_is_resumed_and_loses_nothing(self, url: str, tmp_path: Path) -> None:
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
        assert {tuple(trial.user_attrs) for trial in queued} == {("settings",)}  # nobody's yet
        again = [must(mine.ask()) for _ in lost]
        assert [trial.settings for trial in again] == [trial.user_attrs["settings"] for trial in lost]
        for trial in again:
            mine.tell(trial, outcome(trial))
        work(mine)
        check_complete(mine.study, 12)
        retried = [trial.system_attrs.get("failed_trial") for trial in mine.study.get_trials()]
        assert [number for number in retried if number is not None] == [trial.number for trial in lost]

    @pytest.mark.parametrize("step", range(1, 8))
    def test_killed_at_any_transaction_of_an_ask_nothing_is_lost(self, url: str, step: int) -> None:
        """A worker that is gone after so many transactions; another life of it goes on."""

        class Killed(BaseException):
            pass

        first = source(url, 3)
        kept = must(first.ask())
        engine = first._storage._backend.engine
        count = 0

        def committed(conn: object) -> None:
            nonlocal count
            count += 1
            if count == step:
                raise Killed

        sqlalchemy.event.listen(engine, "begin", committed)
        try:
            first.ask()
        except Killed:
            pass
        else:
            assert step == 7  # an ask has six
        finally:
            sqlalchemy.event.remove(engine, "begin", committed)
        mine = source(url, 3)
        mine.reclaim()
        work(mine)
        check_complete(mine.study, 3)
        first.tell(kept, outcome(kept))  # it was not dead after all
        check_complete(mine.study, 3)

    def test_given_back_they_come_first_and_are_not_held_against_them(self, url: str) -> None:
        mine = source(url, 8)
        for _ in range(RETRIES + 2):
            running = [must(mine.ask()) for _ in range(3)]
            mine.give_back(running)
        other = source(url, 8, worker="other")
        again = [must(other.ask()) for _ in running]
        assert [trial.settings for trial in again] == [trial.settings for trial in running]
        assert {trial.system_attrs["failed_trial"] for trial in other.study.get_trials()[-3:]} == {0, 1, 2}
        for trial in again:
            other.tell(trial, outcome(trial))
        work(other)
        check_complete(other.study, 8)

    def test_settings_that_kill_their_worker_are_given_up(self, url: str) -> None:
        tried = []
        for _ in range(RETRIES + 2):
            mine = source(url, 2)
            mine.reclaim()
            tried.append(must(mine.ask()).settings)
        assert tried[: RETRIES + 1] == [tried[0]] * (RETRIES + 1)
        assert tried[-1] != tried[0]
        mine = source(url, 2)
        mine.reclaim()
        work(mine)
        check_complete(mine.study, 2)

    def test_of_others_trials_only_those_of_the_same_name_are_reclaimed(self, url: str) -> None:
        first = source(url, 4, worker="a", shared=True)
        trial = must(first.ask())
        assert source(url, 4, worker="b", shared=True).reclaim() == 0
        assert source(url, 4, worker="a", shared=True).reclaim() == 1
        # Alone, everything that is running is of an earlier life, whatever that was called.
        must(first.ask())
        assert source(url, 4, worker="b", shared=False).reclaim() == 1
        first.tell(trial, outcome(trial))
        assert first.standing().complete == 0


class TestManyWorkers:
    def test_a_worker_that_is_silent_loses_its_trials_and_its_word(self, url: str) -> None:
        silent = source(url, 3, worker="silent", shared=True)
        lively = source(url, 3, worker="lively", shared=True)
        gone = must(silent.ask())
        kept = must(lively.ask())
        for _ in range(7):
            let_pass(10, silent, lively)
            lively.beat([kept])
        again = must(lively.ask())
        assert again.settings == gone.settings
        assert again.number != gone.number
        assert states(lively.study) == {"RUNNING": 2, "FAIL": 1}
        before = lively.study.get_trials()[gone.number]
        silent.tell(gone, outcome(gone))
        assert lively.study.get_trials()[gone.number].state == before.state
        for trial in (kept, again):
            lively.tell(trial, outcome(trial))
        work(lively)
        check_complete(lively.study, 3)

    def test_between_its_failure_and_its_place_in_the_queue_nobody_takes_it(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = must(source(url, 1, worker="gone", shared=True).ask())
        mine, other = source(url, 1, worker="a", shared=True), source(url, 1, worker="b", shared=True)
        found: list[Trial | None] = []

        def late(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
            found.append(other.ask())
            ask_anew(study, trial)

        monkeypatch.setattr(mine._storage._backend, "heartbeat_stale_trial_callback", late)
        let_pass(70, mine, other)
        assert must(mine.ask()).settings == gone.settings
        assert found == [None]

    def test_one_that_failed_a_trial_and_is_gone_too_is_not_waited_for(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = source(url, 1, worker="gone", shared=True)
        must(gone.ask())
        gone._storage.set_trial_state_values(gone._mine[0], optuna.trial.TrialState.FAIL)
        mine = source(url, 1, shared=True)
        assert mine.ask() is None
        monkeypatch.setattr("squad.search.study.OWED", 0.0)
        work(mine)
        check_complete(mine.study, 1)

    def test_one_that_is_killed_while_it_asks_loses_its_trial_too(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After it took the trial, before it said who it is: nothing but the first beat tells that it is gone."""
        gone = source(url, 1, worker="gone", shared=True)
        monkeypatch.setattr(gone, "_kept", lambda *args: None)
        assert gone.ask() is None
        other = source(url, 1, worker="other", shared=True)
        assert states(other.study) == {"RUNNING": 1}
        assert other.ask() is None
        let_pass(70, other)
        trial = must(other.ask())
        other.tell(trial, outcome(trial))
        check_complete(other.study, 1)

    def test_one_that_is_killed_while_it_asks_and_started_again_finds_its_trial(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = source(url, 1, worker="gone", shared=True)
        monkeypatch.setattr(gone, "_kept", lambda *args: None)
        assert gone.ask() is None
        assert source(url, 1, worker="other", shared=True).reclaim() == 0
        again = source(url, 1, worker="gone", shared=True)
        assert again.reclaim() == 1
        work(again)
        check_complete(again.study, 1)

    def test_a_trial_is_whose_it_was_taken_by(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that is killed before it takes its own proposal leaves it to whoever comes next."""
        gone = source(url, 1, worker="gone", shared=True)

        def killed(trial_id: int) -> bool:
            raise KeyboardInterrupt

        monkeypatch.setattr(gone, "_take", killed)
        with pytest.raises(KeyboardInterrupt):
            gone.ask()
        other = source(url, 1, worker="other", shared=True)
        trial = must(other.ask())
        assert source(url, 1, worker="gone", shared=True).reclaim() == 0
        other.tell(trial, outcome(trial))
        assert [trial.user_attrs["worker"] for trial in other.study.get_trials()] == ["other"]

    def test_after_a_long_pause_a_worker_does_not_take_its_own_for_lost(self, url: str) -> None:
        mine = source(url, 3, shared=True)
        trial = must(mine.ask())
        let_pass(70, mine)
        must(mine.ask())
        assert states(mine.study) == {"RUNNING": 2}
        mine.tell(trial, outcome(trial))
        assert mine.standing().complete == 1

    def test_of_two_at_the_last_trial_one_keeps_it(self, url: str) -> None:
        """Both see that one is left; the second asks between the first's look and its trial."""
        mine, other = source(url, 3, worker="a", shared=True), source(url, 3, worker="b", shared=True)
        first = [must(mine.ask()), must(mine.ask())]
        propose = mine._propose
        found: list[Trial] = []

        def late(known: Any) -> Any:
            found.append(must(other.ask()))
            return propose(known)

        mine._propose = late  # type: ignore[method-assign]
        assert mine.ask() is None
        surplus = mine.study.get_trials()[-1]
        assert (surplus.state.name, surplus.user_attrs["ended"]) == ("FAIL", "surplus")
        for trial in first:
            mine.tell(trial, outcome(trial))
        other.tell(found[0], outcome(found[0]))
        assert mine.over()
        assert other.over()
        check_complete(mine.study, 3)

    def test_a_proposal_that_another_took_is_the_others(self, url: str) -> None:
        mine, other = source(url, 3, worker="a", shared=True), source(url, 3, worker="b", shared=True)
        take = mine._take
        found: list[Trial] = []

        def late(trial_id: int) -> bool:
            if not found:
                found.append(must(other.ask()))
            return take(trial_id)

        mine._take = late  # type: ignore[method-assign]
        trial = must(mine.ask())
        assert {trial.number, found[0].number} == {0, 1}
        assert trial.settings != found[0].settings
        other.tell(found[0], outcome(found[0]))
        mine.tell(trial, outcome(trial))
        work(mine)
        check_complete(mine.study, 3)

    def test_a_lost_trial_that_is_queued_twice_counts_once(self, url: str) -> None:
        """Two who fail the same trial cannot; this is what the rank is for should they ever."""
        mine = source(url, 2, shared=True)
        must(mine.ask())
        stored = mine.study.get_trials()
        for _ in range(2):
            with calmly():
                ask_anew(mine.study, stored[0])
        other = source(url, 2, worker="b", shared=True)
        taken = [trial for _ in range(4) if (trial := other.ask()) is not None]
        assert len(taken) == 1
        assert states(mine.study) == {"RUNNING": 2, "FAIL": 1}

    @pytest.mark.parametrize("trials", [1, 7, 23])
    def test_many_at_once_make_exactly_as_many(self, nothing: str, trials: int) -> None:
        """Workers in threads, each with connections of its own, that begin with the storage and the study."""

        def one(n: int) -> list[Trial]:
            mine = source(nothing, trials, worker=f"w{n}", shared=True)
            told: list[Trial] = []
            tell = mine.tell

            def kept(trial: Trial, outcome: Outcome) -> None:
                tell(trial, outcome)
                told.append(trial)

            mine.tell = kept  # type: ignore[method-assign]
            work(mine, 3)
            return told

        with ThreadPoolExecutor(6) as pool, calmly():  # warnings are a process's, not a thread's
            told = [trial.number for part in pool.map(one, range(6)) for trial in part]
        assert len(told) == len(set(told)) == trials
        check_complete(source(nothing, trials).study, trials)

    def test_two_studies_in_one_storage_do_not_see_each_other(self, url: str) -> None:
        mine = source(url, 5, name="a", worker="w", shared=True, stale_after=1)
        other = source(url, 4, name="b", worker="w", shared=True, stale_after=1)
        running = must(mine.ask())
        assert other.reclaim() == 0
        work(other)
        check_complete(other.study, 4)
        assert states(mine.study) == {"RUNNING": 1}
        mine.tell(running, outcome(running))
        work(mine)
        check_complete(mine.study, 5)
        delete_study(storage(url, 1), "a")
        delete_study(storage(url, 1), "a")
        check_complete(source(url, 4, name="b").study, 4)
        with pytest.raises(SearchError, match="no study 'a' in this storage; it has: b"):
            load_study(storage(url, 1), "a")

    def test_who_is_at_work(self, url: str) -> None:
        assert at_work(storage(url, 60), "a") == []
        mine, other = (source(url, 5, name="a", worker=name, shared=True, stale_after=60) for name in ("w1", "w2"))
        first, second, third = must(mine.ask()), must(mine.ask()), must(other.ask())
        assert at_work(storage(url, 60), "a") == ["w1", "w2"]
        assert at_work(storage(url, 60), "b") == []
        other.give_back([third])
        assert at_work(storage(url, 60), "a") == ["w1"]
        let_pass(10, mine)
        assert at_work(storage(url, 1), "a") == []
        assert at_work(storage(url, 60), "a") == ["w1"]
        for trial in (first, second):
            mine.tell(trial, outcome(trial))
        assert at_work(storage(url, 60), "a") == []

    def test_a_study_that_somebody_deletes(self, url: str) -> None:
        mine = source(url, 5, name="a", worker="w", shared=True)
        trial = must(mine.ask())
        delete_study(storage(url, 60), "a")
        for call in (
            mine.ask,
            mine.standing,
            lambda: mine.tell(trial, outcome(trial)),
            lambda: mine.give_back([trial]),
        ):
            with pytest.raises(SearchError, match="The study is gone from its storage"):
                call()
        with pytest.raises(KeyError, match="another"), calmly():
            raise KeyError("another")  # a fault of ours stays one


class TestTraffic:
    def test_an_ask_and_a_tell_are_few_transactions(self, url: str) -> None:
        mine = source(url, 50)
        for _ in range(20):
            trial = must(mine.ask())
            mine.tell(trial, outcome(trial))
        with statements(mine) as seen:
            trial = must(mine.ask())
        assert sum("BEGIN" in each for each in seen) == 6  # read, queue, its number, beat, take, worker
        with statements(mine) as seen:
            mine.tell(trial, outcome(trial))
        assert sum("BEGIN" in each for each in seen) == 3

    def test_beats_are_passed_on_ten_times_in_stale_after(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        mine = source(url, 5, stale_after=100)
        running = [must(mine.ask()) for _ in range(3)]
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now)
        sent = []
        for _ in range(1000):
            now += 0.1
            with statements(mine) as seen:
                mine.beat(running)
            sent.append(bool(seen))
        assert sum(sent) == 10

    def test_nothing_is_said_of_accuracies_unless_trials_are_pruned(self, url: str) -> None:
        mine = source(url, 5)
        trial = must(mine.ask())
        with statements(mine) as seen:
            assert not any(mine.prunes(trial, epoch, 0.0) for epoch in range(1, 100))
        assert not seen

    def test_what_is_below_the_median_is_pruned_after_a_while(self, url: str) -> None:
        mine = source(url, 20, prune=True)
        for n in range(11):
            trial = must(mine.ask())
            assert not any(mine.prunes(trial, epoch, 0.5 + n / 100) for epoch in range(1, 41))
            mine.tell(trial, outcome(trial))
        bad, good = must(mine.ask()), must(mine.ask())
        with statements(mine) as seen:
            pruned = [epoch for epoch in range(1, 41) if mine.prunes(bad, epoch, 0.1)]
        assert pruned == [20, 25, 30, 35, 40]
        assert sum("BEGIN" in each for each in seen) == 8  # one each
        assert not any(mine.prunes(good, epoch, 0.9) for epoch in range(1, 41))
        mine.tell(bad, Outcome(None, "pruned", {"epochs": 20}))
        stored = mine.study.get_trials()[bad.number]
        assert (stored.state.name, stored.value) == ("PRUNED", None)
        mine.tell(good, outcome(good))
        work(mine)
        assert states(mine.study) == {"COMPLETE": 19, "PRUNED": 1}

    def test_one_from_the_queue_is_pruned_by_what_others_did(self, url: str) -> None:
        first = source(url, 20, prune=True)
        for n in range(11):
            trial = must(first.ask())
            assert not any(first.prunes(trial, epoch, 0.5 + n / 100) for epoch in range(1, 41))
            first.tell(trial, outcome(trial))
        first.give_back([must(first.ask())])
        mine = source(url, 20, prune=True)
        trial = must(mine.ask())
        assert [epoch for epoch in range(1, 31) if mine.prunes(trial, epoch, 0.1)] == [20, 25, 30]

    def test_one_that_was_taken_away_is_not_gone_on_with(self, url: str) -> None:
        mine = source(url, 5, prune=True)
        trial = must(mine.ask())
        source(url, 5).reclaim()
        assert not mine.prunes(trial, 4, 0.9)
        assert mine.prunes(trial, 5, 0.9)


class TestStudies:
    def test_the_same_search_goes_on_and_another_is_refused(self, url: str) -> None:
        kept = storage(url)
        meta = {"fingerprint": "1", "space": {"network": {"bins": [5, 7]}}, "objective": "aurc", "seed": 1}
        made = open_study(kept, "study", meta)
        assert open_study(kept, "study", {**meta, "workers": 3})._study_id == made._study_id
        assert load_study(kept, "study")[1] == meta
        other = {"fingerprint": "2", "space": {"network": {"bins": [5, 9]}}, "objective": "aurc", "device": "cpu"}
        with pytest.raises(SearchError) as caught:
            open_study(kept, "study", other)
        assert str(caught.value) == (
            "Study 'study' is of another search: space.network.bins is [5, 7] there and [5, 9] here; "
            'seed is 1 there and not set here; device is not set there and "cpu" here. '
            "Repeat its settings to go on with it, take another --out or --study, or begin anew with --restart."
        )
        with pytest.raises(SearchError, match="their fingerprints differ"):
            open_study(kept, "study", {**meta, "fingerprint": "3"})
        with pytest.raises(SearchError, match=r"and 15 more\. Repeat"):
            open_study(kept, "study", {**meta, "fingerprint": "3"} | {f"k{n}": n for n in range(20)})

    def test_long_differences_are_cut(self, url: str) -> None:
        kept = storage(url)
        open_study(kept, "study", {"fingerprint": "1", "notes": ["a" * 500]})
        with pytest.raises(SearchError) as caught:
            open_study(kept, "study", {"fingerprint": "2", "notes": ["b" * 500]})
        assert len(str(caught.value)) < 400

    def test_a_maker_that_was_killed_is_stood_in_for(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("squad.search.study.MAKING", 0.1)
        kept = storage(url)
        with calmly():
            optuna.create_study(storage=kept, study_name="study", direction="maximize")
        open_study(kept, "study", META)
        assert load_study(kept, "study")[1] == META

    def test_a_maker_that_is_quick_is_not_taken_for_somebody_else(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It says what the study is of, and asks, while another looks for both."""
        kept, look = storage(url), optuna.Study.get_trials
        with calmly():
            maker = optuna.create_study(storage=kept, study_name="study", direction="maximize")

        def late(study: optuna.Study, *args: Any, **options: Any) -> Any:
            if not maker.user_attrs:
                maker.set_user_attr("squad", META)
                maker.add_trial(optuna.create_trial(value=1.0, params={}, distributions={}))
            return look(study, *args, **options)

        monkeypatch.setattr(optuna.Study, "get_trials", late)
        assert open_study(kept, "study", META)._study_id == maker._study_id

    def test_a_study_of_somebody_else_is_left_alone(self, url: str) -> None:
        kept = storage(url)
        with calmly():
            optuna.create_study(storage=kept, study_name="study").add_trial(
                optuna.create_trial(value=1.0, params={}, distributions={})
            )
        with pytest.raises(SearchError, match="not of squad's making"):
            open_study(kept, "study", META)

    def test_of_two_that_begin_at_once_with_different_searches_one_is_refused(self, nothing: str) -> None:
        def one(n: int) -> str:
            try:
                open_study(storage(nothing), "study", {"fingerprint": str(n % 2)})
            except SearchError as error:
                return str(error)
            return str(n % 2)

        with ThreadPoolExecutor(6) as pool, calmly():
            found = list(pool.map(one, range(6)))
        assert len([each for each in found if each in "01"]) == 3
        assert len([each for each in found if "another search" in each]) == 3


class TestStorages:
    def test_a_file_may_be_called_anything(self, tmp_path: Path) -> None:
        folder = tmp_path / "a {b} ?x=1&y #c% %20 ü"
        folder.mkdir()
        mine = source(file_url(folder / "study.db"), 2)
        work(mine)
        assert [path.name for path in folder.glob("*.db")] == ["study.db"]

    def test_paths_are_whole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert file_url("study.db") == file_url(tmp_path / "study.db")

    def test_a_file_is_written_ahead_and_its_transactions_begin_with_the_lock(self, url: str) -> None:
        with storage(url).engine.connect() as connection:
            asked = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "busy_timeout")
            }
            # This connection has begun, and written nothing: nobody else can read and then write meanwhile.
            second = sqlalchemy.create_engine(url, connect_args={"timeout": 0.05})
            with second.connect() as waits, pytest.raises(sqlalchemy.exc.OperationalError, match="locked"):
                waits.exec_driver_sql("DELETE FROM trials")
            second.dispose()
        assert asked == {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 60_000}

    @pytest.mark.parametrize(
        ("bad", "said"),
        [
            ("nonsense", "storage must be sqlite:///FILE or postgresql"),
            ("", "storage must be sqlite:///FILE"),
            ("mysql://u:secret@h/db", "storage must be sqlite:///FILE or postgresql"),
            ("postgresql://u:secret@h:port/db", "storage must be"),
            ("postgresql://u:sec@ret@h/db", "An @ in a password is written %40"),
            ("postgresql://u:se/cret@h@h/db", "storage must be|An @ in a password"),
            ("sqlite://", "A study in memory would be gone"),
            ("sqlite:///:memory:", "A study in memory would be gone"),
            ("postgresql+nothing://u:secret@h/db", "cannot be used"),
            ("postgresql://u:secret@127.0.0.1:1/db", "cannot be used: .*Is the server there"),
            ("postgres://u:secret@127.0.0.1:1/db", "cannot be used: .*Is the server there"),
            ("postgresql://127.0.0.1:1/db?user=u&password=secret", "cannot be used: .*Is the server there"),
            ("mysql://h/db?password=secret&user=u", "storage must be"),
        ],
    )
    def test_what_cannot_be_used_is_told_in_a_line_without_the_password(self, bad: str, said: str) -> None:
        with pytest.raises(SquadError, match=said) as caught:
            open_storage(bad, stale_after=60)
        assert "sec" not in str(caught.value).replace("second", "")
        assert "\n" not in str(caught.value)

    def test_files_that_cannot_be_used(self, tmp_path: Path) -> None:
        with pytest.raises(SearchError, match=r"unable to open database file\. Is the folder there"):
            open_storage(file_url(tmp_path / "none" / "study.db"), stale_after=60)
        (tmp_path / "text.db").write_text("no database at all, but a text that is long enough to look into" * 20)
        with pytest.raises(SearchError, match="file is not a database"):
            open_storage(file_url(tmp_path / "text.db"), stale_after=60)

    def test_a_storage_of_another_version_of_optuna(self, url: str) -> None:
        with storage(url).engine.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'v9.9.9'")
        with pytest.raises(SearchError, match="no longer compatible"):
            open_storage(url, stale_after=60)

    def test_a_database_that_is_lost_at_work_is_told_in_a_line(self, url: str) -> None:
        mine = source(url, 3)
        with mine._storage._backend.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE trial_heartbeats")
        with pytest.raises(
            SearchError, match=r"database failed: no such table: trial_heartbeats\. .* goes on from there"
        ):
            mine.ask()

    @pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
    def test_stale_after(self, url: str, bad: float) -> None:
        with pytest.raises(ArgumentError, match="stale_after must be a number of seconds"):
            open_storage(url, stale_after=bad)

    @pytest.mark.parametrize(("package", "extra"), [("optuna", "search"), ("psycopg", "postgres")])
    def test_a_package_that_is_missing(self, monkeypatch: pytest.MonkeyPatch, package: str, extra: str) -> None:
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(SearchError, match=rf"pip install 'squad-torch\[{extra}\]'"):
            open_storage("postgresql://u:p@127.0.0.1:1/db", stale_after=60)


class TestOptunasSettings:
    def test_are_left_as_they_were(self, url: str, capfd: pytest.CaptureFixture[str]) -> None:
        logger = logging.getLogger("optuna")
        before = (logger.level, list(logger.handlers), list(warnings.filters))
        mine = source(url, 2, shared=True)
        work(mine)
        assert (logger.level, list(logger.handlers), list(warnings.filters)) == before
        assert capfd.readouterr() == ("", "")

    def test_nothing_of_it_is_loaded_before_it_is_needed(self) -> None:
        code = (
            "import sys, squad.search.study, squad.search.cluster\n"
            "print([name for name in ('optuna', 'ray', 'sqlalchemy', 'psycopg') if name in sys.modules])"
        )
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "[]"
