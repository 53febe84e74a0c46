"""From rows to the best settings: the study's folder, its storage, one worker here or many on a cluster."""

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.core.checks import check_count, check_keys, check_number
from squad.errors import ArgumentError
from squad.fitting import FitSettings, choose_device, prepare
from squad.outputs import check_writable, claimed
from squad.search.objective import Objective
from squad.search.problem import Problem, make_problem, single
from squad.search.progress import SearchProgress, SilentSearchProgress, Snapshot
from squad.search.show import best_toml
from squad.search.space import Space
from squad.search.trials import CSV, TRIALS, Search, export, read, write_csv, write_text
from squad.settings import assigned, checked, fit_settings

if TYPE_CHECKING:
    import optuna
    from numpy.typing import NDArray

    from squad.search.study import Standing

__all__ = ["Means", "check", "search", "tune"]

#: Where a search keeps its study, and what it writes for people, unless it is told another place.
DATABASE, BEST = "study.db", "best.toml"
#: How many trials train at once, at the most, and as a share of all: TPE learns only from those that have ended.
SLOTS, SHARE = 32, 5
#: Seconds between two looks at the storage for progress.
LOOK = 1.0


@dataclass(frozen=True, kw_only=True)
class Means:
    """By what means a search is made; none of it decides what is searched.

    Attributes:
        trials: how many there are to be in the end, those of earlier runs among them.
        slots: how many train at once on one device; None is a fifth of ``trials``, 32 at the most.
        device: "auto", "cpu" or "cuda".
        storage: address of a database that workers share, postgresql://...; None is a file in the study's folder.
        study: its name in the storage; None is the folder's, and in the folder's own file the only one there is.
        ray: "auto", "local" or HOST:PORT of a Ray cluster; None is this process alone.
        workers: on a cluster; None is one a GPU, or one a machine without.
        minutes: to stop after, with what was running put back; None is not to.
        prune: give up trials whose validation accuracy stays below the median of others.
        stale_after: seconds without a sign of life after which a worker's trials are given to others.
        restart: forget what is there.
    """

    trials: int = 100
    slots: int | None = None
    device: str = "auto"
    storage: str | None = None
    study: str | None = None
    ray: str | None = None
    workers: int | None = None
    minutes: float | None = None
    prune: bool = False
    stale_after: float = 600.0
    restart: bool = False

    def __post_init__(self) -> None:
        check_count("trials", self.trials, 1)
        if self.slots is not None:
            check_count("slots", self.slots, 1)
        if self.minutes is not None:
            check_number("minutes", self.minutes, 0.0, exclude=0.0)
        check_number("stale_after", self.stale_after, 1.0)
        if self.ray is None:
            choose_device(self.device)  # on a cluster it is the workers'
            if self.workers is not None:
                hint = "Without it, start the same command several times on one --storage."
                raise ArgumentError.of("workers", self.workers, "given together with ray", hint)
            return
        if self.workers is not None:
            check_count("workers", self.workers, 1)
        if self.ray not in ("auto", "local") and ":" not in self.ray:
            raise ArgumentError.of("ray", repr(self.ray), "auto, local or HOST:PORT")

    def slots_of(self, workers: int) -> int:
        """How many slots each of so many workers has."""
        return self.slots or max(1, min(SLOTS, self.trials // (SHARE * workers)))


def tune(
    x: Any,
    labels: "Sequence[Any] | NDArray[Any]",
    *,
    model: str | None = None,
    trials: int = 100,
    objective: str = "coverage@risk=.02",
    out: str | Path = "study",
    space: "Mapping[str, Any] | str | Path | None" = None,
    settings: Mapping[str, Any] | None = None,
    target: str | None = None,
    drop: Sequence[str] = (),
    group: str | None = None,
    groups: "Sequence[Any] | NDArray[Any] | None" = None,
    progress: SearchProgress | None = None,
    **means: Any,
) -> Search:
    """Search for the settings of a model by TPE, whole populations of trials at a time.

    What is measured is measured on validation rows, which are split off as ``squad fit`` does: certify the model that
    is trained with the best settings on other rows.  A search that was stopped goes on when it is called again.

    Args:
        x: a table, or an array (N, features), (N, height, width) or (N, height, width, channels).
        labels: (N,).
        model: "squad" (the default), "squad-factorized", "maxout-dropout", "relu-dropout", "dlgm" or "mlp".
        trials: how many there are to be in the end.
        objective: "coverage@risk=R" or "coverage@risk=R,delta=D", "aurc" or "accuracy", all made as good as can be.
        out: folder of the study.
        space: what is searched: tables as in TOML (docs/search.md), or a file of them; None is the paper's.
        settings: what all trials share, in tables as in docs/settings.md, such as {"network": {"hidden": [64]}}.
        target: of a table, the column of labels.
        drop: of a table, columns to leave out.
        group: of a table, the column ``groups`` was read from.
        groups: (N,), which rows belong together: none of them is both trained on and validated on.
        progress: what is told of it.
        means: ``slots``, ``device``, ``minutes``, ``storage``, ``ray`` and the others of :class:`Means`.

    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> few = {"training": {"max_epochs": 3, "anneal_epochs": 1}}
    >>> found = tune(x, y, trials=2, settings=few, out=tempfile.mkdtemp())
    >>> sorted(found.best().settings)[:3]
    ['network.bins', 'network.dropout', 'network.init_scale']
    >>> found.best_settings().network.name
    'squad'
    """
    check_keys("a search", means, [field.name for field in fields(Means)])
    by = Means(trials=trials, **means)
    given = {"model": model, "target": target, "group": group, "drop": list(drop) or None}
    tables = checked({**(settings or {}), **{name: value for name, value in given.items() if value is not None}})
    check(tables, space, objective, Path(out), by)
    return search(pose(x, labels, tables, space, objective, groups=groups), Path(out), by, progress)


def check(
    settings: Mapping[str, Any],
    space: "Mapping[str, Any] | str | Path | None",
    objective: str,
    out: Path,
    means: Means,
) -> None:
    """All that can be said about a search before rows are read."""
    from squad.search.storage import close_storage, open_storage

    asked(settings, space, objective)
    check_writable(out / BEST)
    if means.storage is not None:
        close_storage(open_storage(means.storage, stale_after=means.stale_after))


def pose(
    x: Any,
    labels: "Sequence[Any] | NDArray[Any]",
    settings: Mapping[str, Any],
    space: "Mapping[str, Any] | str | Path | None",
    objective: str,
    *,
    groups: "Sequence[Any] | NDArray[Any] | None" = None,
    source: str = "",
) -> Problem:
    """The problem of rows, settings as of a fit, a space and an objective; everything is checked before rows are."""
    resolved, what = asked(settings, space, objective)
    ready = prepare(
        x,
        labels,
        resolved,
        target=settings.get("target"),
        drop=settings.get("drop", ()),
        group=settings.get("group"),
        groups=groups,
    )
    return make_problem(ready, settings, what, objective, {"source": source} if source else {})


def asked(
    settings: Mapping[str, Any], space: "Mapping[str, Any] | str | Path | None", objective: str
) -> tuple[FitSettings, Space]:
    """What is asked for, checked: the settings of one trial and the space."""
    from squad.search.storage import need_optuna

    need_optuna()
    Objective.parse(objective)
    resolved = single(fit_settings(settings))
    model = resolved.network.name
    fixed = [f"{table}.{name}" for table in ("network", "training") for name in settings.get(table, {})]
    if space is None:
        found = Space.default(model, fixed)
    elif isinstance(space, Mapping):
        found = Space.of(model, space, fixed)
    else:
        found = Space.read(Path(space), model, fixed)
    _check_together(settings, found)
    return resolved, found


def _check_together(settings: Mapping[str, Any], space: Space) -> None:
    """That what is searched goes with what is set: a space knows nothing of that."""
    trial = {name: entry.ends[0] for name, entry in space.entries.items()}
    for name, entry in space.entries.items():
        for end in entry.ends:
            try:
                fit_settings(assigned(settings, {**trial, name: end}))
            except ArgumentError as cause:
                raise ArgumentError(f"{name}: {cause}") from cause


def search(
    problem: Problem, out: Path, means: Means, progress: SearchProgress | None = None, title: str = ""
) -> Search:
    """Make a search, or go on with it, and write down what it found: trials.json, trials.csv and best.toml.

    Args:
        problem: what is searched.
        out: folder of the study.
        means: how.
        progress: what is told of it.
        title: what is told first, once nothing stands in the way.
    """
    from squad.search.storage import SearchError, calmly, close_storage, file_url, open_storage
    from squad.search.study import delete_study, open_study, standing

    progress = progress or SilentSearchProgress()
    if out.name in ("", ".."):
        out = out.resolve()
    with claimed(out), contextlib.ExitStack() as stack:
        out.mkdir(parents=True, exist_ok=True)
        url = means.storage or file_url(out / DATABASE)
        storage = open_storage(url, stale_after=means.stale_after)
        stack.callback(close_storage, storage)
        name = means.study or _name(storage, out, means)
        if means.restart:
            delete_study(storage, name)
            for file in (TRIALS, CSV, BEST):  # or the best settings of the old study would pass for the new one's
                (out / file).unlink(missing_ok=True)
        # On a cluster how many workers there are is known when it is; a record without says so.
        known = means.ray is None or means.workers is not None
        slots = means.slots_of(means.workers or 1) if known else means.slots
        meta = {**problem.meta(), "study": name, "slots": slots}
        study = open_study(storage, name, meta)
        for line in ([title] if title else []) + list(problem.notes):
            progress.message(line)
        begun, done = time.monotonic(), standing(study).done
        progress.start(done, means.trials)
        job = _Job(problem, url, name, means)

        def tell(epochs: int = 0) -> None:
            rate = epochs / (time.monotonic() - begun) if epochs else None
            progress.update(_snapshot(standing(study), means.trials, problem.objective.text, rate))

        try:
            if means.ray is None:
                shared = means.storage is not None
                worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}" if shared else "alone"
                _work(job, worker, shared, tell)
            else:
                from squad.search import cluster

                cluster.run(
                    means.ray, _task, job, storage=url, workers=means.workers, device=means.device, on_wait=tell,
                    for_each=lambda job, workers: replace(job, means=replace(means, workers=workers)),
                )  # fmt: skip
            tell()
            if means.minutes is not None and done == standing(study).done < means.trials:
                progress.message(f"no trial ended within {means.minutes:g} minutes: allow more, or take fewer slots")
        except BaseException:
            progress.close()
            with contextlib.suppress(SearchError), calmly():  # what stopped the search is what is told
                export(study, meta).save(out / TRIALS)
            raise
        progress.close()
        with calmly():
            export(study, meta).save(out / TRIALS)
        found = read(out)
        write_csv(found, out / CSV)
        if found.best() is not None:
            write_text(out / BEST, best_toml(found, str(out)))
    return found


def _name(storage: "optuna.storages.RDBStorage", out: Path, means: Means) -> str:
    """Of the study: the folder's, or the one that it had when the study in its file was made."""
    import optuna

    from squad.search.storage import calmly

    with calmly():
        held = [] if means.storage is not None else optuna.get_all_study_names(storage)
    return held[0] if len(held) == 1 else out.resolve().name


@dataclass(frozen=True)
class _Job:
    """What a worker is sent."""

    problem: Problem
    url: str
    name: str
    means: Means


def _task(worker: str, job: _Job) -> None:
    """A worker of a cluster."""
    _work(job, worker, True, lambda epochs: None)


def _work(job: _Job, worker: str, shared: bool, tell: Callable[[int], None]) -> None:
    """Train trials until there are enough, or time is up."""
    from squad.search.interrupts import uninterrupted
    from squad.search.population import Population
    from squad.search.storage import close_storage, open_storage
    from squad.search.study import StudySource, load_study

    means, problem = job.means, job.problem
    device = choose_device(means.device)
    storage = open_storage(job.url, stale_after=means.stale_after)
    study, _ = load_study(storage, job.name)
    source = StudySource(
        study, problem.space, means.trials, worker=worker, seed=problem.seed, shared=shared, prune=means.prune
    )
    source.reclaim()
    population = Population(problem, source, means.slots_of(means.workers or 1), device, prune=means.prune)
    until = float("inf") if means.minutes is None else time.monotonic() + 60 * means.minutes
    looked = time.monotonic()

    def told() -> None:
        nonlocal looked
        if time.monotonic() - looked >= LOOK:
            tell(population.epochs)
            looked = time.monotonic()

    failed = True
    try:
        population.run(lambda: time.monotonic() >= until, told)
        failed = False
    except KeyboardInterrupt:
        failed = False
        raise
    finally:
        with uninterrupted():
            try:
                source.give_back(population.running, lost=failed)
            finally:
                close_storage(storage)


def _snapshot(standing: "Standing", trials: int, objective: str, rate: float | None) -> Snapshot:
    return Snapshot(standing.done, trials, standing.running, standing.best, standing.best_trial, objective, rate)
