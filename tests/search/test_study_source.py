"""A source of one worker: number of trials, proposals, and what a killed worker loses."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import optuna
import pytest
import sqlalchemy

from squad.errors import ArgumentError
from squad.search import tpe
from squad.search.storage import MAX_RETRIES, SearchError
from squad.search.study import Standing, load_study, standing
from squad.search.study_source import StudySource
from squad.search.trial import Outcome, Trial
from tests.search.workers import (
    SPACE,
    check_complete,
    must,
    outcome,
    source,
    states,
    storage,
    work,
)


@contextmanager
def statements(source: StudySource) -> Iterator[list[str]]:
    """Record the statements that a source sends to its database."""
    engine = source._storage._backend.engine
    seen: list[str] = []

    def executed(conn: object, cursor: object, statement: str, *rest: object) -> None:
        seen.append(statement)

    sqlalchemy.event.listen(engine, "before_cursor_execute", executed)
    try:
        yield seen
    finally:
        sqlalchemy.event.remove(engine, "before_cursor_execute", executed)


def params(study: optuna.Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.get_trials(deepcopy=False)]


class TestCounts:
    @pytest.mark.parametrize("slots", [1, 4, 40])
    def test_exact_number_of_trials(self, url: str, slots: int) -> None:
        mine = source(url, 15)
        work(mine, slots)
        check_complete(mine.study, 15)
        assert mine.over()
        assert mine.ask() is None

    def test_a_study_can_be_extended(self, url: str) -> None:
        work(source(url, 5))
        mine = source(url, 9)
        assert not mine.over()
        work(mine)
        check_complete(mine.study, 9)

    def test_settings_are_stored_with_the_trial(self, url: str) -> None:
        mine = source(url, 1)
        trial = must(mine.ask())
        stored = mine.study.get_trials()[0]
        assert trial.settings == SPACE.settings(stored.params) == stored.user_attrs["settings"]
        assert set(trial.settings) == set(SPACE.entries)
        assert stored.user_attrs["worker"] == "w"

    def test_pruned_trials_count_and_have_no_value(self, url: str) -> None:
        mine = source(url, 2)
        mine.tell(must(mine.ask()), Outcome(None, "pruned", {"epochs": 5}))
        mine.tell(must(mine.ask()), Outcome(0.5, "diverged"))
        assert mine.over()
        pruned = mine.study.get_trials()[0]
        assert (pruned.state.name, pruned.value, pruned.user_attrs["ended"]) == ("PRUNED", None, "pruned")

    def test_standing(self, url: str) -> None:
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
    def test_values_must_be_finite(self, url: str, bad: float | None) -> None:
        mine = source(url, 2)
        trial = must(mine.ask())
        with pytest.raises(SearchError, match=r"trial 0 .*number"):
            mine.tell(trial, Outcome(bad, "stopped early"))
        mine.tell(trial, outcome(trial))
        assert mine.standing().complete == 1

    def test_only_own_running_trials_can_be_told(self, url: str) -> None:
        mine = source(url, 3)
        trial = must(mine.ask())
        mine.tell(trial, outcome(trial))
        with pytest.raises(ArgumentError, match="number 0"):
            mine.beat([trial])
        mine.give_back([trial])  # finished trials are ignored
        assert (mine.standing().complete, mine.standing().failed, mine.standing().waiting) == (1, 0, 0)
        with pytest.raises(ArgumentError, match="number 7"):
            mine.tell(Trial(7, {}), outcome(trial))
        with pytest.raises(ArgumentError, match=r"trials .*1, got 0"):
            source(url, 0)


class TestProposals:
    def run(self, url: str, **options: Any) -> list[dict[str, Any]]:
        mine = source(url, 16, **options)  # the first 10 are random
        work(mine, 5)
        return params(mine.study)

    def test_equal_seeds_give_equal_studies(self, new: Callable[[], str]) -> None:
        runs = [self.run(new(), seed=seed) for seed in (1, 1, 2)]
        assert runs[0] == runs[1]
        assert runs[0] != runs[2]

    def test_workers_have_their_own_random_numbers(self, new: Callable[[], str]) -> None:
        drawn = [must(source(new(), 40, shared=True).ask()).settings for _ in range(2)]
        assert drawn[0] != drawn[1]

    def test_proposals_equal_those_of_optunas_ask(
        self, new: Callable[[], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = self.run(new())

        def plain_sampler(searched: object, startup: int, seed: int) -> optuna.samplers.TPESampler:
            return optuna.samplers.TPESampler(
                n_startup_trials=startup, multivariate=True, constant_liar=True, seed=seed
            )

        monkeypatch.setattr(tpe, "_sampler", plain_sampler)
        assert self.run(new()) == found


class TestInterruptions:
    @pytest.mark.parametrize("step", range(1, 8))
    def test_killed_at_any_transaction_of_ask(self, url: str, step: int) -> None:
        """A worker is killed after a number of transactions, and its successor resumes."""

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
        first.tell(kept, outcome(kept))  # the first worker was still alive
        check_complete(mine.study, 3)

    def test_given_back_trials_come_first_and_are_not_retries(self, url: str) -> None:
        mine = source(url, 8)
        for _ in range(MAX_RETRIES + 2):
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

    def test_settings_that_kill_their_worker_are_not_retried_forever(self, url: str) -> None:
        tried = []
        for _ in range(MAX_RETRIES + 2):
            mine = source(url, 2)
            mine.reclaim()
            tried.append(must(mine.ask()).settings)
        assert tried[: MAX_RETRIES + 1] == [tried[0]] * (MAX_RETRIES + 1)
        assert tried[-1] != tried[0]
        mine = source(url, 2)
        mine.reclaim()
        work(mine)
        check_complete(mine.study, 2)

    def test_reclaim_only_trials_of_the_same_worker(self, url: str) -> None:
        first = source(url, 4, worker="a", shared=True)
        trial = must(first.ask())
        assert source(url, 4, worker="b", shared=True).reclaim() == 0
        assert source(url, 4, worker="a", shared=True).reclaim() == 1
        # Alone, everything that is running is of an earlier life, whatever that was called.
        must(first.ask())
        assert source(url, 4, worker="b", shared=False).reclaim() == 1
        first.tell(trial, outcome(trial))
        assert first.standing().complete == 0


class TestTraffic:
    def test_number_of_transactions(self, url: str) -> None:
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

    def test_ten_heartbeats_per_stale_after(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_accuracies_are_stored_only_for_pruning(self, url: str) -> None:
        mine = source(url, 5)
        trial = must(mine.ask())
        with statements(mine) as seen:
            assert not any(mine.prunes(trial, epoch, 0.0) for epoch in range(1, 100))
        assert not seen

    def test_trials_below_the_median_are_pruned(self, url: str) -> None:
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

    def test_a_queued_trial_can_be_pruned(self, url: str) -> None:
        first = source(url, 20, prune=True)
        for n in range(11):
            trial = must(first.ask())
            assert not any(first.prunes(trial, epoch, 0.5 + n / 100) for epoch in range(1, 41))
            first.tell(trial, outcome(trial))
        first.give_back([must(first.ask())])
        mine = source(url, 20, prune=True)
        trial = must(mine.ask())
        assert [epoch for epoch in range(1, 31) if mine.prunes(trial, epoch, 0.1)] == [20, 25, 30]

    def test_a_lost_trial_is_pruned(self, url: str) -> None:
        mine = source(url, 5, prune=True)
        trial = must(mine.ask())
        source(url, 5).reclaim()
        assert not mine.prunes(trial, 4, 0.9)
        assert mine.prunes(trial, 5, 0.9)
