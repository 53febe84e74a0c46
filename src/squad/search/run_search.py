"""Run a search: open its study, train trials here or on a cluster, and write what was found."""

import contextlib
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from squad.files import write_text
from squad.output_paths import exclusive_output
from squad.search.problem import Problem
from squad.search.progress import SearchProgress, SilentSearchProgress, Snapshot
from squad.search.search_options import SearchOptions
from squad.search.search_record import CSV, TRIALS, Search, read
from squad.search.space import Space
from squad.search.study_folder import (
    BEST,
    DATABASE,
    count_text,
    delete_shared_study,
    earlier_record,
    own_database,
    study_name,
)
from squad.search.summary import best_toml
from squad.search.worker import Job, ray_task, reclaim, work
from squad.search.worker_names import worker_name
from squad.signals import terminating

if TYPE_CHECKING:
    import optuna

    from squad.search.study_source import Callback

__all__ = ["run_search"]


def run_search(
    problem: Problem,
    out: Path,
    options: SearchOptions,
    progress: SearchProgress | None = None,
    title: str = "",
    *,
    sampler: "optuna.samplers.BaseSampler | None" = None,
    callbacks: "tuple[Callback, ...]" = (),
) -> Search:
    """Start or resume a search, and write trials.json, trials.csv and best.toml.

    Args:
        problem: Rows, settings, space and objective.
        out: Folder of the study.
        options: How the search is run.
        progress: Progress reports; None for none.
        title: First progress message, shown once the study is open.
        sampler: As for :func:`squad.tune`.
        callbacks: As for :func:`squad.tune`.

    Returns:
        The search as recorded so far, also if it is not complete.
    """
    from squad.search.defaults import default_trial
    from squad.search.export import export_record, write_csv
    from squad.search.restore_study import restore
    from squad.search.storage import SearchError, close_storage, file_url, open_storage, quiet_optuna
    from squad.search.study import open_study, standing

    progress = progress or SilentSearchProgress()
    if out.name in ("", ".."):
        out = out.resolve()
    with exclusive_output(out), terminating(), contextlib.ExitStack() as stack:
        out.mkdir(parents=True, exist_ok=True)
        url = options.storage or file_url(out / DATABASE)
        if options.storage is None:
            stack.enter_context(own_database(out, options.restart))
            if (count := restore(out, out / DATABASE)) is not None:
                progress.message(f"{DATABASE} is missing: restored {count_text(count)} from {TRIALS}")
        storage = open_storage(url, stale_after=options.stale_after, retry_for=options.retry_for, say=progress.message)
        stack.callback(close_storage, storage)
        name = options.study or study_name(storage, out, options)
        if options.restart and options.storage is not None:
            delete_shared_study(storage, name, out, options)
        # On a cluster, the default number of workers, and with it that of slots, is not known yet.
        known = options.ray is None or options.workers is not None
        slots = options.slots_of(options.workers or 1) if known else options.slots
        meta = {**problem.meta(), "study": name, "slots": slots}
        if sampler is not None:
            meta["sampler"] = type(sampler).__name__
        study = open_study(storage, name, meta)
        before = standing(study)
        begun, done, is_new = time.monotonic(), before.done, not before.counted + before.failed
        total = max(done, options.trials)
        first = default_trial(problem) if options.defaults and is_new else None
        outside = None if first is None else first.note()
        for line in filter(None, (title, *problem.notes, _few_points_note(problem.space, total), outside)):
            progress.message(line)
        progress.start(done, total)
        job = Job(problem, url, name, options, sampler, callbacks)

        def tell(epochs: int = 0) -> None:
            rate = epochs / (time.monotonic() - begun) if epochs else None
            now = standing(study)
            objective = problem.objective.text
            progress.update(Snapshot(now.done, total, now.running, now.best, now.best_trial, objective, rate))

        try:
            if done > options.trials:
                pass  # other workers may be training the additional trials: leave them alone
            elif options.ray is None:
                shared = options.storage is not None
                work(job, worker_name() if shared else "alone", shared, tell, progress.message)
            else:
                from squad.search import cluster

                if options.storage is None:  # the folder is locked, so no worker uses its database
                    reclaim(study, problem, options)
                cluster.run(
                    options.ray, ray_task, job, storage=url, workers=options.workers, device=options.device,
                    on_wait=tell, for_each=lambda job, workers: replace(job, options=replace(options, workers=workers)),
                )  # fmt: skip
            tell()
            if options.minutes is not None and done == standing(study).done < options.trials:
                progress.message(
                    f"no trial ended within {options.minutes:g} minutes: allow more time, or use fewer slots"
                )
        except BaseException:
            progress.close()
            storage.guard.retry_for = 0.0  # type: ignore[attr-defined]  # do not wait for a server any more
            with contextlib.suppress(SearchError), quiet_optuna():  # keep the original error
                export_record(study, meta).save(out / TRIALS)
            raise
        progress.close()
        with quiet_optuna():
            # If nothing was trained now, the record keeps the machine on which it was.
            earlier = earlier_record(out) if standing(study).done == done else None
            export_record(study, meta, earlier).save(out / TRIALS)
        found = read(out)
        write_csv(found, out / CSV)
        if found.best() is not None:
            write_text(out / BEST, best_toml(found, out.resolve().name))
    return found


def _few_points_note(space: Space, trials: int) -> str | None:
    """Return a note if the space has fewer points than trials."""
    points = space.points()
    if points is None or points >= trials:
        return None
    return f"The space has only {points:,} points, so some of the {trials:,} trials repeat others."
