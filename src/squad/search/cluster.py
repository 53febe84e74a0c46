"""Workers of a search as tasks of a Ray cluster: one that runs already, or one that is started here for the while.

Ray places them, and starts one again whose process or machine was lost.  What they share is the study's storage.
"""

import contextlib
import logging
import os
import re
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from squad.errors import ArgumentError, SquadError
from squad.search.storage import SearchError, is_file

__all__ = ["Share", "check", "run", "share"]

#: How often a worker whose process was lost is started again.  Settings that kill their worker do so a few times
#: (squad.search.storage.RETRIES) before they are given up, and a study may have several of those.
RESTARTS = 20
#: Seconds between two calls of ``on_wait``; for workers to end when they are told to; to see whether a cluster answers.
WAIT, GRACE, ANSWER = 1.0, 30.0, 5.0

#: What runs in a worker's process: by its name, which stays the same when it is started again, and the payload.
Task = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Share:
    """What each worker gets of a cluster.

    Attributes:
        workers: how many.
        cpus, gpus: of each.
    """

    workers: int
    cpus: int
    gpus: int


def run(
    address: str,
    task: Task,
    payload: Any,
    *,
    storage: str,
    workers: int | None = None,
    device: str = "auto",
    on_wait: Callable[[], None] = lambda: None,
    for_each: Callable[[Any, int], Any] = lambda payload, workers: payload,
) -> list[Any]:
    """Run a task once a worker, and return what the workers returned, in the order of their names.

    Args:
        address: "local" starts a cluster here and ends it afterwards; "auto" or HOST:PORT is one that runs.
        task: a function of a module that the workers can import.
        payload: sent to every machine once.
        storage: the address of the study's storage; a file is for workers of one machine.
        workers: how many; by default one a GPU, or one a machine where there are none.
        device: "cpu" leaves GPUs alone; "auto" uses them where there are any.
        on_wait: called every second, for progress.
        for_each: what of the payload is sent, when it is known how many workers there are.

    An interrupt (Ctrl-C) reaches the workers as ``KeyboardInterrupt``; they have half a minute to leave.
    """
    ray = _ray()
    with _connected(address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if len(nodes) > 1 and is_file(storage):
            raise SearchError(
                f"The cluster has {len(nodes)} machines, and the study's storage is a file, which only one of them can "
                "use. Name a database that all can reach: --storage postgresql://USER:PASSWORD@HOST/DATABASE."
            )
        found = share([(int(node.get("CPU", 0)), int(node.get("GPU", 0))) for node in nodes], workers, device)
        work = ray.remote(_work).options(
            num_cpus=found.cpus, num_gpus=found.gpus, max_retries=RESTARTS, scheduling_strategy="SPREAD"
        )
        sent = ray.put(for_each(payload, found.workers))
        # Names of this run's own: whoever bears one again is the same worker, started again.
        this = f"ray-{secrets.token_hex(3)}"
        names = {work.remote(task, f"{this}-{n}", sent, found.cpus): f"{this}-{n}" for n in range(found.workers)}
        return _gathered(names, on_wait)


def share(nodes: Sequence[tuple[int, int]], workers: int | None = None, device: str = "auto") -> Share:
    """How a cluster is divided among workers.

    Args:
        nodes: CPUs and GPUs of each machine.
        workers: how many, or None: one a GPU, or one a machine without GPUs.
        device: where they train; GPUs are left alone for "cpu".
    """
    if workers is not None and workers < 1:
        raise ArgumentError.of("workers", workers, "1 or more")
    gpus = 0 if device == "cpu" else sum(gpus for _, gpus in nodes)
    if device.startswith("cuda") and not gpus:
        raise SearchError("The cluster has no GPU that Ray knows of, and device is cuda. Take device auto or cpu.")

    def room(cpus: int) -> int:
        """How many workers with so many CPUs fit; each is on one machine."""
        return sum(min(own // cpus, count) if gpus else own // cpus for own, count in nodes)

    most = room(1)
    if workers is None:
        workers = most if gpus else sum(own > 0 for own, _ in nodes)
    if workers > most or not most:
        raise ArgumentError.of(
            "workers", workers, f"{most} at the most, one a {'GPU' if gpus else 'CPU'} of the cluster"
        )
    cpus = max(cpus for cpus in range(1, max(own for own, _ in nodes) + 1) if room(cpus) >= workers)
    return Share(workers, cpus, 1 if gpus else 0)


def _work(task: Task, name: str, payload: Any, threads: int) -> Any:
    """What Ray runs: as many threads as it has given us CPUs."""
    import torch

    # A shell's background hands it down that interrupts are ignored, and it is by one that Ray tells us to leave.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(threads)
    return task(name, payload)


def _ray() -> Any:
    # Its counting of users is a question on the first start, and a request to a server.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as cause:
        raise SearchError(f"--ray needs Ray ({cause}). Install it: pip install 'squad-torch[ray]'") from cause
    return ray


@contextlib.contextmanager
def _connected(address: str) -> Iterator[None]:
    """Ray, connected for the while; a connection that its user has made already is used and left alone."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    stop = signal.getsignal(signal.SIGTERM)
    try:
        if address == "local":
            ray.init(address="local", num_cpus=os.cpu_count(), include_dashboard=False, **options)
        else:
            _check_address(address)
            ray.init(address=address, **options)
    except ArgumentError:
        raise
    except (OSError, RuntimeError, ValueError) as cause:
        raise _none_at(address, cause) from None
    if threading.current_thread() is threading.main_thread() and stop is not None:
        signal.signal(signal.SIGTERM, stop)  # Ray has put its own in the place of ours
    try:
        yield
    finally:
        ray.shutdown()


def _none_at(address: str, cause: Exception) -> SearchError:
    return SearchError(
        f"No Ray cluster at {address!r}: {_first_line(cause)}. "
        "Start one with ray start --head, or take --ray local for one on this machine."
    )


def check(address: str) -> None:
    """That a cluster answers at an address, before anything else is done."""
    if address == "local" or _ray().is_initialized():
        return
    try:
        _check_address(address)
    except OSError as cause:
        raise _none_at(address, cause) from None


def _check_address(address: str) -> None:
    """That somebody listens there: Ray itself would try for minutes."""
    where = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    host, _, port = where.rpartition(":")
    if where == "auto" or "://" in where:
        return
    if not (host and port.isdigit()):
        raise ArgumentError.of("ray", address, "auto, local or HOST:PORT")
    # A cluster of this machine may listen at its own address alone; Ray takes one for the other, too.
    hosts = [host, _ray().util.get_node_ip_address()] if host in ("localhost", "127.0.0.1") else [host]
    for number, each in enumerate(hosts):
        try:
            socket.create_connection((each, int(port)), timeout=ANSWER).close()
            return
        except OSError:
            if number == len(hosts) - 1:
                raise


def _gathered(names: dict[Any, str], on_wait: Callable[[], None]) -> list[Any]:
    """Results of all tasks; at the first that fails, or an interrupt, the others are told to stop."""
    ray = _ray()
    pending, results = list(names), {}
    try:
        while pending:
            ready, pending = ray.wait(pending, timeout=WAIT)
            for each in ready:
                try:
                    results[each] = ray.get(each)
                except ray.exceptions.RayError as error:
                    raise _told(names[each], error) from None
            on_wait()
    except BaseException:
        _stop(pending)
        raise
    return [results[each] for each in names]


def _stop(pending: Sequence[Any]) -> None:
    """Interrupt tasks, so that they can put their trials back, and end those that do not leave."""
    ray = _ray()
    for each in pending:
        ray.cancel(each)
    left = list(pending)
    if left:
        _, left = ray.wait(left, num_returns=len(left), timeout=GRACE)
    for each in left:
        ray.cancel(each, force=True)


def _told(name: str, error: Exception) -> SearchError:
    """One line of what a worker failed with, which Ray tells in pages."""
    ray = _ray()
    if not isinstance(error, ray.exceptions.RayTaskError):
        return SearchError(
            f"Worker {name} was lost and could not be started again: {_first_line(error)}. Its trials are not lost: "
            "the same command goes on from there."
        )
    cause = getattr(error, "cause", None)
    if isinstance(cause, SquadError):
        return SearchError(f"Worker {name} failed: {cause}")
    places = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    at = f" ({os.path.basename(places[-1][0])}, line {places[-1][1]})" if places else ""
    kind = type(cause).__name__ if isinstance(cause, BaseException) else "error"
    return SearchError(f"Worker {name} failed with {kind}{at}: {_first_line(cause or error)}")


def _first_line(error: object) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
