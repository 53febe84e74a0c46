"""Division of a cluster, and errors without one; tests/slow/test_search_cluster.py uses a real cluster."""

import signal
import socket
import sys

import pytest

from squad.errors import ArgumentError
from squad.search import cluster
from squad.search.cluster import Share, share
from squad.search.storage import SearchError
from tests.needs import need_package


@pytest.mark.parametrize(
    ("nodes", "workers", "device", "expected"),
    [
        ([(8, 0)], None, "auto", Share(1, 8, 0)),
        ([(8, 0)], 3, "auto", Share(3, 2, 0)),
        ([(8, 0)], 8, "cpu", Share(8, 1, 0)),
        ([(8, 0), (4, 0)], None, "auto", Share(2, 4, 0)),
        ([(8, 0), (4, 0)], 1, "auto", Share(1, 8, 0)),
        ([(8, 0), (4, 0), (0, 0)], None, "cpu", Share(2, 4, 0)),
        ([(8, 2), (16, 4)], None, "auto", Share(6, 4, 1)),
        ([(8, 2), (16, 4)], 1, "cuda", Share(1, 16, 1)),
        ([(8, 2), (16, 0)], None, "cuda", Share(2, 4, 1)),
        ([(8, 2), (16, 4)], None, "cpu", Share(2, 8, 0)),
        ([(1, 4)], None, "auto", Share(1, 1, 1)),  # a worker needs a CPU
    ],
)
def test_share(nodes: list[tuple[int, int]], workers: int | None, device: str, expected: Share) -> None:
    found = share(nodes, workers, device)
    assert found == expected
    # The workers fit: each on one machine, with its own GPU if it uses one.
    capacity = sum(min(cpus // found.cpus, gpus) if found.gpus else cpus // found.cpus for cpus, gpus in nodes)
    assert capacity >= found.workers


def test_more_workers_than_fit() -> None:
    with pytest.raises(ArgumentError, match=r"workers .*8.*CPU.*got 9"):
        share([(8, 0)], 9)
    with pytest.raises(ArgumentError, match=r"workers .*2.*GPU.*got 3"):
        share([(8, 2)], 3)
    with pytest.raises(ArgumentError, match=r"workers .*1, got 0"):
        share([(8, 0)], 0)
    with pytest.raises(ArgumentError, match=r"workers .*at most 0"):
        share([(0, 0)])
    with pytest.raises(SearchError, match=r"no GPU.*device"):
        share([(8, 0)], device="cuda")


def test_missing_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    need_package("ray")
    with socket.socket() as one:  # a closed port
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
        with pytest.raises(SearchError, match=r"Ray cluster at '127.*refused.*ray start --head"):
            cluster.run(address, print, None, storage="sqlite:///x")
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(SearchError, match=r"Ray cluster at 'auto': .*refused"):
            cluster.run("auto", print, None, storage="sqlite:///x")
    for nonsense in ("nonsense", "host:", ":6379", "host:port"):
        with pytest.raises(ArgumentError, match=r"ray .*auto, local or HOST:PORT"):
            cluster.run(nonsense, print, None, storage="sqlite:///x")


def test_missing_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SearchError, match=r"pip install 'squad-torch\[ray\]'"):
        cluster.run("local", print, None, storage="sqlite:///x")


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.default_int_handler])
def test_a_worker_receives_interrupts(before: signal.Handlers) -> None:
    """Also if its cluster was started in a shell's background, where interrupts are ignored."""
    own = signal.signal(signal.SIGINT, before)
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster._work(lambda name, payload: signal.raise_signal(signal.SIGINT), "worker", None, 1)
    finally:
        signal.signal(signal.SIGINT, own)
