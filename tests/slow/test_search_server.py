"""Searches on a real PostgreSQL that goes away, and on which workers are killed or told to stop."""

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
    """Starts the command in a process of its own, with stderr in a file; those that are left are ended."""
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
    """States of the trials in a database; none before there are tables."""
    import psycopg

    with psycopg.connect(url) as connection:
        try:
            return Counter(state for (state,) in connection.execute("SELECT state FROM trials"))
        except psycopg.errors.UndefinedTable:
            return Counter()


def command(url: str, out: str, *options: str) -> tuple[str, ...]:
    return (*LONG, "--storage", url, "--study", "shared", "--out", out, *options)


def test_a_server_that_is_away_for_six_seconds(
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
        assert "Retrying for up to 60 s" in said
        assert re.search(r"database server is back after \d+ s", said)
        assert "Traceback" not in said
    study = loaded(url, "shared")
    found = [trial for trial in study.get_trials() if trial.state.name != "FAIL"]
    assert Counter(trial.state.name for trial in found) == {"COMPLETE": 24}
    assert sum(bool(trial.user_attrs.get("defaults")) for trial in found) == 1
    assert len({json.dumps(trial.params, sort_keys=True) for trial in found}) == 24


def test_sources_of_many_workers_go_on_after_it(
    server: postgres.Server, started: Callable[..., BaseProcess], tmp_path: Path
) -> None:
    """Transactions of all kinds are cut, many a second."""
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
    """A worker that waits for its server."""
    from squad.search.optuna_private import backend_of
    from squad.search.storage_guard import Guard

    mine = source(url, trials, worker=worker, shared=True, stale_after=5)
    backend_of(mine.study).guard = Guard(30)
    work(mine, 3, 0.05, most=2)
    mark.touch()
    mine.reclaim()
    work(mine, 3, 0.05)
    close_all()


def test_a_server_that_stays_away_is_given_up(
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
    assert "Retrying for up to 2 s" in said
    assert said.splitlines()[-1].startswith("squad: The study's database failed: ")
    assert "Traceback" not in said
    assert quote(postgres.PASSWORD, safe="") not in said
    assert postgres.PASSWORD not in said


def test_told_to_stop_while_the_server_is_away(
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


def test_killed_and_started_again_it_goes_on_at_once(
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
    assert time.monotonic() - began < 100  # of the 600 after which they would be stale
    assert "3 trials of a run that was killed on this machine are taken back" in (here / "err").read_text()
    found = states(loaded(url, "shared"))
    assert (found["COMPLETE"], found["RUNNING"], found["WAITING"]) == (9, 0, 0)


def test_one_that_is_killed_beside_another(
    server: postgres.Server, begun: Callable[..., "subprocess.Popen[str]"], here: Path
) -> None:
    """The other takes its trials back though nobody starts it again."""
    url = server.new_database()
    workers = [begun(*command(url, f"w{n}"), log=f"err{n}") for n in range(2)]
    until(lambda: counts(url)["RUNNING"] == 6)
    workers[0].kill()
    assert workers[1].wait(120) == 0
    found = states(loaded(url, "shared"))
    assert (found["COMPLETE"], found["RUNNING"], found["WAITING"]) == (9, 0, 0)


def test_what_is_waited_for_is_said(
    server: postgres.Server, begun: Callable[..., "subprocess.Popen[str]"], here: Path
) -> None:
    """Of a worker of another machine nobody here can tell whether it lives."""
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
    assert re.search(
        r"Waiting for trial 3 of worker elsewhere-1-2-3 \(last heard from \d+ s ago; .* rerun in \d+ s", said
    )
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
    assert said.splitlines()[-1] == "squad: stopped; the same command goes on with w."
    assert "Traceback" not in said
    found = states(loaded(url, "shared"))
    assert (found["RUNNING"], found["WAITING"]) == (0, 3)


@pytest.mark.parametrize("way", ["environment", "file", "service"])
def test_passwords_outside_the_address(server: postgres.Server, here: Path, begun: Any, way: str) -> None:
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


def test_a_password_in_the_address_is_warned_of_and_kept_nowhere(server: postgres.Server, here: Path, run: Run) -> None:
    url = server.new_database()
    done = run(*command(url, "w", "--trials", "1"))
    assert done.code == 0
    assert [line for line in done.err.splitlines() if line.startswith("warning: the password in --storage")]
    quoted = quote(postgres.PASSWORD, safe="")
    for text in (done.out + done.err, *(path.read_bytes().decode("latin1") for path in (here / "w").iterdir())):
        assert quoted not in text
        assert postgres.PASSWORD not in text
    assert storage(url)  # which works
