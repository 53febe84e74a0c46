"""Searches on a real PostgreSQL that becomes unreachable, with workers that are killed or stopped."""

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna
import pytest

from squad.search.optuna_private import storage_id, storage_of
from tests.cli.conftest import Run
from tests.cli.test_main import COMMAND
from tests.cli.test_search import LONG
from tests.needs import need_package
from tests.search.workers import check_complete, close_all, source, states, storage, work
from tests.slow import postgres
from tests.slow.test_search_cluster import loaded, started, until

__all__ = ["started"]  # a fixture


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
def begun(here: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start the command in a separate process, with stderr in a file, and end those that are left."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, log: str = "err", **environment: str) -> "subprocess.Popen[str]":
        with (here / log).open("w") as err:
            one = subprocess.Popen(
                [*COMMAND, *arguments],
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                env={**os.environ, **environment},
            )
        processes.append(one)
        return one

    yield begin
    for each in processes:
        each.kill()
        each.communicate()


def counts(url: str) -> Counter[str]:
    """Number of trials by state in a database; empty before there are tables."""
    import psycopg

    with psycopg.connect(url) as connection:
        try:
            return Counter(state for (state,) in connection.execute("SELECT state FROM trials"))
        except psycopg.errors.UndefinedTable:
            return Counter()


def command(url: str, out: str, *options: str) -> tuple[str, ...]:
    return (*LONG, "--storage", url, "--study", "shared", "--out", out, *options)


def test_an_outage_of_six_seconds(
    server: postgres.Server, begun: Callable[..., "subprocess.Popen[str]"], here: Path
) -> None:
    url = server.new_database()
    workers = [begun(*command(url, f"w{n}", "--trials", "24"), log=f"err{n}") for n in range(2)]
    until(lambda: counts(url)["COMPLETE"] >= 2)
    close_all()
    server.stop()
    time.sleep(6)
    assert [each.poll() for each in workers] == [None, None]
    server.start()
    for n, each in enumerate(workers):
        each.wait(120)
        said = (here / f"err{n}").read_text()
        assert each.returncode == 0, said
        assert "database server is not reachable" in said
        assert re.search("Retrying.* 60 s", said)
        assert re.search(r"database server is back after \d+ s", said)
        assert "Traceback" not in said
    study = loaded(url, "shared")
    found = [trial for trial in study.get_trials() if trial.state.name != "FAIL"]
    assert Counter(trial.state.name for trial in found) == {"COMPLETE": 24}
    assert sum(bool(trial.user_attrs.get("defaults")) for trial in found) == 1
    assert len({json.dumps(trial.params, sort_keys=True) for trial in found}) == 24


def test_many_workers_survive_outages(
    server: postgres.Server, started: Callable[..., BaseProcess], tmp_path: Path
) -> None:
    """Transactions of all kinds are interrupted, many per second."""
    import multiprocessing

    url = server.new_database()
    processes = [
        multiprocessing.get_context("spawn").Process(target=patient, args=(url, 150, f"w{n}", tmp_path / f"w{n}"))
        for n in range(3)
    ]
    for each in processes:
        each.start()
    try:
        until(lambda: all((tmp_path / f"w{n}").exists() for n in range(3)))
        for _ in range(2):
            server.stop()
            time.sleep(1.5)
            server.start()
            time.sleep(1)
        for each in processes:
            each.join(120)
            assert each.exitcode == 0
    finally:
        for each in processes:
            each.kill()
    check_complete(loaded(url, "study"), 150)


def patient(url: str, trials: int, worker: str, mark: Path) -> None:
    """A worker that retries while its server is unreachable."""
    from squad.search.optuna_private import backend_of
    from squad.search.storage_guard import Guard

    mine = source(url, trials, worker=worker, shared=True, stale_after=5)
    backend_of(mine.study).guard = Guard(30)
    work(mine, 3, 0.05, most=2)
    mark.touch()
    mine.reclaim()
    work(mine, 3, 0.05)
    close_all()


def test_retries_are_limited(
    server: postgres.Server, begun: Callable[..., "subprocess.Popen[str]"], here: Path
) -> None:
    url = server.new_database()
    worker = begun(*command(url, "w", "--retry-for", "2"))
    until(lambda: counts(url)["RUNNING"])
    close_all()
    server.stop()
    try:
        begun_at = time.monotonic()
        worker.wait(60)
        assert time.monotonic() - begun_at < 30
    finally:
        server.start()
    said = (here / "err").read_text()
    assert worker.returncode == 2
    assert re.search("Retrying.* 2 s", said)
    assert said.splitlines()[-1].startswith("squad: The study's database failed: ")
    assert "Traceback" not in said
    assert quote(postgres.PASSWORD, safe="") not in said
    assert postgres.PASSWORD not in said


def test_sigterm_during_an_outage(
    server: postgres.Server, begun: Callable[..., "subprocess.Popen[str]"], here: Path
) -> None:
    """Docker kills ten seconds after SIGTERM."""
    url = server.new_database()
    worker = begun(*command(url, "w", "--max-epochs", "400"))
    until(lambda: counts(url)["RUNNING"])
    close_all()
    server.stop()
    try:
        until(lambda: "Retrying" in (here / "err").read_text())
        worker.terminate()
        worker.wait(9)
    finally:
        server.start()
    assert worker.returncode in (2, 143)
    assert "Traceback" not in (here / "err").read_text()


def test_a_killed_search_resumes_at_once(
    server: postgres.Server, begun: Callable[..., "subprocess.Popen[str]"], here: Path
) -> None:
    url = server.new_database()
    first = begun(*command(url, "w"))
    until(lambda: counts(url)["RUNNING"] == 3)
    first.kill()
    first.wait()
    began = time.monotonic()
    second = begun(*command(url, "w"))
    assert second.wait(120) == 0
    assert time.monotonic() - began < 100  # they would be stale after 600 s
    assert "3 trials of a process that was killed on this machine" in (here / "err").read_text()
    found = states(loaded(url, "shared"))
    assert (found["COMPLETE"], found["RUNNING"], found["WAITING"]) == (9, 0, 0)


def test_trials_of_a_killed_worker_are_taken_back(
    server: postgres.Server, begun: Callable[..., "subprocess.Popen[str]"], here: Path
) -> None:
    """The other worker takes its trials back, although it is not restarted."""
    url = server.new_database()
    workers = [begun(*command(url, f"w{n}"), log=f"err{n}") for n in range(2)]
    until(lambda: counts(url)["RUNNING"] == 6)
    workers[0].kill()
    assert workers[1].wait(120) == 0
    found = states(loaded(url, "shared"))
    assert (found["COMPLETE"], found["RUNNING"], found["WAITING"]) == (9, 0, 0)


def test_waiting_for_other_workers_is_reported(
    server: postgres.Server, begun: Callable[..., "subprocess.Popen[str]"], here: Path
) -> None:
    """Whether a worker on another machine is alive is unknown here."""
    url = server.new_database()
    assert begun(*command(url, "w", "--trials", "3")).wait(120) == 0
    study = loaded(url, "shared")
    space = next(trial for trial in study.get_trials() if not trial.user_attrs.get("defaults"))
    running = optuna.create_trial(
        state=optuna.trial.TrialState.WAITING,
        params=space.params,
        distributions=space.distributions,
        user_attrs={"settings": space.user_attrs["settings"], "worker": "elsewhere-1-2-3"},
    )
    study.add_trial(running)
    last = study.get_trials()[-1]
    storage_of(study).record_heartbeat(storage_id(last))
    storage_of(study).set_trial_state_values(storage_id(last), optuna.trial.TrialState.RUNNING)
    waiting = begun(*command(url, "w", "--trials", "4", "--stale-after", "8"))
    assert waiting.wait(90) == 0
    said = (here / "err").read_text()
    assert re.search(r"Waiting for trial 3 of worker elsewhere-1-2-3 \(.* \d+ s ago; .* \d+ s", said)
    assert states(loaded(url, "shared"))["COMPLETE"] == 4


def test_sigterm_gives_trials_back(
    server: postgres.Server, begun: Callable[..., "subprocess.Popen[str]"], here: Path, run: Run
) -> None:
    url = server.new_database()
    worker = begun(*command(url, "w"))
    until(lambda: counts(url)["RUNNING"] == 3)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 143
    said = (here / "err").read_text()
    assert said.splitlines()[-1] == "squad: stopped; the same command resumes w."
    assert "Traceback" not in said
    found = states(loaded(url, "shared"))
    assert (found["RUNNING"], found["WAITING"]) == (0, 3)


@pytest.mark.parametrize("way", ["environment", "file", "service"])
def test_passwords_outside_the_url(server: postgres.Server, here: Path, begun: Any, way: str) -> None:
    url = server.new_database()
    name = url.rpartition("/")[2]
    environment, address = {"PGPASSWORD": postgres.PASSWORD}, f"postgresql://squad@127.0.0.1:{server.port}/{name}"
    if way == "file":
        secret = here / "pgpass"
        password = postgres.PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
        secret.write_text(f"127.0.0.1:*:*:squad:{password}\n")
        secret.chmod(0o600)
        environment = {"PGPASSFILE": str(secret)}
    if way == "service":
        (here / "services").write_text(
            f"[mine]\nhost=127.0.0.1\nport={server.port}\nuser=squad\npassword={postgres.PASSWORD}\ndbname={name}\n"
        )
        environment, address = {"PGSERVICEFILE": str(here / "services")}, "postgresql://?service=mine"
    done = begun(*command(address, "w", "--trials", "1"), **environment)
    assert done.wait(90) == 0, (here / "err").read_text()
    assert "password" not in (here / "err").read_text()
    assert states(loaded(url, "shared"))["COMPLETE"] == 1
    for path in (here / "w").iterdir():
        assert postgres.PASSWORD.encode() not in path.read_bytes()


def test_a_password_in_the_url_is_warned_of_and_stored_nowhere(server: postgres.Server, here: Path, run: Run) -> None:
    url = server.new_database()
    done = run(*command(url, "w", "--trials", "1"))
    assert done.code == 0
    assert [line for line in done.err.splitlines() if line.startswith("warning: the password in --storage")]
    quoted = quote(postgres.PASSWORD, safe="")
    for text in (done.out + done.err, *(path.read_bytes().decode("latin1") for path in (here / "w").iterdir())):
        assert quoted not in text
        assert postgres.PASSWORD not in text
    assert storage(url)  # which works
