"""squad search with several workers that train, on Ray and on one PostgreSQL, some of which are killed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna
import pytest

from squad.cli import main
from squad.search.storage import close_storage, open_storage
from squad.search.study import load_study
from tests.cli.conftest import write_table
from tests.cli.test_main import COMMAND
from tests.needs import need_package
from tests.slow import postgres

#: Trials of a second or so.
SEARCH = [
    *("search", "train.csv", "--target", "y", "--drop", "patient_id", "--hidden", "4", "--max-epochs", "40"),
    *("--set", "training.stop_patience=99", "--slots", "2"),
]
#: As written, and as in an address.
SECRETS = (postgres.PASSWORD, quote(postgres.PASSWORD, safe=""))

Started = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_table(tmp_path / "train.csv", 310, 0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


@pytest.fixture
def started(here: Path) -> Iterator[Started]:
    """Start the command in separate processes, and end those that are left."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        processes.append(
            subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    need_package("psycopg")
    with postgres.running() as found:
        yield found


def until(happened: Callable[[], Any], process: "subprocess.Popen[str]", seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert process.poll() is None, f"it had ended: {process.communicate()}"
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def stop_when(happened: Callable[[], Any], process: "subprocess.Popen[str]", *pids: int) -> None:
    """Suspend processes at a moment when a condition holds, so that nothing changes before a kill."""

    def holds_in_stillness() -> bool:
        if not happened():
            return False
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.2)  # what was under way to the database has arrived
        if happened():
            return True
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        return False

    until(holds_in_stillness, process)


def ended(process: "subprocess.Popen[str]", seconds: float = 180) -> tuple[str, str]:
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    return out, err


def trials(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "trials.json").read_text())["results"]["trials"]
    return found


def check_whole(folder: Path, count: int) -> list[dict[str, Any]]:
    """Check that ``count`` trials are complete with different settings and none is left over; return failed ones."""
    found = trials(folder)
    done = [trial for trial in found if trial["state"] == "complete"]
    lost = [trial for trial in found if trial["state"] == "failed"]
    assert len(done) == count
    assert len(done) + len(lost) == len(found)
    assert len({json.dumps(trial["params"], sort_keys=True) for trial in done}) == count
    for trial in done:
        assert trial["ended"] == "at max_epochs"
        assert trial["details"]["epochs"] == 40
        assert trial["value"] == -trial["details"]["aurc"]
    for trial in lost:  # retried once
        again = [one for one in done if one["params"] == trial["params"]]
        assert len(again) == 1
        assert again[0]["retried_from"] is not None
    return lost


#: What a trial is called, its state, and whose it is.
Look = list[tuple[int, str, str]]


class Peek:
    """Trials of a study on a server, for frequent polling."""

    def __init__(self, url: str, name: str) -> None:
        self.storage, self.name = open_storage(url, stale_after=60), name

    def __call__(self) -> Look:
        """Return an empty list before there is a study."""
        if self.name not in optuna.get_all_study_names(self.storage):
            return []
        found = load_study(self.storage, self.name)[0].get_trials(deepcopy=False)
        return [(trial.number, trial.state.name, trial.user_attrs.get("worker", "")) for trial in found]


def peek_file(path: Path) -> Look:
    """The same for a file; empty if its writer was suspended while it held the lock."""
    connection = sqlite3.connect(path, timeout=0.1)
    try:
        return connection.execute(
            "SELECT number, state, COALESCE(value_json, '') FROM trials LEFT JOIN trial_user_attributes AS worker"
            " ON worker.trial_id = trials.trial_id AND worker.key = 'worker'"
        ).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


@pytest.fixture
def peek() -> Iterator[Callable[[str, str], Peek]]:
    made: list[Peek] = []

    def make(url: str, name: str) -> Peek:
        made.append(Peek(url, name))
        return made[-1]

    yield make
    for each in made:
        close_storage(each.storage)


def active_workers(found: Look, worker: str) -> bool:
    """Return whether workers with such names have ended a trial and are training others."""
    mine = [state for _, state, whose in found if worker in whose]
    return "COMPLETE" in mine and "RUNNING" in mine


def descendants(pid: int) -> dict[int, str]:
    """Descendants of a process, with their names."""
    parents, names = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                # The name is in brackets, and may contain blanks and brackets.
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                names[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:
                continue  # it has ended meanwhile
    found = {}
    for each in parents:
        above = each
        while above in parents and above != pid:
            above = parents[above]
        if above == pid and each != pid:
            found[each] = names[each]
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="finds Ray's workers in /proc")
def test_a_worker_on_ray_is_killed(here: Path, started: Started) -> None:
    need_package("ray")
    process = started(
        *SEARCH, "--trials", "24", "--ray", "local", "--workers", "2", "--device", "cpu", "--out", "study"
    )
    file = here / "study/study.db"
    until(file.exists, process)

    def both_at_work() -> bool:
        found = peek_file(file)
        return active_workers(found, '-0"') and active_workers(found, '-1"')  # names are JSON there

    until(both_at_work, process)
    workers = [pid for pid, name in descendants(process.pid).items() if name.startswith("ray::_work")]
    assert len(workers) == 2
    stop_when(both_at_work, process, *workers)
    assert sum(state == "COMPLETE" for _, state, _ in peek_file(file)) < 22  # not finished yet
    os.kill(workers[0], signal.SIGKILL)
    os.kill(workers[1], signal.SIGCONT)
    out, err = ended(process)
    assert out.startswith("study: 24 of 24 trials")
    assert "Traceback" not in err
    lost = check_whole(here / "study", 24)
    assert 1 <= len(lost) <= 2
    assert len({trial["worker"] for trial in lost}) == 1
    done = [trial["worker"] for trial in trials(here / "study") if trial["state"] == "complete"]
    assert {name.rpartition("-")[2] for name in done} == {"0", "1"}
    # The one that was killed has gone on under its name, without waiting until it was missed.
    at = max(trial["started"] for trial in lost)
    assert any(t["worker"] == lost[0]["worker"] and t["started"] > at for t in trials(here / "study"))
    assert not descendants(process.pid)
    # What it found is a model like any other's.
    assert main(["fit", "train.csv", "--config", "study/best.toml", "--out", "model", "--quiet"]) == 0


def lines_of(text: str) -> int:
    """Number of lines without warnings, such as that about the password in the URL."""
    return sum(not line.startswith("warning: ") for line in text.splitlines())


def test_searches_on_one_database_and_one_is_killed(
    here: Path,
    started: Started,
    server: postgres.Server,
    peek: Callable[[str, str], Peek],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Two searches on one study, starting at once on an empty database; and another study."""
    url = server.new_database()
    shared = ["--storage", url, "--stale-after", "5"]
    first = started(*SEARCH, *shared, "--study", "ours", "--trials", "24", "--out", "a")
    second = started(*SEARCH, *shared, "--study", "ours", "--trials", "24", "--out", "b")
    beside = started(*SEARCH, *shared, "--study", "theirs", "--trials", "10", "--seed", "5", "--out", "c")
    now = peek(url, "ours")
    stop_when(lambda: active_workers(now(), f"-{second.pid}-"), second, second.pid)
    found = now()
    second.kill()
    second.wait()
    running = [number for number, state, whose in found if state == "RUNNING" and f"-{second.pid}-" in whose]
    assert running
    assert sum(state == "COMPLETE" for _, state, _ in found) < 22  # not finished yet
    said = [*ended(first), *ended(beside), *second.communicate()]
    lost = check_whole(here / "a", 24)
    assert len(lost) <= 2
    assert {trial["number"] for trial in lost} >= set(running)
    # One that it had taken, and not yet signed, was lost with it.
    assert all(trial["worker"] is None or f"-{second.pid}-" in trial["worker"] for trial in lost)
    workers = {trial["worker"].split("-")[-2] for trial in trials(here / "a") if trial["state"] == "complete"}
    assert workers == {str(first.pid), str(second.pid)}
    assert check_whole(here / "c", 10) == []
    assert {trial["worker"].split("-")[-2] for trial in trials(here / "c")} == {str(beside.pid)}
    # The folder of the killed search shows the shared results; the same command has nothing left to do.
    capfd.readouterr()
    assert main(["search", "show", "b", "--storage", url, "--study", "ours", "--no-figures"]) == 0
    shown = capfd.readouterr()
    assert "24 measured" in shown.out
    assert main([*SEARCH, *shared, "--study", "ours", "--trials", "24", "--out", "b"]) == 0
    assert trials(here / "b") == trials(here / "a")
    # Errors are one line, without the password.
    again = capfd.readouterr()
    assert main([*SEARCH, *shared, "--study", "ours", "--trials", "24", "--seed", "1", "--out", "d"]) == 2
    other = capfd.readouterr()
    assert (other.out, lines_of(other.err)) == ("", 1)
    assert "base.seed is not set there and 1 here" in other.err
    assert main([*SEARCH, "--storage", server.url("nothing"), "--trials", "1", "--out", "e"]) == 2
    wrong = capfd.readouterr()
    assert (wrong.out, lines_of(wrong.err)) == ("", 1)
    assert 'database "nothing" does not exist' in wrong.err
    assert not (here / "e").exists()
    said += [*shown, *again, *other, *wrong]
    written = [path.read_bytes().decode(errors="replace") for path in here.rglob("*") if path.is_file()]
    assert len(written) >= 9  # at least three in each study's folder
    for secret in SECRETS:
        assert not [text for text in (*said, *written) if secret in text]


def test_a_lost_database_is_a_one_line_error(
    here: Path, started: Started, server: postgres.Server, peek: Callable[[str, str], Peek]
) -> None:
    import psycopg

    url = server.new_database()
    process = started(*SEARCH, "--trials", "300", "--storage", url, "--out", "study")
    now = peek(url, "study")
    until(lambda: active_workers(now(), f"-{process.pid}-"), process)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)".encode())
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("squad: The study's database failed: ")
    assert err.splitlines()[-1].endswith("resume.")
