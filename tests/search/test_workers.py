"""Names of workers, and whether their process has ended."""

import os
import socket
import subprocess
import sys
import time

import pytest

from squad.processes import has_ended, host_id, start_time_of
from squad.search.worker_names import has_ended_here, worker_name
from tests.search.workers import let_pass, must, outcome, source, states


def gone() -> str:
    """The name of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host, machine, _, _ = worker_name().rsplit("-", 3)
    return f"{host}-{machine}-{ended.pid}-1"


def test_names_are_unique_to_a_process() -> None:
    name = worker_name()
    assert name == worker_name()
    assert name.startswith(f"{socket.gethostname()}-")
    assert not has_ended_here(name)
    assert has_ended_here(gone())


def test_workers_elsewhere_count_as_alive() -> None:
    host, machine, pid, start = gone().rsplit("-", 3)
    for other in (
        f"elsewhere-{machine}-{pid}-{start}",
        f"{host}-00000000-{pid}-{start}",  # another machine, boot or container of the same name
        "alone",
        "ray-abcdef-0",
        "",
        f"{host}-{machine}-x-{start}",
    ):
        assert not has_ended_here(other)
    assert has_ended_here(f"{host}-{machine}-{pid}-{start}")


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="Linux tells when a process was started")
def test_a_reused_process_id() -> None:
    host, machine, pid, start = worker_name().rsplit("-", 3)
    assert has_ended_here(f"{host}-{machine}-{pid}-{'1' * 8 if start != '1' * 8 else '2' * 8}")
    assert not has_ended_here(f"{host}-{machine}-{pid}-{'0' * 8}")  # not known


def test_a_zombie_has_ended() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    try:
        deadline = time.monotonic() + 30
        while not has_ended(host_id(), child, start_time_of(child)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert has_ended(host_id(), child, start_time_of(child))
    finally:
        os.waitpid(child, 0)


class TestTakenBack:
    def test_at_once_when_the_command_is_repeated(self, url: str) -> None:
        killed = source(url, 3, worker=gone(), shared=True, stale_after=600)
        lost = [must(killed.ask()), must(killed.ask())]
        other = source(url, 3, worker="elsewhere-1-2-3", shared=True, stale_after=600)
        must(other.ask())
        again = source(url, 3, worker=worker_name(), shared=True, stale_after=600)
        assert again.reclaim() == 2
        assert states(again.study) == {"FAIL": 2, "WAITING": 2, "RUNNING": 1}
        assert [must(again.ask()).settings for _ in lost] == [trial.settings for trial in lost]

    def test_while_all_slots_are_busy(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """No trial is requested then, but heartbeats are sent after every epoch."""
        monkeypatch.setattr("squad.search.study_source.ENDED_CONFIRMATION", 0.0)
        busy = source(url, 3, worker="busy", shared=True, stale_after=600)
        mine = must(busy.ask())
        must(source(url, 3, worker="silent", shared=True, stale_after=600).ask())
        must(source(url, 3, worker=gone(), shared=True, stale_after=600).ask())
        let_pass(10, busy)
        busy.beat([mine])
        assert states(busy.study) == {"RUNNING": 2, "FAIL": 1, "WAITING": 1}  # of the one that is gone
        let_pass(700, busy)
        busy.beat([mine])
        assert states(busy.study) == {"RUNNING": 1, "FAIL": 2, "WAITING": 2}  # of the one that is silent, too
        busy.tell(mine, outcome(mine))

    def test_only_after_confirmation(self, url: str) -> None:
        """A queued trial has the name of its proposer until the worker that took it writes its own."""
        busy = source(url, 3, worker="busy", shared=True, stale_after=600)
        mine = must(busy.ask())
        must(source(url, 3, worker=gone(), shared=True, stale_after=600).ask())
        let_pass(10, busy)
        busy.beat([mine])
        assert states(busy.study) == {"RUNNING": 2}

    def test_message_about_other_workers(self, url: str) -> None:
        mine = source(url, 2, worker="mine", shared=True, stale_after=600)
        assert mine.awaited() is None
        other = source(url, 2, worker="a", shared=True, stale_after=600)
        for _ in range(2):
            must(other.ask())
        assert mine.ask() is None
        let_pass(20, mine)
        text = mine.awaited()
        assert text is not None
        assert "trials 0, 1 of worker a" in text
        assert "20 s ago" in text or "21 s ago" in text
        assert "580 s" in text or "579 s" in text
        assert other.awaited() is None  # its own
