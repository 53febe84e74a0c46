"""From rows to the best settings: the study's folder, its storage, one worker here or many on a cluster."""

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.core.checks import check_count, check_keys, check_number
from squad.data.tables import Table
from squad.data.tables import groups as groups_of
from squad.errors import ArgumentError, SquadError
from squad.fitting import FitSettings, prepare
from squad.models.config import CONFIGS
from squad.output_paths import OutputError, check_writable, exclusive_output
from squad.predictor import choose_device
from squad.predictor.device import named_device
from squad.records import Record
from squad.search.objective import Objective
from squad.search.problem import Problem, make_problem, single
from squad.search.progress import SearchProgress, SilentSearchProgress, Snapshot
from squad.search.search_record import CSV, TRIALS, Search, export, read, write_csv, write_text
from squad.search.space import Space, read_tables
from squad.search.summary import best_toml
from squad.search.workers import worker_name
from squad.settings import TOP, assigned, checked, fit_settings
from squad.signals import Terminated, terminating
from squad.train import TrainConfig

if TYPE_CHECKING:
    import optuna
    from numpy.typing import NDArray

    from squad.search.study import Standing
    from squad.search.study_source import Callback

__all__ = ["SearchOptions", "check", "search", "tune"]

#: Where a search keeps its study, and what it writes for people, unless it is told another place.
DATABASE, BEST = "study.db", "best.toml"
#: What is made of a study, and would pass for the next one's: its records, and the figures that squad search show drew.
MADE = (TRIALS, CSV, BEST, "history.png", "importances.png", "pairwise.png")
#: How many trials train at once, at the most, and as a share of all: TPE learns only from those that have ended.
SLOTS, SHARE = 32, 5
#: Seconds between two looks at the storage for progress, and between two lines about what is waited for.
LOOK, REMIND = 1.0, 30.0
#: Seconds that a search which is told to stop gives a server that is away: Docker kills after ten.
LEAVING = 3.0


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
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
        prune: give up trials whose validation accuracy falls below the median of complete ones.
        stale_after: seconds without a sign of life after which a worker's trials are given to others.
        retry_for: seconds for which a database server that cannot be reached is tried again; 0 is not to.
        defaults: whether the first trial of a new study is the default settings of a fit.
        restart: forget what is there.
    """

    trials: int = 100
    slots: int | None = None
    device: str = "auto"
    storage: str | None = field(default=None, repr=False)  # it may hold a password
    study: str | None = None
    ray: str | None = None
    workers: int | None = None
    minutes: float | None = None
    prune: bool = False
    stale_after: float = 600.0
    retry_for: float = 60.0
    defaults: bool = True
    restart: bool = False

    def __post_init__(self) -> None:
        check_count("trials", self.trials, 1)
        if self.slots is not None:
            check_count("slots", self.slots, 1)
        if self.minutes is not None:
            check_number("minutes", self.minutes, 0.0, exclude=0.0)
        check_number("stale_after", self.stale_after, 1.0)
        check_number("retry_for", self.retry_for, 0.0)
        if not isinstance(self.defaults, bool):
            raise ArgumentError.of("defaults", repr(self.defaults), "True or False")
        if self.device != "auto":
            named_device(self.device)
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
    sampler: "optuna.samplers.BaseSampler | None" = None,
    callbacks: "Sequence[Callback]" = (),
    **options: Any,
) -> Search:
    """Search for the settings of a model by TPE, whole populations of trials at a time.

    What is measured is measured on validation rows, which are split off as ``squad fit`` does: certify the model that
    is trained with the best settings on other rows.  A search that was stopped goes on when it is called again.

    Trial 0 of a new study is the default settings, and wins ties: the best settings are never worse on the objective.

    Args:
        x: a table, a data frame, or an array (N, features), (N, height, width) or (N, height, width, channels).
        labels: (N,).
        model: the space's, or "squad", "squad-factorized", "maxout-dropout", "relu-dropout", "dlgm" or "mlp".
        trials: how many there are to be in the end.
        objective: "coverage@risk=R" or "coverage@risk=R,delta=D", "aurc" or "accuracy", all made as good as can be.
        out: folder of the study.
        space: what is searched: tables as in TOML (docs/search.md), or a file of them; None is the model's own, and
            "paper" the paper's.
        settings: what all trials share, in tables as in docs/settings.md, such as {"network": {"hidden": [64]}}.
        target: of a table, the column of labels.
        drop: of a table, columns to leave out.
        group: of a table, the column that says which rows belong together: none of them is both trained on and
            validated on.
        groups: (N,), the same for an array, or in the place of the column's cells.
        progress: what is told of it; without one, nothing is, but for a warning where the objective takes more rows.
        sampler: of Optuna's, in the place of TPE.  Trials train together, so it proposes while others are running
            (as by ``study.ask()``), and its ``after_trial`` is not called.  It maximizes.  With several workers each
            has a copy of its own, reseeded (``reseed_rng``); on a Ray cluster it must be picklable.  What it keeps in
            its trials is stored; what it keeps elsewhere begins anew when a search is resumed.
        callbacks: each is called as ``callback(study, trial)``, as by Optuna, after every trial that has ended in this
            process: with many workers, each calls its own for its own trials, one after the other.  ``study.stop()``
            ends this worker's part: trials that are running are put back into the queue, and the same call resumes.
            What a callback raises ends the search.
        options: ``slots``, ``device``, ``minutes``, ``storage``, ``ray``, ``defaults`` and the other attributes of
            :class:`SearchOptions`.

    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> few = {"training": {"max_epochs": 3, "anneal_epochs": 1}}
    >>> found = tune(x, y, trials=2, objective="aurc", settings=few, out=tempfile.mkdtemp())
    >>> sorted(found.best().settings)[:3]
    ['network.bins', 'network.dropout', 'network.hidden']
    >>> found.best_settings().network.name
    'squad'
    """
    _check_options(options)
    if not isinstance(out, (str, os.PathLike)):
        raise ArgumentError.of("out", repr(out), "a folder, which the study is kept in")
    _check_own(sampler, callbacks)
    by = SearchOptions(trials=trials, **options)
    given = {"model": model, "target": target, "group": group, "drop": list(drop) or None}
    tables = checked({**(settings or {}), **{name: value for name, value in given.items() if value is not None}})
    check(tables, space, objective, Path(out), by)
    x, groups = _table(x, groups, tables)
    problem = pose(x, labels, tables, space, objective, groups=groups)
    _, note = problem.asked.for_rows(problem.data.validation.shape[1])
    if note is not None and progress is None:  # or nobody would be told that something else is maximized
        warnings.warn(note, stacklevel=2)
    return search(problem, Path(out), by, progress, sampler=sampler, callbacks=tuple(callbacks))


def _check_own(sampler: Any, callbacks: Any) -> None:
    """That a user's sampler and callbacks are such."""
    from squad.search.storage import need_optuna

    if sampler is not None:
        need_optuna()
        import optuna

        if not isinstance(sampler, optuna.samplers.BaseSampler):
            hint = "Give an object, such as optuna.samplers.RandomSampler(seed=1)."
            raise ArgumentError.of("sampler", repr(sampler)[:60], "a sampler of Optuna's", hint)
    if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
        hint = "Each is called with the study and the trial that has ended."
        raise ArgumentError.of("callbacks", repr(callbacks)[:60], "a list of functions", hint)


def _check_options(given: Mapping[str, Any]) -> None:
    """That all are means of a search; one of a fit's settings is told its place."""
    known = [field.name for field in fields(SearchOptions)]
    tables = {
        "network": {field.name for config in CONFIGS.values() for field in fields(config)},
        "training": {field.name for field in fields(TrainConfig)},
        "prediction": {"sampling", "num_samples"},
    }
    for name in given:
        if name in known:
            continue
        place = next((f'{{"{table}": {{"{name}": ...}}}}' for table, names in tables.items() if name in names), None)
        if name in TOP:
            place = f'{{"{name}": ...}}'
        if place is not None:
            raise ArgumentError(f"{name} is not a setting of a search, but of a fit: settings={place}.")
        check_keys("a search", [name], known)


def _table(
    x: Any, groups: "Sequence[Any] | NDArray[Any] | None", settings: Mapping[str, Any]
) -> tuple[Any, "Sequence[Any] | NDArray[Any] | None"]:
    """The rows, a data frame with its target as a table; and their groups, of the column if they are not given."""
    column = settings.get("group")
    if hasattr(x, "iloc") and hasattr(x, "columns"):  # a data frame; without a target it is an array of numbers
        if settings.get("target") is not None:
            x = Table.of(x)
        elif words := [str(name) for name, kind in x.dtypes.items() if getattr(kind, "kind", "O") not in "biuf"]:
            hint = "Name the column of labels with target; squad.data.tables.Table.of(frame) makes a table, too."
            raise ArgumentError.of("x", f"a data frame with {words[0]!r}, and no target", "a table, or numbers", hint)
    if column is None or groups is not None:
        return x, groups
    if not isinstance(x, Table):
        hint = "Of an array give groups, one for each row; Table.of(frame) makes a table of a data frame."
        raise ArgumentError.of("group", f"{column!r} with {type(x).__name__}", "a column of a table", hint)
    return x, groups_of(x, column)


def check(
    settings: Mapping[str, Any],
    space: "Mapping[str, Any] | str | Path | None",
    objective: str,
    out: Path,
    options: SearchOptions,
) -> None:
    """All that can be said about a search before rows are read."""
    from squad.search.storage import close_storage, open_storage

    asked(settings, space, objective)
    check_writable(out / BEST)
    if options.storage is not None:
        close_storage(open_storage(options.storage, stale_after=options.stale_after))
    if options.ray is not None:
        from squad.search import cluster

        cluster.check(options.ray)


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
    settings, resolved, what = asked(settings, space, objective)
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
) -> tuple[Mapping[str, Any], FitSettings, Space]:
    """What is asked for, checked: the settings with the model's name, those of one trial, and the space."""
    from squad.search.storage import need_optuna

    need_optuna()
    Objective.parse(objective)
    tables = space if space is None or isinstance(space, Mapping) else read_tables(Path(space))
    if "model" not in settings and isinstance(tables, Mapping) and isinstance(tables.get("model"), str):
        settings = {**settings, "model": tables["model"]}
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
    return settings, resolved, found


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
    problem: Problem,
    out: Path,
    options: SearchOptions,
    progress: SearchProgress | None = None,
    title: str = "",
    *,
    sampler: "optuna.samplers.BaseSampler | None" = None,
    callbacks: "tuple[Callback, ...]" = (),
) -> Search:
    """Make a search, or go on with it, and write down what it found: trials.json, trials.csv and best.toml.

    Args:
        problem: what is searched.
        out: folder of the study.
        options: how.
        progress: what is told of it.
        title: what is told first, once nothing stands in the way.
        sampler: as of :func:`tune`.
        callbacks: as of :func:`tune`.
    """
    from squad.search.defaults import default_trial
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
            stack.enter_context(_own_file(out, options.restart))
            if (count := restore(out, out / DATABASE)) is not None:
                progress.message(f"{DATABASE} is not there: {_many(count)} of {TRIALS} are put into a new one")
        storage = open_storage(url, stale_after=options.stale_after, retry_for=options.retry_for, say=progress.message)
        stack.callback(close_storage, storage)
        name = options.study or _name(storage, out, options)
        if options.restart and options.storage is not None:
            _forget(storage, name, out, options)
        # On a cluster how many workers there are is known when it is; a record without says so.
        known = options.ray is None or options.workers is not None
        slots = options.slots_of(options.workers or 1) if known else options.slots
        meta = {**problem.meta(), "study": name, "slots": slots}
        if sampler is not None:
            meta["sampler"] = type(sampler).__name__
        study = open_study(storage, name, meta)
        now = standing(study)
        begun, done, new = time.monotonic(), now.done, not now.counted + now.failed
        total = max(done, options.trials)
        first = default_trial(problem) if options.defaults and new else None
        outside = None if first is None else first.note()
        for line in filter(None, (title, *problem.notes, _few_points(problem.space, total), outside)):
            progress.message(line)
        progress.start(done, total)
        job = _Job(problem, url, name, options, sampler, callbacks)

        def tell(epochs: int = 0) -> None:
            rate = epochs / (time.monotonic() - begun) if epochs else None
            progress.update(_snapshot(standing(study), total, problem.objective.text, rate))

        try:
            if done > options.trials:
                pass  # and whoever asked for more may be at work on them
            elif options.ray is None:
                shared = options.storage is not None
                _work(job, worker_name() if shared else "alone", shared, tell, progress.message)
            else:
                from squad.search import cluster

                if options.storage is None:  # the folder's own file, which is ours: whoever was at it is gone
                    _reclaim(study, problem, options)
                cluster.run(
                    options.ray, _task, job, storage=url, workers=options.workers, device=options.device, on_wait=tell,
                    for_each=lambda job, workers: replace(job, options=replace(options, workers=workers)),
                )  # fmt: skip
            tell()
            if options.minutes is not None and done == standing(study).done < options.trials:
                progress.message(f"no trial ended within {options.minutes:g} minutes: allow more, or take fewer slots")
        except BaseException:
            progress.close()
            storage.guard.most = 0.0  # type: ignore[attr-defined]  # nobody waits for a server any more
            with contextlib.suppress(SearchError), quiet_optuna():  # what stopped the search is what is told
                export(study, meta).save(out / TRIALS)
            raise
        progress.close()
        with quiet_optuna():
            # Where nothing was trained the record keeps telling where it was.
            earlier = _earlier(out) if standing(study).done == done else None
            export(study, meta, earlier).save(out / TRIALS)
        found = read(out)
        write_csv(found, out / CSV)
        if found.best() is not None:
            write_text(out / BEST, best_toml(found, out.resolve().name))
    return found


@contextlib.contextmanager
def _own_file(out: Path, restart: bool) -> Iterator[None]:
    """The study's file in its own folder, which the caller has claimed: nobody else is at work on it."""
    from squad.search.storage import DamagedError, SearchError

    file = out / DATABASE
    if restart:  # whatever is there, which may not even be a database
        _delete([file, *(out / f"{DATABASE}-{part}" for part in ("wal", "shm")), *(out / made for made in MADE)])
    try:
        yield
    except DamagedError as cause:
        earlier = _earlier(out)
        held = 0 if earlier is None else len(earlier.results["trials"])
        rescue = (
            f"delete it, and {_many(held)} of {TRIALS} will be put into a new one" if held else "take another --out"
        )
        raise SearchError(f"{cause} Put a copy back, or {rescue}; or begin anew with --restart.") from None


def _earlier(out: Path) -> Record | None:
    """The record in a folder; None if there is none that can be read."""
    with contextlib.suppress(SquadError):
        return read(out).record
    return None


def _many(count: int) -> str:
    return f"the {count} trials" if count != 1 else "the one trial"


def _forget(storage: "optuna.storages.RDBStorage", name: str, out: Path, options: SearchOptions) -> None:
    """Delete a study from a storage that others may use, too."""
    from squad.search.storage import SearchError
    from squad.search.study import at_work, delete_study

    if found := at_work(storage, name):
        raise SearchError(
            f"Study {name!r} has trials of workers that may be at work: {', '.join(found)}. Stop them first; of those "
            f"that were killed, wait {options.stale_after:g} seconds (--stale-after). Or take another --study."
        )
    delete_study(storage, name)
    _delete([out / made for made in MADE])


def _delete(files: Iterable[Path]) -> None:
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as cause:
            raise OutputError(f"{file} cannot be deleted: {cause.strerror or cause}.") from cause


def _few_points(space: Space, trials: int) -> str | None:
    """What to say where there are fewer different trials than are asked for."""
    points = space.points()
    if points is None or points >= trials:
        return None
    return f"The space has {points:,} points, so some of {trials:,} trials repeat others."


def _name(storage: "optuna.storages.RDBStorage", out: Path, options: SearchOptions) -> str:
    """Of the study: the folder's, or the one that it had when the study in its file was made."""
    import optuna

    from squad.search.storage import quiet_optuna

    with quiet_optuna():
        held = [] if options.storage is not None else optuna.get_all_study_names(storage)
    return held[0] if len(held) == 1 else out.resolve().name


@dataclass(frozen=True)
class _Job:
    """What a worker is sent."""

    problem: Problem
    url: str = field(repr=False)  # it may hold a password
    name: str
    options: SearchOptions
    sampler: "optuna.samplers.BaseSampler | None" = None
    callbacks: "tuple[Callback, ...]" = ()


def _reclaim(study: "optuna.Study", problem: Problem, options: SearchOptions) -> None:
    """Queue anew whatever is running in a study that nobody is at work on."""
    from squad.search.study_source import StudySource

    StudySource(study, problem.space, options.trials, worker="alone", seed=problem.seed, shared=False).reclaim()


def _task(worker: str, job: _Job) -> None:
    """A worker of a cluster."""
    _work(job, worker, True, lambda epochs: None, lambda text: None)


def _work(job: _Job, worker: str, shared: bool, tell: Callable[[int], None], say: Callable[[str], None]) -> None:
    """Train trials until there are enough, or time is up."""
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
        say(f"{_many(count)} of a run that was killed on this machine are taken back")
    population = Population(problem, source, options.slots_of(options.workers or 1), device, prune=options.prune)
    until = float("inf") if options.minutes is None else time.monotonic() + 60 * options.minutes
    looked, reminded = time.monotonic(), float("-inf")

    def told() -> None:
        nonlocal looked, reminded
        if time.monotonic() - looked >= LOOK:
            tell(population.epochs)
            looked = time.monotonic()
        if shared and not population.running and looked - reminded >= REMIND and (text := source.awaited()):
            say(text)
            reminded = time.monotonic()

    failed, stopped = True, False
    try:
        population.run(lambda: time.monotonic() >= until or source.stopped(), told)
        failed = False
    except (KeyboardInterrupt, Terminated):
        failed, stopped = False, True
        storage.guard.most = min(storage.guard.most, LEAVING)  # type: ignore[attr-defined]
        raise
    finally:
        with uninterrupted():
            try:
                source.give_back(population.running, lost=failed)
            except SearchError as cause:
                if not stopped:
                    raise
                say(f"The trials that were running could not be given back, and go to others when stale: {cause}")
            finally:
                close_storage(storage)


def _snapshot(standing: "Standing", trials: int, objective: str, rate: float | None) -> Snapshot:
    return Snapshot(standing.done, trials, standing.running, standing.best, standing.best_trial, objective, rate)
