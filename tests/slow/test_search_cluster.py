"""Searches with several workers: a real PostgreSQL, a real Ray cluster, and workers that are killed."""

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
    """Start worker processes, and end those that are left."""
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
    def test_workers_share_a_study_and_one_is_killed(
        self, server: postgres.Server, started: Callable[..., BaseProcess], tmp_path: Path
    ) -> None:
        """On an empty database that all workers find at once, together with another search."""
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

    def test_a_restarted_worker_resumes_at_once(
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

    def test_errors_are_one_line_without_the_password(self, server: postgres.Server) -> None:
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

    def test_lost_connections_are_replaced(self, server: postgres.Server) -> None:
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
    """A worker on Ray that records its name and works on the study."""
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
    """Wait until interrupted, and record it."""
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
    """A cluster for the module, because it takes seconds to start.  The test of "local" starts its own."""
    need_package("ray")
    with cluster._connected("local"):
        yield


class TestRay:
    def test_a_killed_worker_is_restarted(self, ray_cluster: None, tmp_path: Path) -> None:
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
        # The restarted worker has the same name, and took its trials back before they were stale.
        done = [trial for trial in study.get_trials() if trial.state.name == "COMPLETE"]
        assert {trial.user_attrs["worker"] for trial in done} == set(names)

    def test_a_failed_worker_is_a_one_line_error_and_stops_the_others(self, ray_cluster: None, tmp_path: Path) -> None:
        with pytest.raises(SearchError) as caught:
            cluster.run("local", failing, {"marks": str(tmp_path)}, storage="sqlite:///x", workers=2)
        assert str(caught.value).startswith("Worker ray-")
        assert str(caught.value).endswith("nothing of the kind")
        assert "ValueError (test_search_cluster.py, line " in str(caught.value)
        assert len(list(tmp_path.glob("*-0.left"))) == 1

    def test_an_existing_cluster_is_used_and_kept(self, ray_cluster: None) -> None:
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

    def test_a_file_needs_a_single_machine(self, ray_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
        ray = cluster._ray()
        node = ray.nodes()[0]
        monkeypatch.setattr(ray, "nodes", lambda: [node, node])
        with pytest.raises(SearchError, match=r"2 machines.*--storage postgresql://"):
            cluster.run("local", quick, {}, storage="sqlite:///x")
