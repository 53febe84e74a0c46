"""Searches on many workers: a real PostgreSQL, a real Ray cluster, and workers that are killed halfway."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import optuna
import pytest

from squad.search import cluster
from squad.search.storage import SearchError, file_url, open_storage
from squad.search.study import load_study
from tests.needs import need_package
from tests.search.workers import check_complete, close_all, process, source, states, storage, work
from tests.slow import postgres

SPAWN = multiprocessing.get_context("spawn")


def until(happened: Callable[[], Any], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def loaded(url: str, name: str) -> optuna.Study:
    return load_study(storage(url), name)[0]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    need_package("psycopg")
    with postgres.running() as found:
        yield found


@pytest.fixture
def started() -> Iterator[Callable[..., BaseProcess]]:
    """Starts workers' processes, and ends those that are left."""
    processes: list[BaseProcess] = []

    def start(*args: Any) -> BaseProcess:
        one = SPAWN.Process(target=process, args=args)
        one.start()
        processes.append(one)
        return one

    yield start
    for each in processes:
        each.kill()
        each.join()


class TestPostgres:
    def test_workers_share_a_study_and_one_is_killed_halfway(
        self, server: postgres.Server, started: Callable[..., BaseProcess], tmp_path: Path
    ) -> None:
        """On an empty database, which all of them find at once, and beside another search on the same one."""
        url = server.new_database()
        shared = [started(url, 60, "a", f"a{n}", tmp_path / f"a{n}", 4, 0.05, True) for n in range(3)]
        other = started(url, 25, "b", "b0", tmp_path / "b0", 3, 0.05, True)
        until((tmp_path / "a1").exists)
        shared[1].kill()
        shared[1].join()
        study = loaded(url, "a")
        lost = [t for t in study.get_trials() if t.state.name == "RUNNING" and t.user_attrs.get("worker") == "a1"]
        assert lost
        assert states(study)["COMPLETE"] < 60  # halfway indeed
        for each in (shared[0], shared[2], other):
            each.join(60)
            assert each.exitcode == 0
        check_complete(study, 60)
        check_complete(loaded(url, "b"), 25)
        assert not [t for t in loaded(url, "b").get_trials() if t.state.name == "FAIL"]
        # What the dead worker had at hand was tried again, by others, once.
        counted = [t for t in study.get_trials() if t.state.name == "COMPLETE"]
        assert {t.user_attrs["worker"] for t in counted} == {"a0", "a1", "a2"}
        for gone in lost:
            again = [t for t in counted if t.system_attrs.get("failed_trial") == gone.number]
            assert [t.params for t in again] == [gone.params]
            assert again[0].user_attrs["worker"] != "a1"

    def test_a_worker_that_is_started_again_goes_on_at_once(
        self, server: postgres.Server, started: Callable[..., BaseProcess], tmp_path: Path
    ) -> None:
        url = server.new_database()
        first = started(url, 12, "a", "w", tmp_path / "w", 4, 0.05, True)
        until((tmp_path / "w").exists)
        first.kill()
        first.join()
        mine = source(url, 12, name="a", worker="w", shared=True, stale_after=600)
        running = states(mine.study)["RUNNING"]
        assert running
        assert mine.reclaim() == running
        work(mine)
        check_complete(mine.study, 12)

    def test_what_is_wrong_is_told_in_a_line_without_the_password(self, server: postgres.Server) -> None:
        for url, said in [
            (server.url(password="wrong-secret"), "password authentication failed"),
            (server.url("nothing"), 'database "nothing" does not exist'),
            (server.url().replace("squad:", "nobody:"), "password authentication failed"),
        ]:
            with pytest.raises(SearchError, match=said) as caught:
                open_storage(url, stale_after=60)
            assert "\n" not in str(caught.value)
            assert "secret" not in str(caught.value)
            assert "p%40ss" not in str(caught.value)

    def test_connections_that_the_server_cut_are_replaced(self, server: postgres.Server) -> None:
        import psycopg

        url = server.new_database()
        mine = source(url, 3, shared=True)
        trial = mine.ask()
        assert trial is not None
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        mine.give_back([trial])
        work(mine)
        check_complete(mine.study, 3)


def quick(name: str, payload: dict[str, Any]) -> tuple[str, int]:
    """A worker on Ray: says who it is, and works through the study."""
    import torch

    process(payload["url"], payload["trials"], "study", name, Path(payload["marks"]) / name, 3, 0.05, True)
    return name, torch.get_num_threads()


def echo(name: str, payload: Any) -> tuple[str, Any]:
    return name.rpartition("-")[2], payload


def failing(name: str, payload: dict[str, Any]) -> None:
    if name.endswith("-1"):
        until(lambda: list(Path(payload["marks"]).glob("*.begun")))
        raise ValueError("nothing of the kind\nand a second line")
    linger(name, payload)


def linger(name: str, payload: dict[str, Any]) -> None:
    """Until it is interrupted, and says so."""
    marks = Path(payload["marks"])
    (marks / f"{name}.begun").touch()
    try:
        while True:
            time.sleep(0.05)
    except KeyboardInterrupt:
        (marks / f"{name}.left").touch()
        raise


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    """One for the module: it takes seconds to start.  The test of "local" has one of its own."""
    need_package("ray")
    with cluster._connected("local"):
        yield


class TestRay:
    def test_a_worker_is_killed_halfway_and_started_again(self, ray_cluster: None, tmp_path: Path) -> None:
        url = file_url(tmp_path / "study.db")
        killed: list[str] = []

        def kill_one() -> None:
            for mark in tmp_path.glob("ray-*-0"):
                if not killed:
                    killed.append(mark.name)
                    os.kill(int(mark.read_text()), signal.SIGKILL)

        payload = {"url": url, "trials": 60, "marks": str(tmp_path)}
        found = cluster.run("local", quick, payload, storage=url, workers=2, device="cpu", on_wait=kill_one)
        names = [name for name, _ in found]
        assert killed == names[:1]
        assert [name.rpartition("-")[2] for name in names] == ["0", "1"]
        assert {threads for _, threads in found} == {max(1, (os.cpu_count() or 1) // 2)}
        study = loaded(url, "study")
        check_complete(study, 60)
        failed = [trial for trial in study.get_trials() if trial.state.name == "FAIL"]
        lost = [trial for trial in failed if trial.user_attrs.get("ended") != "surplus"]
        assert lost
        assert {trial.user_attrs["worker"] for trial in lost} == set(killed)
        # The same name again, so that it took back its own without waiting for them to go stale.
        done = [trial for trial in study.get_trials() if trial.state.name == "COMPLETE"]
        assert {trial.user_attrs["worker"] for trial in done} == set(names)

    def test_one_that_fails_is_told_in_a_line_and_the_others_are_told_to_leave(
        self, ray_cluster: None, tmp_path: Path
    ) -> None:
        with pytest.raises(SearchError) as caught:
            cluster.run("local", failing, {"marks": str(tmp_path)}, storage="sqlite:///x", workers=2)
        assert str(caught.value).startswith("Worker ray-")
        assert str(caught.value).endswith("nothing of the kind")
        assert "failed with ValueError (test_search_cluster.py, line " in str(caught.value)
        assert len(list(tmp_path.glob("*-0.left"))) == 1

    def test_a_cluster_that_runs_is_used_and_left_running(self, ray_cluster: None) -> None:
        ray = cluster._ray()
        address = ray.get_runtime_context().gcs_address
        code = (
            "from squad.search import cluster\n"
            "from tests.slow.test_search_cluster import echo\n"
            f"print(cluster.run({address!r}, echo, [1, 2], storage='sqlite:///x', workers=2))"
        )
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        assert found.returncode == 0, found.stderr
        assert found.stdout.strip() == "[('0', [1, 2]), ('1', [1, 2])]"
        assert cluster.run("auto", echo, 3, storage="sqlite:///x", workers=1) == [("0", 3)]
        assert ray.is_initialized()

    def test_an_interrupt_reaches_the_workers(self, ray_cluster: None, tmp_path: Path) -> None:
        def interrupt() -> None:
            if len(list(tmp_path.glob("*.begun"))) == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            cluster.run("local", linger, {"marks": str(tmp_path)}, storage="sqlite:///x", workers=2, on_wait=interrupt)
        assert len(list(tmp_path.glob("*.left"))) == 2

    def test_a_file_is_for_one_machine(self, ray_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
        ray = cluster._ray()
        node = ray.nodes()[0]
        monkeypatch.setattr(ray, "nodes", lambda: [node, node])
        with pytest.raises(SearchError, match=r"has 2 machines, .* --storage postgresql://"):
            cluster.run("local", quick, {}, storage="sqlite:///x")
