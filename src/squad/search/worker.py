"""A worker of a search: trains trials of a study until there are enough."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from squad.predictor import choose_device
from squad.search.problem import Problem
from squad.search.search_options import SearchOptions
from squad.search.study_folder import count_text
from squad.signals import Terminated

if TYPE_CHECKING:
    import optuna

    from squad.search.study_source import Callback

__all__ = ["Job", "ray_task", "reclaim", "work"]

#: Seconds between two progress updates, and between two messages about other workers' trials.
PROGRESS_INTERVAL, WAITING_INTERVAL = 1.0, 30.0
#: Seconds to retry for when stopping while the server cannot be reached: Docker kills a process after ten.
STOPPING_RETRY_FOR = 3.0


@dataclass(frozen=True)
class Job:
    """What is sent to a worker.

    Attributes:
        problem: Problem of the study.
        url: URL of the storage.
        name: Name of the study.
        options: Options of the search.
        sampler: A user's sampler, as for :func:`squad.tune`.
        callbacks: A user's callbacks, as for :func:`squad.tune`.
    """

    problem: Problem
    url: str = field(repr=False)  # may contain a password
    name: str
    options: SearchOptions
    sampler: "optuna.samplers.BaseSampler | None" = None
    callbacks: "tuple[Callback, ...]" = ()


def reclaim(study: "optuna.Study", problem: Problem, options: SearchOptions) -> None:
    """Queue all running trials again, in a study that no worker uses.

    Args:
        study: The study.
        problem: Problem of the study.
        options: Options of the search.
    """
    from squad.search.study_source import StudySource

    StudySource(study, problem.space, options.trials, worker="alone", seed=problem.seed, shared=False).reclaim()


def ray_task(worker: str, job: Job) -> None:
    """Run a worker of a Ray cluster.

    Args:
        worker: Name of the worker.
        job: What to do, the same for all workers.
    """
    work(job, worker, True, lambda epochs: None, lambda text: None)


def work(job: Job, worker: str, shared: bool, tell: Callable[[int], None], say: Callable[[str], None]) -> None:
    """Train trials until there are enough, or time is up.

    Args:
        job: What to train.
        worker: Name of the worker.
        shared: Whether other workers may use the study.
        tell: Called about once per second with the number of epochs trained so far.
        say: Called with messages for the user.
    """
    from squad.search.defaults import default_trial
    from squad.search.deferred_interrupts import uninterrupted
    from squad.search.population import Population
    from squad.search.storage import SearchError, close_storage, open_storage
    from squad.search.study import load_study
    from squad.search.study_source import StudySource

    options, problem = job.options, job.problem
    device = choose_device(options.device)
    storage = open_storage(job.url, stale_after=options.stale_after, retry_for=options.retry_for, say=say)
    study, _ = load_study(storage, job.name)
    source = StudySource(
        study, problem.space, options.trials, worker=worker, seed=problem.seed, shared=shared, prune=options.prune,
        defaults=default_trial(problem) if options.defaults else None, sampler=job.sampler, callbacks=job.callbacks,
    )  # fmt: skip
    if (count := source.reclaim()) and shared:
        say(f"{count_text(count)} of a process that was killed on this machine will be retried")
    population = Population(problem, source, options.slots_of(options.workers or 1), device, prune=options.prune)
    deadline = float("inf") if options.minutes is None else time.monotonic() + 60 * options.minutes
    last_progress, last_waiting = time.monotonic(), float("-inf")

    def report() -> None:
        nonlocal last_progress, last_waiting
        if time.monotonic() - last_progress >= PROGRESS_INTERVAL:
            tell(population.epochs)
            last_progress = time.monotonic()
        idle = shared and not population.running
        if idle and last_progress - last_waiting >= WAITING_INTERVAL and (text := source.awaited()):
            say(text)
            last_waiting = time.monotonic()

    failed, stopped = True, False
    try:
        population.run(lambda: time.monotonic() >= deadline or source.stopped(), report)
        failed = False
    except (KeyboardInterrupt, Terminated):
        failed, stopped = False, True
        guard = storage.guard  # type: ignore[attr-defined]
        guard.retry_for = min(guard.retry_for, STOPPING_RETRY_FOR)
        raise
    finally:
        with uninterrupted():
            try:
                source.give_back(population.running, lost=failed)
            except SearchError as cause:
                if not stopped:
                    raise
                say(f"Running trials could not be queued again; others get them once they are stale: {cause}")
            finally:
                close_storage(storage)
