"""Workers of a search as tasks of a Ray cluster: an existing one, or one that is started here.

Ray places the workers, and restarts those whose process or machine was lost.  They share the study's storage.
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
from squad.search.storage_guard import first_line

__all__ = ["Share", "check", "run", "share"]

#: Maximum number of restarts of a worker.  Settings that kill their worker do so a few times
#: (squad.search.storage.MAX_RETRIES), and a study may have several of those.
MAX_RESTARTS = 20
#: Seconds between two calls of ``on_wait``, for workers to stop, and to connect to a cluster.
WAIT_INTERVAL, STOP_TIMEOUT, CONNECT_TIMEOUT = 1.0, 30.0, 5.0

#: Function that a worker runs, with the worker's name, which is the same after a restart, and the payload.
Task = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Share:
    """Division of a cluster among workers.

    Attributes:
        workers: Number of workers.
        cpus: CPUs per worker.
        gpus: GPUs per worker.
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
    """Run a task once per worker, and return the results in the order of the workers' names.

    An interrupt (Ctrl-C) reaches the workers as ``KeyboardInterrupt``; they have half a minute to stop.

    Args:
        address: "local" starts a cluster here and ends it afterwards; "auto" or HOST:PORT is an existing one.
        task: Function of a module that the workers can import.
        payload: Argument of the task, sent to every machine once.
        storage: URL of the study's storage; a file can only be shared by workers of one machine.
        workers: Number of workers; by default one per GPU, or one per machine without GPUs.
        device: "cpu" uses no GPUs; "auto" uses GPUs if there are any.
        on_wait: Called every second, for progress.
        for_each: Function of the payload and the number of workers that returns the payload to send.

    Returns:
        One result per worker.
    """
    ray = _ray()
    with _connected(address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if len(nodes) > 1 and is_file(storage):
            raise SearchError(
                f"The cluster has {len(nodes)} machines, but the study's storage is a file, which only one of them can "
                "use. Use a database that all can reach: --storage postgresql://USER:PASSWORD@HOST/DATABASE."
            )
        division = share([(int(node.get("CPU", 0)), int(node.get("GPU", 0))) for node in nodes], workers, device)
        work = ray.remote(_work).options(
            num_cpus=division.cpus, num_gpus=division.gpus, max_retries=MAX_RESTARTS, scheduling_strategy="SPREAD"
        )
        sent = ray.put(for_each(payload, division.workers))
        # Unique to this run, so that a worker with the same name is a restarted one.
        run_id = f"ray-{secrets.token_hex(3)}"
        names = {
            work.remote(task, f"{run_id}-{n}", sent, division.cpus): f"{run_id}-{n}" for n in range(division.workers)
        }
        return _gather(names, on_wait)


def share(nodes: Sequence[tuple[int, int]], workers: int | None = None, device: str = "auto") -> Share:
    """Divide a cluster among workers.

    Args:
        nodes: CPUs and GPUs of each machine.
        workers: Number of workers; None for one per GPU, or one per machine without GPUs.
        device: Where to train; "cpu" uses no GPUs.

    Returns:
        Number of workers, and the CPUs and GPUs of each.

    Examples:
        >>> share([(16, 0), (16, 0)])
        Share(workers=2, cpus=16, gpus=0)
    """
    if workers is not None and workers < 1:
        raise ArgumentError.of("workers", workers, "at least 1")
    gpus = 0 if device == "cpu" else sum(gpus for _, gpus in nodes)
    if device.startswith("cuda") and not gpus:
        raise SearchError("Ray finds no GPU in the cluster, but device is cuda. Use device auto or cpu.")

    def capacity(cpus: int) -> int:
        """Return how many workers with ``cpus`` CPUs fit; each is on one machine."""
        return sum(min(own // cpus, count) if gpus else own // cpus for own, count in nodes)

    largest = capacity(1)
    if workers is None:
        workers = largest if gpus else sum(own > 0 for own, _ in nodes)
    if workers > largest or not largest:
        raise ArgumentError.of(
            "workers", workers, f"at most {largest}, one per {'GPU' if gpus else 'CPU'} of the cluster"
        )
    cpus = max(cpus for cpus in range(1, max(own for own, _ in nodes) + 1) if capacity(cpus) >= workers)
    return Share(workers, cpus, 1 if gpus else 0)


def _work(task: Task, name: str, payload: Any, threads: int) -> Any:
    """Run a task in a process of Ray, with as many threads as the worker has CPUs."""
    import torch

    # Processes in a shell's background inherit that SIGINT is ignored, but Ray cancels tasks with it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(threads)
    return task(name, payload)


def _ray() -> Any:
    # Usage statistics ask a question at the first start, and send a request to a server.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as cause:
        raise SearchError(f"--ray needs Ray ({cause}). Run: pip install 'squad-torch[ray]'") from cause
    return ray


@contextlib.contextmanager
def _connected(address: str) -> Iterator[None]:
    """Connect to Ray inside the block; an existing connection is used and kept."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        if address == "local":
            ray.init(address="local", num_cpus=os.cpu_count(), include_dashboard=False, **options)
        else:
            _check_address(address)
            ray.init(address=address, **options)
    except ArgumentError:
        raise
    except (OSError, RuntimeError, ValueError) as cause:
        raise _no_cluster(address, cause) from None
    if threading.current_thread() is threading.main_thread() and on_sigterm is not None:
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray has replaced our handler
    try:
        yield
    finally:
        ray.shutdown()


def _no_cluster(address: str, cause: Exception) -> SearchError:
    return SearchError(
        f"There is no Ray cluster at {address!r}: {first_line(cause)}. "
        "Start one with ray start --head, or use --ray local for one on this machine."
    )


def check(address: str) -> None:
    """Check that a cluster answers, before anything else is done."""
    if address == "local" or _ray().is_initialized():
        return
    try:
        _check_address(address)
    except OSError as cause:
        raise _no_cluster(address, cause) from None


def _check_address(address: str) -> None:
    """Check that the port is open, because Ray itself would try for minutes."""
    target = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    host, _, port = target.rpartition(":")
    if target == "auto" or "://" in target:
        return
    if not (host and port.isdigit()):
        raise ArgumentError.of("ray", address, "auto, local or HOST:PORT")
    # A cluster on this machine may listen only at the machine's own address; Ray treats both alike, too.
    hosts = [host, _ray().util.get_node_ip_address()] if host in ("localhost", "127.0.0.1") else [host]
    for number, each in enumerate(hosts):
        try:
            socket.create_connection((each, int(port)), timeout=CONNECT_TIMEOUT).close()
            return
        except OSError:
            if number == len(hosts) - 1:
                raise


def _gather(names: dict[Any, str], on_wait: Callable[[], None]) -> list[Any]:
    """Return the results of all tasks; at the first failure or an interrupt, the others are stopped."""
    ray = _ray()
    pending, results = list(names), {}
    try:
        while pending:
            ready, pending = ray.wait(pending, timeout=WAIT_INTERVAL)
            for each in ready:
                try:
                    results[each] = ray.get(each)
                except ray.exceptions.RayError as error:
                    raise _worker_error(names[each], error) from None
            on_wait()
    except BaseException:
        _stop(pending)
        raise
    return [results[each] for each in names]


def _stop(pending: Sequence[Any]) -> None:
    """Interrupt tasks, so that they can queue their trials again, and kill those that do not stop."""
    ray = _ray()
    for each in pending:
        ray.cancel(each)
    left = list(pending)
    if left:
        _, left = ray.wait(left, num_returns=len(left), timeout=STOP_TIMEOUT)
    for each in left:
        ray.cancel(each, force=True)


def _worker_error(name: str, error: Exception) -> SearchError:
    """Return a one-line error for a failed worker; Ray's own are pages long."""
    ray = _ray()
    if not isinstance(error, ray.exceptions.RayTaskError):
        return SearchError(
            f"Worker {name} was lost and could not be restarted: {first_line(error)}. Its trials are saved: "
            "run the same command again to resume."
        )
    cause = getattr(error, "cause", None)
    if isinstance(cause, SquadError):
        return SearchError(f"Worker {name} failed: {cause}")
    locations = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    at = f" ({os.path.basename(locations[-1][0])}, line {locations[-1][1]})" if locations else ""
    kind = type(cause).__name__ if isinstance(cause, BaseException) else "error"
    return SearchError(f"Worker {name} failed with {kind}{at}: {first_line(cause or error)}")
