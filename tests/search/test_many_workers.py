"""Sources of several workers on one study: lost workers and races."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import optuna
import pytest

from squad.search.storage import SearchError, quiet_optuna, retry_trial
from squad.search.study import active_workers, delete_study, load_study
from squad.search.trial import Outcome, Trial
from tests.search.workers import (
    check_complete,
    let_pass,
    must,
    outcome,
    source,
    states,
    storage,
    work,
)


def asks_and_is_killed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker "gone" that was killed after it took its trial."""
    gone = source(url, 1, worker="gone", shared=True)
    monkeypatch.setattr(gone, "_keep", lambda *args: None)
    assert gone.ask() is None


class TestManyWorkers:
    def test_a_stale_worker_loses_its_trials(self, url: str) -> None:
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

    def test_a_failed_trial_keeps_its_place_until_it_is_queued_again(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = must(source(url, 1, worker="gone", shared=True).ask())
        mine, other = source(url, 1, worker="a", shared=True), source(url, 1, worker="b", shared=True)
        found: list[Trial | None] = []

        def late(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
            found.append(other.ask())
            retry_trial(study, trial)

        monkeypatch.setattr(mine._storage._backend, "heartbeat_stale_trial_callback", late)
        let_pass(70, mine, other)
        assert must(mine.ask()).settings == gone.settings
        assert found == [None]

    def test_the_wait_for_queueing_again_is_limited(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = source(url, 1, worker="gone", shared=True)
        must(gone.ask())
        gone._storage.set_trial_state_values(gone._mine[0], optuna.trial.TrialState.FAIL)
        mine = source(url, 1, shared=True)
        assert mine.ask() is None
        monkeypatch.setattr("squad.search.study_source.REQUEUE_TIMEOUT", 0.0)
        work(mine)
        check_complete(mine.study, 1)

    def test_a_worker_killed_in_ask_loses_its_trial(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        asks_and_is_killed(url, monkeypatch)
        other = source(url, 1, worker="other", shared=True)
        assert states(other.study) == {"RUNNING": 1}
        assert other.ask() is None
        let_pass(70, other)
        trial = must(other.ask())
        other.tell(trial, outcome(trial))
        check_complete(other.study, 1)

    def test_a_worker_killed_in_ask_finds_its_trial_after_a_restart(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asks_and_is_killed(url, monkeypatch)
        assert source(url, 1, worker="other", shared=True).reclaim() == 0
        again = source(url, 1, worker="gone", shared=True)
        assert again.reclaim() == 1
        work(again)
        check_complete(again.study, 1)

    def test_a_trial_belongs_to_the_worker_that_took_it(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """If a worker is killed before it takes its own proposal, another worker gets it."""
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

    def test_a_worker_keeps_its_trials_after_a_long_pause(self, url: str) -> None:
        mine = source(url, 3, shared=True)
        trial = must(mine.ask())
        let_pass(70, mine)
        must(mine.ask())
        assert states(mine.study) == {"RUNNING": 2}
        mine.tell(trial, outcome(trial))
        assert mine.standing().complete == 1

    def test_two_workers_at_the_last_trial(self, url: str) -> None:
        """Both see that one trial is left; the second asks between the read and the write of the first."""
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

    def test_a_proposal_taken_by_another_worker(self, url: str) -> None:
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
        """Two workers cannot fail the same trial; if they did, ranks would prevent a surplus."""
        mine = source(url, 2, shared=True)
        must(mine.ask())
        stored = mine.study.get_trials()
        for _ in range(2):
            with quiet_optuna():
                retry_trial(mine.study, stored[0])
        other = source(url, 2, worker="b", shared=True)
        taken = [trial for _ in range(4) if (trial := other.ask()) is not None]
        assert len(taken) == 1
        assert states(mine.study) == {"RUNNING": 2, "FAIL": 1}

    @pytest.mark.parametrize("trials", [1, 7])  # tests/slow has more
    def test_many_workers_make_the_exact_number_of_trials(self, nothing: str, trials: int) -> None:
        """Workers in threads with their own connections, starting with an empty storage."""

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

        with ThreadPoolExecutor(6) as pool, quiet_optuna():  # warnings are a process's, not a thread's
            told = [trial.number for part in pool.map(one, range(6)) for trial in part]
        assert len(told) == len(set(told)) == trials
        check_complete(source(nothing, trials).study, trials)

    def test_studies_in_one_storage_are_independent(self, url: str) -> None:
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
        with pytest.raises(SearchError, match=r"no study 'a'.*: b"):
            load_study(storage(url, 1), "a")

    def test_active_workers(self, url: str) -> None:
        assert active_workers(storage(url, 60), "a") == []
        mine, other = (source(url, 5, name="a", worker=name, shared=True, stale_after=60) for name in ("w1", "w2"))
        first, second, third = must(mine.ask()), must(mine.ask()), must(other.ask())
        assert active_workers(storage(url, 60), "a") == ["w1", "w2"]
        assert active_workers(storage(url, 60), "b") == []
        other.give_back([third])
        assert active_workers(storage(url, 60), "a") == ["w1"]
        let_pass(10, mine)
        assert active_workers(storage(url, 1), "a") == []
        assert active_workers(storage(url, 60), "a") == ["w1"]
        for trial in (first, second):
            mine.tell(trial, outcome(trial))
        assert active_workers(storage(url, 60), "a") == []

    def test_a_deleted_study(self, url: str) -> None:
        mine = source(url, 5, name="a", worker="w", shared=True)
        trial = must(mine.ask())
        delete_study(storage(url, 60), "a")
        for call in (
            mine.ask,
            mine.standing,
            lambda: mine.tell(trial, outcome(trial)),
            lambda: mine.give_back([trial]),
        ):
            with pytest.raises(SearchError, match=r"study is gone.*--restart"):
                call()
        with pytest.raises(KeyError, match="another"), quiet_optuna():
            raise KeyError("another")  # a fault of ours stays one
